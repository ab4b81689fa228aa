package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

const settingPool = `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata: {name: web}
spec:
  nodePoolName: web
  region: lon1
  cluster: {valueFrom: {name: main}}
  size: g4s.kube.medium
  nodeCount: 2
  tags: [one, two]
`

const settingNetwork = `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata:
  name: main
  labels: &labels {team: platform}
  annotations: *labels
spec: {networkName: main, region: fra1}
`

func parseSettings(t *testing.T, texts ...string) []Setting {
	t.Helper()
	all := make([]Setting, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = ParseSetting(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return all
}

// Each setting is the same as having written it into the file.
func TestSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		base     string
		set      []string
		old, new string // what the file would say instead
	}{
		"Number":     {"read as YAML reads it", settingPool, []string{"spec.nodeCount=5"}, "nodeCount: 2", "nodeCount: 5"},
		"SnakeCase":  {"fields have two names", settingPool, []string{"spec.node_count=5"}, "nodeCount: 2", "nodeCount: 5"},
		"Enum":       {"by the name of the value", settingPool, []string{"spec.region=nyc1"}, "lon1", "nyc1"},
		"Text":       {"as it is, with what follows the first =", settingPool, []string{"spec.size=a=b"}, "g4s.kube.medium", "a=b"},
		"TextNumber": {"a text that looks like a number stays one", settingPool, []string{"spec.size=007"}, "size: g4s.kube.medium", `size: "007"`},
		"Element":    {"of a list", settingPool, []string{"spec.tags[1]=x"}, "[one, two]", "[one, x]"},
		"Appended":   {"the index after the last", settingPool, []string{"spec.tags[2]=x", "spec.tags[3]=y"}, "[one, two]", "[one, two, x, y]"},
		"List":       {"as in Helm", settingPool, []string{`spec.tags={a,b\\c}`}, "[one, two]", `[a, "b\\c"]`},
		"Emptied":    {"no elements", settingPool, []string{"spec.tags={}"}, "  tags: [one, two]\n", ""},
		"YAMLList":   {"or YAML", settingPool, []string{`spec.tags=["a", b]`}, "[one, two]", "[a, b]"},
		"NewMap":     {"what is around the field is made", settingPool, []string{"metadata.labels.team=x"}, "{name: web}", "{name: web, labels: {team: x}}"},
		"Escaped":    {"dots in a key", settingPool, []string{`metadata.labels.a\.b/c=x`}, "{name: web}", "{name: web, labels: {a.b/c: x}}"},
		"Quoted":     {"or a key in quotes", settingPool, []string{`metadata.labels["a.b/c=:]"]=x`}, "{name: web}", `{name: web, labels: {"a.b/c=:]": x}}`},
		"Map":        {"as YAML", settingPool, []string{`metadata.labels={a: b, c: "d"}`}, "{name: web}", "{name: web, labels: {a: b, c: d}}"},
		"Literal":    {"what may be a reference takes a text", settingPool, []string{"spec.cluster=6f3c1d1e"}, "{valueFrom: {name: main}}", "{value: 6f3c1d1e}"},
		"Reference":  {"or YAML", settingPool, []string{"spec.cluster={valueFrom: {name: other}}"}, "{name: main}", "{name: other}"},
		"OneOf":      {"a field takes the place of the other of its oneof", settingPool, []string{"spec.cluster.value=x"}, "{valueFrom: {name: main}}", "{value: x}"},
		"Inside":     {"of a reference", settingPool, []string{"spec.cluster.value_from.name=other"}, "{name: main}", "{name: other}"},
		"Message":    {"in a list", settingPool, []string{"spec.taints[0]={key: gpu, effect: NoSchedule}"}, "  tags:", "  taints: [{key: gpu, effect: NoSchedule}]\n  tags:"},
		"LastWins":   {"settings are applied in order", settingPool, []string{"spec.nodeCount=5", "spec.nodeCount=6"}, "nodeCount: 2", "nodeCount: 6"},
		"Null":       {"takes a field away", settingNetwork, []string{"metadata.labels=null"}, "  labels: &labels {team: platform}\n  annotations: *labels", "  annotations: {team: platform}"},
		"Selected":   {"for one manifest", settingPool, []string{"CivoKubernetesNodePool/web:spec.nodeCount=5"}, "nodeCount: 2", "nodeCount: 5"},
		"Plural":     {"kinds as elsewhere on the command line", settingPool, []string{"civokubernetesnodepools/web:spec.nodeCount=5"}, "nodeCount: 2", "nodeCount: 5"},
		"AliasIsApart": {"what an anchor marks is changed in the one place", settingNetwork, []string{"metadata.labels.team=x"},
			"&labels {team: platform}\n  annotations: *labels", "{team: x}\n  annotations: {team: platform}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(tc.base, tc.old) {
				t.Fatalf("the file has no %q", tc.old)
			}
			want, err := Parse("want.yaml", []byte(strings.Replace(tc.base, tc.old, tc.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Input{Texts: []Text{{File: "base.yaml", Data: []byte(tc.base)}}, Settings: parseSettings(t, tc.set...)}.Load()
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(want[0].Target, got[0].Target, protocmp.Transform()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// What is wrong with a setting is told with the setting as its place.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	both := settingPool + "---\n" + settingNetwork
	for name, tc := range map[string]struct {
		reason string
		set    string
		want   string // the problem
		column int
	}{
		"Field":    {"a misspelt field", "spec.regoin=fra1", `--set spec.regoin=fra1: spec.regoin: CivoKubernetesNodePool: there is no field "regoin"; did you mean region? [field.unknown]`, 6},
		"Enum":     {"a value that there is not", "spec.region=fra9", `--set spec.region=fra9: spec.region: there is no "fra9"; did you mean fra1?; the values are`, 13},
		"Number":   {"no number", "spec.nodeCount=many", "--set spec.nodeCount=many: spec.node_count: a whole number is expected [field.type]", 16},
		"Rule":     {"a rule of the proto, as if it stood in the file", "spec.networkName=Main_1", "--set spec.networkName=Main_1: spec.network_name: must be a DNS label", 6},
		"List":     {"no list", "spec.tags=a", "--set spec.tags=a: spec.tags: a list, such as {a,b} or [a, b], is expected [field.type]", 11},
		"Index":    {"a hole in a list", "CivoKubernetesNodePool/web:spec.tags[3]=a", "the list has 2 elements: the next one has the index 2", 37},
		"Deeper":   {"a single value has no fields", "spec.size.x=a", "CivoKubernetesNodePool: it is a text, and has no fields", 11},
		"Kind":     {"the kind tells what can be set", "kind=CivoVpc", "it cannot be set", 1},
		"Selected": {"a manifest that is not there", "CivoVpc/other:spec.region=fra1", "there is no CivoVpc other among the manifests [set]", 1},
		"Inner":    {"in YAML of several lines", "spec.taints=[{key: gpu,\n effekt: NoSchedule}]", `there is no field "effekt"`, 26},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Input{Texts: []Text{{File: "both.yaml", Data: []byte(both)}}, Settings: parseSettings(t, tc.set)}.Load()
			var bad *Error
			if !errors.As(err, &bad) {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
			for _, p := range bad.Problems {
				if p.Excerpt != tc.set || p.File != "--set "+tc.set || p.Line != 0 {
					t.Errorf("%s: %v is not placed in the setting", tc.reason, p)
				}
				if strings.Contains(p.String(), tc.want) && p.Column == tc.column {
					return
				}
			}
			t.Errorf("%s: got %v, want %q at %d", tc.reason, err, tc.want, tc.column)
		})
	}
}

// What is no setting is told with the column.
func TestParseSettingErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "there is no = and no value at column 1",
		"spec.region":        "there is no = and no value at column 12",
		"=x":                 "the name of a field is expected at column 1",
		"spec..x=1":          "the name of a field is expected at column 6",
		"spec.tags[x]=1":     `in brackets stands an index or a key in double quotes, not "x" at column 10`,
		"spec.tags[-1]=1":    `not "-1"`,
		"spec.tags[]=1":      `not ""`,
		"spec.tags[1=1":      "in brackets stands an index",
		`spec.a["b=1`:        `a key in brackets has no end "] at column 7`,
		"spec.tags[0]x=1":    "a dot, a bracket or = is expected at column 13",
		"Nothing/a:spec.x=1": `there is no kind "Nothing"`,
		"spec.x=\xff":        "it is not UTF-8",
	} {
		if _, err := ParseSetting(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// A setting that fits some manifests is applied to those alone.
func TestSettingsFitSome(t *testing.T) {
	t.Parallel()
	got, err := Input{
		Texts:    []Text{{File: "both.yaml", Data: []byte(settingPool + "---\n" + settingNetwork)}},
		Settings: parseSettings(t, "spec.nodeCount=7", "spec.region=nyc1"),
	}.Load()
	if err != nil {
		t.Fatal(err)
	}
	pool, network := fmt.Sprint(got[0].Target), fmt.Sprint(got[1].Target)
	if !strings.Contains(pool, "node_count:7") || !strings.Contains(pool, "nyc1") || !strings.Contains(network, "nyc1") {
		t.Errorf("got %s and %s", pool, network)
	}
}

// TestSettingsRoundTrip: whatever stands in a field, setting what it prints gives it back.
func TestSettingsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := kind.NewTarget()
				fill(t, m.ProtoReflect())
				scalars := scalarsOf(m.ProtoReflect(), "")
				if len(scalars) == 0 {
					return
				}
				for range 5 { // some of each message; over all messages, every field
					one := rapid.SampledFrom(scalars).Draw(t, "scalar")
					path, value := one[0], one[1]
					setting, err := ParseSetting(path + "=" + value)
					if err != nil {
						t.Fatalf("%s=%s: %v", path, value, err)
					}
					again := decodeWith(t, kind, m, setting)
					if diff := cmp.Diff(m, again, protocmp.Transform()); diff != "" {
						t.Fatalf("%s=%q changed it: -was +is:\n%s", path, value, diff)
					}
				}
			})
		})
	}
}

// decodeWith writes a message and reads it with a setting. Its texts are those of the message, so that nothing is lost but by the
// setting.
func decodeWith(t *rapid.T, kind kinds.Kind, m proto.Message, setting Setting) proto.Message {
	text, err := Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	documents := split(text)
	root, problem := documents[0].root()
	if problem != nil {
		t.Fatalf("%v\n%s", problem, text)
	}
	again := kind.NewTarget()
	d := &decoder{settings: newSettings([]Setting{setting}, kind, "")}
	if problems := d.decode(root, again); len(problems) > 0 || !d.settings.fits[0] {
		t.Fatalf("%s: %v\n%s", setting, problems, text)
	}
	return again
}

// scalarsOf are the paths of single values of a message with their texts, but for the kind and the status, which cannot be set.
func scalarsOf(m protoreflect.Message, path string) [][2]string {
	var all [][2]string
	one := func(path string, field protoreflect.FieldDescriptor, value protoreflect.Value) {
		switch {
		case field.Message() != nil:
			all = append(all, scalarsOf(value.Message(), path+".")...)
		case field.Kind() == protoreflect.EnumKind:
			if name := field.Enum().Values().ByNumber(value.Enum()); name != nil {
				all = append(all, [2]string{path, string(name.Name())})
			}
		default:
			all = append(all, [2]string{path, fmt.Sprint(value.Interface())})
		}
	}
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		at := path + field.JSONName()
		switch value := m.Get(field); {
		case !m.Has(field) || at == "kind" || at == "status":
		case field.IsMap():
			var keys []string
			value.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
				keys = append(keys, key.String())
				return true
			})
			slices.Sort(keys)
			for _, key := range keys {
				one(at+"["+strconv.Quote(key)+"]", field.MapValue(), value.Map().Get(protoreflect.ValueOfString(key).MapKey()))
			}
		case field.IsList():
			for j := range value.List().Len() {
				one(fmt.Sprintf("%s[%d]", at, j), field, value.List().Get(j))
			}
		default:
			one(at, field, value)
		}
	}
	return all
}

// FuzzParseSetting looks for settings that make the reader panic, or whose problems have no place in them.
func FuzzParseSetting(f *testing.F) {
	for _, seed := range []string{
		"spec.region=fra1", "spec.tags[0]=x", "spec.tags={a,b}", `spec.tags={a\,b,\\}`, `metadata.labels["a.b"]=x`, `metadata.labels.a\.b=x`,
		"spec.cluster={valueFrom: {name: x}}", "CivoKubernetesNodePool/web:spec.nodeCount=3", "spec.taints=[{key: a,\n  effect: b}]",
		"metadata.labels=&a {b: *a}", "spec.cluster.value=", "spec.tags[0]=\u00e9\u0301", "spec.nodeCount=1e3", "metadata=null", "spec={", "a[\"\\x\"]=",
		"spec=\r?", "spec=\r\n?", "spec=\u2028?", // line breaks of YAML
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		setting, err := ParseSetting(text)
		if err != nil {
			return
		}
		_, err = Input{Texts: []Text{{File: "pool.yaml", Data: []byte(settingPool)}}, Settings: []Setting{setting}}.Load()
		var bad *Error
		if !errors.As(err, &bad) {
			return
		}
		for _, p := range bad.Problems {
			if strings.HasPrefix(p.File, SettingFlag) && (p.Line != 0 || p.Column < 1 || p.Column > len([]rune(text))+1) {
				t.Errorf("%q: the problem %v has no place in it", text, p)
			}
		}
	})
}

// Globs take files at any depth, and one that matches nothing is a mistake.
func TestGlobs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a/one.yaml": "one", "a/b/two.yml": "two", "a/b/notes.txt": "", "c/three.json": "three", "[odd].yaml": "odd",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(settingNetwork, "name: main", "name: "+text, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{
		"**/*.yaml":           "[odd].yaml a/one.yaml",
		"**":                  "[odd].yaml a/b/two.yml a/one.yaml c/three.json",
		"a/**/*":              "a/b/two.yml a/one.yaml",
		"{a,c}/*.{yaml,json}": "a/one.yaml c/three.json",
		"[odd].yaml":          "[odd].yaml", // a file of that name is meant
		"a/?ne.yaml":          "a/one.yaml",
		"**/*.toml":           "matches no file",
		"a/b/*.txt":           "matches no file that ends in .yaml, .yml, .json",
		"a/[":                 "syntax error in pattern",
	} {
		files, err := filesOf(filepath.Join(folder, pattern))
		for i := range files {
			files[i] = strings.TrimPrefix(files[i], folder+"/")
		}
		if got := strings.Join(files, " "); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %q, %v, want %q", pattern, got, err, want)
		}
	}
}
