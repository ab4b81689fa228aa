package civo_test

import (
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type config = *civo.CivoProviderConfig

func TestCivoProviderConfig(t *testing.T) {
	t.Parallel()
	Run(t, func() config { return &civo.CivoProviderConfig{} },
		Accepts[config]("api_token", "the plugin's environment may hold it", nil, "token"),
		Enum[config]("default_region", 6, false),
		Accepts[config]("object_store_access_id", "not needed for these kinds", nil, "id"),
		Accepts[config]("object_store_secret_key", "not needed for these kinds", nil, "key"),
		Endpoint[config]("api_endpoint"),
		Accepts[config]("api_endpoint", "a path is kept: /v2 is put behind it", "https://gateway.example.com/civo", "https://gateway.example.com/civo/"),
	)
}

func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	Redacts(t, (&civo.CivoProviderConfig{}).ProtoReflect().Descriptor(), "api_token", "object_store_secret_key")
}
