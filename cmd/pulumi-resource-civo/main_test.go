package main

import (
	"os"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
)

// The engine warns on every run of a plugin that is older than the SDK that asks for it.
func TestVersionIsThatOfTheSDK(t *testing.T) {
	t.Parallel()
	requirements, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/pulumi/pulumi-civo/sdk/v2 v" + civo.SDKVersion + "\n"; !strings.Contains(string(requirements), want) {
		t.Errorf("go.mod does not require %s", strings.TrimSpace(want))
	}
}
