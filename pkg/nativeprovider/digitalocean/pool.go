package digitalocean

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// defaultPoolTag marks the pool that belongs to a cluster's own declaration. The official plugin finds its default pool
// by this tag, so that a state can move between the two plugins.
const defaultPoolTag = "terraform:default-node-pool"

// poolRunning is the state of a node that is ready.
const poolRunning = "running"

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
		Tags:      nativeprovider.GetStrings(m, "tags"),
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
		Tags:      slices.Concat([]string{}, p.Tags, ownTags),
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

// matches tells whether a live pool is what is wanted already, so that no request is needed.
func (p poolSpec) matches(live *godo.KubernetesNodePool, resize bool, ownTags ...string) bool {
	want := p.update(resize, ownTags...)
	if want.Name != live.Name || want.AutoScale != live.AutoScale ||
		want.Count != nil && *want.Count != live.Count ||
		want.MinNodes != nil && *want.MinNodes != live.MinNodes ||
		want.MaxNodes != nil && *want.MaxNodes != live.MaxNodes {
		return false
	}
	if !sameTags(p.Tags, userTags(live.Tags)) || !mapsEqual(p.Labels, live.Labels) {
		return false
	}
	for _, tag := range ownTags {
		if !hasTag(live.Tags, tag) {
			return false
		}
	}
	return sameTaints(p.Taints, live.Taints)
}

// poolOutputs are the properties that the default pool and a pool resource have in common, read from a live pool.
// countKnown says whether the number of nodes was declared; where it was not, it is no property of the declaration.
func poolOutputs(live *godo.KubernetesNodePool, countKnown bool) resource.PropertyMap {
	out := resource.PropertyMap{
		"name":            resource.NewProperty(live.Name),
		"size":            resource.NewProperty(live.Size),
		"actualNodeCount": nativeprovider.Whole(live.Count),
		"autoScale":       resource.NewProperty(live.AutoScale),
		"minNodes":        nativeprovider.Whole(live.MinNodes),
		"maxNodes":        nativeprovider.Whole(live.MaxNodes),
		"tags":            nativeprovider.Strings(userTags(live.Tags)),
		"labels":          nativeprovider.StringMap(live.Labels),
		"taints":          taintList(live.Taints),
		"nodes":           nodeList(live.Nodes),
	}
	if countKnown {
		out["nodeCount"] = nativeprovider.Whole(live.Count)
	}
	return out
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

// defaultPool finds the pool that belongs to the cluster's declaration, wherever it stands in the list: by its id when
// that is known, by its tag, or because it is the only one. It returns nil when there is none of these.
func defaultPool(pools []*godo.KubernetesNodePool, id string) *godo.KubernetesNodePool {
	var tagged *godo.KubernetesNodePool
	for _, pool := range pools {
		if pool == nil {
			continue
		}
		if id != "" && pool.ID == id {
			return pool
		}
		if tagged == nil && hasTag(pool.Tags, defaultPoolTag) {
			tagged = pool
		}
	}
	return tagged
}

// userTags leaves out the tags that the platform and the plugins add by themselves.
func userTags(tags []string) []string {
	out := []string{}
	for _, tag := range tags {
		if tag != "k8s" && !strings.HasPrefix(tag, "k8s:") && !strings.HasPrefix(tag, "terraform:") {
			out = append(out, tag)
		}
	}
	return out
}

// hasTag looks for a tag; DigitalOcean does not tell upper from lower case in tags.
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

// sameTaints compares two sets of taints.
func sameTaints(want []taint, live []godo.Taint) bool {
	got := make([]taint, 0, len(live))
	for _, t := range live {
		got = append(got, taint(t))
	}
	return slices.Equal(taintSet(want), taintSet(got))
}

func taintSet(taints []taint) []taint {
	set := slices.Clone(taints)
	slices.SortFunc(set, func(a, b taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
	})
	return slices.Compact(set)
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// timeText writes a time the way the official plugin keeps it in state.
func timeText(t time.Time) string { return t.UTC().String() }
