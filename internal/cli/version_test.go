package cli

import (
	"bytes"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	nativedigitalocean "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

// TestSDKVersions keeps the versions that the native plugins give in step with the SDKs.
func TestSDKVersions(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"github.com/pulumi/pulumi-civo/sdk/v2 v" + nativecivo.SDKVersion + "\n",
		"github.com/pulumi/pulumi-digitalocean/sdk/v4 v" + nativedigitalocean.SDKVersion + "\n",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("go.mod does not require %s", strings.TrimSpace(want))
		}
	}
}

// TestInstallable: `go install …@version` refuses a module whose go.mod has directives that only hold for itself.
func TestInstallable(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?m)^(replace|exclude)\b.*`).FindString(string(content)); found != "" {
		t.Errorf("go.mod has %q: go install of a version refuses it", found)
	}
	if !strings.HasPrefix(string(content), "module github.com/plantonhq/project-planton\n") {
		t.Error("the module has another path than the one that the documents show")
	}
}

// TestBuild: what Go wrote into the executable is told, and the linker's version stands before the module's.
func TestBuild(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "github.com/digitalocean/godo", Version: "v1.172.0"}, {Path: "example.com/other", Version: "v1.0.0"}},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	for _, test := range []struct{ reason, linked, want string }{
		{"a release that was fetched has the version of its module", "", "v1.2.3"},
		{"one that was built by a release has that of the linker", "v9.9.9", "v9.9.9"},
	} {
		b := build{Version: test.linked, Go: "go1.26.6", MinimumPulumi: "3.183.0", Modules: map[string]string{}}
		b.fill(info)
		var out bytes.Buffer
		b.write(Streams{Out: &out})
		want := "planton " + test.want + " (go1.26.6, works with Pulumi 3.183.0 or newer)\n" +
			"  commit                   0123abcd, modified\n" +
			"  committed at             2026-01-02T03:04:05Z\n" +
			"  DigitalOcean client      v1.172.0\n"
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", test.reason, out.String(), want)
		}
	}
}
