package main

import (
	"os"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

// The engine warns on every run of a plugin that is older than the SDK that asks for it.
func TestVersionIsThatOfTheSDK(t *testing.T) {
	t.Parallel()
	requirements, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/pulumi/pulumi-digitalocean/sdk/v4 v" + digitalocean.SDKVersion + "\n"; !strings.Contains(string(requirements), want) {
		t.Errorf("go.mod does not require %s", strings.TrimSpace(want))
	}
}
