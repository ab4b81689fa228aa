package digitalocean

import (
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// defaultPoolTag marks the pool that belongs to a cluster's own declaration. The official plugin finds its default pool
// by this tag, so that a state can move between the two plugins.
const defaultPoolTag = "terraform:default-node-pool"

// poolRunning is the state of a node that is ready.
const poolRunning = "running"

// poolProperties are the properties that the default pool and a pool resource have in common. prefix is the path to them.
func poolProperties(prefix string) []nativeprovider.Property {
	resizes := []string{prefix + "nodeCount", prefix + "autoScale", prefix + "minNodes", prefix + "maxNodes"}
	return []nativeprovider.Property{
		{Name: "name", Type: nativeprovider.String, Autoname: 255, Check: notEmpty,
			Description: "Name, unique in the cluster. It can be changed."},
		{Name: "size", Type: nativeprovider.String, Required: true, Replaces: true, Check: notEmpty,
			Description: "Slug of the size of each node, for example s-2vcpu-4gb. A change replaces the pool."},
		{Name: "nodeCount", Type: nativeprovider.Int, Computed: true, Check: atLeast(0),
			Description: "Number of nodes. With autoScale it is the first size; a later change of it resizes the pool once."},
		{Name: "autoScale", Type: nativeprovider.Bool, Default: false,
			Description: "Whether the platform's autoscaler chooses the number of nodes between minNodes and maxNodes."},
		{Name: "minNodes", Type: nativeprovider.Int, Computed: true, Check: atLeast(0),
			Description: "Lower bound of the autoscaler. It has no effect without autoScale."},
		{Name: "maxNodes", Type: nativeprovider.Int, Computed: true, Check: atLeast(0),
			Description: "Upper bound of the autoscaler. It has no effect without autoScale."},
		tagsProperty("Tags of the nodes' droplets."),
		{Name: "labels", Type: nativeprovider.Map, Elem: &nativeprovider.Property{Type: nativeprovider.String},
			Description: "Labels of the nodes."},
		{Name: "taints", Type: nativeprovider.Set, Description: "Taints of the nodes.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, Fields: []nativeprovider.Property{
				{Name: "key", Type: nativeprovider.String, Required: true, Check: notEmpty, Description: "Key of the taint."},
				{Name: "value", Type: nativeprovider.String, Required: true, Description: "Value of the taint; may be empty."},
				{Name: "effect", Type: nativeprovider.String, Required: true, Check: isTaintEffect,
					Description: "NoSchedule, PreferNoSchedule or NoExecute."},
			}}},
		{Name: "actualNodeCount", Type: nativeprovider.Int, Output: true, ChangesWith: resizes,
			Description: "Number of nodes that there are."},
		{Name: "nodes", Type: nativeprovider.List, Output: true, ChangesWith: resizes, Description: "The nodes.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, Fields: []nativeprovider.Property{
				{Name: "id", Type: nativeprovider.String, Output: true, Description: "Id of the node."},
				{Name: "name", Type: nativeprovider.String, Output: true, Description: "Name of the node in Kubernetes."},
				{Name: "status", Type: nativeprovider.String, Output: true, Description: "State of the node, for example running."},
				{Name: "dropletId", Type: nativeprovider.String, Output: true, Description: "Id of the droplet."},
				{Name: "createdAt", Type: nativeprovider.String, Output: true, Description: "When it was created, as Go writes a time."},
				{Name: "updatedAt", Type: nativeprovider.String, Output: true, Description: "When it was last changed, as Go writes a time."},
			}}},
	}
}

// checkPool checks what needs several properties of a pool together.
func checkPool(prefix string, pool resource.PropertyMap) []plugin.CheckFailure {
	var failures []plugin.CheckFailure
	fail := func(name, reason string) {
		path := prefix + name
		failures = append(failures, plugin.CheckFailure{Property: resource.PropertyKey(path), Reason: path + ": " + reason})
	}
	known := func(key resource.PropertyKey) bool { return !pool[key].ContainsUnknowns() }
	if known("autoScale") && known("nodeCount") && known("minNodes") && known("maxNodes") {
		spec := poolSpecOf(pool)
		switch {
		case !spec.AutoScale && spec.Count == nil:
			fail("nodeCount", "must be given when autoScale is off")
		case spec.AutoScale && spec.MaxNodes == nil:
			fail("maxNodes", "must be given when autoScale is on")
		case spec.AutoScale && spec.MinNodes != nil && *spec.MinNodes > *spec.MaxNodes:
			fail("minNodes", "must not be more than maxNodes")
		}
	}
	if known("taints") {
		seen := map[[2]string]bool{}
		for _, t := range poolSpecOf(pool).Taints {
			if key := [2]string{t.Key, t.Effect}; seen[key] {
				fail("taints", "has two taints with key "+t.Key+" and effect "+t.Effect)
			} else {
				seen[key] = true
			}
		}
	}
	return failures
}

// dropPoolNoise drops changes that mean nothing to the platform: bounds of a pool that does not scale read back as 0.
func dropPoolNoise(diff *nativeprovider.Diff, prefix string, wanted resource.PropertyMap) {
	if wanted["autoScale"].ContainsUnknowns() || nativeprovider.GetBool(wanted, "autoScale") {
		return
	}
	diff.Drop(prefix + "minNodes")
	diff.Drop(prefix + "maxNodes")
}

// poolSpec is a node pool as it is wanted: the default pool of a cluster, or a pool of its own.
type poolSpec struct {
	Name      string
	Size      string
	Count     *int // nil when the number of nodes is not said
	AutoScale bool
	MinNodes  *int
	MaxNodes  *int
	Tags      []string
	Labels    map[string]string
	Taints    []taint
}

// poolSpecOf reads the properties that the default pool and a pool resource have in common.
func poolSpecOf(m resource.PropertyMap) poolSpec {
	spec := poolSpec{
		Name:      nativeprovider.GetString(m, "name"),
		Size:      nativeprovider.GetString(m, "size"),
		Count:     optionalInt(m, "nodeCount"),
		AutoScale: nativeprovider.GetBool(m, "autoScale"),
		MinNodes:  optionalInt(m, "minNodes"),
		MaxNodes:  optionalInt(m, "maxNodes"),
		Tags:      stringsAt(m, "tags"),
		Labels:    nativeprovider.GetStringMap(m, "labels"),
		Taints:    []taint{},
	}
	for _, item := range nativeprovider.GetObjects(m, "taints") {
		spec.Taints = append(spec.Taints, taint{
			Key:    nativeprovider.GetString(item, "key"),
			Value:  nativeprovider.GetString(item, "value"),
			Effect: nativeprovider.GetString(item, "effect"),
		})
	}
	return spec
}

// optionalInt is the number at key, nil when there is none.
func optionalInt(m resource.PropertyMap, key resource.PropertyKey) *int {
	if !m[key].IsNumber() {
		return nil
	}
	n := nativeprovider.GetInt(m, key)
	return &n
}

// creation is the request that makes the pool. The count is its first size; without it an autoscaled pool begins at
// its lower bound.
func (p poolSpec) creation(ownTags ...string) poolRequest {
	request := p.request(ownTags)
	request.Size = p.Size
	request.Count = p.Count
	return request
}

// update is the request that gives an existing pool all that is wanted of it. The count of an autoscaled pool belongs
// to the autoscaler: it is sent only when resize says that the user asked for another one.
func (p poolSpec) update(resize bool, ownTags ...string) poolRequest {
	request := p.request(ownTags)
	if !p.AutoScale || resize {
		request.Count = p.Count
	}
	return request
}

func (p poolSpec) request(ownTags []string) poolRequest {
	request := poolRequest{
		Name:      p.Name,
		Tags:      append(append([]string{}, p.Tags...), ownTags...), // an empty list, not none
		Labels:    p.Labels,
		Taints:    p.Taints,
		AutoScale: p.AutoScale,
	}
	// Bounds of a pool that does not scale read back as 0; sent, they would never be what was declared.
	if p.AutoScale {
		request.MinNodes = p.MinNodes
		request.MaxNodes = p.MaxNodes
	}
	return request
}

// poolUpdateOf is the request that makes a live pool what the inputs say, and whether it is needed. recorded is the
// state of before; without it, as in a creation, no resize is asked for.
func poolUpdateOf(live *godo.KubernetesNodePool, recorded, inputs resource.PropertyMap, ownTags ...string) (poolRequest, bool) {
	if len(recorded) == 0 {
		recorded = inputs
	}
	diff := poolTable.Compare(live.ID, poolState(live, recorded), inputs)
	dropPoolNoise(diff, "", inputs)
	differs := slices.ContainsFunc(poolChangedByPut, diff.Changed) ||
		slices.ContainsFunc(ownTags, func(tag string) bool { return !hasTag(live.Tags, tag) })
	return poolSpecOf(inputs).update(diff.Changed("nodeCount"), ownTags...), differs
}

// poolTable compares pools by the table alone.
var poolTable = &nativeprovider.Resource{Properties: poolProperties("")}

// poolChangedByPut are the properties that PUT .../node_pools/{id} changes.
var poolChangedByPut = []string{"name", "nodeCount", "autoScale", "minNodes", "maxNodes", "tags", "labels", "taints"}

// poolState is what a live pool looks like in the state: the properties that the default pool and a pool resource have
// in common. recorded is the state or the inputs of before.
//
// The count in the state of an autoscaled pool is the one that was last asked for, not the one that the autoscaler chose
// since: only then can a later plan tell a count that the user changed from one that the autoscaler changed. The number
// of nodes that there are is actualNodeCount.
func poolState(live *godo.KubernetesNodePool, recorded resource.PropertyMap) resource.PropertyMap {
	state := resource.PropertyMap{
		"name":            resource.NewProperty(live.Name),
		"size":            resource.NewProperty(live.Size),
		"nodeCount":       nativeprovider.Whole(live.Count),
		"actualNodeCount": nativeprovider.Whole(live.Count),
		"autoScale":       resource.NewProperty(live.AutoScale),
		"minNodes":        nativeprovider.Whole(live.MinNodes),
		"maxNodes":        nativeprovider.Whole(live.MaxNodes),
		"tags":            nativeprovider.Strings(userTags(live.Tags)),
		"labels":          nativeprovider.StringMap(live.Labels),
		"taints":          taintList(live.Taints),
		"nodes":           nodeList(live.Nodes),
	}
	if live.AutoScale {
		state["nodeCount"] = resource.NewNullProperty()
		if asked := optionalInt(recorded, "nodeCount"); asked != nil {
			state["nodeCount"] = nativeprovider.Whole(*asked)
		}
	}
	return state
}

func nodeList(nodes []*godo.KubernetesNode) resource.PropertyValue {
	list := []resource.PropertyMap{}
	for _, node := range nodes {
		if node == nil {
			continue
		}
		state := ""
		if node.Status != nil {
			state = node.Status.State
		}
		list = append(list, resource.PropertyMap{
			"id":        resource.NewProperty(node.ID),
			"name":      resource.NewProperty(node.Name),
			"status":    resource.NewProperty(state),
			"dropletId": resource.NewProperty(node.DropletID),
			"createdAt": resource.NewProperty(timeText(node.CreatedAt)),
			"updatedAt": resource.NewProperty(timeText(node.UpdatedAt)),
		})
	}
	return nativeprovider.Objects(list)
}

func taintList(taints []godo.Taint) resource.PropertyValue {
	list := []resource.PropertyMap{}
	for _, t := range taints {
		list = append(list, resource.PropertyMap{
			"key":    resource.NewProperty(t.Key),
			"value":  resource.NewProperty(t.Value),
			"effect": resource.NewProperty(t.Effect),
		})
	}
	return nativeprovider.Objects(list)
}

// poolReady tells whether a pool has all its nodes and all of them run.
func poolReady(pool *godo.KubernetesNodePool) bool {
	if len(pool.Nodes) != pool.Count {
		return false
	}
	for _, node := range pool.Nodes {
		if node == nil || node.Status == nil || node.Status.State != poolRunning {
			return false
		}
	}
	return true
}

// defaultPool finds the pool that belongs to the cluster's declaration, wherever it stands in the list: by the id that is
// recorded, else by its tag. Only where nothing is recorded, as in an import, a pool that is the only one is taken for it:
// otherwise it may be what is left after the default pool was deleted. It returns nil when there is none of these.
func defaultPool(pools []*godo.KubernetesNodePool, recorded resource.PropertyMap) *godo.KubernetesNodePool {
	id := nativeprovider.GetString(recorded, "id")
	pools = slices.DeleteFunc(slices.Clone(pools), func(pool *godo.KubernetesNodePool) bool { return pool == nil })
	for _, pool := range pools {
		if id != "" && pool.ID == id {
			return pool
		}
	}
	for _, pool := range pools {
		if hasTag(pool.Tags, defaultPoolTag) {
			return pool
		}
	}
	if len(recorded) == 0 && len(pools) == 1 {
		return pools[0]
	}
	return nil
}

// userTags leaves out the tags that the platform and the plugins add by themselves.
func userTags(tags []string) []string {
	return append([]string{}, slices.DeleteFunc(slices.Clone(tags), isReservedTag)...)
}

// isReservedTag tells whether a tag is one that the platform and the plugins add by themselves. DigitalOcean does not tell upper from
// lower case in tags: an account has a tag once, and shows it as it was first written.
func isReservedTag(tag string) bool {
	tag = strings.ToLower(tag)
	return tag == "k8s" || strings.HasPrefix(tag, "k8s:") || strings.HasPrefix(tag, "terraform:")
}

// hasTag looks for a tag in whatever case.
func hasTag(tags []string, tag string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, tag) })
}

// sameTags compares two sets of tags.
func sameTags(a, b []string) bool { return slices.Equal(tagSet(a), tagSet(b)) }

func tagSet(tags []string) []string {
	set := make([]string, 0, len(tags))
	for _, tag := range tags {
		set = append(set, strings.ToLower(tag))
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// timeText writes a time the way the official plugin keeps it in state.
func timeText(t time.Time) string { return t.UTC().String() }
