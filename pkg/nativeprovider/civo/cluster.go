package civo

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	corev1 "k8s.io/api/core/v1"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// onlyAtCreation are the properties that Civo takes when a cluster is made and never again.
var onlyAtCreation = []string{"cni", "clusterType", "applications", "pools.publicIpNodePool"}

func clusterResource() *nativeprovider.Resource {
	installed := []nativeprovider.Property{
		{Name: "application", Output: true},
		{Name: "category", Output: true},
		{Name: "installed", Type: nativeprovider.Bool, Output: true},
		{Name: "version", Output: true},
	}
	return &nativeprovider.Resource{
		Description: "A Kubernetes cluster with its default node pool.",
		Properties: []nativeprovider.Property{
			{Name: "name", Autoname: maxName, Check: checkName, Description: "Name, unique in its region. Changes in place."},
			{Name: "firewallId", Required: true, Check: checkUUID, Description: "Firewall of the nodes, in the cluster's network. Changes in place."},
			{Name: "networkId", Computed: true, Replaces: true, Check: checkUUID, Description: "The network; the region's default one when absent."},
			regionProperty(),
			{
				Name: "kubernetesVersion", Computed: true, Equal: equalVersion, Check: checkVersion,
				Description: "Version, for example 1.28.7-k3s1. Goes up in place, and never down.",
			},
			{Name: "cni", Computed: true, Check: oneOf("flannel", "cilium"), Description: "Network plugin: flannel or cilium. Only at creation."},
			{Name: "clusterType", Computed: true, Check: oneOf("k3s", "talos"), Description: "k3s or talos. Only at creation."},
			{Name: "tags", Equal: equalWords, Description: "Tags, separated by spaces."},
			{Name: "applications", Equal: equalApplications, Description: "Marketplace applications, separated by commas. Only at creation."},
			{
				Name: "writeKubeconfig", Type: nativeprovider.Bool, Default: false,
				Description: "Whether kubeconfig is filled.",
			},
			{
				Name: "pools", Type: nativeprovider.Object, ObjectName: "KubernetesClusterPools", Required: true,
				Description: "The default node pool.", Fields: append(poolFields("KubernetesClusterPoolsTaint"),
					nativeprovider.Property{
						Name: "label", Computed: true, Replaces: true, Check: checkLabel,
						Description: "Name (and id) of the pool; made up when absent.",
					},
					nativeprovider.Property{
						Name: "publicIpNodePool", Type: nativeprovider.Bool, Computed: true,
						Description: "Whether nodes have public addresses. Only at creation.",
					},
					nativeprovider.Property{
						Name: "instanceNames", Type: nativeprovider.List, Elem: &nativeprovider.Property{}, Output: true,
						ChangesWith: []string{"pools.nodeCount"}, Description: "Names of the nodes.",
					},
				),
			},
			{
				Name: "numTargetNodes", Type: nativeprovider.Int, Computed: true, Deprecated: "Has no effect: use pools.nodeCount.",
				ChangesWith: []string{"pools.nodeCount"},
			},
			{Name: "targetNodesSize", Computed: true, Deprecated: "Has no effect: use pools.size."},
			{Name: "apiEndpoint", Output: true, Description: "URL of the Kubernetes API."},
			{Name: "createdAt", Output: true, Description: "Time of creation, as Go prints times."},
			{Name: "dnsEntry", Output: true, Description: "DNS name of the cluster."},
			{
				Name: "installedApplications", Type: nativeprovider.List, Output: true, Description: "What is installed.",
				Elem: &nativeprovider.Property{
					Type: nativeprovider.Object, ObjectName: "KubernetesClusterInstalledApplication", Fields: installed,
				},
			},
			{
				Name: "kubeconfig", Output: true, Secret: true, ChangesWith: []string{"writeKubeconfig"},
				Description: `Kubeconfig (YAML); "" unless writeKubeconfig is true.`,
			},
			{Name: "masterIp", Output: true, Description: "Address of the control plane."},
			{Name: "ready", Type: nativeprovider.Bool, Output: true, Description: "Whether the cluster is ready."},
			{Name: "status", Output: true, Description: "Status, for example ACTIVE."},
		},
		Timeouts: nativeprovider.Timeouts{Create: time.Hour, Update: time.Hour, Delete: time.Hour},
		Check: func(inputs resource.PropertyMap) []plugin.CheckFailure {
			if nativeprovider.GetString(inputs, "clusterType") == "talos" && nativeprovider.GetString(inputs, "cni") == "cilium" {
				return []plugin.CheckFailure{{Property: "cni", Reason: "cni: a talos cluster cannot have cilium"}}
			}
			return nil
		},
		Diff:                diffCluster,
		Parent:              "region",
		Identity:            []string{"networkId", "kubernetesVersion", "clusterType", "cni", "pools.label", "pools.size"},
		DeleteBeforeReplace: keeps("name"),
		Create:              createCluster,
		Read:                readCluster,
		Update:              updateCluster,
		Delete:              deleteCluster,
	}
}

// poolFields are what the default pool and an extra pool have in common.
func poolFields(taintName string) []nativeprovider.Property {
	return []nativeprovider.Property{
		{
			Name: "nodeCount", Type: nativeprovider.Int, Required: true, Check: checkCount,
			Description: "Number of nodes, from 1. Changes in place.",
		},
		{Name: "size", Required: true, Replaces: true, Description: "Size of the nodes, for example g4s.kube.medium."},
		{
			Name: "labels", Type: nativeprovider.Map, Elem: &nativeprovider.Property{},
			Description: "Kubernetes labels of the nodes. Change in place.",
		},
		{
			Name: "taints", Type: nativeprovider.Set, Description: "Kubernetes taints of the nodes. Change in place.",
			Elem: &nativeprovider.Property{
				Type: nativeprovider.Object, ObjectName: taintName, Fields: []nativeprovider.Property{
					{Name: "effect", Required: true, Check: oneOf("NoSchedule", "PreferNoSchedule", "NoExecute")},
					{Name: "key", Required: true},
					{Name: "value", Required: true},
				},
			},
		},
	}
}

func checkCount(value any) error {
	if count, _ := value.(int); count < 1 {
		return errors.New("must be at least 1: Civo has no empty node pools")
	}
	return nil
}

var labelPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`) })

func checkLabel(value any) error {
	if label, _ := value.(string); !labelPattern().MatchString(label) {
		return errors.Errorf("%q must be 1 to 63 letters, digits, dots, dashes and underscores", label)
	}
	return nil
}

func checkVersion(value any) error {
	if version, _ := value.(string); version == "" || strings.ContainsAny(version, " \t\n") {
		return errors.Errorf("%q is not a version, such as 1.28.7-k3s1 or talos-v1.5.0", version)
	}
	return nil
}

// normalVersion is a version as Civo writes it: 1.28.7-k3s1 for v1.28.7+k3s1.
func normalVersion(version string) string {
	return strings.Replace(strings.TrimPrefix(version, "v"), "+", "-", 1)
}

func equalVersion(old, new any) bool {
	a, _ := old.(string)
	b, _ := new.(string)
	return normalVersion(a) == normalVersion(b)
}

var versionPattern = regexp.MustCompile(`^(talos-v)?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-k3s([0-9]+))?$`)

// lower tells whether version a is lower than b. Versions of different distributions, or of a form that it does not know, are not compared.
func lower(a, b string) bool {
	x, y := versionPattern.FindStringSubmatch(normalVersion(a)), versionPattern.FindStringSubmatch(normalVersion(b))
	if x == nil || y == nil || x[1] != y[1] {
		return false
	}
	return slices.CompareFunc(x[2:], y[2:], func(p, q string) int {
		m, _ := strconv.Atoi(p)
		n, _ := strconv.Atoi(q)
		return cmp.Compare(m, n)
	}) < 0
}

// equalWords compares tags: words in any order.
func equalWords(old, new any) bool {
	words := func(v any) []string {
		s, _ := v.(string)
		fields := strings.Fields(s)
		slices.Sort(fields)
		return slices.Compact(fields)
	}
	return slices.Equal(words(old), words(new))
}

// equalApplications compares lists of applications: names between commas, in any order.
func equalApplications(old, new any) bool {
	names := func(v any) []string {
		s, _ := v.(string)
		fields := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(fields)
		return fields
	}
	return slices.Equal(names(old), names(new))
}

func diffCluster(diff *nativeprovider.Diff) error {
	// Deprecated and without effect: what the cloud says about its nodes stands in pools.
	diff.Drop("numTargetNodes")
	diff.Drop("targetNodesSize")

	if diff.Replaces() {
		return nil // the new cluster is made with whatever the program says
	}
	for _, path := range onlyAtCreation {
		name, _, _ := strings.Cut(path, ".")
		if diff.Changed(path) && diff.Known(name) {
			return errors.Errorf(
				"%s: cannot be changed on an existing cluster; destroy the cluster and apply again, or take the change back", path)
		}
	}
	const version = "kubernetesVersion"
	if diff.Changed(version) && diff.Known(version) {
		present, wanted := nativeprovider.GetString(diff.Old, version), nativeprovider.GetString(diff.New, version)
		if lower(wanted, present) {
			return errors.Errorf(
				"%s: %s is lower than the cluster's %s, and a cluster cannot go back; give %s or a higher version, or destroy the cluster "+
					"and apply again", version, wanted, present, present)
		}
	}
	return nil
}

func clusterPath(id string) string { return "/v2/kubernetes/clusters/" + url.PathEscape(id) }

func (r regional) cluster(ctx context.Context, id string) (*civogo.KubernetesCluster, error) {
	cluster := &civogo.KubernetesCluster{}
	if err := r.call(ctx, http.MethodGet, clusterPath(id), nil, cluster); err != nil {
		return nil, err
	}
	if cluster.ID == "" {
		return nil, holdsNothing(clusterPath(id), "cluster")
	}
	return cluster, nil
}

// clusters are all clusters of the region.
func (r regional) clusters(ctx context.Context) ([]civogo.KubernetesCluster, error) {
	var all []civogo.KubernetesCluster
	for number := 1; ; number++ {
		var page civogo.PaginatedKubernetesClusters
		path := fmt.Sprintf("/v2/kubernetes/clusters?page=%d&per_page=100", number)
		if err := r.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		if page.Items == nil && page.Page == 0 {
			return nil, holdsNothing(path, "page of clusters")
		}
		all = append(all, page.Items...)
		if number >= page.Pages || len(page.Items) == 0 {
			return all, nil
		}
	}
}

func createCluster(
	ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	r, err := c.in(nativeprovider.GetString(inputs, "region"))
	if err != nil {
		return "", nil, err
	}
	name := nativeprovider.GetString(inputs, "name")
	network := nativeprovider.GetString(inputs, "networkId")
	if network == "" {
		if network, err = r.defaultNetwork(ctx); err != nil {
			return "", nil, errors.Wrapf(err, "create civo kubernetes cluster %s", name)
		}
	}
	pool := nativeprovider.GetObject(inputs, "pools")
	label := nativeprovider.GetString(pool, "label")
	if label == "" {
		label = newUUID()
	}
	config := civogo.KubernetesClusterConfig{
		Name:              name,
		Region:            r.code,
		ClusterType:       nativeprovider.GetString(inputs, "clusterType"),
		KubernetesVersion: normalVersion(nativeprovider.GetString(inputs, "kubernetesVersion")),
		NetworkID:         network,
		Tags:              nativeprovider.GetString(inputs, "tags"),
		Applications:      nativeprovider.GetString(inputs, "applications"),
		InstanceFirewall:  nativeprovider.GetString(inputs, "firewallId"),
		CNIPlugin:         nativeprovider.GetString(inputs, "cni"),
		Pools: []civogo.KubernetesClusterPoolConfig{{
			ID:               label,
			Count:            nativeprovider.GetInt(pool, "nodeCount"),
			Size:             nativeprovider.GetString(pool, "size"),
			Labels:           nativeprovider.GetStringMap(pool, "labels"),
			Taints:           taintsOf(pool),
			PublicIPNodePool: nativeprovider.GetBool(pool, "publicIpNodePool"),
		}},
	}
	id, err := op.MakeOnce(ctx, r.making("kubernetes cluster", name,
		func(ctx context.Context, name string) ([]nativeprovider.Found, error) {
			clusters, err := r.clusters(ctx)
			var found []nativeprovider.Found
			for i := range clusters {
				if cluster := &clusters[i]; strings.EqualFold(cluster.Name, name) {
					found = append(found, nativeprovider.Found{
						ID: cluster.ID, Created: cluster.CreatedAt,
						State: clusterState(r, cluster, defaultPoolLabel(inputs, cluster), inputs),
					})
				}
			}
			return found, err
		},
		func(ctx context.Context) (string, error) {
			var made civogo.KubernetesCluster
			err := r.call(ctx, http.MethodPost, "/v2/kubernetes/clusters", config, &made)
			return made.ID, err
		}))
	if err != nil {
		return "", nil, errors.Wrapf(err, "create civo kubernetes cluster %s", name)
	}
	cluster, state, err := r.waitForCluster(ctx, op, id, label, inputs)
	if err == nil {
		// Civo ignores labels and taints of the default pool when it makes the cluster.
		var changed bool
		if changed, err = r.applyPool(ctx, op, cluster, label, pool); changed && err == nil {
			_, state, err = r.waitForCluster(ctx, op, id, label, inputs)
		}
	}
	if state == nil {
		state = resource.PropertyMap{"region": text(r.code), "networkId": text(network), "pools": labelled(pool, label)}
	}
	return id, state, errors.Wrapf(err, "create civo kubernetes cluster %s", name)
}

// labelled is the default pool as far as it is known before the first look at the cluster: its label, and no nodes.
func labelled(pool resource.PropertyMap, label string) resource.PropertyValue {
	known := pool.Copy()
	known["label"] = text(label)
	known["nodeCount"] = nativeprovider.Whole(0)
	known["instanceNames"] = nativeprovider.Strings(nil)
	return resource.NewObjectProperty(known)
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// waitForCluster waits until a cluster is active and its default pool complete. It returns the cluster and the state as it last saw them,
// also with an error.
func (r regional) waitForCluster(
	ctx context.Context, op *nativeprovider.Operation, id, label string, inputs resource.PropertyMap,
) (cluster *civogo.KubernetesCluster, state resource.PropertyMap, err error) {
	what := "cluster " + nativeprovider.GetString(inputs, "name") + " to become ACTIVE"
	err = nativeprovider.PollUntil(ctx, nativeprovider.Poll{What: what, First: 250 * time.Millisecond, Operation: op},
		func(ctx context.Context) (bool, string, error) {
			seen, err := r.cluster(ctx, id)
			if err != nil {
				return false, "", err
			}
			cluster = seen
			state = clusterState(r, cluster, label, inputs)
			if err := clusterFailed(cluster); err != nil {
				return false, "", err
			}
			switch {
			case cluster.Status != "ACTIVE":
				return false, cluster.Status, nil
			case !settled(cluster, label):
				return false, "nodes of pool " + label + " are not ready yet", nil
			case nativeprovider.GetBool(inputs, "writeKubeconfig") && cluster.KubeConfig == "":
				return false, "the kubeconfig is not there yet", nil
			}
			return true, cluster.Status, nil
		})
	return cluster, state, err
}

// clusterFailed is the error of a cluster that will not become active by waiting.
func clusterFailed(cluster *civogo.KubernetesCluster) error {
	status := strings.ToUpper(cluster.Status)
	if !strings.Contains(status, "FAIL") && !strings.Contains(status, "ERROR") && status != "DELETING" {
		return nil
	}
	text := "cluster is in status " + cluster.Status
	for _, condition := range cluster.Conditions {
		if condition.Message != "" && condition.Status != "True" {
			text += "; " + condition.Message
		}
	}
	return errors.New(text)
}

// settled tells whether a pool has all the nodes that it should have, and all are up.
func settled(cluster *civogo.KubernetesCluster, label string) bool {
	pool := poolByID(cluster, label)
	if pool == nil || pool.Count == 0 {
		return false
	}
	for _, required := range cluster.RequiredPools {
		if required.ID == label && required.Count != pool.Count {
			return false
		}
	}
	if len(pool.Instances) == 0 {
		// An answer without instances: names are what there is to count.
		return len(pool.InstanceNames) >= pool.Count
	}
	if len(pool.Instances) < pool.Count {
		return false
	}
	for _, instance := range pool.Instances {
		if instance.Status != "ACTIVE" {
			return false
		}
	}
	return true
}

func poolByID(cluster *civogo.KubernetesCluster, id string) *civogo.KubernetesPool {
	for i := range cluster.Pools {
		if cluster.Pools[i].ID == id {
			return &cluster.Pools[i]
		}
	}
	return nil
}

// clusterState is the state of a cluster whose default pool has the label. given are the inputs or the recorded state: it says what the API
// does not tell.
func clusterState(r regional, cluster *civogo.KubernetesCluster, label string, given resource.PropertyMap) resource.PropertyMap {
	kubeconfig := ""
	if nativeprovider.GetBool(given, "writeKubeconfig") {
		kubeconfig = cluster.KubeConfig
	}
	installed := make([]resource.PropertyMap, len(cluster.InstalledApplications))
	for i, application := range cluster.InstalledApplications {
		installed[i] = resource.PropertyMap{
			"application": text(application.Application),
			"category":    text(application.Category),
			"installed":   resource.NewBoolProperty(application.Installed),
			"version":     text(application.Version),
		}
	}
	pool := labelled(nativeprovider.GetObject(given, "pools"), label)
	if present := poolByID(cluster, label); present != nil {
		pool = resource.NewObjectProperty(poolState(cluster, present))
	}
	state := resource.PropertyMap{
		"name":                  text(cluster.Name),
		"firewallId":            text(cluster.FirewallID),
		"networkId":             text(cluster.NetworkID),
		"region":                text(r.code),
		"kubernetesVersion":     text(cluster.KubernetesVersion),
		"clusterType":           text(cluster.ClusterType),
		"cni":                   text(cluster.CNIPlugin),
		"tags":                  text(strings.Join(cluster.Tags, " ")),
		"pools":                 pool,
		"numTargetNodes":        nativeprovider.Whole(cluster.NumTargetNode),
		"targetNodesSize":       text(cluster.TargetNodeSize),
		"apiEndpoint":           text(cluster.APIEndPoint),
		"createdAt":             text(cluster.CreatedAt.UTC().String()),
		"dnsEntry":              text(cluster.DNSEntry),
		"installedApplications": nativeprovider.Objects(installed),
		"kubeconfig":            text(kubeconfig),
		"masterIp":              text(cluster.MasterIP),
		"ready":                 resource.NewBoolProperty(cluster.Ready),
		"status":                text(cluster.Status),
	}
	return state
}

// poolState is a node pool as the cluster resource and the pool resource record it. Labels and taints may stand in what the cluster is meant
// to have (required_pools) alone.
func poolState(cluster *civogo.KubernetesCluster, pool *civogo.KubernetesPool) resource.PropertyMap {
	labels, taints, public := pool.Labels, pool.Taints, pool.PublicIPNodePool
	for _, required := range cluster.RequiredPools {
		if required.ID == pool.ID {
			if len(labels) == 0 {
				labels = required.Labels
			}
			if len(taints) == 0 {
				taints = required.Taints
			}
			public = public || required.PublicIPNodePool
		}
	}
	taintStates := make([]resource.PropertyMap, len(taints))
	for i, taint := range taints {
		taintStates[i] = resource.PropertyMap{
			"key": text(taint.Key), "value": text(taint.Value), "effect": text(string(taint.Effect)),
		}
	}
	names := pool.InstanceNames
	if len(names) == 0 {
		for _, instance := range pool.Instances {
			names = append(names, instance.Hostname)
		}
	}
	return resource.PropertyMap{
		"label":            text(pool.ID),
		"nodeCount":        nativeprovider.Whole(pool.Count),
		"size":             text(pool.Size),
		"labels":           nativeprovider.StringMap(labels),
		"taints":           nativeprovider.Objects(taintStates),
		"publicIpNodePool": resource.NewBoolProperty(public),
		"instanceNames":    nativeprovider.Strings(names),
	}
}

// taintsOf are the taints of a pool's inputs; empty, not nil, for none: that is how they are taken away.
func taintsOf(pool resource.PropertyMap) []corev1.Taint {
	taints := []corev1.Taint{}
	for _, taint := range nativeprovider.GetObjects(pool, "taints") {
		taints = append(taints, corev1.Taint{
			Key:    nativeprovider.GetString(taint, "key"),
			Value:  nativeprovider.GetString(taint, "value"),
			Effect: corev1.TaintEffect(nativeprovider.GetString(taint, "effect")),
		})
	}
	return taints
}

// defaultPoolLabel finds the label of the default pool: the recorded one. A cluster that is imported has none recorded; its first pool is
// the one that it was made with.
func defaultPoolLabel(state resource.PropertyMap, cluster *civogo.KubernetesCluster) string {
	if label := nativeprovider.GetString(nativeprovider.GetObject(state, "pools"), "label"); label != "" {
		return label
	}
	switch {
	case len(cluster.RequiredPools) > 0:
		return cluster.RequiredPools[0].ID
	case len(cluster.Pools) > 0:
		return cluster.Pools[0].ID
	default:
		return ""
	}
}

func readCluster(
	ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	r, cluster, err := c.locateCluster(ctx, nativeprovider.GetString(state, "region"), id)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read civo kubernetes cluster %s", id)
	}
	wanted, imported := resource.NewBoolProperty(true), len(state) == 0
	if imported {
		state = resource.PropertyMap{"writeKubeconfig": wanted}
	}
	present := clusterState(r, cluster, defaultPoolLabel(state, cluster), state)
	if imported {
		// It is nothing that Civo could tell, and what the module wants: an import leaves nothing to change.
		present["writeKubeconfig"] = wanted
	}
	if cluster.Status == "BUILDING" {
		// Recorded as unfinished: otherwise a refresh would make a half made cluster pass for a whole one.
		return id, present, errors.Errorf("civo kubernetes cluster %s is still being built", id)
	}
	return id, present, nil
}

func updateCluster(
	ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	r, cluster, err := c.locateCluster(ctx, nativeprovider.GetString(state, "region"), id)
	if err != nil {
		return nil, errors.Wrapf(err, "update civo kubernetes cluster %s", id)
	}
	label := defaultPoolLabel(state, cluster)
	if err := r.applyCluster(ctx, op, cluster, label, inputs); err != nil {
		// Some of it may be done: the record becomes what is there now.
		lookCtx, cancel := afterwards(ctx)
		defer cancel()
		var present resource.PropertyMap
		if now, lookErr := r.cluster(lookCtx, id); lookErr == nil {
			present = clusterState(r, now, label, state)
		}
		return present, errors.Wrapf(err, "update civo kubernetes cluster %s", id)
	}
	_, updated, err := r.waitForCluster(ctx, op, id, label, inputs)
	return updated, errors.Wrapf(err, "update civo kubernetes cluster %s", id)
}

// applyCluster makes a cluster what the inputs say. It asks only for what differs from the cluster as it is now.
func (r regional) applyCluster(
	ctx context.Context, op *nativeprovider.Operation, cluster *civogo.KubernetesCluster, label string, inputs resource.PropertyMap,
) error {
	// A request of its own: civogo's type cannot say "no tags".
	request := map[string]any{}
	if name := nativeprovider.GetString(inputs, "name"); name != "" && name != cluster.Name {
		request["name"] = name
	}
	if tags := nativeprovider.GetString(inputs, "tags"); !equalWords(strings.Join(cluster.Tags, " "), tags) {
		request["tags"] = tags
	}
	if firewall := nativeprovider.GetString(inputs, "firewallId"); firewall != "" && firewall != cluster.FirewallID {
		request["firewall_id"] = firewall
	}
	wanted := nativeprovider.GetString(inputs, "kubernetesVersion")
	if wanted != "" && !equalVersion(cluster.KubernetesVersion, wanted) {
		request["kubernetes_version"] = normalVersion(wanted)
	}
	if len(request) > 0 {
		request["region"] = r.code
		if err := whenFree(ctx, op, "cluster "+cluster.Name+" to take the change", func(ctx context.Context) error {
			return r.call(ctx, http.MethodPut, clusterPath(cluster.ID), request, nil)
		}); err != nil {
			return err
		}
	}
	_, err := r.applyPool(ctx, op, cluster, label, nativeprovider.GetObject(inputs, "pools"))
	if err != nil || request["kubernetes_version"] == nil {
		return err
	}
	return nativeprovider.PollUntil(ctx, nativeprovider.Poll{What: "cluster " + cluster.Name + " to run " + wanted, Operation: op},
		func(ctx context.Context) (bool, string, error) {
			now, err := r.cluster(ctx, cluster.ID)
			if err != nil {
				return false, "", err
			}
			if err := clusterFailed(now); err != nil {
				return false, "", err
			}
			return equalVersion(now.KubernetesVersion, wanted), now.Status + " " + now.KubernetesVersion, nil
		})
}

func deleteCluster(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	r, cluster, err := c.locateCluster(ctx, nativeprovider.GetString(state, "region"), id)
	if nativeprovider.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return errors.Wrapf(err, "delete civo kubernetes cluster %s", id)
	}
	err = r.remove(ctx, op, "cluster "+cluster.Name, clusterPath(id), func(ctx context.Context) error {
		_, err := r.cluster(ctx, id)
		return err
	})
	return errors.Wrapf(err, "delete civo kubernetes cluster %s", id)
}
