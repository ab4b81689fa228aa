package provision

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// TestExported: on a backend that is not in files, the states of the kinds' stacks are exported, a few at a time, and no others.
func TestExported(t *testing.T) {
	t.Parallel()
	summaries := []StackSummary{{Identity: stackidentity.Identity{Organization: "acme", Project: "somebodys", Stack: "program"}}}
	for _, name := range []string{"b", "a", "c", "d", "e", "f", "g", "h"} {
		summaries = append(summaries, StackSummary{
			Identity: stackidentity.Identity{Organization: "acme", Project: "civovpc", Stack: name},
		})
	}
	var running, most atomic.Int32
	read := func(identity stackidentity.Identity) (apitype.DeploymentV3, error) {
		if identity.Project != "civovpc" {
			t.Errorf("the state of %s was read", identity)
		}
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		time.Sleep(time.Millisecond)
		if identity.Stack == "g" {
			return apitype.DeploymentV3{}, errors.New("no answer")
		}
		return apitype.DeploymentV3{Resources: []apitype.ResourceV3{{
			Type: "pulumi:pulumi:Stack", Outputs: map[string]any{"network_id": identity.Stack},
		}}}, nil
	}
	all, err := exported(t.Context(), summaries[:len(summaries)-2], read)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range all {
		got = append(got, d.Identity.String()+" "+d.Outputs["network_id"].Value.(string))
	}
	want := []string{"acme/civovpc/a a", "acme/civovpc/b b", "acme/civovpc/c c", "acme/civovpc/d d", "acme/civovpc/e e", "acme/civovpc/f f"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if most.Load() > readers {
		t.Errorf("%d states were read at a time, want %d at most", most.Load(), readers)
	}
	if _, err := exported(t.Context(), summaries, read); err == nil || err.Error() != "no answer" {
		t.Errorf("a state that cannot be read: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := exported(ctx, summaries, read); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestUses: what stands in what follows from ids, and from nothing else.
func TestUses(t *testing.T) {
	t.Parallel()
	deployed := func(kind string, outputs ...string) Deployed {
		k, ok := kinds.ByName(kind)
		if !ok {
			t.Fatalf("no kind %s", kind)
		}
		d := Deployed{Kind: k, Outputs: Outputs{}}
		for i := 0; i < len(outputs); i += 2 {
			d.Outputs[outputs[i]] = Output{Value: outputs[i+1], Known: true}
		}
		return d
	}
	got := Uses([]Deployed{
		deployed("CivoKubernetesNodePool", "node_pool_id", "p", "cluster_id", "c"),
		deployed("CivoKubernetesCluster", "cluster_id", "c", "network_id", "n", "firewall_id", "f"),
		deployed("CivoFirewall", "firewall_id", "f", "network_id", "n"),
		deployed("CivoVpc", "network_id", "n"),
		deployed("DigitalOceanKubernetesCluster", "cluster_id", "c", "vpc_id", "n"), // the same ids on another cloud are others
		deployed("DigitalOceanKubernetesNodePool", "node_pool_id", "p", "cluster_id", "c"),
		deployed("CivoKubernetesCluster", "cluster_id", "", "network_id", ""), // nothing is known of it
		deployed("CivoVpc", "network_id", ""),
		deployed("CivoFirewall", "firewall_id", "f2", "network_id", "made by hand"),
	})
	want := [][]int{{1}, {3, 2}, {3}, nil, nil, {4}, nil, nil, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
