package kustomize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const network = `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: main}
spec: {networkName: main, region: fra1}
`

// folder writes files, and returns the folder of them.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestBuild(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [network.yaml]\n",
		"base/network.yaml":       network,
		"overlays/prod/kustomization.yml": `resources: [../../base]
namePrefix: prod-
labels: [{pairs: {env: prod}}]
patches:
- patch: |-
    apiVersion: civo.project-planton.org/v1
    kind: CivoVpc
    metadata: {name: main}
    spec: {region: lon1}
`,
	})
	built, err := Build(root, "prod")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "overlays/prod/kustomization.yml"); built.File != want {
		t.Errorf("built %s, want %s", built.File, want)
	}
	for _, want := range []string{"name: prod-main", "env: prod", "region: lon1", "networkName: main"} {
		if !strings.Contains(string(built.Data), want) {
			t.Errorf("there is no %q in\n%s", want, built.Data)
		}
	}
	if built, err = Build(filepath.Join(root, "base"), ""); err != nil || !strings.Contains(string(built.Data), "region: fra1") {
		t.Errorf("the base alone: %v\n%s", err, built.Data)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		files   map[string]string
		overlay string
		want    string
	}{
		"Nothing":    {"there is nothing to build", map[string]string{"a.yaml": network}, "", "there is no kustomization.yaml in "},
		"NoOverlay":  {"which overlay is meant is not told", map[string]string{"overlays/dev/kustomization.yaml": "", "overlays/prod/a": ""}, "", "choose an overlay: there is dev, prod"},
		"NotThere":   {"the overlays that there are", map[string]string{"overlays/dev/kustomization.yaml": ""}, "prod", `there is no overlay "prod"`},
		"Outside":    {"an overlay is a name", map[string]string{"kustomization.yaml": ""}, "../..", "is not the name of a folder"},
		"Missing":    {"a file that is not there", map[string]string{"kustomization.yaml": "resources: [a.yaml]"}, "", "kustomization.yaml: there is no a.yaml"},
		"HTTP":       {"no file is downloaded", map[string]string{"kustomization.yaml": "resources: ['https://127.0.0.1:1/a.yaml']"}, "", "is not on this machine"},
		"GitHub":     {"also when a folder has the name of a repository", map[string]string{"kustomization.yaml": "resources: [github.com/a/b]", "github.com/a/b/kustomization.yaml": ""}, "", "is not on this machine"},
		"SSH":        {"no repository is cloned", map[string]string{"kustomization.yaml": "components: ['git@127.0.0.1:a/b.git']"}, "", "is not on this machine"},
		"Inner":      {"in a base neither", map[string]string{"kustomization.yaml": "resources: [base]", "base/kustomization.yaml": "bases: ['https://127.0.0.1:1/a//b?ref=main']"}, "", "base/kustomization.yaml: https://127.0.0.1:1/a//b?ref=main is not on this machine"},
		"Patch":      {"a patch is a file, too", map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: 'http://127.0.0.1:1/p.yaml'}]", "a.yaml": network}, "", "is not on this machine"},
		"Generator":  {"and so is a value", map[string]string{"kustomization.yaml": "configMapGenerator: [{name: a, files: ['k=http://127.0.0.1:1/p']}]"}, "", "k=http"[2:] + "://127.0.0.1:1/p is not on this machine"},
		"OpenAPI":    {"and a schema", map[string]string{"kustomization.yaml": "openapi: {path: 'http://127.0.0.1:1/s'}"}, "", "is not on this machine"},
		"Helm":       {"no chart is loaded", map[string]string{"kustomization.yaml": "resources: []\nhelmCharts: [{name: a}]"}, "", "kustomization.yaml:2: helmCharts is not supported"},
		"Plugin":     {"no program is run", map[string]string{"kustomization.yaml": "transformers: [x.yaml]"}, "", "kustomization.yaml:1: transformers is not supported"},
		"BrokenYAML": {"the file is named", map[string]string{"kustomization.yaml": "resources: ["}, "", "read "},
		"UnknownKey": {"kustomize's own words, with the file", map[string]string{"kustomization.yaml": "resource: [a.yaml]"}, "", `unknown field "resource"`},
		"NoMatch":    {"a patch without a target", map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]", "a.yaml": network, "p.yaml": strings.ReplaceAll(network, "main", "other")}, "", "no resource matches"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := folder(t, tc.files)
			built, err := Build(root, tc.overlay)
			if err == nil {
				t.Fatalf("%s: there is no error\n%s", tc.reason, built.Data)
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), root) && tc.overlay != "../.." {
				t.Errorf("%s: got %v, want %q and the folder", tc.reason, err, tc.want)
			}
		})
	}
}
