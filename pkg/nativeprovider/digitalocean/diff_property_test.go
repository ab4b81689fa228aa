package digitalocean

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"pgregory.net/rapid"
)

// TestAnyTwoSpecs: whatever two specs a resource is given one after the other, then the object is as the second one says: a refresh
// finds no difference from it, and neither does a plan before or after that. What DigitalOcean cannot do is refused, or planned as a
// replacement, and the object stays as the first one says.
func TestAnyTwoSpecs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := w.thing(t, clusterToken, "home")
	home.mustUp("create", with(simpleCluster(), props{"name": "home"}))
	made := 0

	tags := rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"a", "B", "team:x"}), 0, 3, rapid.ID)
	effects := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"NoSchedule", "NoExecute", "PreferNoSchedule"}), 0, 2, rapid.ID)
	pool := func(t *rapid.T, name string) props {
		count := rapid.IntRange(1, 4).Draw(t, "count")
		given := props{"name": name, "size": "s-2vcpu-4gb", "nodeCount": count}
		if rapid.Bool().Draw(t, "autoscaled") {
			given["autoScale"] = true
			given["minNodes"], given["maxNodes"] = rapid.IntRange(1, count).Draw(t, "min"), rapid.IntRange(count, 5).Draw(t, "max")
		}
		if rapid.Bool().Draw(t, "labels given") {
			labels := props{}
			for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"team", "tier"}), rapid.ID).Draw(t, "labels") {
				labels[key] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value")
			}
			given["labels"] = labels
		}
		if rapid.Bool().Draw(t, "taints given") {
			list := []any{}
			for _, effect := range effects.Draw(t, "taints") {
				list = append(list, props{"key": "k", "value": "v", "effect": effect})
			}
			given["taints"] = list
		}
		if rapid.Bool().Draw(t, "tags given") {
			given["tags"] = tags.Draw(t, "tags")
		}
		return given
	}

	rapid.Check(t, func(rt *rapid.T) {
		made++
		name := fmt.Sprintf("r%d", made)
		renamed := func() string { return name + rapid.SampledFrom([]string{"", "x"}).Draw(rt, "name") }
		var object *thing
		var spec func() props
		switch rapid.SampledFrom([]string{"vpc", "pool", "cluster"}).Draw(rt, "type") {
		case "vpc":
			object = w.thing(t, vpcToken, name)
			spec = func() props {
				return props{"name": renamed(), "region": rapid.SampledFrom([]string{"nyc1", "NYC1"}).Draw(rt, "region"),
					"description": rapid.SampledFrom([]string{"", "d", "e"}).Draw(rt, "description")}
			}
		case "pool":
			object = w.thing(t, poolToken, name)
			spec = func() props { return with(pool(rt, renamed()), props{"clusterId": string(home.id)}) }
		default:
			object = w.thing(t, clusterToken, name)
			spec = func() props {
				given := props{
					"name": renamed(), "region": "nyc1", "version": "1.31.1-do.4",
					"autoUpgrade": rapid.Bool().Draw(rt, "upgrade"), "surgeUpgrade": rapid.Bool().Draw(rt, "surge"), "ha": rapid.Bool().Draw(rt, "ha"),
				}
				given["nodePool"] = pool(rt, "default")
				if rapid.Bool().Draw(rt, "window given") {
					given["maintenancePolicy"] = props{"day": rapid.SampledFrom([]string{"any", "sunday", "Monday"}).Draw(rt, "day"), "startTime": "02:00"}
				}
				if rapid.Bool().Draw(rt, "tags given") {
					given["tags"] = tags.Draw(rt, "tags")
				}
				if rapid.Bool().Draw(rt, "firewall given") {
					given["controlPlaneFirewall"] = props{"enabled": rapid.Bool().Draw(rt, "enabled"), "allowedAddresses": []any{"203.0.113.7"}}
				}
				return given
			}
		}

		first, second := spec(), spec()
		if _, err := object.up(first); err != nil {
			rt.Fatalf("create %v: %v", first, err)
		}
		defer func() {
			if err := object.destroy(); err != nil {
				rt.Errorf("delete: %v", err)
			}
		}()
		is := func(when string, spec props) {
			if diff, err := object.plan(spec); err != nil || diff.Changes != plugin.DiffNone {
				rt.Fatalf("%s, the object differs from the spec in %v (%v)\nspec: %v\nstate: %v", when, changes(diff), err, spec, object.state)
			}
		}
		is("after the create", first)
		wanted := second
		did, err := object.up(second)
		switch {
		case did == "diff" && strings.HasPrefix(err.Error(), "ha:"), did == "replace":
			wanted = first
		case err != nil:
			rt.Fatalf("%s %v to %v: %v", did, first, second, err)
		}
		is("after the "+did, wanted)
		if there, err := object.refresh(); err != nil || !there {
			rt.Fatalf("refresh: there %t, %v", there, err)
		}
		is("after a refresh", wanted)
		if did, err := object.up(wanted); err != nil || did != "same" {
			rt.Fatalf("the second run did %q, %v", did, err)
		}
	})
}
