package reconcile

import (
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// PoolLabel is the Kubernetes label that every node of a pool carries, unless the spec says otherwise: the pool's name, by which
// `kubectl get nodes -l nodepool=NAME` finds them.
const PoolLabel = "nodepool"

// organization is the org in the metadata of the service's manifests, so that its stacks are told from those of people.
const organization = "nodepools"

// apiVersion is that of a provider's manifests.
func apiVersion(provider string) string {
	if provider == kinds.Civo {
		return "civo.project-planton.org/v1"
	}
	return "digital-ocean.project-planton.org/v1"
}

// metadata names the stack of an object: by its id, which is never used again, so that a new object of an old name has a stack of
// its own.
func metadata(id string) *shared.CloudResourceMetadata {
	return &shared.CloudResourceMetadata{Name: nameOf(id), Id: id, Org: organization}
}

// nameOf is the name of an object's manifests: its id without dashes, which a stack's name has room for as it is. Clients choose ids: of a
// name that is cut, one could look for another that gets the same hash.
func nameOf(id string) string { return strings.ReplaceAll(id, "-", "") }

// literal is a reference that is a value.
func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

// reference refers to another manifest by its name.
func reference(name string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{
		ValueFrom: &foreignkeyv1.ValueFromRef{Name: name},
	}}
}

// clusterManifests are what a cluster consists of: the cluster, and the network that is made with it.
func clusterManifests(cluster *nodepoolsv1.Cluster) ([]*manifest.Manifest, error) {
	platform := cluster.GetSpec().GetPlatform()
	switch platform.GetType() {
	case kinds.Civo:
		settings := platform.GetCivo()
		target := &civokubernetesclusterv1.CivoKubernetesCluster{
			ApiVersion: apiVersion(kinds.Civo), Kind: "CivoKubernetesCluster", Metadata: metadata(cluster.GetId()),
			Spec: &civokubernetesclusterv1.CivoKubernetesClusterSpec{
				ClusterName:       cluster.GetName(),
				Region:            civov1.CivoRegion(civov1.CivoRegion_value[settings.GetRegion()]),
				KubernetesVersion: cluster.GetSpec().GetKubernetesVersion(),
				DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{
					Size: settings.GetDefaultNodePool().GetSize(), NodeCount: unsigned(settings.GetDefaultNodePool().GetNodeCount()),
				},
			},
		}
		if settings.NetworkId != nil {
			target.Spec.Network = literal(settings.GetNetworkId())
			return manifests(target)
		}
		target.Spec.Network = reference(nameOf(cluster.GetId()))
		return manifests(&civovpcv1.CivoVpc{
			ApiVersion: apiVersion(kinds.Civo), Kind: "CivoVpc", Metadata: metadata(cluster.GetId()),
			Spec: &civovpcv1.CivoVpcSpec{NetworkName: cluster.GetName(), Region: settings.GetRegion()},
		}, target)
	case kinds.DigitalOcean:
		settings := platform.GetDigitalocean()
		target := &digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{
			ApiVersion: apiVersion(kinds.DigitalOcean), Kind: "DigitalOceanKubernetesCluster", Metadata: metadata(cluster.GetId()),
			Spec: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{
				ClusterName:       cluster.GetName(),
				Region:            digitaloceanv1.DigitalOceanRegion(digitaloceanv1.DigitalOceanRegion_value[settings.GetRegion()]),
				KubernetesVersion: cluster.GetSpec().GetKubernetesVersion(),
				HighlyAvailable:   settings.GetHighlyAvailable(),
				DefaultNodePool: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{
					Size: settings.GetDefaultNodePool().GetSize(), NodeCount: unsigned(settings.GetDefaultNodePool().GetNodeCount()),
				},
			},
		}
		if settings.VpcId != nil {
			target.Spec.Vpc = literal(settings.GetVpcId())
		}
		return manifests(target)
	}
	return nil, errors.Errorf("the service provisions no clusters of platform %q", platform.GetType())
}

// poolManifests are what a pool consists of, in the cluster that the cloud knows by an id.
func poolManifests(cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool, cloudID string) ([]*manifest.Manifest, error) {
	spec := pool.GetSpec()
	size := sizeOf(spec)
	switch spec.GetPlatform().GetType() {
	case kinds.Civo:
		target := &civokubernetesnodepoolv1.CivoKubernetesNodePool{
			ApiVersion: apiVersion(kinds.Civo), Kind: "CivoKubernetesNodePool", Metadata: metadata(pool.GetId()),
			Spec: &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{
				NodePoolName: pool.GetName(),
				Cluster:      literal(cloudID),
				Size:         spec.GetPlatform().GetCivo().GetSize(),
				PublicIp:     spec.GetPlatform().GetCivo().GetPublicIp(),
				Region:       civov1.CivoRegion(civov1.CivoRegion_value[cluster.GetSpec().GetPlatform().GetCivo().GetRegion()]),
				NodeCount:    size.count, AutoScale: size.scales, MinNodes: size.min, MaxNodes: size.max,
				Labels: labels(pool),
			},
		}
		for _, taint := range spec.GetTaints() {
			target.Spec.Taints = append(target.Spec.Taints, &civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint{
				Key: taint.GetKey(), Value: taint.GetValue(), Effect: taint.GetEffect(),
			})
		}
		return manifests(target)
	case kinds.DigitalOcean:
		target := &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{
			ApiVersion: apiVersion(kinds.DigitalOcean), Kind: "DigitalOceanKubernetesNodePool", Metadata: metadata(pool.GetId()),
			Spec: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{
				NodePoolName: pool.GetName(),
				Cluster:      literal(cloudID),
				Size:         spec.GetPlatform().GetDigitalocean().GetSize(),
				Tags:         spec.GetPlatform().GetDigitalocean().GetTags(),
				NodeCount:    size.count, AutoScale: size.scales, MinNodes: size.min, MaxNodes: size.max,
				Labels: labels(pool),
			},
		}
		for _, taint := range spec.GetTaints() {
			target.Spec.Taints = append(target.Spec.Taints, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
				Key: taint.GetKey(), Value: taint.GetValue(), Effect: taint.GetEffect(),
			})
		}
		return manifests(target)
	}
	return nil, errors.Errorf("the service provisions no node pools of platform %q", spec.GetPlatform().GetType())
}

// size is how many nodes a pool has.
type size struct {
	scales          bool
	count, min, max uint32
}

// sizeOf reads the size of a spec. With autoscaling, and without a count, a pool begins with the fewest nodes, of which there is at
// least one.
func sizeOf(spec *nodepoolsv1.NodePoolSpec) size {
	s := size{count: unsigned(spec.GetNodeCount())}
	if !spec.GetAutoscaling().GetEnabled() {
		return s
	}
	s.scales, s.min, s.max = true, unsigned(spec.GetAutoscaling().GetMinNodes()), unsigned(spec.GetAutoscaling().GetMaxNodes())
	if spec.NodeCount == nil {
		s.count = max(s.min, 1)
	}
	return s
}

// unsigned is a count of the API, whose rules refuse negative ones.
func unsigned(count int32) uint32 { return uint32(max(count, 0)) }

// labels are those of a pool's nodes.
func labels(pool *nodepoolsv1.NodePool) map[string]string {
	all := map[string]string{PoolLabel: pool.GetName()}
	for key, value := range pool.GetSpec().GetLabels() {
		all[key] = value
	}
	return all
}

// manifests puts messages into the form that stacks are made of.
func manifests(targets ...proto.Message) ([]*manifest.Manifest, error) {
	all := make([]*manifest.Manifest, 0, len(targets))
	for _, target := range targets {
		kind, ok := kinds.Of(target)
		if !ok {
			return nil, errors.Errorf("%T is of no kind", target)
		}
		all = append(all, &manifest.Manifest{
			Kind: kind, Target: target, Source: manifest.Source{File: strings.ToLower(kind.Name) + "/" + kinds.Metadata(target).GetName()},
		})
	}
	return all, nil
}
