package digitalocean

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// getClusterFunction looks a cluster up by its name. It mints no credentials: each call of a preview would leave a token
// behind that is valid for a week. kubeConfigs is empty; programs that need credentials have them from the resource.
func getClusterFunction() *nativeprovider.Function {
	outputs := []nativeprovider.Property{
		{Name: "id", Type: nativeprovider.String, Output: true, Description: "Id of the cluster."},
		{Name: "urn", Type: nativeprovider.String, Output: true, Description: "DigitalOcean's URN: do:kubernetes:<id>."},
		{Name: "controlPlaneFirewalls", Type: nativeprovider.List, Output: true, Description: "Who may reach the control plane.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "GetKubernetesClusterControlPlaneFirewall",
				Fields: fieldsOf("controlPlaneFirewall")}},
		{Name: "maintenancePolicies", Type: nativeprovider.List, Output: true, Description: "When the platform may upgrade.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "GetKubernetesClusterMaintenancePolicy",
				Fields: fieldsOf("maintenancePolicy")}},
		{Name: "nodePools", Type: nativeprovider.List, Output: true, Description: "The node pools, the default one first.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "GetKubernetesClusterNodePool",
				Fields: fieldsOf("nodePool")}},
	}
	same := []string{"name", "region", "version", "vpcUuid", "clusterSubnet", "serviceSubnet", "ha", "autoUpgrade", "surgeUpgrade", "tags",
		"endpoint", "ipv4Address", "status", "createdAt", "updatedAt", "kubeConfigs", "kubeconfigExpireSeconds",
		"clusterAutoscalerConfigurations", "routingAgent", "amdGpuDevicePlugin", "amdGpuDeviceMetricsExporterPlugin",
		"nvidiaGpuDevicePlugin", "rdmaSharedDevicePlugin"}
	for _, property := range clusterProperties() {
		if slices.Contains(same, property.Name) {
			outputs = append(outputs, asOutput(property))
		}
	}
	// The arguments besides the name are those of the official function, which ignores them too.
	inputs := []nativeprovider.Property{
		{Name: "name", Type: nativeprovider.String, Required: true, Check: notEmpty, Description: "Name of the cluster."},
		{Name: "kubeconfigExpireSeconds", Type: nativeprovider.Int, Description: "Not used: no credentials are fetched."},
	}
	for _, property := range clusterProperties() {
		switch property.Name {
		case "tags", "clusterAutoscalerConfigurations", "routingAgent", "amdGpuDevicePlugin", "amdGpuDeviceMetricsExporterPlugin",
			"nvidiaGpuDevicePlugin", "rdmaSharedDevicePlugin":
			property.Description = "Not used."
			inputs = append(inputs, property)
		}
	}
	return &nativeprovider.Function{
		Description: "Looks a Kubernetes cluster up by its name.",
		Inputs:      inputs,
		Outputs:     outputs,
		Invoke:      getKubernetesCluster,
	}
}

// fieldsOf are the fields of a property of the cluster, all of them as outputs.
func fieldsOf(name string) []nativeprovider.Property {
	for _, property := range clusterProperties() {
		if property.Name == name {
			return asOutput(property).Fields
		}
	}
	return nil
}

// asOutput is a property of a resource as the result of a function has it.
func asOutput(p nativeprovider.Property) nativeprovider.Property {
	out := nativeprovider.Property{Name: p.Name, Type: p.Type, Output: true, Secret: p.Secret, Description: p.Description}
	if p.ObjectName != "" {
		out.ObjectName = "Get" + p.ObjectName
	}
	if p.Elem != nil {
		elem := asOutput(*p.Elem)
		out.Elem = &elem
	}
	for _, field := range p.Fields {
		out.Fields = append(out.Fields, asOutput(field))
	}
	return out
}

func getKubernetesCluster(ctx context.Context, op *nativeprovider.Operation, args resource.PropertyMap) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	name := nativeprovider.GetString(args, "name")
	var live *liveCluster
	err = c.eachCluster(ctx, func(cluster *liveCluster) bool {
		if cluster.Name == name {
			live = cluster
		}
		return live == nil
	})
	if err != nil {
		return nil, errors.Wrap(err, "list digitalocean kubernetes clusters")
	}
	if live == nil {
		return nil, errors.Errorf("unable to find cluster with name: %s", name)
	}

	result := clusterState(live, resource.PropertyMap{}, credentials{})
	result["id"] = resource.NewProperty(live.ID)
	result["urn"] = result["clusterUrn"]
	result["controlPlaneFirewalls"] = listOf(result["controlPlaneFirewall"])
	result["maintenancePolicies"] = listOf(result["maintenancePolicy"])
	result["nodePools"] = poolsResult(live)
	result["kubeConfigs"] = nativeprovider.Objects(nil)
	if expire, ok := args["kubeconfigExpireSeconds"]; ok {
		result["kubeconfigExpireSeconds"] = expire
	}
	for _, key := range []resource.PropertyKey{"clusterUrn", "controlPlaneFirewall", "maintenancePolicy", "nodePool", "registryIntegration"} {
		delete(result, key)
	}
	for _, key := range []resource.PropertyKey{"routingAgent", "amdGpuDevicePlugin", "amdGpuDeviceMetricsExporterPlugin",
		"nvidiaGpuDevicePlugin", "rdmaSharedDevicePlugin"} {
		if result[key].IsNull() {
			off := false
			result[key] = componentState(&off)
		}
	}
	return result, nil
}

func listOf(v resource.PropertyValue) resource.PropertyValue {
	if !v.IsObject() {
		return nativeprovider.Objects(nil)
	}
	return nativeprovider.Objects([]resource.PropertyMap{v.ObjectValue()})
}

func poolsResult(live *liveCluster) resource.PropertyValue {
	first := defaultPool(live.NodePools, nil)
	pools := slices.DeleteFunc(slices.Clone(live.NodePools), func(pool *godo.KubernetesNodePool) bool {
		return pool == nil || pool == first
	})
	if first != nil {
		pools = slices.Insert(pools, 0, first)
	}
	list := make([]resource.PropertyMap, 0, len(pools))
	for _, pool := range pools {
		result := poolState(pool, nil)
		result["id"] = resource.NewProperty(pool.ID)
		result["nodeCount"] = nativeprovider.Whole(pool.Count)
		list = append(list, result)
	}
	return nativeprovider.Objects(list)
}

// getVersionsFunction lists the versions that a cluster can be created with.
func getVersionsFunction() *nativeprovider.Function {
	return &nativeprovider.Function{
		Description: "Lists the Kubernetes versions that the platform offers, newest first.",
		Inputs: []nativeprovider.Property{
			{Name: "versionPrefix", Type: nativeprovider.String, Description: `Only versions that begin with it, for example "1.31.".`},
		},
		Outputs: []nativeprovider.Property{
			{Name: "id", Type: nativeprovider.String, Output: true, Description: "An id of the result."},
			{Name: "versionPrefix", Type: nativeprovider.String, Output: true, Description: "The prefix that was given."},
			{Name: "latestVersion", Type: nativeprovider.String, Output: true, Description: "The newest version; empty when there is none."},
			{Name: "validVersions", Type: nativeprovider.List, Output: true, Elem: &nativeprovider.Property{Type: nativeprovider.String},
				Description: "The versions, newest first."},
		},
		Invoke: getKubernetesVersions,
	}
}

func getKubernetesVersions(ctx context.Context, op *nativeprovider.Operation, args resource.PropertyMap) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Options struct {
			Versions []*godo.KubernetesVersion `json:"versions"`
		} `json:"options"`
	}
	if err := c.do(ctx, http.MethodGet, "/v2/kubernetes/options", nil, &answer); err != nil {
		return nil, errors.Wrap(err, "read the options of digitalocean kubernetes")
	}
	prefix := nativeprovider.GetString(args, "versionPrefix")
	valid := []string{}
	for _, version := range answer.Options.Versions {
		if version != nil && strings.HasPrefix(version.Slug, prefix) {
			valid = append(valid, version.Slug)
		}
	}
	newestFirst(valid)
	result := resource.PropertyMap{
		"id":            resource.NewProperty("versions-" + prefix),
		"validVersions": nativeprovider.Strings(valid),
		"latestVersion": resource.NewProperty(firstOf(valid...)),
	}
	if nativeprovider.Has(args, "versionPrefix") {
		result["versionPrefix"] = args["versionPrefix"]
	}
	return result, nil
}
