package endtoend

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civoconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	digitaloceanconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	civofirewall "github.com/plantonhq/project-planton/iac/pulumi/civo/civofirewall/module"
	civocluster "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetescluster/module"
	civonodepool "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetesnodepool/module"
	civovpc "github.com/plantonhq/project-planton/iac/pulumi/civo/civovpc/module"
	digitaloceancluster "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetescluster/module"
	digitaloceannodepool "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetesnodepool/module"
	digitaloceanvpcmodule "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceanvpc/module"
	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// secretSignature marks the envelope of a secret in an exported state.
const secretSignature = "4dabf18193072939515e22adb298388d"

// officialForm is how the official plugin records a resource.
type officialForm struct {
	// Recorded tells a form that was recorded from one that was put together from the SDK's schema.
	Recorded bool           `json:"recorded"`
	Secrets  []string       `json:"secrets"`
	Inputs   map[string]any `json:"inputs"`
	Outputs  map[string]any `json:"outputs"`
}

func officialForms(t *testing.T) map[string]officialForm {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "official-state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var forms map[string]officialForm
	if err := json.Unmarshal(text, &forms); err != nil {
		t.Fatal(err)
	}
	return forms
}

// The forms have the properties of the published SDKs, the recorded ones too: neither can miss one.
func TestOfficialFormsAreComplete(t *testing.T) {
	t.Parallel()
	forms := officialForms(t)
	for token, resource := range map[string]any{
		"civo:index/network:Network":                               civo.Network{},
		"civo:index/firewall:Firewall":                             civo.Firewall{},
		"civo:index/kubernetesCluster:KubernetesCluster":           civo.KubernetesCluster{},
		"civo:index/kubernetesNodePool:KubernetesNodePool":         civo.KubernetesNodePool{},
		"digitalocean:index/vpc:Vpc":                               digitalocean.Vpc{},
		"digitalocean:index/kubernetesCluster:KubernetesCluster":   digitalocean.KubernetesCluster{},
		"digitalocean:index/kubernetesNodePool:KubernetesNodePool": digitalocean.KubernetesNodePool{},
	} {
		want := []string{"id"}
		of := reflect.TypeOf(resource)
		for i := range of.NumField() {
			if name := of.Field(i).Tag.Get("pulumi"); name != "" {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		var got []string
		for _, key := range slices.Sorted(maps.Keys(forms[token].Outputs)) {
			if !strings.HasPrefix(key, "__") {
				got = append(got, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-SDK +form):\n%s", token, diff)
		}
	}
}

// sevenKinds is a program with a resource of each kind.
func sevenKinds(w *world) pulumi.RunFunc {
	spec := func(text string) any { return parse(w.t, text) }
	return func(ctx *pulumi.Context) error {
		civoProvider, err := pulumicivoprovider.Get(ctx, &civoconfig.CivoProviderConfig{ApiToken: civoToken, ApiEndpoint: w.civoURL},
			pulumicivoprovider.Region("LON1"))
		if err != nil {
			return err
		}
		network, err := civovpc.New(ctx, "net", &civovpc.Args{Spec: spec(civoVpc).(*civovpcv1.CivoVpc).Spec, Provider: civoProvider})
		if err != nil {
			return err
		}
		firewallSpec := spec(civoFirewallManifest).(*civofirewallv1.CivoFirewall).Spec
		firewallSpec.Region = civoconfig.CivoRegion_lon1
		firewall, err := civofirewall.New(ctx, "fw", &civofirewall.Args{
			Spec: firewallSpec, NetworkId: network.NetworkId, Provider: civoProvider,
		})
		if err != nil {
			return err
		}
		clusterSpec := spec(civoClusterManifest).(*civokubernetesclusterv1.CivoKubernetesCluster).Spec
		clusterSpec.AdditionalNodePools = nil
		cluster, err := civocluster.New(ctx, "prod", &civocluster.Args{
			Spec: clusterSpec, NetworkId: network.NetworkId, FirewallId: firewall.FirewallId, Provider: civoProvider,
		})
		if err != nil {
			return err
		}
		poolSpec := spec(civoPoolManifest).(*civokubernetesnodepoolv1.CivoKubernetesNodePool).Spec
		poolSpec.Region = civoconfig.CivoRegion_lon1
		if _, err := civonodepool.New(ctx, "app", &civonodepool.Args{
			Spec: poolSpec, ClusterId: cluster.ClusterId, Provider: civoProvider,
		}); err != nil {
			return err
		}

		digitaloceanProvider, err := pulumidigitaloceanprovider.Get(ctx,
			&digitaloceanconfig.DigitalOceanProviderConfig{ApiToken: digitaloceanToken, ApiEndpoint: w.doURL})
		if err != nil {
			return err
		}
		vpc, err := digitaloceanvpcmodule.New(ctx, "do-net", &digitaloceanvpcmodule.Args{
			Spec: spec(digitaloceanVpc).(*digitaloceanvpcv1.DigitalOceanVpc).Spec, Provider: digitaloceanProvider,
		})
		if err != nil {
			return err
		}
		doksSpec := spec(digitaloceanClusterManifest).(*digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster).Spec
		doksSpec.AdditionalNodePools = nil
		doks, err := digitaloceancluster.New(ctx, "do-prod", &digitaloceancluster.Args{
			Spec: doksSpec, VpcId: vpc.VpcId, Provider: digitaloceanProvider,
		})
		if err != nil {
			return err
		}
		_, err = digitaloceannodepool.New(ctx, "do-app", &digitaloceannodepool.Args{
			Spec:      spec(digitaloceanPoolManifest).(*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool).Spec,
			ClusterId: doks.ClusterId, Provider: digitaloceanProvider,
		})
		return err
	}
}

// recordedResource is a resource of an exported stack.
type recordedResource = map[string]any

// resourcesOf are the resources of the stack that have an official form, by type.
func resourcesOf(t *testing.T, deployment map[string]any, forms map[string]officialForm) map[string]recordedResource {
	t.Helper()
	found := map[string]recordedResource{}
	for _, one := range deployment["resources"].([]any) {
		one := one.(recordedResource)
		if _, ok := forms[one["type"].(string)]; ok {
			found[one["type"].(string)] = one
		}
	}
	if len(found) != len(forms) {
		t.Fatalf("the stack has %d of %d types", len(found), len(forms))
	}
	return found
}

// officially is a value in the form of the official plugin: what the native one recorded of it, and where that has nothing, what the
// official one records.
func officially(form, native any) any {
	if native == nil {
		return form
	}
	of, ok := form.(map[string]any)
	with, both := native.(map[string]any)
	if !ok || !both {
		return native
	}
	made := map[string]any{}
	for key, value := range of {
		// Maps of the user, such as labels, hold the user's keys alone.
		made[key] = officially(value, with[key])
		if (key == "labels") && with[key] != nil {
			made[key] = with[key]
		}
	}
	return made
}

// A live stack that the official plugins made goes over to the native ones without a change, and what those leave has all that the
// official ones recorded.
func TestOfficialStateIsTakenOverAndGivenBack(t *testing.T) {
	t.Parallel()
	if pluginsUnderTest() == official {
		t.Skip("this test is about the native plugins; it makes the official state itself")
	}
	w := newWorld(t)
	forms := officialForms(t)
	opened, err := auto.UpsertStackInlineSource(t.Context(), "organization/takeover/dev", "takeover", sevenKinds(w),
		auto.Pulumi(w.oneRead()), auto.EnvVars(w.env), auto.SecretsProvider(vaultemulator.SecretsProvider))
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{world: w, auto: opened}
	s.up()
	s.refresh() // a pool that was made has changed its cluster

	// The stack as the official plugins would have recorded it.
	export := func() (untyped map[string]any) {
		exported, err := opened.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(exported.Deployment, &untyped); err != nil {
			t.Fatal(err)
		}
		return untyped
	}
	deployment := export()
	before := map[string]map[string]any{}
	for token, one := range resourcesOf(t, deployment, forms) {
		form := forms[token]
		outputs, _ := officially(form.Outputs, one["outputs"]).(map[string]any)
		for key, value := range form.Outputs {
			if strings.HasPrefix(key, "__") {
				outputs[key] = value
			}
		}
		one["outputs"], before[token] = outputs, outputs
	}
	text, err := json.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := opened.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exported.Deployment = text
	if err := opened.Import(t.Context(), exported); err != nil {
		t.Fatal(err)
	}

	if planned := s.preview(); len(planned) != 0 {
		t.Errorf("the native plugins plan %v", planned)
	}
	if got, _ := s.up(optup.Refresh()); len(got) != 0 {
		t.Errorf("up with a refresh changes %v", got)
	}
	for token, one := range resourcesOf(t, export(), forms) {
		after := one["outputs"].(map[string]any)
		for _, difference := range differences("", before[token], after) {
			t.Errorf("%s: %s", token, difference)
		}
		for _, secret := range forms[token].Secrets {
			if envelope, _ := after[secret].(map[string]any); envelope[secretSignature] == nil {
				t.Errorf("%s: %s is no secret any more", token, secret)
			}
		}
	}
}

// differences tells what the official plugin recorded and the native one did not leave.
func differences(path string, official, native any) []string {
	switch official := official.(type) {
	case map[string]any:
		with, ok := native.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, the official plugin recorded an object", path, native)}
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(official)) {
			if key == "__pulumi_raw_state_delta" {
				continue // tells how the bridge wrote this very state; without one it reads the state as it is
			}
			value, there := with[key]
			if !there && official[key] == nil {
				continue // null and absent are one to the engine and to the bridge
			}
			if !there {
				all = append(all, fmt.Sprintf("%s.%s is missing, the official plugin recorded %v", path, key, official[key]))
				continue
			}
			all = append(all, differences(path+"."+key, official[key], value)...)
		}
		return all
	case []any:
		with, ok := native.([]any)
		if !ok || len(with) != len(official) {
			return []string{fmt.Sprintf("%s is %v, the official plugin recorded %v", path, native, official)}
		}
		var all []string
		for i := range official {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), official[i], with[i])...)
		}
		return all
	default:
		if !cmp.Equal(official, native) {
			return []string{fmt.Sprintf("%s is %v, the official plugin recorded %v", path, native, official)}
		}
		return nil
	}
}
