// Package apis_test checks what is promised about the protos as a whole: the public API that manifests and stored messages were
// written for.
package apis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const root = "org.project_planton."

type kind struct {
	name, apiVersion, idPrefix, pkg string
	number                          protoreflect.EnumNumber
	target, stackInput              proto.Message
	providerConfig                  protoreflect.FullName
}

// kinds are the kinds as the public API has them: number and id prefix, and where their messages stand.
var kinds = []kind{
	{"DigitalOceanKubernetesCluster", "digital-ocean.project-planton.org/v1", "dokc", "provider.digitalocean.digitaloceankubernetescluster.v1.", 1208,
		&digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{}, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput{}, root + "provider.digitalocean.DigitalOceanProviderConfig"},
	{"DigitalOceanKubernetesNodePool", "digital-ocean.project-planton.org/v1", "doknp", "provider.digitalocean.digitaloceankubernetesnodepool.v1.", 1209,
		&digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{}, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput{}, root + "provider.digitalocean.DigitalOceanProviderConfig"},
	{"DigitalOceanVpc", "digital-ocean.project-planton.org/v1", "dovpc", "provider.digitalocean.digitaloceanvpc.v1.", 1212,
		&digitaloceanvpcv1.DigitalOceanVpc{}, &digitaloceanvpcv1.DigitalOceanVpcStackInput{}, root + "provider.digitalocean.DigitalOceanProviderConfig"},
	{"CivoFirewall", "civo.project-planton.org/v1", "cifw", "provider.civo.civofirewall.v1.", 1505,
		&civofirewallv1.CivoFirewall{}, &civofirewallv1.CivoFirewallStackInput{}, root + "provider.civo.CivoProviderConfig"},
	{"CivoKubernetesCluster", "civo.project-planton.org/v1", "cikc", "provider.civo.civokubernetescluster.v1.", 1507,
		&civokubernetesclusterv1.CivoKubernetesCluster{}, &civokubernetesclusterv1.CivoKubernetesClusterStackInput{}, root + "provider.civo.CivoProviderConfig"},
	{"CivoKubernetesNodePool", "civo.project-planton.org/v1", "ciknp", "provider.civo.civokubernetesnodepool.v1.", 1508,
		&civokubernetesnodepoolv1.CivoKubernetesNodePool{}, &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{}, root + "provider.civo.CivoProviderConfig"},
	{"CivoVpc", "civo.project-planton.org/v1", "civpc", "provider.civo.civovpc.v1.", 1510,
		&civovpcv1.CivoVpc{}, &civovpcv1.CivoVpcStackInput{}, root + "provider.civo.CivoProviderConfig"},
}

// public holds each message of the public API with its fields as `name=number type`, all of them. [] marks a list, a type in
// upper camel case is a message or enum (its short name). A message of ours alone is not in the table.
var public = map[string]string{
	"shared.CloudResourceMetadata": `name=1 string, slug=2 string, id=3 string, org=4 string, env=5 string, labels=6 map,
		annotations=7 map, tags=8 []string, relationships=9 []CloudResourceRelationship, group=10 string`,
	"shared.foreignkey.v1.StringValueOrRef": `value=1 string, value_from=2 ValueFromRef`,
	"shared.foreignkey.v1.ValueFromRef":     `kind=1 CloudResourceKind, env=2 string, name=3 string, field_path=4 string`,

	"provider.civo.CivoProviderConfig": `api_token=1 string, default_region=2 CivoRegion, object_store_access_id=3 string,
		object_store_secret_key=4 string`,
	"provider.digitalocean.DigitalOceanProviderConfig": `api_token=1 string, default_region=2 DigitalOceanRegion,
		spaces_access_id=3 string, spaces_secret_key=4 string`,

	"provider.civo.civovpc.v1.CivoVpcSpec": `civo_credential_id=1 string, network_name=2 string, region=3 string,
		ip_range_cidr=4 string, is_default_for_region=5 bool, description=6 string`,
	"provider.civo.civovpc.v1.CivoVpcStackOutputs": `network_id=1 string, cidr_block=2 string, created_at_rfc3339=3 string`,

	"provider.civo.civofirewall.v1.CivoFirewallSpec": `name=1 string, network_id=2 StringValueOrRef,
		inbound_rules=3 []CivoFirewallRule, outbound_rules=4 []CivoFirewallRule, tags=5 []string`,
	"provider.civo.civofirewall.v1.CivoFirewallRule":         `protocol=1 string, port_range=2 string, cidrs=3 []string, action=4 string, label=5 string`,
	"provider.civo.civofirewall.v1.CivoFirewallStackOutputs": `firewall_id=1 string, created_at_rfc3339=2 string`,

	"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterSpec": `cluster_name=1 string, region=2 CivoRegion,
		kubernetes_version=3 string, network=4 StringValueOrRef, highly_available=5 bool, auto_upgrade=6 bool,
		disable_surge_upgrade=7 bool, tags=8 []string, default_node_pool=9 CivoKubernetesClusterDefaultNodePool`,
	"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterDefaultNodePool": `size=1 string, node_count=2 uint32`,
	"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterStackOutputs": `cluster_id=1 string, kubeconfig_b64=2 string,
		api_server_endpoint=3 string, created_at_rfc3339=4 string`,

	"provider.civo.civokubernetesnodepool.v1.CivoKubernetesNodePoolSpec": `node_pool_name=1 string, cluster=2 StringValueOrRef,
		size=3 string, node_count=4 uint32, auto_scale=5 bool, min_nodes=6 uint32, max_nodes=7 uint32, tags=8 []string`,
	"provider.civo.civokubernetesnodepool.v1.CivoKubernetesNodePoolStackOutputs": `node_pool_id=1 string, node_ids=2 []string`,

	"provider.digitalocean.digitaloceanvpc.v1.DigitalOceanVpcSpec": `description=1 string, region=2 DigitalOceanRegion,
		ip_range_cidr=3 string, is_default_for_region=4 bool`,
	"provider.digitalocean.digitaloceanvpc.v1.DigitalOceanVpcStackOutputs": `vpc_id=1 string, urn=2 string, created_at_rfc3339=3 string`,

	"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterSpec": `cluster_name=1 string,
		region=2 DigitalOceanRegion, kubernetes_version=3 string, vpc=4 StringValueOrRef, highly_available=5 bool, auto_upgrade=6 bool,
		disable_surge_upgrade=7 bool, maintenance_window=8 string, registry_integration=9 bool,
		control_plane_firewall_allowed_ips=10 []string, tags=11 []string,
		default_node_pool=12 DigitalOceanKubernetesClusterDefaultNodePool`,
	"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterDefaultNodePool": `size=1 string,
		node_count=2 uint32, auto_scale=3 bool, min_nodes=4 uint32, max_nodes=5 uint32`,
	"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterStackOutputs": `cluster_id=1 string,
		kubeconfig=2 string, api_server_endpoint=3 string`,

	"provider.digitalocean.digitaloceankubernetesnodepool.v1.DigitalOceanKubernetesNodePoolSpec": `node_pool_name=1 string,
		cluster=2 StringValueOrRef, size=3 string, node_count=4 uint32, auto_scale=5 bool, min_nodes=6 uint32, max_nodes=7 uint32,
		labels=8 map, taints=9 []DigitalOceanKubernetesNodePoolTaint, tags=10 []string`,
	"provider.digitalocean.digitaloceankubernetesnodepool.v1.DigitalOceanKubernetesNodePoolTaint":        `key=1 string, value=2 string, effect=3 string`,
	"provider.digitalocean.digitaloceankubernetesnodepool.v1.DigitalOceanKubernetesNodePoolStackOutputs": `node_pool_id=1 string, node_ids=2 []string`,
}

// enums holds the public enums, by value.
var enums = map[string]map[string]protoreflect.EnumNumber{
	"provider.civo.CivoRegion": {
		"civo_region_unspecified": 0, "lon1": 1, "lon2": 2, "fra1": 3, "nyc1": 4, "phx1": 5, "mum1": 6,
	},
	"provider.digitalocean.DigitalOceanRegion": {
		"digital_ocean_region_unspecified": 0, "nyc3": 1, "sfo3": 2, "fra1": 3, "sgp1": 4, "lon1": 5, "tor1": 6, "blr1": 7, "ams3": 8,
	},
	"shared.cloudresourcekind.CloudResourceKind": {
		"unspecified": 0, "DigitalOceanKubernetesCluster": 1208, "DigitalOceanKubernetesNodePool": 1209, "DigitalOceanVpc": 1212,
		"CivoFirewall": 1505, "CivoKubernetesCluster": 1507, "CivoKubernetesNodePool": 1508, "CivoVpc": 1510,
	},
}

// oursAlone are the messages that the public API does not have: their fields may have any numbers.
var oursAlone = []string{
	"shared.CloudResourceRelationship", // the public API has the field, not its message's shape
	"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterNodePool",
	"provider.civo.civokubernetesnodepool.v1.CivoKubernetesNodePoolTaint",
	"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterNodePool",
	"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterAutoscalerConfiguration",
	"shared.cloudresourcekind.KindMeta",
}

func init() {
	for _, kind := range kinds {
		public[kind.pkg+kind.name] = fmt.Sprintf(
			"api_version=1 string, kind=2 string, metadata=3 CloudResourceMetadata, spec=4 %[1]sSpec, status=5 %[1]sStatus", kind.name)
		public[kind.pkg+kind.name+"Status"] = fmt.Sprintf("outputs=1 %sStackOutputs", kind.name)
		config := string(kind.providerConfig.Name())
		public[kind.pkg+kind.name+"StackInput"] = fmt.Sprintf("target=1 %s, provider_config=2 %s", kind.name, config)
	}
}

func message(t *testing.T, name string) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(root + name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// describe renders a field as the table does.
func describe(fd protoreflect.FieldDescriptor) string {
	kind := fd.Kind().String()
	switch {
	case fd.IsMap():
		kind = "map"
	case fd.Message() != nil:
		kind = string(fd.Message().Name())
	case fd.Enum() != nil:
		kind = string(fd.Enum().Name())
	}
	if fd.IsList() {
		kind = "[]" + kind
	}
	return fmt.Sprintf("%s=%d %s", fd.Name(), fd.Number(), kind)
}

func TestPublicFields(t *testing.T) {
	t.Parallel()
	for name, fields := range public {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := message(t, name)
			var want, got []string
			for _, field := range strings.Split(fields, ",") {
				want = append(want, strings.TrimSpace(field))
			}
			for i := range md.Fields().Len() {
				fd := md.Fields().Get(i)
				if fd.Number() < 101 {
					got = append(got, describe(fd))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields with numbers up to 100 are those of the public API, no more and no fewer (-public +ours):\n%s", diff)
			}
		})
	}
}

func TestPublicEnums(t *testing.T) {
	t.Parallel()
	for name, want := range enums {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(root + name))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]protoreflect.EnumNumber{}
			values := d.(protoreflect.EnumDescriptor).Values()
			for i := range values.Len() {
				value := values.Get(i)
				// A region that was added has a number that the public API will hardly use.
				if _, isPublic := want[string(value.Name())]; !isPublic && value.Number() >= 101 && strings.HasSuffix(name, "Region") {
					continue
				}
				got[string(value.Name())] = value.Number()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-public +ours):\n%s", diff)
			}
		})
	}
}

// Every message of ours is either in the table or known to be ours alone, so that none escapes the checks above.
func TestEveryMessageIsAccountedFor(t *testing.T) {
	t.Parallel()
	var messages func(protoreflect.MessageDescriptors)
	messages = func(mds protoreflect.MessageDescriptors) {
		for i := range mds.Len() {
			md := mds.Get(i)
			if md.IsMapEntry() {
				continue
			}
			name := strings.TrimPrefix(string(md.FullName()), root)
			if _, isPublic := public[name]; !isPublic && !slices.Contains(oursAlone, name) {
				t.Errorf("%s is in no table", name)
			}
			messages(md.Messages())
		}
	}
	count := 0
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(fd.Package()), root) {
			count++
			messages(fd.Messages())
		}
		return true
	})
	if count < 4*len(kinds) {
		t.Errorf("%d files are registered, want four a kind at least", count)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			value := cloudresourcekind.CloudResourceKind(0).Descriptor().Values().ByNumber(kind.number)
			if value == nil || string(value.Name()) != kind.name {
				t.Fatalf("kind %d is %v, want %s", kind.number, value, kind.name)
			}
			meta := proto.GetExtension(value.Options(), cloudresourcekind.E_KindMeta).(*cloudresourcekind.KindMeta)
			want := &cloudresourcekind.KindMeta{ApiVersion: kind.apiVersion, IdPrefix: kind.idPrefix}
			if diff := cmp.Diff(want, meta, protocmp.Transform()); diff != "" {
				t.Errorf("kind_meta (-want +got):\n%s", diff)
			}
			if name := kind.target.ProtoReflect().Descriptor().FullName(); string(name) != root+kind.pkg+kind.name {
				t.Errorf("the message is %s", name)
			}
			fields := kind.stackInput.ProtoReflect().Descriptor().Fields()
			if fd := fields.ByNumber(1); fd.Name() != "target" || fd.Message().FullName() != kind.target.ProtoReflect().Descriptor().FullName() {
				t.Errorf("field 1 of the stack input is %s", describe(fd))
			}
			if fd := fields.ByNumber(2); fd.Name() != "provider_config" || fd.Message().FullName() != kind.providerConfig {
				t.Errorf("field 2 of the stack input is %s", describe(fd))
			}
		})
	}
}

// A reference names what it means when it names no kind and no field: outputs, because an id is what the clouds' APIs want.
func TestReferenceDefaults(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"provider.civo.civofirewall.v1.CivoFirewallSpec.network_id":                                          "CivoVpc status.outputs.network_id",
		"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterSpec.network":                           "CivoVpc status.outputs.network_id",
		"provider.civo.civokubernetescluster.v1.CivoKubernetesClusterSpec.firewall":                          "CivoFirewall status.outputs.firewall_id",
		"provider.civo.civokubernetesnodepool.v1.CivoKubernetesNodePoolSpec.cluster":                         "CivoKubernetesCluster status.outputs.cluster_id",
		"provider.digitalocean.digitaloceankubernetescluster.v1.DigitalOceanKubernetesClusterSpec.vpc":       "DigitalOceanVpc status.outputs.vpc_id",
		"provider.digitalocean.digitaloceankubernetesnodepool.v1.DigitalOceanKubernetesNodePoolSpec.cluster": "DigitalOceanKubernetesCluster status.outputs.cluster_id",
	}
	got := map[string]string{}
	for name := range public {
		md := message(t, name)
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.Message() == nil || fd.Message().Name() != "StringValueOrRef" {
				continue
			}
			defaultKind := proto.GetExtension(fd.Options(), foreignkeyv1.E_DefaultKind).(cloudresourcekind.CloudResourceKind)
			path := proto.GetExtension(fd.Options(), foreignkeyv1.E_DefaultKindFieldPath).(string)
			got[strings.TrimPrefix(string(fd.FullName()), root)] = defaultKind.String() + " " + path

			// The default is an output that the kind really has.
			output := strings.TrimPrefix(path, "status.outputs.")
			at := slices.IndexFunc(kinds, func(k kind) bool {
				return k.number == defaultKind.Number()
			})
			if at < 0 || message(t, kinds[at].pkg+kinds[at].name+"StackOutputs").Fields().ByName(protoreflect.Name(output)) == nil {
				t.Errorf("%s: %s has no output %q", fd.FullName(), defaultKind, output)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, extension := range map[string]protoreflect.ExtensionType{
		"default_kind": foreignkeyv1.E_DefaultKind, "default_kind_field_path": foreignkeyv1.E_DefaultKindFieldPath,
	} {
		wantNumber := map[string]protoreflect.FieldNumber{"default_kind": 200001, "default_kind_field_path": 200002}[name]
		if got := extension.TypeDescriptor().Number(); got != wantNumber {
			t.Errorf("option %s has number %d, want %d", name, got, wantNumber)
		}
	}
}

// wire builds a message by hand from field numbers, as a program does that knows the public API alone.
type wire []byte

func (w wire) text(number protowire.Number, value string) wire {
	return wire(protowire.AppendString(protowire.AppendTag(w, number, protowire.BytesType), value))
}

func (w wire) number(number protowire.Number, value uint64) wire {
	return wire(protowire.AppendVarint(protowire.AppendTag(w, number, protowire.VarintType), value))
}

func (w wire) message(number protowire.Number, value wire) wire {
	return wire(protowire.AppendBytes(protowire.AppendTag(w, number, protowire.BytesType), value))
}

// A stored message of the public API decodes to the same manifest as its YAML, in either case of the keys, and is valid.
func TestStoredAndWrittenManifestsRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		stored      wire
		camel       string
		snake       string
		empty, want proto.Message
	}{
		{
			name: "CivoKubernetesCluster",
			stored: wire{}.text(1, "civo.project-planton.org/v1").text(2, "CivoKubernetesCluster").
				message(3, wire{}.text(1, "prod-cluster").text(2, "prod-cluster").text(3, "cikc-prod-123").text(4, "acme").text(5, "prod").
					message(6, wire{}.text(1, "team").text(2, "platform")).text(8, "a").text(8, "b").text(10, "clusters")).
				message(4, wire{}.text(1, "prod-k8s").number(2, 3).text(3, "1.29.0+k3s1").
					message(4, wire{}.message(2, wire{}.number(1, 1510).text(2, "prod").text(3, "main").text(4, "status.outputs.network_id"))).
					number(5, 1).number(6, 1).number(7, 1).text(8, "prod").
					message(9, wire{}.text(1, "g4s.kube.large").number(2, 5))).
				message(5, wire{}.message(1, wire{}.text(1, "id").text(2, "a3ViZQ==").text(3, "https://203.0.113.7:6443").text(4, "2024-01-01T00:00:00Z"))),
			camel: `{"apiVersion": "civo.project-planton.org/v1", "kind": "CivoKubernetesCluster",
				"metadata": {"name": "prod-cluster", "slug": "prod-cluster", "id": "cikc-prod-123", "org": "acme", "env": "prod",
					"labels": {"team": "platform"}, "tags": ["a", "b"], "group": "clusters"},
				"spec": {"clusterName": "prod-k8s", "region": "fra1", "kubernetesVersion": "1.29.0+k3s1",
					"network": {"valueFrom": {"kind": "CivoVpc", "env": "prod", "name": "main", "fieldPath": "status.outputs.network_id"}},
					"highlyAvailable": true, "autoUpgrade": true, "disableSurgeUpgrade": true, "tags": ["prod"],
					"defaultNodePool": {"size": "g4s.kube.large", "nodeCount": 5}},
				"status": {"outputs": {"clusterId": "id", "kubeconfigB64": "a3ViZQ==", "apiServerEndpoint": "https://203.0.113.7:6443",
					"createdAtRfc3339": "2024-01-01T00:00:00Z"}}}`,
			snake: `{"api_version": "civo.project-planton.org/v1", "kind": "CivoKubernetesCluster",
				"metadata": {"name": "prod-cluster", "slug": "prod-cluster", "id": "cikc-prod-123", "org": "acme", "env": "prod",
					"labels": {"team": "platform"}, "tags": ["a", "b"], "group": "clusters"},
				"spec": {"cluster_name": "prod-k8s", "region": "fra1", "kubernetes_version": "1.29.0+k3s1",
					"network": {"value_from": {"kind": "CivoVpc", "env": "prod", "name": "main", "field_path": "status.outputs.network_id"}},
					"highly_available": true, "auto_upgrade": true, "disable_surge_upgrade": true, "tags": ["prod"],
					"default_node_pool": {"size": "g4s.kube.large", "node_count": 5}},
				"status": {"outputs": {"cluster_id": "id", "kubeconfig_b64": "a3ViZQ==", "api_server_endpoint": "https://203.0.113.7:6443",
					"created_at_rfc3339": "2024-01-01T00:00:00Z"}}}`,
			empty: &civokubernetesclusterv1.CivoKubernetesCluster{},
			want: &civokubernetesclusterv1.CivoKubernetesCluster{
				ApiVersion: "civo.project-planton.org/v1", Kind: "CivoKubernetesCluster",
				Metadata: &shared.CloudResourceMetadata{
					Name: "prod-cluster", Slug: "prod-cluster", Id: "cikc-prod-123", Org: "acme", Env: "prod",
					Labels: map[string]string{"team": "platform"}, Tags: []string{"a", "b"}, Group: "clusters",
				},
				Spec: &civokubernetesclusterv1.CivoKubernetesClusterSpec{
					ClusterName: "prod-k8s", Region: civo.CivoRegion_fra1, KubernetesVersion: "1.29.0+k3s1",
					Network: &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{
						Kind: cloudresourcekind.CloudResourceKind_CivoVpc, Env: "prod", Name: "main", FieldPath: "status.outputs.network_id",
					}}},
					HighlyAvailable: true, AutoUpgrade: true, DisableSurgeUpgrade: true, Tags: []string{"prod"},
					DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{Size: "g4s.kube.large", NodeCount: 5},
				},
				Status: &civokubernetesclusterv1.CivoKubernetesClusterStatus{Outputs: &civokubernetesclusterv1.CivoKubernetesClusterStackOutputs{
					ClusterId: "id", KubeconfigB64: "a3ViZQ==", ApiServerEndpoint: "https://203.0.113.7:6443", CreatedAtRfc3339: "2024-01-01T00:00:00Z",
				}},
			},
		},
		{
			name: "DigitalOceanKubernetesNodePool",
			stored: wire{}.text(1, "digital-ocean.project-planton.org/v1").text(2, "DigitalOceanKubernetesNodePool").
				message(3, wire{}.text(1, "workers")).
				message(4, wire{}.text(1, "workers").message(2, wire{}.text(1, "id")).text(3, "s-4vcpu-8gb").number(4, 3).number(5, 1).
					number(6, 2).number(7, 10).message(8, wire{}.text(1, "team").text(2, "data")).
					message(9, wire{}.text(1, "dedicated").text(2, "db").text(3, "NoSchedule")).text(10, "prod")),
			camel: `{"apiVersion": "digital-ocean.project-planton.org/v1", "kind": "DigitalOceanKubernetesNodePool", "metadata": {"name": "workers"},
				"spec": {"nodePoolName": "workers", "cluster": {"value": "id"}, "size": "s-4vcpu-8gb", "nodeCount": 3, "autoScale": true,
					"minNodes": 2, "maxNodes": 10, "labels": {"team": "data"},
					"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}], "tags": ["prod"]}}`,
			snake: `{"api_version": "digital-ocean.project-planton.org/v1", "kind": "DigitalOceanKubernetesNodePool", "metadata": {"name": "workers"},
				"spec": {"node_pool_name": "workers", "cluster": {"value": "id"}, "size": "s-4vcpu-8gb", "node_count": 3, "auto_scale": true,
					"min_nodes": 2, "max_nodes": 10, "labels": {"team": "data"},
					"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}], "tags": ["prod"]}}`,
			empty: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{},
			want: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{
				ApiVersion: "digital-ocean.project-planton.org/v1", Kind: "DigitalOceanKubernetesNodePool",
				Metadata: &shared.CloudResourceMetadata{Name: "workers"},
				Spec: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{
					NodePoolName: "workers",
					Cluster:      &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: "id"}},
					Size:         "s-4vcpu-8gb", NodeCount: 3, AutoScale: true, MinNodes: 2, MaxNodes: 10,
					Labels: map[string]string{"team": "data"},
					Taints: []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{{Key: "dedicated", Value: "db", Effect: "NoSchedule"}},
					Tags:   []string{"prod"},
				},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check := func(form string, read func(proto.Message) error) {
				t.Helper()
				got := proto.Clone(tc.empty)
				if err := read(got); err != nil {
					t.Errorf("%s: %v", form, err)
					return
				}
				if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", form, diff)
				}
				if err := validation.Validate(got); err != nil {
					t.Errorf("%s: %v", form, err)
				}
			}
			check("stored", func(m proto.Message) error { return proto.Unmarshal(tc.stored, m) })
			check("JSON, camelCase", func(m proto.Message) error { return protojson.Unmarshal([]byte(tc.camel), m) })
			check("JSON, snake_case", func(m proto.Message) error { return protojson.Unmarshal([]byte(tc.snake), m) })
			check("YAML, camelCase", func(m proto.Message) error { return protoyaml.Unmarshal([]byte(tc.camel), m) })
			check("YAML, snake_case", func(m proto.Message) error { return protoyaml.Unmarshal([]byte(tc.snake), m) })
		})
	}
}
