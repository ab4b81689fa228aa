package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/schema"
)

// judge checks that the loader and the schemas agree on a document. With sure unset, the schemas may take what the loader refuses.
func judge(t *rapid.T, judges map[string]interface{ Validate(any) error }, document any, sure bool) {
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	rules, loaderErr := rulesOf("a.json", text)
	rules = slices.DeleteFunc(rules, func(rule string) bool {
		return slices.ContainsFunc(schema.Beyond(), func(limit schema.Limit) bool { return limit.Name == rule })
	})
	for name, judge := range judges {
		switch err := judge.Validate(document); {
		case loaderErr == nil && err != nil:
			t.Fatalf("the loader takes it, the schema %s does not: %v\n%s", name, err, text)
		case sure && len(rules) > 0 && err == nil:
			t.Fatalf("the schema %s takes it, the loader does not: %v\n%s", name, loaderErr, text)
		}
	}
}

// places are the values inside of a document, each with a function that puts another one there; nil takes it out.
func places(document any, path string, put func(any), into map[string]place) {
	into[path] = place{document, put}
	switch document := document.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(document)) {
			places(document[key], path+"."+key, func(value any) {
				if value == absent {
					delete(document, key)
					return
				}
				document[key] = value
			}, into)
		}
	case []any:
		for i := range document {
			places(document[i], fmt.Sprintf("%s[%d]", path, i), func(value any) {
				if value == absent {
					value = nil
				}
				document[i] = value
			}, into)
		}
	}
}

type place struct {
	value any
	put   func(any)
}

type absence struct{}

var absent any = absence{}

// anyAddress generates what looks like addresses and networks, most of them right.
var anyAddress = rapid.Custom(func(t *rapid.T) string {
	octets := make([]string, rapid.SampledFrom([]int{4, 4, 4, 4, 3, 5}).Draw(t, "octets"))
	for i := range octets {
		octets[i] = fmt.Sprint(rapid.OneOf(
			rapid.IntRange(0, 260), rapid.SampledFrom([]int{0, 10, 128, 172, 192, 224, 240, 248, 252, 254, 255}), rapid.Just(0),
		).Draw(t, "octet"))
	}
	address := strings.Join(octets, ".")
	if rapid.Bool().Draw(t, "six") {
		groups := make([]string, rapid.IntRange(1, 9).Draw(t, "groups"))
		for i := range groups {
			groups[i] = rapid.SampledFrom([]string{"0", "1", "fd00", "ABCD", "2001", "", "", "12345", "0db8"}).Draw(t, "group")
		}
		if rapid.IntRange(0, 3).Draw(t, "four") == 0 {
			if rapid.Bool().Draw(t, "zeros") {
				address = "0.0.0.0"
			}
			groups[len(groups)-1] = address
		}
		address = strings.Join(groups, ":")
	}
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return address
	case 1:
		return address + rapid.SampledFrom([]string{"/", "/a", "/-1", "/00", "/016", "%eth0", "%", " ", "/24/24", "\n"}).Draw(t, "end")
	default:
		return address + "/" + fmt.Sprint(rapid.OneOf(rapid.IntRange(0, 33), rapid.IntRange(0, 130)).Draw(t, "bits"))
	}
})

var anyText = rapid.OneOf(
	rapid.SampledFrom([]string{
		"", " ", "a", "A", "-", "a-b", "-a", "a_b", "a b", "a.b", "a/b", "a:b", "é", "\u3000", "\u0085", "\ufeff", "a\n", "k8s", "K8s:a", "terraform:a",
		"kubernetes.io/a", "tcp", "icmp", "allow", "NoSchedule", "80", "0", "65535", "65536", "80-79", "80-81", "080", "1-2-3", "1.31", "1.29.0+k3s1",
		"talos-v1.5.0", "fra1", "nyc3", "FRA1", "sunday=02:00", "10m", "random", "random ", "k3s", "talos", "flannel", "cilium", "CivoVpc",
		"unspecified", "civo_region_unspecified", "true", "null", "status.outputs.a", "default", "system", "batch",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("é", 255),
	}),
	rapid.StringMatching(`[a-zA-Z0-9 ._:/%=+-]{0,12}`),
	rapid.StringMatching(`[0-9]{1,6}(-[0-9]{1,6})?`),
	anyAddress,
)

var anyValue = rapid.OneOf(
	rapid.Map(anyText, func(text string) any { return text }),
	rapid.SampledFrom([]any{
		absent, absent, nil, true, false, []any{}, []any{nil}, []any{"a"}, []any{"a", "a"}, map[string]any{}, map[string]any{"a": "b"},
		map[string]any{"value": "a"}, map[string]any{"valueFrom": map[string]any{"name": "a"}},
	}),
	rapid.Map(rapid.OneOf(rapid.IntRange(-1, 6), rapid.SampledFrom([]int{99, 101, 1510, 65535, 4294967295, 4294967296})), func(n int) any {
		return json.Number(fmt.Sprint(n))
	}),
)

// TestAgreement: whatever is changed in a full manifest of a kind, the loader and the schemas agree on it.
func TestAgreement(t *testing.T) {
	t.Parallel()
	compiled := judges(t)
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			starter, err := schema.Starter(kind, schema.StarterOptions{Full: true})
			if err != nil {
				t.Fatal(err)
			}
			judges := map[string]interface{ Validate(any) error }{kind.Name: compiled[strings.ToLower(kind.Name)]}
			rapid.Check(t, func(rt *rapid.T) {
				document := seen(t, []byte(starter))
				sure := true
				for range rapid.IntRange(0, 3).Draw(rt, "changes") {
					at := map[string]place{}
					places(document, "", func(any) {}, at)
					path := rapid.SampledFrom(slices.Sorted(maps.Keys(at))).Draw(rt, "path")
					if mapping, ok := at[path].value.(map[string]any); ok && rapid.Bool().Draw(rt, "rename") {
						rename(rt, kind, mapping)
						continue
					}
					value := copied(rt, anyValue.Draw(rt, "value")) // a value that stood in itself would have no end
					_, wasText := at[path].value.(string)
					_, isText := value.(string)
					// Of a number for a text and a text for a number the schemas do not see all; so Beyond says.
					sure = sure && (wasText == isText || value == absent)
					at[path].put(value)
				}
				judge(rt, judges, document, sure)
			})
		})
	}
}

// copied is a value of its own.
func copied(t *rapid.T, value any) any {
	if value == absent {
		return value
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	again, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// rename writes a key of a mapping in another way, or adds one.
func rename(t *rapid.T, kind kinds.Kind, mapping map[string]any) {
	if len(mapping) == 0 {
		return
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(mapping))).Draw(t, "key")
	snake := key
	if manifest, err := schema.Manifest(kind); err == nil {
		manifest.Walk(func(field *schema.Field) {
			if field.Name == key && field.Alias != "" {
				snake = field.Alias
			}
		})
	}
	mapping[snake] = copied(t, mapping[key])
	if snake != key && rapid.IntRange(0, 4).Draw(t, "both") > 0 {
		delete(mapping, key)
	}
	if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
		mapping["unknown"] = "a"
	}
}

// isNetwork tells whether a text is a network whose host bits are zero, as Go has it.
func isNetwork(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix == prefix.Masked()
}

// isAddress tells whether a text is an address without a zone, as Go has it.
func isAddress(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Zone() == ""
}

// TestAddressesAgree: the patterns of addresses say what the rules of the protos do, and both what Go does.
func TestAddressesAgree(t *testing.T) {
	t.Parallel()
	compiled := judges(t)
	right := map[string]func(string) bool{
		"civofirewall":                  isNetwork,
		"digitaloceankubernetescluster": func(text string) bool { return isNetwork(text) || isAddress(text) },
	}
	for kind, manifest := range map[string]string{
		"civovpc": `{apiVersion: civo.project-planton.org/v1, kind: CivoVpc, metadata: {name: a}, spec: {networkName: a, region: fra1, ipRangeCidr: X}}`,
		"digitaloceanvpc": `{apiVersion: digital-ocean.project-planton.org/v1, kind: DigitalOceanVpc, metadata: {name: a},
			spec: {region: nyc3, ipRangeCidr: X}}`,
		"civofirewall": `{apiVersion: civo.project-planton.org/v1, kind: CivoFirewall, metadata: {name: a},
			spec: {name: a, networkId: {value: a}, inboundRules: [{protocol: icmp, cidrs: [X]}]}}`,
		"digitaloceankubernetescluster": `{apiVersion: digital-ocean.project-planton.org/v1, kind: DigitalOceanKubernetesCluster, metadata: {name: a},
			spec: {clusterName: a, region: nyc3, kubernetesVersion: "1.31", defaultNodePool: {size: a, nodeCount: 1},
			controlPlaneFirewallAllowedIps: [X]}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at := map[string]place{}
			document := seen(t, []byte(manifest))
			places(document, "", func(any) {}, at)
			judges := map[string]interface{ Validate(any) error }{kind: compiled[kind]}
			rapid.Check(t, func(rt *rapid.T) {
				text := anyAddress.Draw(rt, "address")
				for _, place := range at {
					if place.value == any("X") {
						place.put(text)
					}
				}
				judge(rt, judges, document, true)
				if right[kind] == nil {
					return // it takes less than all networks
				}
				encoded, err := json.Marshal(document)
				if err != nil {
					rt.Fatal(err)
				}
				if _, err := rulesOf("a.json", encoded); (err == nil) != right[kind](text) {
					rt.Fatalf("the loader says of %q: %v", text, err)
				}
			})
		})
	}
}
