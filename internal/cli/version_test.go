package cli

import (
	"os"
	"strings"
	"testing"
)

// TestSDKVersions keeps the versions that the native plugins give in step with the SDKs.
func TestSDKVersions(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"github.com/pulumi/pulumi-civo/sdk/v2 v" + civoSDKVersion + "\n",
		"github.com/pulumi/pulumi-digitalocean/sdk/v4 v" + digitalOceanSDKVersion + "\n",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("go.mod does not require %s", strings.TrimSpace(want))
		}
	}
}
