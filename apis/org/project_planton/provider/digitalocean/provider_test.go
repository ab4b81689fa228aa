package digitalocean_test

import (
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type config = *digitalocean.DigitalOceanProviderConfig

func TestDigitalOceanProviderConfig(t *testing.T) {
	t.Parallel()
	Run(t, func() config { return &digitalocean.DigitalOceanProviderConfig{} },
		Accepts[config]("api_token", "the plugin's environment may hold it", nil, "token"),
		Enum[config]("default_region", 106, false),
		Accepts[config]("spaces_access_id", "not needed for these kinds", nil, "id"),
		Accepts[config]("spaces_secret_key", "not needed for these kinds", nil, "key"),
		Endpoint[config]("api_endpoint"),
		Accepts[config]("api_endpoint", "the path that the client itself uses", "https://api.digitalocean.com/v2", "https://api.digitalocean.com/v2/"),
		Rejects[config]("api_endpoint", "digitalocean_endpoint", "the client would drop the path", "https://gateway.example.com/digitalocean", "https://api.digitalocean.com/v3", "https://a.b//"),
	)
}

func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	Redacts(t, (&digitalocean.DigitalOceanProviderConfig{}).ProtoReflect().Descriptor(), "api_token", "spaces_secret_key")
}
