package validationtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// Manifest returns the cases of what all kinds share around their spec: api_version, kind, metadata.
func Manifest[M proto.Message](apiVersion, kind string) []Case[M] {
	return slices.Concat(
		Accepts[M]("api_version", "the one version that there is", apiVersion),
		Rejects[M]("api_version", "string.const", "another version is another schema",
			nil, "v1", strings.TrimSuffix(apiVersion, "1")+"2", strings.ToUpper(apiVersion), "aws.project-planton.org/v1"),
		Accepts[M]("kind", "the kind of the message", kind),
		Rejects[M]("kind", "string.const", "another kind is another message", nil, strings.ToLower(kind), kind+"s", "Cluster"),
		Rejects[M]("spec", "required", "without a spec there is nothing to provision, and nothing more to say about it", nil),
		Rejects[M]("metadata", "required", "without a name there is no stack, and nothing more to say about it", nil),
		Metadata[M]("metadata"),
		Accepts[M]("status.outputs", "what was once provisioned may stand in a manifest", nil),
	)
}

// Metadata returns the cases of a CloudResourceMetadata at a path. The name's cases hold for every kind; what a kind adds stands
// in its own table.
func Metadata[M proto.Message](path string) []Case[M] {
	relationship := path + ".relationships[0]"
	return slices.Concat(
		Accepts[M](path+".name", "names that all kinds take, at both ends of the length", "a", "prod-1", "0", strings.Repeat("n", 253)),
		Rejects[M](path+".name", "required", "the stack is named after it", nil, ""),
		Rejects[M](path+".name", "metadata.name", "not a name",
			"-prod", "prod-", " prod", "prod ", "pro/d", "prod\n", "prød", strings.Repeat("n", 254)),
		Accepts[M](path+".env", "an environment is optional", nil, "prod"),
		Accepts[M](path+".org", "an organization is optional", nil, "acme"),
		[]Case[M]{
			{
				Name:   relationship + " accepts a kind and a name",
				Reason: "a relationship is a kind and a name",
				Mutate: Set[M](relationship+".kind", 1507, relationship+".name", "prod"),
			},
			{
				Name:   relationship + " rejects no kind",
				Reason: "a name alone is of nothing",
				Mutate: Set[M](relationship+".name", "prod"),
				Want:   []Violation{{relationship + ".kind", "required"}},
			},
			{
				Name:   relationship + " rejects an unknown kind",
				Reason: "a number that no kind has",
				Mutate: Set[M](relationship+".kind", 9999, relationship+".name", "prod"),
				Want:   []Violation{{relationship + ".kind", "enum.defined_only"}},
			},
			{
				Name:   relationship + " rejects no name",
				Reason: "a kind alone is not a resource",
				Mutate: Set[M](relationship+".kind", 1507),
				Want:   []Violation{{relationship + ".name", "required"}},
			},
		},
	)
}

// Reference returns the cases of a StringValueOrRef at a path.
func Reference[M proto.Message](path string, required bool) []Case[M] {
	from := path + ".value_from"
	cases := slices.Concat(
		Accepts[M](path+".value", "a literal", "f73a4b7e-5b1c-4b0c-8f0e-0d6f9d3f2a11", "prod"),
		Rejects[M](path+".value", "string.min_len", "an empty literal is a forgotten one", ""),
		Accepts[M](from+".name", "a name alone: the field tells the kind and the output", "prod"),
		[]Case[M]{
			{
				Name:   from + " accepts everything given",
				Reason: "kind, environment, name and output",
				Mutate: Set[M](from+".kind", 1507, from+".env", "prod", from+".name", "main", from+".field_path", "status.outputs.cluster_id"),
			},
			{
				Name:   from + " rejects no name",
				Reason: "a kind alone is not a resource",
				Mutate: Set[M](from+".kind", 1507, from+".name", nil),
				Want:   []Violation{{from + ".name", "required"}},
			},
			{
				Name:   from + " rejects an unknown kind",
				Reason: "a number that no kind has",
				Mutate: Set[M](from+".kind", 9999, from+".name", "main"),
				Want:   []Violation{{from + ".kind", "enum.defined_only"}},
			},
			{
				Name:   path + " rejects neither side",
				Reason: "an empty reference is neither a literal nor a reference",
				Mutate: Set[M](path, nil, from+".name", "x", from, nil),
				Want:   []Violation{{path + ".literal_or_ref", "required"}},
			},
		},
	)
	for _, output := range []string{"status.outputs.cluster_id", "status.outputs.a1"} {
		cases = append(cases, Case[M]{
			Name:   from + ".field_path accepts " + output,
			Reason: "an output",
			Mutate: Set[M](from+".name", "main", from+".field_path", output),
		})
	}
	for _, output := range []string{"metadata.name", "status.outputs", "status.outputs.", "status.outputs.Id", "status.outputs.a.b", "outputs.id", "cluster_id"} {
		cases = append(cases, Case[M]{
			Name:   from + ".field_path rejects " + output,
			Reason: "only outputs are known of another stack",
			Mutate: Set[M](from+".name", "main", from+".field_path", output),
			Want:   []Violation{{from + ".field_path", "field_path"}},
		})
	}
	if required {
		return append(cases, Rejects[M](path, "required", "required", nil)...)
	}
	return append(cases, Accepts[M](path, "optional", nil)...)
}

// Name returns the cases of a lower-case name of at most max characters at a path, with the id of its rule.
func Name[M proto.Message](path, rule string, maxLength int, required bool) []Case[M] {
	cases := slices.Concat(
		Accepts[M](path, "names at both ends of the length", "a", "0", "a-b", "prod-k8s", strings.Repeat("n", maxLength)),
		Rejects[M](path, rule, "not a name that the platform takes",
			"Prod", "-prod", "prod-", "pr od", "prod.k8s", "prod_k8s", "prød", "prod\n", strings.Repeat("n", maxLength+1)),
	)
	if required {
		return append(cases, Rejects[M](path, "required", "required", nil, "")...)
	}
	return append(cases, Accepts[M](path, "optional", nil, "")...)
}

// Enum returns the cases of an enum at a path that has a value of number known, and none of number 99.
func Enum[M proto.Message](path string, known int, required bool) []Case[M] {
	cases := slices.Concat(
		Accepts[M](path, "a value of the enum", known),
		Rejects[M](path, "enum.defined_only", "a number that the enum does not have", 99, -1),
	)
	if required {
		return append(cases, Rejects[M](path, "required", "required", nil)...)
	}
	return append(cases, Accepts[M](path, "optional", nil)...)
}

// IPv4Network returns the cases of an optional IPv4 network at a path; private networks only, so that they hold for all kinds.
func IPv4Network[M proto.Message](path string) []Case[M] {
	return slices.Concat(
		Accepts[M](path, "networks", nil, "", "10.0.0.0/16", "10.244.0.0/20", "192.168.1.0/24", "172.16.0.0/16", "172.31.255.0/24"),
		Rejects[M](path, "ipv4_network", "not an IPv4 network",
			"10.0.0.0", "10.0.0.1/16", "10.0.0.0/33", "10.0.0.0/", "10.0.0/16", "10.0.0.256/32", "fd00::/64", "any", " 10.0.0.0/16"),
	)
}

// CivoTags returns the cases of the tags of a Civo resource at a path.
func CivoTags[M proto.Message](path string) []Case[M] {
	return slices.Concat(
		Accepts[M](path, "tags", nil, []string{"prod", "team:data", "a"}, []string{strings.Repeat("t", 255)}),
		Rejects[M](path+"[0]", "civo_tag", "Civo separates tags by spaces", "", "two words", "tab\ttag", "new\nline",
			"vertical\vtab", "next\u0085line", "no\u00a0break", "em\u2003space", strings.Repeat("t", 256)),
		Rejects[M](path, "repeated.unique", "the same tag twice", []string{"prod", "prod"}),
	)
}

// DigitalOceanTags returns the cases of the tags of a DigitalOcean resource at a path.
func DigitalOceanTags[M proto.Message](path string) []Case[M] {
	return slices.Concat(
		Accepts[M](path, "tags", nil, []string{"prod", "team:data", "A_b-9", "k8sish", "terraformed"}, []string{strings.Repeat("t", 255)}),
		Rejects[M](path+"[0]", "digitalocean_tag", "not a tag", "", "two words", "a.b", "a/b", "prød", strings.Repeat("t", 256)),
		Rejects[M](path+"[0]", "digitalocean_user_tag", "the platform's own tags are left out when they are read", "k8s", "K8S", "k8s:worker", "terraform:default-node-pool"),
		Rejects[M](path, "repeated.unique", "the same tag twice", []string{"prod", "prod"}),
	)
}

// keys of Kubernetes labels and taints.
var (
	goodKeys = []string{
		"team", "a", "A", "0", "a_b.c-d", "nvidia.com/gpu", "example.com/Team_1", "a.b.c/d", strings.Repeat("k", 63),
		strings.Repeat("a.", 126) + "a/" + strings.Repeat("k", 63),
	}
	badKeys = []string{
		"", "-team", "team-", ".team", "te am", "team!", "/team", "team/", "a/b/c", "Example.com/team", "-a.com/team", "a..b/team",
		strings.Repeat("k", 64), strings.Repeat("a.", 127) + "/k", strings.Repeat("a.", 127) + "a/k",
	}
	goodValues = []string{"", "a", "Data_1.x-y", "0", strings.Repeat("v", 63)}
	badValues  = []string{"-a", "a-", "a b", "a/b", "prød", strings.Repeat("v", 64)}
)

// Labels returns the cases of the labels of nodes at a path.
func Labels[M proto.Message](path string) []Case[M] {
	at := func(key string) string { return path + `["` + key + `"]` }
	cases := Accepts[M](path, "labels are optional", nil)
	for _, key := range goodKeys {
		cases = append(cases, Accepts[M](at(key), "a key of Kubernetes", "x")...)
	}
	for _, key := range badKeys {
		cases = append(cases, Rejects[M](at(key), "kubernetes_key", "not a key of Kubernetes", "x")...)
	}
	for _, key := range []string{"node-role.kubernetes.io/worker", "kubernetes.io/hostname", "doks.digitalocean.com/version"} {
		cases = append(cases, Rejects[M](at(key), "node_label_key", "a prefix that is not the user's", "x")...)
	}
	for _, key := range []string{"node.kubernetes.io/x", "mykubernetes.io/x", "kubernetes.io.example.com/x", "doks.example.com/x"} {
		cases = append(cases, Accepts[M](at(key), "only like a reserved prefix", "x")...)
	}
	for _, value := range goodValues {
		cases = append(cases, Accepts[M](at("team"), "a value of Kubernetes", value)...)
	}
	for _, value := range badValues {
		cases = append(cases, Rejects[M](at("team"), "kubernetes_value", "not a value of Kubernetes", value)...)
	}
	return cases
}

// Taints returns the cases of the taints of nodes at a path.
func Taints[M proto.Message](path string) []Case[M] {
	taint := func(at int, key, value, effect string) []any {
		p := path + "[" + string(rune('0'+at)) + "]"
		return []any{p + ".key", key, p + ".value", value, p + ".effect", effect}
	}
	one := func(name, reason, key, value, effect string, want ...Violation) Case[M] {
		return Case[M]{
			Name:   path + " " + name,
			Reason: reason,
			Mutate: Set[M](slices.Concat([]any{path, nil}, taint(0, key, value, effect))...),
			Want:   want,
		}
	}
	two := func(name, reason string, first, second [3]string, want ...Violation) Case[M] {
		return Case[M]{
			Name:   path + " " + name,
			Reason: reason,
			Mutate: Set[M](slices.Concat([]any{path, nil},
				taint(0, first[0], first[1], first[2]), taint(1, second[0], second[1], second[2]))...),
			Want: want,
		}
	}
	key, value, effect := path+"[0].key", path+"[0].value", path+"[0].effect"

	cases := slices.Concat(Accepts[M](path, "taints are optional", nil), []Case[M]{
		one("accept NoSchedule", "an effect", "dedicated", "db", "NoSchedule"),
		one("accept PreferNoSchedule", "an effect", "dedicated", "db", "PreferNoSchedule"),
		one("accept NoExecute", "an effect", "dedicated", "db", "NoExecute"),
		one("accept no value", "a taint's value may be empty", "nvidia.com/gpu", "", "NoSchedule"),
		one("reject no key", "a taint has a key", "", "db", "NoSchedule", Violation{key, "required"}),
		one("reject no effect", "a taint has an effect", "dedicated", "db", "", Violation{effect, "required"}),
		one("reject an unknown effect", "not an effect", "dedicated", "db", "NoWay", Violation{effect, "taint_effect"}),
		one("reject an effect in lower case", "effects are written as Kubernetes writes them", "dedicated", "db", "noschedule", Violation{effect, "taint_effect"}),
		one("reject everything wrong at once", "each mistake is told", "a b", "c d", "e", Violation{key, "kubernetes_key"}, Violation{value, "kubernetes_value"}, Violation{effect, "taint_effect"}),
		two("accept the same key with two effects", "Kubernetes keeps one taint for each key and effect",
			[3]string{"dedicated", "db", "NoSchedule"}, [3]string{"dedicated", "db", "NoExecute"}),
		two("reject the same key and effect", "the second would replace the first",
			[3]string{"dedicated", "db", "NoSchedule"}, [3]string{"dedicated", "web", "NoSchedule"}, Violation{path, "taints.unique"}),
		two("reject two without a key, once each", "they are not the same taint, they are two unfinished ones",
			[3]string{"", "db", "NoSchedule"}, [3]string{"", "db", "NoSchedule"},
			Violation{key, "required"}, Violation{path + "[1].key", "required"}),
	})
	for _, k := range goodKeys {
		cases = append(cases, one("accept the key "+short(k), "a key of Kubernetes", k, "", "NoSchedule"))
	}
	for _, k := range badKeys {
		if k != "" {
			cases = append(cases, one("reject the key "+short(k), "not a key of Kubernetes", k, "", "NoSchedule", Violation{key, "kubernetes_key"}))
		}
	}
	for _, v := range badValues {
		cases = append(cases, one("reject the value "+short(v), "not a value of Kubernetes", "dedicated", v, "NoSchedule", Violation{value, "kubernetes_value"}))
	}
	return cases
}

// Autoscale returns the cases of node_count, auto_scale, min_nodes and max_nodes of the message at a path, lowest being the
// smallest min_nodes that the platform can do.
func Autoscale[M proto.Message](path string, lowest int) []Case[M] {
	pool := func(name, reason string, count int, on bool, low, high int, rules ...string) Case[M] {
		var want []Violation
		for _, rule := range rules {
			field := path
			if rule == "required" {
				field += ".node_count"
			}
			want = append(want, Violation{field, rule})
		}
		return Case[M]{Name: path + " " + name, Reason: reason, Mutate: setPool[M](path, count, on, low, high), Want: want}
	}
	cases := []Case[M]{
		pool("fixed, one node", "the smallest fixed pool", 1, false, 0, 0),
		pool("fixed, many nodes", "the platform's quota is not ours to know", 1000, false, 0, 0),
		pool("fixed, no nodes", "a pool is created with a node at least", 0, false, 0, 0, "required"),
		pool("fixed, with min", "a bound without an autoscaler would be ignored", 3, false, 1, 0, "autoscale.off_without_bounds"),
		pool("fixed, with max", "a bound without an autoscaler would be ignored", 3, false, 0, 5, "autoscale.off_without_bounds"),
		pool("fixed, with both", "bounds without an autoscaler would be ignored", 3, false, 1, 5, "autoscale.off_without_bounds"),
		pool("fixed, no nodes, with both", "each mistake is told", 0, false, 1, 5, "required", "autoscale.off_without_bounds"),
		pool("scaling, count inside", "the ordinary case", 3, true, 2, 10),
		pool("scaling, count at min", "the bounds are inclusive", 2, true, 2, 10),
		pool("scaling, count at max", "the bounds are inclusive", 10, true, 2, 10),
		pool("scaling, min is count is max", "a range of one is a range", 4, true, 4, 4),
		pool("scaling, all one", "the smallest range", 1, true, 1, 1),
		pool("scaling, count below min", "the first size lies in the range", 1, true, 2, 10, "autoscale.order"),
		pool("scaling, count above max", "the first size lies in the range", 11, true, 2, 10, "autoscale.order"),
		pool("scaling, min above max", "no size lies in the range", 3, true, 5, 2, "autoscale.order"),
		pool("scaling, no bounds", "only the missing bounds are told, not what follows from them", 3, true, 0, 0, "autoscale.bounds_required"),
		pool("scaling, no max", "only the missing bound is told", 3, true, 1, 0, "autoscale.bounds_required"),
		pool("scaling, no max, count below min", "each mistake is told", 1, true, 2, 0, "autoscale.bounds_required", "autoscale.order"),
		pool("scaling, no count", "only the missing count is told", 0, true, 1, 5, "required"),
		pool("scaling, no count, min above max", "each mistake is told", 0, true, 5, 2, "required", "autoscale.order"),
	}
	if lowest == 0 {
		return append(cases, pool("scaling from none", "the platform scales a pool down to nothing", 1, true, 0, 5))
	}
	return append(cases, pool("scaling from none", "the platform keeps one node", 1, true, 0, 5, "autoscale.bounds_required"))
}

// AutoscaleLaw checks, for generated numbers, that the message at a path is valid exactly when the law of autoscaling holds:
// with auto_scale on, lowest <= min_nodes <= node_count <= max_nodes; with it off, no bounds; and always a node.
func AutoscaleLaw[M proto.Message](t *testing.T, valid func() M, path string, lowest uint32) {
	t.Helper()
	// Small numbers, so that they meet often, and some at the type's end.
	number := rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32Range(0, 100), rapid.Just(^uint32(0)))
	rapid.Check(t, func(t *rapid.T) {
		on := rapid.Bool().Draw(t, "auto_scale")
		low, count, high := number.Draw(t, "min_nodes"), number.Draw(t, "node_count"), number.Draw(t, "max_nodes")

		holds := count >= 1
		if on {
			holds = holds && lowest <= low && low <= count && count <= high
		} else {
			holds = holds && low == 0 && high == 0
		}

		m := valid()
		Set[M](path+".auto_scale", on, path+".min_nodes", low, path+".node_count", count, path+".max_nodes", high)(m)
		if err := validation.Validate(m); (err == nil) != holds {
			t.Fatalf("the law holds: %v; validation says: %v", holds, err)
		}
	})
}

func setPool[M proto.Message](path string, count int, on bool, low, high int) func(M) {
	return Set[M](path+".node_count", count, path+".auto_scale", on, path+".min_nodes", low, path+".max_nodes", high)
}

// StackInput tests the rules of a stack input with a valid target: the target is required and is validated as a manifest is, and
// so is the provider config.
func StackInput[M proto.Message](t *testing.T, input M) {
	t.Helper()
	valid := func() M { return proto.Clone(input).(M) }
	cases := slices.Concat(
		Accepts[M]("provider_config", "the plugin's environment may tell", nil),
		Accepts[M]("provider_config.api_token", "a token", nil, "secret"),
		Enum[M]("provider_config.default_region", 1, false),
		Endpoint[M]("provider_config.api_endpoint"),
		Rejects[M]("target", "required", "there is nothing to provision", nil),
		Rejects[M]("target.api_version", "string.const", "the whole target is validated, not its spec alone", "v1"),
		Rejects[M]("target.metadata", "required", "the whole target is validated, not its spec alone", nil),
		Rejects[M]("target.spec", "required", "the whole target is validated", nil),
	)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.run(t, valid())
		})
	}
}

// Endpoint returns the cases of an optional URL of an API at a path.
func Endpoint[M proto.Message](path string) []Case[M] {
	return slices.Concat(
		Accepts[M](path, "URLs", nil, "", "https://api.civo.com", "http://127.0.0.1:8080", "https://gateway.example.com/", "http://[::1]:8080"),
		Rejects[M](path, "http_endpoint", "not a URL of an API", "api.civo.com", "127.0.0.1:8080", "ftp://api.civo.com", "https://", "https:///v2", "http://a b", "HTTPS:api.civo.com", "https://user:secret@api.civo.com", "https://api.civo.com?region=fra1", "https://api.civo.com/#v2",
			"https://api%2ecivo.com"),
	)
}

// Redacts fails when the fields that a message marks with debug_redact, so that printing it does not show them, are others than
// those named.
func Redacts(t *testing.T, md protoreflect.MessageDescriptor, secrets ...string) {
	t.Helper()
	var marked []string
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Options().(*descriptorpb.FieldOptions).GetDebugRedact() {
			marked = append(marked, string(fd.Name()))
		}
	}
	if diff := cmp.Diff(secrets, marked); diff != "" {
		t.Errorf("fields with debug_redact in %s (-want +got):\n%s", md.FullName(), diff)
	}
}
