package stackinput

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// input is a stack input whose network has the name.
func input(name string) string {
	return `
target:
  apiVersion: civo.project-planton.org/v1
  kind: CivoVpc
  metadata: {name: main}
  spec: {networkName: ` + name + `, region: fra1}
provider_config: {api_token: s3cret, default_region: lon1}
`
}

// load runs Load in a program with the config, in a folder with the files.
func load(t *testing.T, config, files map[string]string) (*civovpcv1.CivoVpcStackInput, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	into := &civovpcv1.CivoVpcStackInput{}
	result := moduletest.Run(t, func(ctx *pulumi.Context) error { return Load(ctx, into) },
		moduletest.WithConfig(config), moduletest.WithRootDirectory(dir))
	return into, result.Err
}

// TestOrder sets all places, then takes away the one that counted, until none is left. It changes the environment, so it
// is not parallel.
func TestOrder(t *testing.T) {
	outside := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(outside, name)
		if err := os.WriteFile(path, []byte(input(name)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := map[string]string{ConfigKey: input("from-config")}
	files := map[string]string{"stack-input.json": input("from-json-file"), "stack-input.yaml": input("from-yaml-file")}
	t.Setenv("STACK_INPUT_YAML", input("from-yaml"))
	t.Setenv("STACK_INPUT_YAML_FILE", write("yaml-file"))
	t.Setenv("STACK_INPUT_FILE_PATH", write("file-path"))
	t.Setenv("STACK_INPUT_FILE", write("file"))
	t.Setenv("STACK_INPUT_JSON", input("from-json"))

	steps := []struct {
		want   string
		remove func()
	}{
		{want: "from-config", remove: func() { delete(config, ConfigKey) }},
		{want: "from-yaml", remove: func() { t.Setenv("STACK_INPUT_YAML", "") }},
		{want: "yaml-file", remove: func() { t.Setenv("STACK_INPUT_YAML_FILE", "") }},
		{want: "file-path", remove: func() { t.Setenv("STACK_INPUT_FILE_PATH", "") }},
		{want: "file", remove: func() { t.Setenv("STACK_INPUT_FILE", "") }},
		{want: "from-json", remove: func() { t.Setenv("STACK_INPUT_JSON", "") }},
		{want: "from-json-file", remove: func() { delete(files, "stack-input.json") }},
		{want: "from-yaml-file", remove: func() { delete(files, "stack-input.yaml") }},
	}
	for _, step := range steps {
		got, err := load(t, config, files)
		if err != nil {
			t.Fatalf("%s: %v", step.want, err)
		}
		if name := got.Target.Spec.NetworkName; name != step.want {
			t.Fatalf("found %q, want %q", name, step.want)
		}
		step.remove()
	}
	if _, err := load(t, config, files); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestMissingFile(t *testing.T) {
	t.Setenv("STACK_INPUT_YAML_FILE", filepath.Join(t.TempDir(), "nowhere.yaml"))
	_, err := load(t, nil, nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "STACK_INPUT_YAML_FILE") {
		t.Errorf("error %v, want one that names the variable and the file", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	want := &civovpcv1.CivoVpcStackInput{
		Target: &civovpcv1.CivoVpc{
			ApiVersion: "civo.project-planton.org/v1", Kind: "CivoVpc",
			Metadata: &shared.CloudResourceMetadata{Name: "main"},
			Spec:     &civovpcv1.CivoVpcSpec{NetworkName: "n", Region: "fra1"},
		},
		ProviderConfig: &civo.CivoProviderConfig{ApiToken: "s3cret", DefaultRegion: civo.CivoRegion_lon1},
	}
	for name, text := range map[string]string{
		"mixed": input("n"),
		"json": `{"target": {"apiVersion": "civo.project-planton.org/v1", "kind": "CivoVpc", "metadata": {"name": "main"},
			"spec": {"networkName": "n", "region": "fra1"}}, "providerConfig": {"apiToken": "s3cret", "defaultRegion": "lon1"}}`,
		"snake case": `
target:
  api_version: civo.project-planton.org/v1
  kind: CivoVpc
  metadata: {name: main}
  spec: {network_name: n, region: fra1}
provider_config: {api_token: s3cret, default_region: lon1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &civovpcv1.CivoVpcStackInput{}
			if err := parse("test", []byte(text), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, text string
		want         []string
	}{
		"unknown field": {
			reason: "a misspelt field is not left out in silence",
			text:   "target:\n  spec:\n    networkNam: x\n", want: []string{"in.yaml:3:5", "networkNam"},
		},
		"wrong type": {
			reason: "the position is that of the value",
			text:   "target:\n  spec:\n    isDefaultForRegion: maybe\n", want: []string{"in.yaml:3:25"},
		},
		"all at once": {
			reason: "every error is told",
			text:   "nope: 1\ntarget:\n  nor: 2\n", want: []string{"in.yaml:1:1", "in.yaml:3:3"},
		},
		"broken yaml":   {reason: "the line is told", text: "target: [\n", want: []string{"in.yaml:2", "yaml.syntax"}},
		"two documents": {reason: "the second would be lost", text: "target: {}\n---\ntarget: {}\n", want: []string{"in.yaml", "not several"}},
		"empty":         {reason: "an empty text is no stack input", text: "", want: []string{"in.yaml", "document."}},
		"comment only":  {reason: "neither is a comment", text: "# nothing\n", want: []string{"in.yaml", "document."}},
		"null":          {reason: "nor null", text: "null\n", want: []string{"in.yaml", "document."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := parse("in.yaml", []byte(tt.text), &civovpcv1.CivoVpcStackInput{})
			if err == nil {
				t.Fatalf("%s: no error", tt.reason)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: error %q lacks %q", tt.reason, err, part)
				}
			}
		})
	}
}

func TestErrorsCarryNoCredentials(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"beside a misspelt field": "provider_config: {api_token: s3cret, api_tokn: s3cret}\n",
		"in place of a message":   "provider_config: s3cret\n",
		"under a second key":      "provider_config: {api_token: s3cret, api_token: s3cret}\n",
		"in broken yaml":          "provider_config: {api_token: s3cret\n",
		"in a list":               "provider_config: {api_token: [s3cret]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := parse("in.yaml", []byte(text), &civovpcv1.CivoVpcStackInput{})
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error carries a value of the input: %q", err)
			}
		})
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{ConfigKey: input("Not-A-Label")}, nil)
	var wrong *manifest.Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 1 {
		t.Fatalf("error %v, want a *manifest.Error with one problem", err)
	}
	problem := wrong.Problems[0]
	if problem.FieldPath != "target.spec.network_name" || problem.RuleID != "dns_label" || problem.Line != 6 {
		t.Errorf("problem %+v, want dns_label at target.spec.network_name in line 6", problem)
	}
	if !strings.Contains(err.Error(), ConfigKey) {
		t.Errorf("error %q does not tell where the input was found", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(input("n")))
	f.Add([]byte(`{"target": {"spec": {"region": "fra1"}}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("target: {metadata: {labels: {a: b}, tags: [a, b]}}\n---\n"))
	f.Add([]byte("target: !!binary 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed := &civovpcv1.CivoVpcStackInput{}
		if err := parse("fuzz", text, parsed); err != nil {
			return
		}
		// What was read must survive being written.
		written, err := protojson.Marshal(parsed)
		if err != nil {
			t.Fatalf("write what was read from %q: %v", text, err)
		}
		again := &civovpcv1.CivoVpcStackInput{}
		if err := parse("fuzz", written, again); err != nil {
			t.Fatalf("read %s again: %v", written, err)
		}
		if !proto.Equal(parsed, again) {
			t.Errorf("read %v, then %v", parsed, again)
		}
	})
}
