package digitalocean

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// States of a cluster, https://docs.digitalocean.com/reference/api/reference/kubernetes.
const (
	stateProvisioning = "provisioning"
	stateRunning      = "running"
	stateUpgrading    = "upgrading"
	stateError        = "error"
	stateDeleting     = "deleting"
	stateDeleted      = "deleted"
)

// lastWords is how long the state of a cluster may be looked for after its operation was cancelled or timed out.
const lastWords = 10 * time.Second

func createCluster(ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	request := clusterCreationOf(inputs)
	named := func(ctx context.Context, name string) ([]nativeprovider.Found, error) {
		return c.clustersNamed(ctx, name, inputs)
	}
	id, err := op.MakeOnce(ctx, making("kubernetes cluster", request.Name, "", named, func(ctx context.Context) (string, error) {
		var answer struct {
			Cluster *liveCluster `json:"kubernetes_cluster"`
		}
		if err := c.do(ctx, http.MethodPost, clustersPath, request, &answer); err != nil {
			return "", err
		}
		return idOf(answer.Cluster, func(cluster *liveCluster) string { return cluster.ID })
	}))
	if err != nil {
		return "", nil, errors.Wrapf(err, "create digitalocean kubernetes cluster %s", request.Name)
	}
	state, err := c.settleCluster(ctx, op, id, resource.PropertyMap{}, inputs)
	return id, state, errors.Wrapf(err, "create digitalocean kubernetes cluster %s", request.Name)
}

func clusterCreationOf(inputs resource.PropertyMap) clusterCreation {
	return clusterCreation{
		Name:              nativeprovider.GetString(inputs, "name"),
		Region:            strings.ToLower(nativeprovider.GetString(inputs, "region")),
		Version:           nativeprovider.GetString(inputs, "version"),
		Tags:              stringsAt(inputs, "tags"),
		VPCUUID:           nativeprovider.GetString(inputs, "vpcUuid"),
		ClusterSubnet:     nativeprovider.GetString(inputs, "clusterSubnet"),
		ServiceSubnet:     nativeprovider.GetString(inputs, "serviceSubnet"),
		HA:                nativeprovider.GetBool(inputs, "ha"),
		NodePools:         []poolRequest{poolSpecOf(nativeprovider.GetObject(inputs, "nodePool")).creation(defaultPoolTag)},
		MaintenancePolicy: maintenanceOf(inputs, nil),
		AutoUpgrade:       nativeprovider.GetBool(inputs, "autoUpgrade"),
		SurgeUpgrade:      nativeprovider.GetBool(inputs, "surgeUpgrade"),
		clusterComponents: componentsOf(inputs, nil),
	}
}

// clustersNamed finds the clusters with a name. inputs are those of the cluster that is wanted.
func (c *client) clustersNamed(ctx context.Context, name string, inputs resource.PropertyMap) ([]nativeprovider.Found, error) {
	var found []nativeprovider.Found
	err := c.eachCluster(ctx, func(cluster *liveCluster) bool {
		if cluster.Name == name {
			found = append(found, nativeprovider.Found{
				ID: cluster.ID, Created: cluster.CreatedAt, State: clusterState(cluster, inputs, credentials{}),
			})
		}
		return true
	})
	return found, err
}

func updateCluster(ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	newState, err := c.settleCluster(ctx, op, id, state, inputs)
	return newState, errors.Wrapf(err, "update digitalocean kubernetes cluster %s", id)
}

// settleCluster makes a cluster that exists what the inputs say: it waits until the cluster can be worked on, compares,
// and sends what differs. It is the second half of a creation and all of an update, and goes on where either of them
// stopped. recorded is the state of before, empty for a creation. With an error it returns the state as it then is, or
// nil when nothing was found out.
func (c *client) settleCluster(
	ctx context.Context, op *nativeprovider.Operation, id string, recorded, inputs resource.PropertyMap,
) (resource.PropertyMap, error) {
	failed := func(err error) (resource.PropertyMap, error) { return c.clusterAsItIs(ctx, id, recorded, inputs), err }

	created := len(recorded) == 0
	ready := isChangeable
	if created {
		ready = isRunning
	}
	live, err := c.waitForCluster(ctx, op, id, "be running", ready)
	if err != nil {
		return failed(err)
	}
	if !created {
		if err := c.changeCluster(ctx, op, live, recorded, inputs); err != nil {
			return failed(err)
		}
	}
	wanted := nativeprovider.GetBool(inputs, "registryIntegration")
	if wanted != live.RegistryEnabled {
		if err := c.integrateRegistry(ctx, id, wanted); err != nil {
			return failed(err)
		}
	}
	if !created || wanted != live.RegistryEnabled { // else nothing was asked for since the last look
		if live, err = c.getCluster(ctx, id); err != nil {
			return failed(errors.Wrap(err, "read the cluster"))
		}
	}
	lifetime := nativeprovider.GetInt(inputs, "kubeconfigExpireSeconds")
	old := recordedCredentials(recorded)
	if lifetime != nativeprovider.GetInt(recorded, "kubeconfigExpireSeconds") {
		old = credentials{} // another expiry was asked for
	}
	fresh, err := c.keepOrMint(ctx, op, live, old, lifetime)
	if err != nil {
		return failed(errors.Wrap(err, "fetch the cluster's credentials"))
	}
	return clusterState(live, poolMemory(recorded, inputs), fresh), nil
}

// changeCluster sends what differs between a live cluster and the inputs, and waits for it.
func (c *client) changeCluster(
	ctx context.Context, op *nativeprovider.Operation, live *liveCluster, recorded, inputs resource.PropertyMap,
) error {
	diff := clusterTable.Compare(live.ID, clusterState(live, recorded, credentials{}), inputs)
	if slices.ContainsFunc(changedByPut, diff.Changed) {
		if err := c.do(ctx, http.MethodPut, clusterPath(live.ID), clusterUpdateOf(live, inputs), nil); err != nil {
			return errors.Wrap(err, "change the cluster")
		}
	}
	if err := c.settleDefaultPool(ctx, op, live, recorded, inputs); err != nil {
		return err
	}
	if wanted := nativeprovider.GetString(inputs, "version"); isUpgrade(live.VersionSlug, wanted) {
		return errors.Wrapf(c.upgrade(ctx, op, live.ID, wanted), "upgrade from %s to %s", live.VersionSlug, wanted)
	}
	return nil
}

// clusterTable compares by the table alone: what a plan refuses is refused before an update begins.
var clusterTable = &nativeprovider.Resource{Properties: clusterProperties()}

// changedByPut are the properties that PUT /v2/kubernetes/clusters/{id} changes.
var changedByPut = []string{"name", "tags", "autoUpgrade", "surgeUpgrade", "ha", "maintenancePolicy", "controlPlaneFirewall",
	"clusterAutoscalerConfigurations", "routingAgent", "amdGpuDevicePlugin", "amdGpuDeviceMetricsExporterPlugin",
	"nvidiaGpuDevicePlugin", "rdmaSharedDevicePlugin"}

// poolMemory is what the state remembers of the default pool after an update: its id, and the count that was asked for.
func poolMemory(recorded, inputs resource.PropertyMap) resource.PropertyMap {
	pool := nativeprovider.GetObject(inputs, "nodePool").Copy()
	pool["id"] = resource.NewProperty(nativeprovider.GetString(nativeprovider.GetObject(recorded, "nodePool"), "id"))
	return resource.PropertyMap{"nodePool": resource.NewProperty(pool)}
}

// clusterAsItIs is the state of a cluster whose operation failed, as far as it can be found out; nil when it cannot. It
// also looks when the operation was cancelled, for a moment: what was applied must not be forgotten.
func (c *client) clusterAsItIs(ctx context.Context, id string, recorded, inputs resource.PropertyMap) resource.PropertyMap {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	live, err := c.getCluster(ctx, id)
	if err != nil {
		return nil
	}
	if len(recorded) == 0 {
		recorded = inputs
	}
	return clusterState(live, recorded, recordedCredentials(recorded))
}

// waitForCluster waits until a cluster is ready for what comes next: what says in words what it is waited for to do.
func (c *client) waitForCluster(
	ctx context.Context, op *nativeprovider.Operation, id, what string, ready func(*liveCluster) bool,
) (*liveCluster, error) {
	var live *liveCluster
	poll := nativeprovider.Poll{What: "cluster " + id + " to " + what, Operation: op}
	err := nativeprovider.PollUntil(ctx, poll, func(ctx context.Context) (bool, string, error) {
		cluster, err := c.getCluster(ctx, id)
		if err != nil {
			return false, "", err
		}
		switch cluster.Status.State {
		case stateError:
			return false, "", errors.Errorf("cluster %s is in state error: %s; look at it in the control panel and run again, "+
				"or destroy it (pulumi destroy --target) and run again", id, firstOf(cluster.Status.Message, "no reason given"))
		case stateDeleting, stateDeleted:
			return false, "", errors.Errorf("cluster %s is being deleted", id)
		}
		live = cluster
		return ready(cluster), clusterProgress(cluster), nil
	})
	return live, err
}

func clusterProgress(cluster *liveCluster) string {
	return strings.TrimSpace(cluster.VersionSlug + " " + cluster.Status.State + " " + cluster.Status.Message)
}

func isRunning(cluster *liveCluster) bool { return cluster.Status.State == stateRunning }

// isChangeable tells whether a cluster that was made before takes changes. A degraded one does, and a change may be what
// mends it.
func isChangeable(cluster *liveCluster) bool {
	return cluster.Status.State != stateProvisioning && cluster.Status.State != stateUpgrading
}

// isUpgrade tells whether the wanted version has to be installed. A version that is older than the live one is not: the
// plan either refused it or left it to automatic upgrades.
func isUpgrade(live, wanted string) bool {
	if wanted == "" || wanted == live || isVersionPrefix(wanted, live) {
		return false
	}
	order, ok := versionOrder(wanted, live)
	return !ok || order > 0
}

// upgrade starts an upgrade and waits for its end.
func (c *client) upgrade(ctx context.Context, op *nativeprovider.Operation, id, version string) error {
	send := func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.do(ctx, http.MethodPost, clusterPath(id)+"/upgrade", clusterUpgrade{Version: version}, nil)
	}
	_, err := decided(ctx, send, func() (struct{}, bool) {
		live, err := c.getCluster(ctx, id)
		return struct{}{}, err == nil && (live.Status.State == stateUpgrading || live.VersionSlug == version)
	})
	if err != nil {
		return err
	}
	_, err = c.waitForCluster(ctx, op, id, "run "+version, func(cluster *liveCluster) bool {
		return isRunning(cluster) && (cluster.VersionSlug == version || isVersionPrefix(version, cluster.VersionSlug))
	})
	return err
}

// integrateRegistry lets a cluster pull from the account's container registry, or ends that. Both may be said twice.
func (c *client) integrateRegistry(ctx context.Context, id string, on bool) error {
	method := http.MethodPost
	if !on {
		method = http.MethodDelete
	}
	send := func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.do(ctx, method, registryPath, registryClusters{ClusterUUIDs: []string{id}}, nil)
	}
	_, err := decided(ctx, send, func() (struct{}, bool) { return struct{}{}, false })
	return errors.Wrap(err, "change the integration of the container registry, which must exist in the account")
}

// settleDefaultPool makes the default pool what the inputs say, and makes it again when it was deleted.
func (c *client) settleDefaultPool(
	ctx context.Context, op *nativeprovider.Operation, live *liveCluster, recorded, inputs resource.PropertyMap,
) error {
	before := nativeprovider.GetObject(recorded, "nodePool")
	wanted := nativeprovider.GetObject(inputs, "nodePool")
	pool := defaultPool(live.NodePools, before)
	if pool == nil {
		id, err := c.createPool(ctx, nil, live.ID, poolSpecOf(wanted), defaultPoolTag)
		if err == nil {
			_, err = c.waitForPool(ctx, op, live.ID, id)
		}
		return errors.Wrapf(err, "make the default node pool %s again", nativeprovider.GetString(wanted, "name"))
	}
	_, err := c.settlePool(ctx, op, live.ID, pool, before, wanted, defaultPoolTag)
	return errors.Wrapf(err, "change the default node pool %s", pool.Name)
}

// keepOrMint returns the credentials that there are while they are valid for a while, else new ones.
func (c *client) keepOrMint(
	ctx context.Context, op *nativeprovider.Operation, live *liveCluster, old credentials, lifetimeSeconds int,
) (credentials, error) {
	lifetime := defaultCredentialLifetime
	if lifetimeSeconds > 0 {
		lifetime = time.Duration(lifetimeSeconds) * time.Second
	}
	if old.freshAt(c.now(), lifetime) {
		return old, nil
	}
	var minted credentials
	poll := nativeprovider.Poll{What: "the credentials of cluster " + live.ID, Operation: op}
	err := nativeprovider.PollUntil(ctx, poll, func(ctx context.Context) (bool, string, error) {
		var err error
		minted, err = c.getCredentials(ctx, live, lifetimeSeconds)
		if status(err) == http.StatusPreconditionFailed {
			return false, apiMessage(err), nil // the control plane is not that far yet
		}
		return err == nil, "", err
	})
	return minted, err
}

func readCluster(ctx context.Context, op *nativeprovider.Operation, id string, recorded resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	live, err := c.getCluster(ctx, id)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read digitalocean kubernetes cluster %s", id)
	}
	if len(recorded) == 0 && defaultPool(live.NodePools, nil) == nil {
		return "", nil, errors.Errorf("import digitalocean kubernetes cluster %s: it has %d node pools and none has the tag %s; "+
			"give the tag to the pool that nodePool describes", id, len(live.NodePools), defaultPoolTag)
	}
	old := recordedCredentials(recorded)
	switch live.Status.State {
	case stateProvisioning, stateError, stateDeleting, stateDeleted, "":
		// The state is kept with the reason beside it, and the next update goes on from there.
		return live.ID, clusterState(live, recorded, old), errors.Errorf("digitalocean kubernetes cluster %s is not ready: %s", id,
			strings.TrimSpace(live.Status.State+" "+live.Status.Message))
	}
	fresh, err := c.keepOrMint(ctx, op, live, old, nativeprovider.GetInt(recorded, "kubeconfigExpireSeconds"))
	if err != nil {
		return "", nil, errors.Wrapf(err, "fetch the credentials of digitalocean kubernetes cluster %s", id)
	}
	return live.ID, clusterState(live, recorded, fresh), nil
}

func deleteCluster(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	path := clusterPath(id)
	if nativeprovider.GetBool(state, "destroyAllAssociatedResources") {
		path += "/destroy_with_associated_resources/dangerous"
	}
	err = c.do(ctx, http.MethodDelete, path, nil, nil)
	if err != nil && !nativeprovider.IsNotFound(err) && !c.isBeingDeleted(ctx, id) {
		return errors.Wrapf(err, "delete digitalocean kubernetes cluster %s", id)
	}
	return errors.Wrapf(c.waitUntilGone(ctx, op, "cluster "+id, clusterPath(id)), "delete digitalocean kubernetes cluster %s", id)
}

// isBeingDeleted tells whether a cluster is on its way out already, so that a second deletion has nothing to do.
func (c *client) isBeingDeleted(ctx context.Context, id string) bool {
	live, err := c.getCluster(ctx, id)
	return err == nil && (live.Status.State == stateDeleting || live.Status.State == stateDeleted)
}

// waitUntilGone waits until the API says that an object does not exist. The object itself is not decoded.
func (c *client) waitUntilGone(ctx context.Context, op *nativeprovider.Operation, what, path string) error {
	poll := nativeprovider.Poll{What: what + " to be gone", Operation: op}
	return nativeprovider.PollUntil(ctx, poll, func(ctx context.Context) (bool, string, error) {
		err := c.do(ctx, http.MethodGet, path, nil, nil)
		if nativeprovider.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it is still there", err
	})
}

// clusterUpdateOf is the request that makes a live cluster what the inputs say. It names everything, because what it
// leaves out could be reset.
func clusterUpdateOf(live *liveCluster, inputs resource.PropertyMap) clusterUpdate {
	request := clusterUpdate{
		Name:              nativeprovider.GetString(inputs, "name"),
		Tags:              stringsAt(inputs, "tags"),
		AutoUpgrade:       nativeprovider.GetBool(inputs, "autoUpgrade"),
		SurgeUpgrade:      nativeprovider.GetBool(inputs, "surgeUpgrade"),
		MaintenancePolicy: maintenanceOf(inputs, live.MaintenancePolicy),
		clusterComponents: componentsOf(inputs, live.ClusterAutoscalerConfiguration),
	}
	if nativeprovider.GetBool(inputs, "ha") {
		on := true
		request.HA = &on
	}
	return request
}

// maintenanceOf is the wanted maintenance window; nil when the platform chooses. What is not given stays as it is.
func maintenanceOf(inputs resource.PropertyMap, live *godo.KubernetesMaintenancePolicy) *maintenancePolicy {
	given := nativeprovider.GetObject(inputs, "maintenancePolicy")
	day := strings.ToLower(nativeprovider.GetString(given, "day"))
	start := nativeprovider.GetString(given, "startTime")
	if day == "" && start == "" {
		return nil
	}
	if live != nil {
		return &maintenancePolicy{Day: firstOf(day, live.Day.String()), StartTime: firstOf(start, live.StartTime)}
	}
	return &maintenancePolicy{Day: firstOf(day, godo.KubernetesMaintenanceDayAny.String()), StartTime: start}
}

// componentsOf are the wanted components of a cluster. autoscaler is its present configuration, nil for a creation.
func componentsOf(inputs resource.PropertyMap, autoscaler *godo.KubernetesClusterAutoscalerConfiguration) clusterComponents {
	components := clusterComponents{
		ClusterAutoscalerConfiguration:    autoscalerOf(inputs, autoscaler),
		RoutingAgent:                      componentOf(inputs, "routingAgent"),
		AmdGpuDevicePlugin:                componentOf(inputs, "amdGpuDevicePlugin"),
		AmdGpuDeviceMetricsExporterPlugin: componentOf(inputs, "amdGpuDeviceMetricsExporterPlugin"),
		NvidiaGpuDevicePlugin:             componentOf(inputs, "nvidiaGpuDevicePlugin"),
		RdmaSharedDevicePlugin:            componentOf(inputs, "rdmaSharedDevicePlugin"),
	}
	if nativeprovider.Has(inputs, "controlPlaneFirewall") {
		given := nativeprovider.GetObject(inputs, "controlPlaneFirewall")
		components.ControlPlaneFirewall = &firewall{
			Enabled:          nativeprovider.GetBool(given, "enabled"),
			AllowedAddresses: stringsAt(given, "allowedAddresses"),
		}
	}
	return components
}

func componentOf(inputs resource.PropertyMap, key resource.PropertyKey) *component {
	if !nativeprovider.Has(inputs, key) {
		return nil
	}
	return &component{Enabled: nativeprovider.GetBool(nativeprovider.GetObject(inputs, key), "enabled")}
}

// autoscalerOf is the wanted configuration of the autoscaler, nil when there is nothing to say. A value that is set and
// no longer wanted is sent as zero, which the API takes for "not set".
func autoscalerOf(
	inputs resource.PropertyMap, live *godo.KubernetesClusterAutoscalerConfiguration,
) *godo.KubernetesClusterAutoscalerConfiguration {
	present := nativeprovider.GetObjects(resource.PropertyMap{"live": autoscalerState(live)}, "live")
	given := nativeprovider.GetObjects(inputs, "clusterAutoscalerConfigurations")
	if len(given) == 0 && len(present) == 0 {
		return nil
	}
	var wanted, set resource.PropertyMap
	if len(given) > 0 {
		wanted = given[0]
	}
	if len(present) > 0 {
		set = present[0]
	}
	var out godo.KubernetesClusterAutoscalerConfiguration
	mentioned := func(key resource.PropertyKey) bool {
		return nativeprovider.Has(wanted, key) || nativeprovider.Has(set, key)
	}
	if mentioned("scaleDownUtilizationThreshold") {
		out.ScaleDownUtilizationThreshold = godo.PtrTo(nativeprovider.GetFloat(wanted, "scaleDownUtilizationThreshold"))
	}
	if mentioned("scaleDownUnneededTime") {
		out.ScaleDownUnneededTime = godo.PtrTo(nativeprovider.GetString(wanted, "scaleDownUnneededTime"))
	}
	if mentioned("expanders") {
		out.Expanders = stringsAt(wanted, "expanders")
	}
	return &out
}

// stringsAt are the strings of the list at key, never nil: an empty list must be sent as one.
func stringsAt(m resource.PropertyMap, key resource.PropertyKey) []string {
	return append([]string{}, nativeprovider.GetStrings(m, key)...)
}
