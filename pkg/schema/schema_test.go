package schema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/schema"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, kind, path string
		want               *schema.Field
	}{
		{"a text with a rule of its own", "CivoVpc", "spec.region", &schema.Field{
			Path: "spec.region", Name: "region", Type: "string", Required: true, Examples: []string{"fra1"},
			Description: "The code of the region, such as fra1; case does not matter.",
			Rules:       []schema.Rule{{ID: "civo_region_code", Message: "must be a region code, such as fra1"}},
		}},
		{"snake_case, any letter case, an index", "CivoFirewall", "SPEC.inbound_rules[0].protocol", &schema.Field{
			Path: "spec.inboundRules.protocol", Name: "protocol", Type: "string", Default: "tcp", Examples: []string{"tcp"},
			Description: "tcp, udp or icmp; tcp when absent.",
			Rules:       []schema.Rule{{ID: "firewall_rule.protocol", Message: "must be tcp, udp or icmp; tcp when absent"}},
		}},
		{"a standard rule in words", "CivoKubernetesNodePool", "spec.nodeCount", &schema.Field{
			Path: "spec.nodeCount", Name: "nodeCount", Alias: "node_count", Type: "integer", Required: true, Examples: []string{"1"},
			Description: "How many nodes there are; with auto_scale on, how many there are at first.",
			Rules:       []schema.Rule{{ID: "uint32.gt", Message: "must be greater than 0"}},
		}},
		{"a boolean is false by default", "CivoKubernetesNodePool", "spec.publicIp", &schema.Field{
			Path: "spec.publicIp", Name: "publicIp", Alias: "public_ip", Type: "boolean", Default: "false",
			Description: "Whether each node gets a public IP address. A changed value replaces the pool.",
		}},
		{"rules of items say so", "CivoFirewall", "spec.tags", &schema.Field{
			Path: "spec.tags", Name: "tags", Type: "[]string", Examples: []string{"web"},
			Description: "Tags of instances to attach the firewall to. Civo cannot: a value here gives a warning.",
			Rules: []schema.Rule{
				{ID: "repeated.unique", Message: "must have each item once"},
				{ID: "civo_tag", Message: "each item must be 1 to 255 characters without white space (Civo separates tags by spaces)"},
			},
		}},
	} {
		kind, _ := kinds.ByName(test.kind)
		got, err := schema.Find(kind, test.path)
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(schema.Field{}, schema.Value{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}

func TestFindReference(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.ByName("CivoKubernetesCluster")
	field, err := schema.Find(kind, "spec.network")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&schema.Reference{Kind: "CivoVpc", FieldPath: "status.outputs.network_id"}, field.Reference); diff != "" {
		t.Error(diff)
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.ByName("CivoVpc")
	for path, parent := range map[string]string{"specs": "", "spec.foo": "spec", "spec.region.x": "spec.region", "spec..region": "spec"} {
		_, err := schema.Find(kind, path)
		var unknown *schema.UnknownFieldError
		if !errors.As(err, &unknown) || unknown.Parent.Path != parent {
			t.Errorf("Find(%q): %v", path, err)
		}
	}
}

// Every field that a manifest can have is described, and every kind's rules have words.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		whole, err := schema.Manifest(kind)
		if err != nil {
			t.Fatal(err)
		}
		fields := 0
		whole.Walk(func(field *schema.Field) {
			fields++
			if field.Description == "" {
				t.Errorf("%s.%s has no description", kind, field.Path)
			}
			for _, rule := range field.Rules {
				if rule.Message == "" {
					t.Errorf("%s.%s: the rule %s has no words", kind, field.Path, rule.ID)
				}
			}
		})
		if fields < 30 {
			t.Errorf("%s has %d fields", kind, fields)
		}
	}
}

// Starters are valid as they are, with everything that is commented out taken in, and with every field.
func TestStartersAreValid(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		for name, options := range map[string]schema.StarterOptions{
			"plain": {}, "named": {Name: "prod-1"}, "named as the spec cannot be": {Name: "prod.1"}, "full": {Full: true},
		} {
			text, err := schema.Starter(kind, options)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := manifest.Parse(name, []byte(text))
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", kind, name, err, text)
				continue
			}
			if options.Name != "" && loaded[0].Name() != options.Name {
				t.Errorf("%s, %s: it is called %s", kind, name, loaded[0].Name())
			}
			var taken []string
			for _, line := range strings.Split(text, "\n") {
				if len(line) > 110 {
					t.Errorf("%s, %s: a long line: %s", kind, name, line)
				}
				if before, after, found := strings.Cut(line, "#"); found && strings.TrimSpace(before) == "" && !isProse(after) {
					line = before + after
				}
				taken = append(taken, line)
			}
			whole := strings.Join(taken, "\n")
			if _, err := manifest.Parse(name, []byte(whole)); err != nil {
				t.Errorf("%s, %s, everything taken in: %v\n%s", kind, name, err, whole)
			}
			if got := whole != text; got == options.Full {
				t.Errorf("%s, %s: something is commented out: %v", kind, name, got)
			}
		}
	}
}

// isProse tells a comment from what is commented out, which has a space after the # only where it is inside of something.
func isProse(text string) bool {
	return strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "  ")
}
