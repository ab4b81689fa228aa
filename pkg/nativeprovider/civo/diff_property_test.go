package civo

import (
	"context"
	"fmt"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"pgregory.net/rapid"
)

// TestAnyTwoSpecs: whatever two specs a resource is given one after the other, then the object is as the second one says: a refresh
// finds no difference from it, and neither does a plan before or after that. What Civo cannot do is refused, and the object stays as the
// first one says.
func TestAnyTwoSpecs(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	other := b.object(FirewallType, "other")
	other.must("create", map[string]any{
		"name": "other", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("22")},
	})
	made := 0

	ports := rapid.SampledFrom([]string{"22", "80-80", "80", "8000-9000", "443"})
	words := rapid.SampledFrom([]string{"", "a", "b a", "a b"})
	texts := rapid.MapOfN(rapid.SampledFrom([]string{"team", "tier"}), rapid.SampledFrom([]string{"a", "b", ""}), 0, 2)
	taints := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"NoSchedule", "NoExecute", "PreferNoSchedule"}), 0, 2, rapid.ID)
	pool := func(t *rapid.T) map[string]any {
		given := map[string]any{
			"nodeCount": rapid.IntRange(1, 4).Draw(t, "count"), "size": rapid.SampledFrom([]string{"g4s.kube.small", "g4s.kube.medium"}).Draw(t, "size"),
		}
		if rapid.Bool().Draw(t, "labels given") {
			labels := map[string]any{}
			for key, value := range texts.Draw(t, "labels") {
				labels[key] = value
			}
			given["labels"] = labels
		}
		if rapid.Bool().Draw(t, "taints given") {
			list := []any{}
			for _, effect := range taints.Draw(t, "taints") {
				list = append(list, map[string]any{"key": "k", "value": "v", "effect": effect})
			}
			given["taints"] = list
		}
		return given
	}
	rules := func(t *rapid.T) []any {
		list := []any{}
		for _, one := range rapid.SliceOfNDistinct(ports, 1, 3, func(p string) string { return p[:2] }).Draw(t, "ports") {
			list = append(list, rule(one))
		}
		return list
	}

	rapid.Check(t, func(t *rapid.T) {
		made++
		name := fmt.Sprintf("r%d", made)
		var object *object
		var spec func() map[string]any
		switch rapid.SampledFrom([]string{"network", "firewall", "cluster"}).Draw(t, "type") {
		case "network":
			object = b.object(NetworkType, name)
			spec = func() map[string]any {
				given := map[string]any{"label": name + rapid.SampledFrom([]string{"", "x"}).Draw(t, "label")}
				if rapid.Bool().Draw(t, "name servers given") {
					given["nameserversV4s"] = rapid.SliceOfN(rapid.SampledFrom([]any{"8.8.8.8", "1.1.1.1"}), 1, 2).Draw(t, "name servers")
				}
				return given
			}
		case "firewall":
			object = b.object(FirewallType, name)
			spec = func() map[string]any {
				given := map[string]any{"name": name + rapid.SampledFrom([]string{"", "x"}).Draw(t, "name"), "networkId": networkID, "createDefaultRules": false}
				given["ingressRules"] = rules(t)
				if rapid.Bool().Draw(t, "egress given") {
					given["egressRules"] = rules(t)
				}
				return given
			}
		default:
			object = b.object(ClusterType, name)
			spec = func() map[string]any {
				given := map[string]any{
					"name": name, "networkId": networkID, "firewallId": rapid.SampledFrom([]string{firewallID, other.id}).Draw(t, "firewall"),
					"tags": words.Draw(t, "tags"), "writeKubeconfig": rapid.Bool().Draw(t, "kubeconfig"),
					"kubernetesVersion": rapid.SampledFrom([]string{"1.28.7-k3s1", "v1.29.8+k3s1", "1.29.8-k3s1"}).Draw(t, "version"),
				}
				given["pools"] = pool(t)
				given["pools"].(map[string]any)["label"] = "default"
				return given
			}
		}

		first, second := spec(), spec()
		ctx := context.Background()
		if _, err := object.up(ctx, first); err != nil {
			t.Fatalf("create %v: %v", first, err)
		}
		defer func() {
			if err := object.delete(ctx); err != nil {
				t.Errorf("delete: %v", err)
			}
		}()
		is := func(when string, spec map[string]any) {
			inputs, failures := object.check(spec)
			if len(failures) > 0 {
				t.Fatalf("%s: %v", when, failures)
			}
			if plan, err := object.diffInputs(inputs); err != nil || plan.Changes != pulumirpc.DiffResponse_DIFF_NONE {
				t.Fatalf("%s, the object differs from the spec in %v (%v)\nspec: %v\nstate: %v", when, plan.GetDiffs(), err, spec, object.state)
			}
		}
		is("after the create", first)
		wanted := second
		if _, err := object.up(ctx, second); err != nil {
			if _, refused := object.diff(second); refused == nil {
				t.Fatalf("update %v to %v: %v", first, second, err)
			}
			wanted = first
		}
		is("after the update", wanted)
		if gone, err := object.refresh(ctx); err != nil || gone {
			t.Fatalf("refresh: gone %t, %v", gone, err)
		}
		is("after a refresh", wanted)
		if action, err := object.up(ctx, wanted); err != nil || action != "same" {
			t.Fatalf("the second run did %q, %v", action, err)
		}
	})
}
