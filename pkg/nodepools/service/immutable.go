package service

import (
	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// immutable collects fields that cannot change.
type immutable struct {
	violations []validation.Violation
}

func (i *immutable) text(field, before, after, advice string) {
	if before != after {
		i.violations = append(i.violations, validation.Violation{
			FieldPath: field, RuleID: "immutable", Message: "cannot change: it is '" + before + "', not '" + after + "'; " + advice,
		})
	}
}

// immutableOf are the fields of a node pool that cannot change, and that a request changes.
func immutableOf(current, wanted *nodepoolsv1.NodePool) []validation.Violation {
	result := &immutable{}
	if wanted.GetId() != "" && !sameID(wanted.GetId(), current.GetId()) {
		result.text("id", current.GetId(), wanted.GetId(), "create another pool")
	}
	if !sameID(wanted.GetClusterId(), current.GetClusterId()) {
		result.text("cluster_id", current.GetClusterId(), wanted.GetClusterId(), "create a pool in the other cluster")
	}
	if wanted.GetSpec().GetPlatform().GetType() != "" {
		result.text("spec.platform.type", current.GetSpec().GetPlatform().GetType(), wanted.GetSpec().GetPlatform().GetType(), "create another pool")
	}
	return result.violations
}

// immutableOfCluster are the fields of a cluster that cannot change, and that a request changes: clouds would have to make the cluster
// anew, with all that runs in it lost.
func immutableOfCluster(current, wanted *nodepoolsv1.Cluster) []validation.Violation {
	const advice = "create another cluster"
	result := &immutable{}
	if wanted.GetId() != "" && !sameID(wanted.GetId(), current.GetId()) {
		result.text("id", current.GetId(), wanted.GetId(), advice)
	}
	was, is := current.GetSpec().GetPlatform(), wanted.GetSpec().GetPlatform()
	if is.GetType() == "" {
		return result.violations
	}
	if was.GetType() != is.GetType() {
		result.text("spec.platform.type", was.GetType(), is.GetType(), advice)
		return result.violations
	}
	switch is.GetType() {
	case "gcp":
		result.text("spec.platform.gcp.project", was.GetGcp().GetProject(), is.GetGcp().GetProject(), advice)
		result.text("spec.platform.gcp.region", was.GetGcp().GetRegion(), is.GetGcp().GetRegion(), advice)
	case "aws":
		result.text("spec.platform.aws.region", was.GetAws().GetRegion(), is.GetAws().GetRegion(), advice)
	case "azure":
		result.text("spec.platform.azure.resourceGroup", was.GetAzure().GetResourceGroup(), is.GetAzure().GetResourceGroup(), advice)
		result.text("spec.platform.azure.location", was.GetAzure().GetLocation(), is.GetAzure().GetLocation(), advice)
	case "civo":
		result.text("spec.platform.civo.region", was.GetCivo().GetRegion(), is.GetCivo().GetRegion(), advice)
		result.text("spec.platform.civo.networkId", was.GetCivo().GetNetworkId(), is.GetCivo().GetNetworkId(), advice)
		result.pool("civo", was.GetCivo().GetDefaultNodePool(), is.GetCivo().GetDefaultNodePool())
	case "digitalocean":
		result.text("spec.platform.digitalocean.region", was.GetDigitalocean().GetRegion(), is.GetDigitalocean().GetRegion(), advice)
		result.text("spec.platform.digitalocean.vpcId", was.GetDigitalocean().GetVpcId(), is.GetDigitalocean().GetVpcId(), advice)
		result.pool("digitalocean", was.GetDigitalocean().GetDefaultNodePool(), is.GetDigitalocean().GetDefaultNodePool())
		if was.GetDigitalocean().GetHighlyAvailable() && !is.GetDigitalocean().GetHighlyAvailable() {
			result.text("spec.platform.digitalocean.highlyAvailable", "true", "false", advice)
		}
	}
	return result.violations
}

// pool says that the nodes of a default pool keep their size: the clouds would make the cluster anew for another one.
func (i *immutable) pool(platform string, was, is *nodepoolsv1.DefaultNodePool) {
	if is != nil {
		i.text("spec.platform."+platform+".defaultNodePool.size", was.GetSize(), is.GetSize(), "create a node pool of the other size")
	}
}
