package moduletest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
)

const networkType = "civo:index/network:Network"

// recorder is a testing.TB that keeps failures instead of failing.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestSpecFields(t *testing.T) {
	t.Parallel()
	fields := SpecFields(&civokubernetesclusterv1.CivoKubernetesClusterSpec{})
	for _, want := range []string{
		"cluster_name", "network", "tags", "default_node_pool.size", "additional_node_pools[].labels",
		"additional_node_pools[].taints[].effect",
	} {
		if !slices.Contains(fields, want) {
			t.Errorf("%s is not among %q", want, fields)
		}
	}
	for _, not := range []string{"default_node_pool", "additional_node_pools[]", "network.value"} {
		if slices.Contains(fields, not) {
			t.Errorf("%s holds no value of its own", not)
		}
	}
}

func TestAssertEverySpecFieldIsCovered(t *testing.T) {
	t.Parallel()
	spec := &civovpcv1.CivoVpcSpec{}
	table := map[string]bool{}
	for _, field := range SpecFields(spec) {
		table[field] = true
	}
	check := func() []string {
		r := &recorder{TB: t}
		AssertEverySpecFieldIsCovered(r, spec, table)
		return r.failures
	}
	if failures := check(); len(failures) > 0 {
		t.Errorf("a complete table fails: %q", failures)
	}
	table["nonsense"] = true
	if len(check()) == 0 {
		t.Error("an entry for no field passes")
	}
	delete(table, "nonsense")
	delete(table, "region")
	if len(check()) == 0 {
		t.Error("a forgotten field passes")
	}
}

func TestAssertOutputs(t *testing.T) {
	t.Parallel()
	outputs := map[string]Output{}
	for _, name := range []string{"network_id", "cidr_block", "created_at_rfc3339", "network_name", "region"} {
		outputs[name] = Output{Value: "x", Known: true}
	}
	check := func() []string {
		r := &recorder{TB: t}
		AssertOutputs(r, &Result{Outputs: outputs}, &civovpcv1.CivoVpcStackOutputs{})
		return r.failures
	}
	if failures := check(); len(failures) > 0 {
		t.Errorf("all outputs fail: %q", failures)
	}
	outputs["region"] = Output{Value: []string{"x"}, Known: true}
	if len(check()) == 0 {
		t.Error("a list in place of a string passes")
	}
	delete(outputs, "region")
	if len(check()) == 0 {
		t.Error("a forgotten output passes")
	}
}

func TestAssertConstants(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	AssertConstants(r, &civovpcv1.CivoVpcStackOutputs{}, "network_id", "cidr_block", "created_at_rfc3339", "network_name", "region")
	if len(r.failures) > 0 {
		t.Errorf("all constants fail: %q", r.failures)
	}
	AssertConstants(r, &civovpcv1.CivoVpcStackOutputs{}, "network_id")
	if len(r.failures) == 0 {
		t.Error("a forgotten constant passes")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	result := Run(t, func(ctx *pulumi.Context) error {
		network, err := civo.NewNetwork(ctx, "network", &civo.NetworkArgs{
			Label: pulumi.ToSecret(pulumi.String("n")).(pulumi.StringOutput),
		}, pulumi.IgnoreChanges([]string{"label"}), pulumi.ReplaceOnChanges([]string{"region"}), pulumi.DeleteBeforeReplace(true),
			pulumi.Timeouts(&pulumi.CustomTimeouts{Delete: "15m"}), pulumi.AdditionalSecretOutputs([]string{"cidrV4"}))
		if err != nil {
			return err
		}
		firewall, err := civo.NewFirewall(ctx, "firewall", &civo.FirewallArgs{NetworkId: network.ID().ToStringOutput()})
		if err != nil {
			return err
		}
		found, err := civo.LookupNetwork(ctx, &civo.LookupNetworkArgs{Label: pulumi.StringRef("other")})
		if err != nil {
			return err
		}
		ctx.Export("id", network.ID())
		ctx.Export("cidr", network.CidrV4)
		ctx.Export("firewall", firewall.ID())
		ctx.Export("found", pulumi.String(*found.Id))
		if value, ok := ctx.GetConfig("a:b"); !ok || value != "c" || !ctx.DryRun() || ctx.RootDirectory() != "/root-directory" {
			t.Errorf("config %q, preview %t, folder %s", value, ctx.DryRun(), ctx.RootDirectory())
		}
		return errors.Wrap(ctx.Log.Warn("careful", nil), "warn")
	}, WithState(networkType, func(registered Resource) map[string]any {
		return map[string]any{"id": "net-1", "cidrV4": "10.0.0.0/24"}
	}), WithFunction("civo:index/getNetwork:getNetwork", func(args map[string]any) (map[string]any, error) {
		return map[string]any{"id": fmt.Sprint(args["label"], "-id")}, nil
	}), WithConfig(map[string]string{"a:b": "c"}), Preview(), WithRootDirectory("/root-directory"))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	network := result.Resource(t, networkType, "network")
	if network.ID != "net-1" || network.Input("label") != "n" || !network.Inputs["label"].IsSecret() || network.Input("a.b") != nil {
		t.Errorf("network %+v", network)
	}
	if !slices.Equal(network.IgnoreChanges, []string{"label"}) || !slices.Equal(network.ReplaceOnChanges, []string{"region"}) ||
		!network.DeleteBeforeReplace || network.DeleteTimeout != "15m" {
		t.Errorf("options of the network: %+v", network)
	}
	firewall := result.Resource(t, "civo:index/firewall:Firewall", "firewall")
	if len(firewall.Dependencies) != 1 || !strings.HasSuffix(firewall.Dependencies[0], "::network") || firewall.Input("networkId") != "net-1" {
		t.Errorf("firewall %+v", firewall)
	}
	want := map[string]Output{
		"id":       {Value: pulumi.ID("net-1"), Known: true},
		"cidr":     {Value: "10.0.0.0/24", Known: true, Secret: true},
		"firewall": {Value: pulumi.ID("firewall-id"), Known: true},
		"found":    {Value: "other-id", Known: true},
	}
	if diff := cmp.Diff(want, result.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if !slices.Equal(result.Warnings(), []string{"careful"}) || len(result.Errors()) > 0 {
		t.Errorf("log %+v", result.Log)
	}
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	result := Run(t, func(*pulumi.Context) error { return boom })
	if !errors.Is(result.Err, boom) || result.RunErr == nil || len(result.Outputs) > 0 {
		t.Errorf("error %v, of the run %v", result.Err, result.RunErr)
	}
	result = Run(t, func(ctx *pulumi.Context) error {
		ctx.Export("broken", pulumi.String("x").ToStringOutput().ApplyT(func(string) (string, error) { return "", boom }))
		return nil
	})
	if result.Err != nil || result.RunErr == nil {
		t.Errorf("error %v, of the run %v; want that of the output in the run's", result.Err, result.RunErr)
	}
}
