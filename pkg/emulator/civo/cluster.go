package civo

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// The statuses of a cluster. A node has BUILDING, ACTIVE and DELETING of them.
const (
	statusBuilding  = "BUILDING"
	statusActive    = "ACTIVE"
	statusScaling   = "SCALING"
	statusUpgrading = "UPGRADING"
	statusDeleting  = "DELETING"
)

const (
	clusterK3s   = "k3s"
	clusterTalos = "talos"
	cniFlannel   = "flannel"
	cniCilium    = "cilium"
)

// Cluster is a Kubernetes cluster. The instants in it say when it was, or will be, in which status.
type Cluster struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	Name   string `json:"name"`
	// ClusterType is k3s or talos.
	ClusterType string `json:"cluster_type"`
	// CNI is flannel or cilium.
	CNI string `json:"cni"`
	// Version is the version of Kubernetes, such as 1.30.5-k3s1: the new one as soon as an upgrade has been asked for.
	Version    string   `json:"version"`
	NetworkID  string   `json:"network_id"`
	FirewallID string   `json:"firewall_id"`
	Tags       []string `json:"tags"`
	// Applications are written as in a request: name, or name:plan.
	Applications []string `json:"applications"`
	// Pools are in the order of creation, the default pool first.
	Pools []*Pool `json:"pools"`

	MasterIP   string `json:"master_ip"`
	Kubeconfig string `json:"kubeconfig"`

	CreatedAt time.Time `json:"created_at"`
	BuiltAt   time.Time `json:"built_at"`
	// UpgradedAt is when the latest upgrade ends.
	UpgradedAt time.Time `json:"upgraded_at,omitzero"`
	// GoneAt is when a cluster that is being deleted ceases to exist, zero for others.
	GoneAt time.Time `json:"gone_at,omitzero"`

	// Status is filled in by [Cloud.Clusters]: BUILDING, ACTIVE, SCALING, UPGRADING or DELETING.
	Status string `json:"-"`
}

// Pool is a node pool of a cluster.
type Pool struct {
	// ID is what the user called the pool, or random.
	ID   string `json:"id"`
	Size string `json:"size"`
	// Count is how many nodes were asked for.
	Count    int               `json:"count"`
	Labels   map[string]string `json:"labels"`
	Taints   []Taint           `json:"taints"`
	PublicIP bool              `json:"public_ip"`
	// Instances are the nodes.
	Instances []*Instance `json:"instances"`
	// GoneAt is when a pool that is being deleted ceases to exist, zero for others.
	GoneAt time.Time `json:"gone_at,omitzero"`
}

// Taint keeps pods off the nodes of a pool.
type Taint struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute.
	Effect string `json:"effect"`
}

// Instance is a node.
type Instance struct {
	ID        string    `json:"id"`
	Hostname  string    `json:"hostname"`
	PublicIP  string    `json:"public_ip"`
	CreatedAt time.Time `json:"created_at"`
	ListedAt  time.Time `json:"listed_at"`
	ActiveAt  time.Time `json:"active_at"`
	// GoneAt is when a node that is being deleted ceases to exist, zero for others.
	GoneAt time.Time `json:"gone_at,omitzero"`

	// Status is filled in by [Cloud.Clusters]: BUILDING, ACTIVE or DELETING.
	Status string `json:"-"`
}

// passed tells whether t is set and has come.
func passed(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

func (k *Cluster) gone(now time.Time) bool { return passed(k.GoneAt, now) }

func (k *Cluster) status(now time.Time) string {
	switch {
	case !k.GoneAt.IsZero():
		return statusDeleting
	case now.Before(k.BuiltAt):
		return statusBuilding
	case now.Before(k.UpgradedAt):
		return statusUpgrading
	}
	for _, pool := range k.Pools {
		if now.Before(pool.GoneAt) {
			return statusScaling
		}
		for _, instance := range pool.Instances {
			if now.Before(instance.ActiveAt) || now.Before(instance.GoneAt) {
				return statusScaling
			}
		}
	}
	return statusActive
}

// pool finds a pool that is not gone. For a change it must not be on its way out either.
func (k *Cluster) pool(id string, now time.Time, forChange bool) (*Pool, error) {
	for _, pool := range k.Pools {
		if pool.ID == id && !passed(pool.GoneAt, now) && (pool.GoneAt.IsZero() || !forChange) {
			return pool, nil
		}
	}
	return nil, errPoolNotFound(id)
}

// requiredPools are the pools that are to be there, those that are being deleted not among them.
func (k *Cluster) requiredPools() []*Pool {
	var required []*Pool
	for _, pool := range k.Pools {
		if pool.GoneAt.IsZero() {
			required = append(required, pool)
		}
	}
	return required
}

func (k *Cluster) forget(now time.Time) {
	k.Pools = slices.DeleteFunc(k.Pools, func(p *Pool) bool { return passed(p.GoneAt, now) })
	for _, pool := range k.Pools {
		pool.Instances = slices.DeleteFunc(pool.Instances, func(i *Instance) bool { return passed(i.GoneAt, now) })
	}
}

func (i *Instance) status(now time.Time) string {
	switch {
	case !i.GoneAt.IsZero():
		return statusDeleting
	case now.Before(i.ActiveAt):
		return statusBuilding
	default:
		return statusActive
	}
}

// listed are the nodes that the API shows.
func (p *Pool) listed(now time.Time) []*Instance {
	var listed []*Instance
	for _, instance := range p.Instances {
		if !now.Before(instance.ListedAt) && !passed(instance.GoneAt, now) {
			listed = append(listed, instance)
		}
	}
	return listed
}

// staying are the nodes that are not being deleted.
func (p *Pool) staying() []*Instance {
	var staying []*Instance
	for _, instance := range p.Instances {
		if instance.GoneAt.IsZero() {
			staying = append(staying, instance)
		}
	}
	return staying
}

// schedule says when the nodes of one change come and go.
type schedule struct{ now, listedAt, activeAt, goneAt time.Time }

func (c *Cloud) schedule(r *http.Request) schedule {
	now := c.clock.Now()
	return schedule{
		now:      now,
		listedAt: c.clock.AfterInstant(now, nodeListedTime),
		activeAt: c.ends(r, now, nodeActiveTime),
		goneAt:   c.ends(r, now, nodeDeleteTime),
	}
}

// scale gives the pool count nodes: new ones, or the newest ones go.
func (a *account) scale(cluster *Cluster, pool *Pool, count int, when schedule) {
	pool.Count = count
	staying := pool.staying()
	for i := count; i < len(staying); i++ {
		staying[i].GoneAt = when.goneAt
	}
	for i := len(staying); i < count; i++ {
		pool.Instances = append(pool.Instances, &Instance{
			ID: newID(),
			// As in k3s-prod-2f8a-61c3d0-node-pool-9b65-g2akh.
			Hostname: fmt.Sprintf("k3s-%s-%s-%s-node-pool-%s-%s",
				hostnamePart(cluster.Name), cluster.ID[:4], cluster.ID[24:30], newID()[:4], newID()[:5]),
			PublicIP:  a.address(),
			CreatedAt: when.now,
			ListedAt:  when.listedAt,
			ActiveAt:  when.activeAt,
		})
	}
}

// hostnamePart makes a cluster's name fit for a host name.
func hostnamePart(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	return name[:min(len(name), 24)]
}

type clusterRequest struct {
	Name              string        `json:"name"`
	Region            string        `json:"region"`
	ClusterType       string        `json:"cluster_type"`
	KubernetesVersion string        `json:"kubernetes_version"`
	NetworkID         string        `json:"network_id"`
	InstanceFirewall  string        `json:"instance_firewall"`
	FirewallID        string        `json:"firewall_id"`
	CNIPlugin         string        `json:"cni_plugin"`
	Tags              *string       `json:"tags"`
	Applications      string        `json:"applications"`
	Pools             []poolRequest `json:"pools"`
	// The two below are from before there were pools; they speak of the default pool.
	NumTargetNodes  *int   `json:"num_target_nodes"`
	TargetNodesSize string `json:"target_nodes_size"`
}

var clusterName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`) })

func (c *Cloud) createCluster(r *http.Request) (any, error) {
	body, err := decode[clusterRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		when := c.schedule(r)
		if !clusterName().MatchString(body.Name) {
			return nil, errClusterName(body.Name)
		}
		if a.clusterByName(region, body.Name, when.now) != nil {
			return nil, errClusterDuplicate(body.Name)
		}
		cluster := &Cluster{
			ID:        newID(),
			Region:    region,
			Name:      body.Name,
			Tags:      []string{},
			MasterIP:  a.address(),
			CreatedAt: when.now,
			BuiltAt:   c.ends(r, when.now, clusterBuildTime),
		}
		if body.Tags != nil {
			cluster.Tags = strings.Fields(*body.Tags)
		}
		if err := a.setDistribution(cluster, body); err != nil {
			return nil, err
		}
		if err := a.place(cluster, body); err != nil {
			return nil, err
		}
		if err := cluster.setApplications(body.Applications, cluster.ClusterType == clusterK3s); err != nil {
			return nil, err
		}

		asked := body.Pools
		if len(asked) == 0 && body.NumTargetNodes != nil {
			size := body.TargetNodesSize
			if size == "" {
				size = "g4s.kube.medium"
			}
			asked = []poolRequest{{Count: body.NumTargetNodes, Size: size}}
		}
		if len(asked) == 0 {
			return nil, errNoPools()
		}
		// The first nodes come with the cluster.
		when.activeAt = cluster.BuiltAt
		for i, request := range asked {
			pool, err := a.addPool(cluster, request, when)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				// The platform ignores them on the default pool; they can be set on it later.
				pool.Labels, pool.Taints = nil, nil
			}
		}
		if cluster.Kubeconfig, err = newKubeconfig(cluster); err != nil {
			return nil, err
		}
		a.Clusters = append(a.Clusters, cluster)
		return cluster.document(when.now), nil
	})
}

// setDistribution decides on the cluster's type, version and network plugin.
func (a *account) setDistribution(cluster *Cluster, body clusterRequest) error {
	cluster.ClusterType = body.ClusterType
	if cluster.ClusterType == "" {
		cluster.ClusterType = clusterK3s
		if strings.HasPrefix(body.KubernetesVersion, "talos-") {
			cluster.ClusterType = clusterTalos
		}
	}
	if cluster.ClusterType != clusterK3s && cluster.ClusterType != clusterTalos {
		return errClusterInvalid("The cluster type %q is not valid: want k3s or talos", body.ClusterType)
	}

	version := a.defaultVersion(cluster.ClusterType)
	if body.KubernetesVersion != "" {
		var found bool
		if version, found = a.findVersion(body.KubernetesVersion); !found {
			return errClusterVersion("The Kubernetes version %q is not available", body.KubernetesVersion)
		}
	}
	if version.ClusterType != cluster.ClusterType {
		return errClusterVersion("The Kubernetes version %q is not one of the cluster type %s", body.KubernetesVersion, cluster.ClusterType)
	}
	cluster.Version = version.Label

	cluster.CNI = body.CNIPlugin
	if cluster.CNI == "" {
		cluster.CNI = cniFlannel
	}
	switch {
	case cluster.CNI != cniFlannel && cluster.CNI != cniCilium:
		return errClusterInvalid("The network plugin %q is not valid: want flannel or cilium", body.CNIPlugin)
	case cluster.CNI == cniCilium && cluster.ClusterType == clusterTalos:
		return errClusterInvalid("The network plugin cilium is not available for the cluster type talos")
	}
	return nil
}

// place decides on the cluster's network and firewall.
func (a *account) place(cluster *Cluster, body clusterRequest) error {
	network := a.defaultNetwork(cluster.Region)
	if body.NetworkID != "" {
		var err error
		if network, err = a.network(cluster.Region, body.NetworkID); err != nil {
			return err
		}
	}
	cluster.NetworkID = network.ID
	firewallID := body.InstanceFirewall
	if firewallID == "" {
		firewallID = body.FirewallID
	}
	if firewallID == "" {
		return errFirewallMissing()
	}
	return a.setFirewall(cluster, firewallID)
}

func (a *account) setFirewall(cluster *Cluster, id string) error {
	firewall, err := a.firewall(cluster.Region, id)
	if err != nil {
		return err
	}
	if firewall.NetworkID != cluster.NetworkID {
		return errFirewallMismatch(firewall.ID, cluster.NetworkID)
	}
	cluster.FirewallID = firewall.ID
	return nil
}

// setApplications adds what the list names to what is installed, and takes away what it names with a minus in front.
// withDefaults starts a new cluster.
func (k *Cluster) setApplications(list string, withDefaults bool) error {
	if withDefaults {
		for _, application := range applications {
			if application.Default {
				k.Applications = append(k.Applications, application.Name)
			}
		}
	}
	for _, wanted := range strings.Split(list, ",") {
		if wanted == "" {
			continue
		}
		name, removed := strings.CutPrefix(wanted, "-")
		name, plan, hasPlan := strings.Cut(name, ":")
		application, found := findApplication(name)
		if !found {
			return errApplicationNotFound(name)
		}
		if hasPlan && !slices.ContainsFunc(application.Plans, func(p ApplicationPlan) bool { return p.Label == plan }) {
			return errApplicationPlan(name, plan)
		}
		k.Applications = slices.DeleteFunc(k.Applications, func(installed string) bool {
			installed, _, _ = strings.Cut(installed, ":")
			return installed == name
		})
		if !removed {
			k.Applications = append(k.Applications, wanted)
		}
	}
	return nil
}

func newKubeconfig(cluster *Cluster) (string, error) {
	authority, err := emulator.NewAuthority(cluster.Name)
	if err != nil {
		return "", err
	}
	certificate, key, err := authority.ClientCertificate(cluster.Name)
	if err != nil {
		return "", err
	}
	return emulator.Kubeconfig{
		Cluster: cluster.Name, User: cluster.Name, Context: cluster.Name,
		Server:               cluster.endpoint(),
		CertificateAuthority: authority.Certificate,
		ClientCertificate:    certificate,
		ClientKey:            key,
	}.YAML()
}

func (k *Cluster) endpoint() string { return "https://" + k.MasterIP + ":6443" }

func (a *account) clusterByName(region, name string, now time.Time) *Cluster {
	for _, cluster := range a.clusters(region, now) {
		if strings.EqualFold(cluster.Name, name) {
			return cluster
		}
	}
	return nil
}

// listClusters answers one page: the first 20 clusters, unless the query says otherwise.
func (c *Cloud) listClusters(r *http.Request) (any, error) {
	page, perPage := positive(r, "page", 1), min(positive(r, "per_page", 20), 100)
	return c.view(r, func(a *account, region string) (any, error) {
		now := c.clock.Now()
		clusters := a.clusters(region, now)
		items := []clusterDocument{}
		for i, cluster := range clusters {
			if i/perPage == page-1 {
				items = append(items, cluster.document(now))
			}
		}
		return map[string]any{
			"page": page, "per_page": perPage, "pages": max(1, (len(clusters)+perPage-1)/perPage), "items": items,
		}, nil
	})
}

// positive is a number of the query, or what is meant without it.
func positive(r *http.Request, name string, otherwise int) int {
	number, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || number < 1 {
		return otherwise
	}
	return number
}

func (c *Cloud) getCluster(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		now := c.clock.Now()
		cluster, err := a.cluster(region, r.PathValue("id"), now)
		if err != nil {
			return nil, err
		}
		return cluster.document(now), nil
	})
}

func (c *Cloud) listClusterInstances(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		now := c.clock.Now()
		cluster, err := a.cluster(region, r.PathValue("id"), now)
		if err != nil {
			return nil, err
		}
		return cluster.document(now).Instances, nil
	})
}

// updateCluster changes what the request names. Its pools are the whole list: a pool that is not among them is deleted, one
// that is new is created. The type, the network and the network plugin of a cluster stay what they are.
func (c *Cloud) updateCluster(r *http.Request) (any, error) {
	body, err := decode[clusterRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		when := c.schedule(r)
		cluster, err := a.cluster(region, r.PathValue("id"), when.now)
		if err != nil {
			return nil, err
		}
		status := cluster.status(when.now)
		if status == statusDeleting {
			return nil, errAlreadyRescaling(status)
		}
		if body.Name != "" && body.Name != cluster.Name {
			if !clusterName().MatchString(body.Name) {
				return nil, errClusterName(body.Name)
			}
			if other := a.clusterByName(region, body.Name, when.now); other != nil && other != cluster {
				return nil, errClusterDuplicate(body.Name)
			}
			cluster.Name = body.Name
		}
		if body.Tags != nil {
			cluster.Tags = strings.Fields(*body.Tags)
		}
		if body.FirewallID != "" {
			if err := a.setFirewall(cluster, body.FirewallID); err != nil {
				return nil, err
			}
		}
		if err := cluster.setApplications(body.Applications, false); err != nil {
			return nil, err
		}
		upgraded, err := a.upgrade(cluster, body.KubernetesVersion)
		if err != nil {
			return nil, err
		}
		rescaled, err := a.rescale(cluster, body, when)
		if err != nil {
			return nil, err
		}
		if (upgraded || rescaled) && status != statusActive {
			return nil, errAlreadyRescaling(status)
		}
		if upgraded {
			cluster.UpgradedAt = c.ends(r, when.now, clusterUpgradeTime)
		}
		return cluster.document(when.now), nil
	})
}

// upgrade sets the version, if the request has one, and tells whether that changes it.
func (a *account) upgrade(cluster *Cluster, text string) (bool, error) {
	if text == "" {
		return false, nil
	}
	version, found := a.findVersion(text)
	switch {
	case !found:
		return false, errClusterVersion("The Kubernetes version %q is not available", text)
	case version.ClusterType != cluster.ClusterType:
		return false, errClusterVersion("The Kubernetes version %q is not one of the cluster type %s", text, cluster.ClusterType)
	case olderVersion(version.Label, cluster.Version):
		return false, errClusterVersion("The cluster cannot go back from Kubernetes version %s to %s", cluster.Version, version.Label)
	}
	changed := version.Label != cluster.Version
	cluster.Version = version.Label
	return changed, nil
}

// rescale sets the pools, if the request has any, and tells whether that changes the number of nodes anywhere.
func (a *account) rescale(cluster *Cluster, body clusterRequest, when schedule) (bool, error) {
	if len(body.Pools) == 0 {
		if body.NumTargetNodes == nil {
			return false, nil
		}
		pools := cluster.requiredPools()
		if len(pools) == 0 {
			return false, errNoPools()
		}
		pool := pools[0]
		changed := pool.Count != *body.NumTargetNodes
		return changed, a.changePool(cluster, pool, poolRequest{Count: body.NumTargetNodes}, when)
	}
	changed := false
	named := map[string]bool{}
	for _, request := range body.Pools {
		if named[request.ID] {
			return false, errPoolDuplicate(request.ID)
		}
		pool, err := cluster.pool(request.ID, when.now, true)
		if err != nil {
			added, err := a.addPool(cluster, request, when)
			if err != nil {
				return false, err
			}
			named[added.ID] = true
			changed = true
			continue
		}
		named[pool.ID] = true
		before := pool.Count
		if err := a.changePool(cluster, pool, request, when); err != nil {
			return false, err
		}
		changed = changed || pool.Count != before
	}
	for _, pool := range cluster.requiredPools() {
		if !named[pool.ID] {
			pool.delete(when)
			changed = true
		}
	}
	return changed, nil
}

// deleteCluster starts the deletion; doing so again changes nothing.
func (c *Cloud) deleteCluster(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		now := c.clock.Now()
		cluster, err := a.cluster(region, r.PathValue("id"), now)
		if err != nil {
			return nil, err
		}
		if cluster.GoneAt.IsZero() {
			cluster.GoneAt = c.ends(r, now, clusterDeleteTime)
			a.linger(cluster, emulator.EffectsOf(r.Context()).Linger)
		}
		return done(), nil
	})
}
