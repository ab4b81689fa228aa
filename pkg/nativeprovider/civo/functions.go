package civo

import (
	"context"
	"strings"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

func getClusterFunction() *nativeprovider.Function {
	strs := func(name string) nativeprovider.Property {
		return nativeprovider.Property{Name: name, Output: true}
	}
	pool := poolFields("GetKubernetesClusterPoolTaint")
	pool = append(pool, strs("label"),
		nativeprovider.Property{Name: "publicIpNodePool", Type: nativeprovider.Bool, Output: true},
		nativeprovider.Property{Name: "instanceNames", Type: nativeprovider.List, Elem: &nativeprovider.Property{}, Output: true})
	return &nativeprovider.Function{
		Description: "A Kubernetes cluster by id or name.",
		Inputs: []nativeprovider.Property{
			{Name: "id", Description: "Id of the cluster."},
			{Name: "name", Description: "Exact name of the cluster; case does not matter."},
			{Name: "region", Description: "Region to look in; the provider's, then every other one when absent."},
		},
		Outputs: []nativeprovider.Property{
			strs("id"), strs("name"), strs("region"), strs("apiEndpoint"), strs("applications"), strs("cni"), strs("createdAt"),
			strs("dnsEntry"), strs("kubernetesVersion"), strs("masterIp"), strs("status"), strs("targetNodesSize"),
			{Name: "kubeconfig", Output: true, Secret: true},
			{Name: "numTargetNodes", Type: nativeprovider.Int, Output: true},
			{Name: "ready", Type: nativeprovider.Bool, Output: true},
			{Name: "tags", Type: nativeprovider.List, Elem: &nativeprovider.Property{}, Output: true},
			{
				Name: "pools", Type: nativeprovider.List, Output: true,
				Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "GetKubernetesClusterPool", Fields: pool},
			},
			{
				Name: "installedApplications", Type: nativeprovider.List, Output: true,
				Elem: &nativeprovider.Property{
					Type: nativeprovider.Object, ObjectName: "GetKubernetesClusterInstalledApplication",
					Fields: []nativeprovider.Property{
						strs("application"), strs("category"), strs("version"),
						{Name: "installed", Type: nativeprovider.Bool, Output: true},
					},
				},
			},
		},
		Invoke: getCluster,
	}
}

func getCluster(
	ctx context.Context, op *nativeprovider.Operation, args resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	id, name := nativeprovider.GetString(args, "id"), nativeprovider.GetString(args, "name")
	if (id == "") == (name == "") {
		return nil, errors.New("get civo kubernetes cluster: give either id or name")
	}
	var cluster *civogo.KubernetesCluster
	r, err := c.locate(ctx, nativeprovider.GetString(args, "region"), func(r regional) error {
		if id == "" {
			clusters, err := r.clusters(ctx)
			if err != nil {
				return err
			}
			found := ""
			for i := range clusters {
				if strings.EqualFold(clusters[i].Name, name) {
					if found != "" {
						return errors.Errorf("region %s has several kubernetes clusters of the name %s: give the id", r.code, name)
					}
					found = clusters[i].ID
				}
			}
			if found == "" {
				return nativeprovider.NotFound(errors.Errorf("region %s has no kubernetes cluster of the name %s", r.code, name))
			}
			// The list need not carry everything; the cluster itself does.
			cluster, err = r.cluster(ctx, found)
			return err
		}
		cluster, err = r.cluster(ctx, id)
		return err
	})
	if err != nil {
		return nil, errors.Wrap(err, "get civo kubernetes cluster")
	}

	result := clusterState(r, cluster, defaultPoolLabel(nil, cluster), resource.PropertyMap{
		"writeKubeconfig": resource.NewBoolProperty(true),
	})
	pools := make([]resource.PropertyMap, len(cluster.Pools))
	for i := range cluster.Pools {
		pools[i] = poolState(cluster, &cluster.Pools[i])
	}
	var applications []string
	for _, application := range cluster.InstalledApplications {
		applications = append(applications, application.Application)
	}
	result["id"] = text(cluster.ID)
	result["pools"] = nativeprovider.Objects(pools)
	result["tags"] = nativeprovider.Strings(cluster.Tags)
	result["applications"] = text(strings.Join(applications, ", "))
	// Not among the results of the official plugin.
	for _, key := range []resource.PropertyKey{"firewallId", "networkId", "clusterType"} {
		delete(result, key)
	}
	return result, nil
}

func getNetworkFunction() *nativeprovider.Function {
	return &nativeprovider.Function{
		Description: "A network by id or label.",
		Inputs: []nativeprovider.Property{
			{Name: "id", Description: "Id of the network."},
			{Name: "label", Description: "Exact label of the network."},
			{Name: "region", Description: "Region to look in; the provider's, then every other one when absent."},
		},
		Outputs: []nativeprovider.Property{
			{Name: "id", Output: true},
			{Name: "label", Output: true},
			{Name: "name", Output: true},
			{Name: "region", Output: true},
			{Name: "default", Type: nativeprovider.Bool, Output: true},
		},
		Invoke: getNetwork,
	}
}

func getNetwork(
	ctx context.Context, op *nativeprovider.Operation, args resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	id, label := nativeprovider.GetString(args, "id"), nativeprovider.GetString(args, "label")
	if (id == "") == (label == "") {
		return nil, errors.New("get civo network: give either id or label")
	}
	var network *civogo.Network
	r, err := c.locate(ctx, nativeprovider.GetString(args, "region"), func(r regional) error {
		if id != "" {
			network, err = r.network(ctx, id)
			return err
		}
		networks, err := r.networks(ctx)
		if err != nil {
			return err
		}
		for i := range networks {
			if networks[i].Label == label {
				network = &networks[i]
				return nil
			}
		}
		return nativeprovider.NotFound(errors.Errorf("region %s has no network with the label %s", r.code, label))
	})
	if err != nil {
		return nil, errors.Wrap(err, "get civo network")
	}
	return resource.PropertyMap{
		"id":      text(network.ID),
		"label":   text(network.Label),
		"name":    text(network.Name),
		"region":  text(r.code),
		"default": resource.NewBoolProperty(network.Default),
	}, nil
}
