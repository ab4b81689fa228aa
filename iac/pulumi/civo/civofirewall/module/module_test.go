package module

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	firewallType = "civo:index/firewall:Firewall"
	providerType = "pulumi:providers:civo"
	networkID    = "6f3c1d1e-8f0b-4f6e-9d5a-0d4c6f0a9b11"
)

// full returns a stack input with every field of the spec set.
func full() *civofirewallv1.CivoFirewallStackInput {
	return &civofirewallv1.CivoFirewallStackInput{
		Target: &civofirewallv1.CivoFirewall{
			ApiVersion: "civo.project-planton.org/v1",
			Kind:       "CivoFirewall",
			Metadata:   &shared.CloudResourceMetadata{Name: "main", Env: "dev"},
			Spec: &civofirewallv1.CivoFirewallSpec{
				Name:      "acme-dev",
				Region:    civo.CivoRegion_fra1,
				NetworkId: literal(networkID),
				InboundRules: []*civofirewallv1.CivoFirewallRule{
					{Protocol: "udp", PortRange: "8000-9000", Cidrs: []string{"203.0.113.0/24", "198.51.100.0/24"}, Action: "deny", Label: "games"},
					{PortRange: "443", Cidrs: []string{"0.0.0.0/0"}},
					{Protocol: "icmp", Cidrs: []string{"0.0.0.0/0"}},
				},
				OutboundRules: []*civofirewallv1.CivoFirewallRule{
					{Protocol: "tcp", PortRange: "25", Cidrs: []string{"0.0.0.0/0"}, Action: "deny", Label: "no mail"},
					{PortRange: "1-65535", Cidrs: []string{"0.0.0.0/0"}},
				},
				Tags: []string{"web"},
			},
		},
	}
}

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

func referenceTo(name string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{
		LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{Name: name}},
	}
}

func run(t *testing.T, stackInput *civofirewallv1.CivoFirewallStackInput, opts ...moduletest.Option) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, stackInput) }, opts...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	ingress := []any{
		map[string]any{
			"protocol": "udp", "portRange": "8000-9000", "cidrs": []any{"203.0.113.0/24", "198.51.100.0/24"},
			"action": "deny", "label": "games",
		},
		map[string]any{"protocol": "tcp", "portRange": "443", "cidrs": []any{"0.0.0.0/0"}, "action": "allow"},
		map[string]any{"protocol": "icmp", "cidrs": []any{"0.0.0.0/0"}, "action": "allow"},
	}
	egress := []any{
		map[string]any{
			"protocol": "tcp", "portRange": "25", "cidrs": []any{"0.0.0.0/0"}, "action": "deny", "label": "no mail",
		},
		map[string]any{"protocol": "tcp", "portRange": "1-65535", "cidrs": []any{"0.0.0.0/0"}, "action": "allow"},
	}
	input := func(name string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: firewallType, Name: "firewall", Input: name, Want: want}
	}
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"name":                        input("name", "acme-dev"),
		"network_id":                  input("networkId", networkID),
		"region":                      input("region", "FRA1"),
		"tags":                        {Warning: "spec.tags has no effect"},
		"inbound_rules[].protocol":    input("ingressRules", ingress),
		"inbound_rules[].port_range":  input("ingressRules", ingress),
		"inbound_rules[].cidrs":       input("ingressRules", ingress),
		"inbound_rules[].action":      input("ingressRules", ingress),
		"inbound_rules[].label":       input("ingressRules", ingress),
		"outbound_rules[].protocol":   input("egressRules", egress),
		"outbound_rules[].port_range": input("egressRules", egress),
		"outbound_rules[].cidrs":      input("egressRules", egress),
		"outbound_rules[].action":     input("egressRules", egress),
		"outbound_rules[].label":      input("egressRules", egress),
	})
}

func TestNoDefaultRules(t *testing.T) {
	t.Parallel()
	input := full()
	input.Target.Spec.OutboundRules = nil
	input.Target.Spec.Tags = nil
	result := run(t, input)
	firewall := result.Resource(t, firewallType, "firewall")
	if got := firewall.Input("createDefaultRules"); got != false {
		t.Errorf("createDefaultRules = %v: Civo would open every port", got)
	}
	if _, given := firewall.Inputs["egressRules"]; given {
		t.Error("an empty list of egress rules is sent")
	}
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings without a cause: %q", warnings)
	}
	if got := strings.Join(firewall.ReplaceOnChanges, " "); got != "networkId region" || !firewall.DeleteBeforeReplace {
		t.Errorf("replaced on changes of %q, delete before replace %t", got, firewall.DeleteBeforeReplace)
	}
}

func TestRegion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		spec   civo.CivoRegion
		config *civo.CivoProviderConfig
		want   string
	}{
		"spec": {
			reason: "the spec counts before the config",
			spec:   civo.CivoRegion_fra1, config: &civo.CivoProviderConfig{DefaultRegion: civo.CivoRegion_lon1}, want: "FRA1",
		},
		"config": {
			reason: "the config counts where the spec says nothing",
			config: &civo.CivoProviderConfig{DefaultRegion: civo.CivoRegion_lon1}, want: "LON1",
		},
		"neither": {reason: "no region can be guessed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := full()
			input.Target.Spec.Region, input.ProviderConfig = tt.spec, tt.config
			result := run(t, input)
			if tt.want == "" {
				if result.Err == nil || len(result.Resources) > 0 {
					t.Fatalf("%s: error %v, resources %v", tt.reason, result.Err, result.Names())
				}
				for _, place := range []string{"spec.region", "provider_config.default_region"} {
					if !strings.Contains(result.Err.Error(), place) {
						t.Errorf("error %q does not name %s", result.Err, place)
					}
				}
				return
			}
			for _, resource := range []moduletest.Resource{
				result.Resource(t, firewallType, "firewall"), result.Resource(t, providerType, "civo"),
			} {
				if got := resource.Input("region"); got != tt.want {
					t.Errorf("%s: region of %s = %v, want %s", tt.reason, resource.Name, got, tt.want)
				}
			}
		})
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	const stack = "organization/civovpc/_.dev.main"
	tests := map[string]struct {
		reason  string
		stack   map[string]any
		preview bool
		want    string
		names   []string
	}{
		"output":                    {reason: "the output of the stack is the value", stack: map[string]any{"network_id": networkID}, want: networkID},
		"preview":                   {reason: "a preview reads the stack too", stack: map[string]any{"network_id": networkID}, preview: true, want: networkID},
		"missing stack":             {reason: "the error names field and stack", names: []string{"spec.network_id", stack}},
		"missing stack, preview":    {reason: "a preview fails too", preview: true, names: []string{"spec.network_id", stack}},
		"missing output":            {reason: "the error names the output", stack: map[string]any{"region": "FRA1"}, names: []string{"spec.network_id", stack, "network_id"}},
		"missing output in preview": {reason: "a preview fails too", stack: map[string]any{}, preview: true, names: []string{stack, "network_id"}},
		"no string":                 {reason: "an id is a string", stack: map[string]any{"network_id": 7.0}, names: []string{"not a string"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := full()
			input.Target.Spec.NetworkId = referenceTo("main")
			var opts []moduletest.Option
			if tt.stack != nil {
				opts = append(opts, moduletest.WithStack(stack, tt.stack))
			}
			if tt.preview {
				opts = append(opts, moduletest.Preview())
			}
			result := run(t, input, opts...)
			if tt.want != "" {
				if result.RunErr != nil {
					t.Fatalf("%s: %v", tt.reason, result.RunErr)
				}
				if got := result.Resource(t, firewallType, "firewall").Input("networkId"); got != tt.want {
					t.Errorf("%s: networkID = %v, want %s", tt.reason, got, tt.want)
				}
				return
			}
			if result.Err == nil {
				t.Fatalf("%s: no error", tt.reason)
			}
			for _, part := range tt.names {
				if !strings.Contains(result.Err.Error(), part) {
					t.Errorf("%s: error %q does not name %s", tt.reason, result.Err, part)
				}
			}
			for _, resource := range result.Resources {
				if resource.Type == firewallType {
					t.Error("a firewall was registered without its network")
				}
			}
		})
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(firewallType, func(moduletest.Resource) map[string]any {
		return map[string]any{"id": "fw-1"}
	}))
	moduletest.AssertOutputs(t, result, &civofirewallv1.CivoFirewallStackOutputs{})
	moduletest.AssertConstants(t, &civofirewallv1.CivoFirewallStackOutputs{},
		OpFirewallId, OpCreatedAtRfc3339, OpFirewallName, OpNetworkId, OpRegion)
	got := map[string]any{}
	for name, output := range result.Outputs {
		got[name] = output.Value
	}
	want := map[string]any{
		OpFirewallId: "fw-1", OpCreatedAtRfc3339: "", OpFirewallName: "acme-dev", OpNetworkId: networkID, OpRegion: "FRA1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestComponent(t *testing.T) {
	t.Parallel()
	spec := full().Target.Spec
	spec.NetworkId = nil
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		firewall, err := New(ctx, "edge", &Args{
			Metadata: &shared.CloudResourceMetadata{Name: "edge"}, Spec: spec, NetworkId: pulumi.String("net-1"),
		})
		if err != nil {
			return err
		}
		ctx.Export("id", firewall.FirewallId)
		ctx.Export("name", firewall.FirewallName)
		ctx.Export("network", firewall.NetworkId)
		ctx.Export("region", firewall.Region)
		return nil
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resource(t, firewallType, "edge-firewall").Input("networkId"); got != "net-1" {
		t.Errorf("networkID = %v, want the one given to the component", got)
	}
	for name, want := range map[string]string{"id": "edge-firewall-id", "name": "acme-dev", "network": "net-1", "region": "FRA1"} {
		if got := result.Outputs[name].Value; got != want {
			t.Errorf("%s = %v, want %s", name, got, want)
		}
	}
	if spec.NetworkId != nil {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentsWithReferencesInTheSameField(t *testing.T) {
	t.Parallel()
	spec := full().Target.Spec
	spec.NetworkId = referenceTo("main")
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		for _, name := range []string{"one", "two"} {
			if _, err := New(ctx, name, &Args{Spec: spec}); err != nil {
				return err
			}
		}
		return nil
	}, moduletest.WithStack("organization/civovpc/main", map[string]any{"network_id": networkID}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	// Two reads under one name would be one resource twice, which the engine refuses.
	result.Resource(t, "pulumi:pulumi:StackReference", "one-spec.network_id")
	result.Resource(t, "pulumi:pulumi:StackReference", "two-spec.network_id")
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	withoutRules := full()
	withoutRules.Target.Spec.InboundRules, withoutRules.Target.Spec.OutboundRules = nil, nil
	withoutNetwork := full()
	withoutNetwork.Target.Spec.NetworkId = nil
	for name, input := range map[string]*civofirewallv1.CivoFirewallStackInput{
		"empty": {}, "without rules": withoutRules, "without network": withoutNetwork,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, input)
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		t.Parallel()
		if result := run(t, nil); result.Err == nil || len(result.Resources) > 0 {
			t.Errorf("error %v, resources %v; want a clear error and nothing registered", result.Err, result.Names())
		}
	})
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{"nil": nil, "no spec": {NetworkId: pulumi.String("net-1")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				_, err := New(ctx, "edge", args)
				return err
			})
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
}
