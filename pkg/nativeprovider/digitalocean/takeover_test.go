package digitalocean

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
)

// officialState is a resource in the form in which the official plugin 4.57.0 records it, with made-up values.
type officialState struct {
	Type    tokens.Type `json:"type"`
	ID      string      `json:"id"`
	Program props       `json:"program"` // what the program gives
	Inputs  props       `json:"inputs"`
	Outputs props       `json:"outputs"`
	Secrets []string    `json:"secrets"` // outputs that are secret
}

func officialStates(t *testing.T) map[string]officialState {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "official-state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var states map[string]officialState
	if err := json.Unmarshal(content, &states); err != nil {
		t.Fatal(err)
	}
	return states
}

func (s officialState) load(w *world, t *testing.T) *thing {
	one := w.thing(t, s.Type, "taken-over")
	one.id, one.inputs, one.state = resource.ID(s.ID), propertyMap(s.Inputs), propertyMap(s.Outputs)
	for _, key := range s.Secrets {
		one.state[resource.PropertyKey(key)] = resource.MakeSecret(one.state[resource.PropertyKey(key)])
	}
	return one
}

// TestOfficialStateIsTakenOver: a stack that the official plugin made has nothing to do under this one.
func TestOfficialStateIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, official := range officialStates(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := official.load(newWorld(t), t)
			one.mustUp("same", official.Program)
		})
	}
}

// TestOfficialStateIsTakenOverAndGivenBack makes the objects of the states in the cloud, and lets the plugin work on them.
func TestOfficialStateIsTakenOverAndGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	states := officialStates(t)
	vpc := w.thing(t, vpcToken, "vpc")
	vpc.mustUp("create", states["vpc"].Program)
	made := w.thing(t, clusterToken, "made")
	made.mustUp("create", with(states["cluster"].Program, props{"vpcUuid": string(vpc.id)}))

	// The engine knows the official plugin's state, with the ids of the objects that there are.
	official := states["cluster"]
	official.ID = string(made.id)
	cluster := official.load(w, t)
	cluster.state["id"] = resource.NewProperty(official.ID)
	cluster.state["vpcUuid"] = resource.NewProperty(string(vpc.id))
	pool := plainState(cluster.state)["nodePool"].ObjectValue()
	pool["id"] = resource.NewProperty(w.onlyCluster(t).NodePools[0].ID)
	cluster.state["nodePool"] = resource.NewProperty(pool)

	program := with(official.Program, props{"vpcUuid": string(vpc.id)})
	cluster.mustUp("same", program)
	cluster.mustRefresh()
	cluster.mustUp("same", program)
	cluster.mustUp("update", withPool(program, props{"nodeCount": 3}))

	// What it writes has what the bridge looks for, and not what describes another state.
	var meta map[string]any
	text, _ := cluster.get("__meta").(string)
	if err := json.Unmarshal([]byte(text), &meta); err != nil || meta["schema_version"] != "3" {
		t.Errorf("__meta is %q", text)
	}
	if _, there := cluster.state["__pulumi_raw_state_delta"]; there {
		t.Error("the delta of the official plugin's state is still there")
	}
	for key, was := range official.Outputs {
		if strings.HasPrefix(key, "__") {
			continue
		}
		now := plainState(cluster.state)[resource.PropertyKey(key)]
		if was == nil {
			continue // the official plugin had nothing to say
		}
		before := resource.NewPropertyValue(was)
		if now.TypeString() != before.TypeString() {
			t.Errorf("%s is of type %s, the official plugin writes %s", key, now.TypeString(), before.TypeString())
			continue
		}
		if now.IsObject() {
			if diff := cmp.Diff(keysOf(before.ObjectValue()), keysOf(now.ObjectValue())); diff != "" && key != "kubeConfigs" {
				t.Errorf("%s has other properties (-official +native):\n%s", key, diff)
			}
		}
	}
}

func keysOf(m resource.PropertyMap) []string {
	var keys []string
	for key := range m {
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	return keys
}
