package tagging

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/samber/lo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

// cloud is CloudStack as the controller sees it.
type cloud struct {
	mu        sync.Mutex
	instances []*instance.Instance
	volumes   map[string]*cloudstack.Volume
	lists     int
	ensured   []string
	dropped   []string
	listErr   error
	ensureErr error
	volumeErr error
	jobErr    error
	// scopes are those that disks were looked for in.
	scopes []cloudstack.Scope
}

func (c *cloud) List(context.Context) ([]*instance.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return c.instances, c.listErr
}

func (c *cloud) Tags(nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim) map[string]string {
	return lo.Assign(nodeClass.Spec.Tags, map[string]string{csv1.TagManagedBy: "production", csv1.TagNodeClaim: nodeClaim.Name})
}

func (c *cloud) EnsureTags(_ context.Context, i *instance.Instance, want map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ensured = append(c.ensured, i.ID)
	if c.ensureErr == nil {
		maps.Copy(i.Tags, want)
	}
	return c.ensureErr
}

func (c *cloud) DeleteTags(_ context.Context, resourceType string, ids, keys []string) (cloudstack.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = append(c.dropped, fmt.Sprint(resourceType, ids, keys))
	for _, i := range c.instances {
		if slices.Contains(ids, i.ID) {
			maps.DeleteFunc(i.Tags, func(key, _ string) bool { return slices.Contains(keys, key) })
		}
	}
	return cloudstack.Job{}, nil
}

func (c *cloud) ListVolumes(_ context.Context, scope cloudstack.Scope, _ string) ([]*cloudstack.Volume, error) {
	c.scopes = append(c.scopes, scope)
	return lo.Values(c.volumes), c.volumeErr
}

func (c *cloud) WaitForJob(context.Context, cloudstack.Job) error { return c.jobErr }

func id(n int) string { return fmt.Sprintf("0b5c4b6e-1111-4222-8333-%012d", n) }

func machine(n int, tags map[string]string) *instance.Instance {
	return &instance.Instance{ID: id(n), Name: fmt.Sprintf("m%d", n), State: cloudstack.StateRunning, Tags: tags}
}

func claim(n int, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", n)},
		Spec: karpv1.NodeClaimSpec{
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: cloudprovider.ProviderID("", id(n))},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func nodeClass(tags map[string]string) *csv1.CloudStackNodeClass {
	return &csv1.CloudStackNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: csv1.CloudStackNodeClassSpec{
		Zones: []string{"zone-01"}, Tags: tags,
		ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{Name: "small"}}, TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{Name: "ubuntu"}},
	}}
}

type rig struct {
	*testing.T
	*cloud
	client client.WithWatch
	c      *Controller
	writes int
}

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{T: t, cloud: &cloud{volumes: map[string]*cloudstack.Volume{}}}
	server := suite.Client(t)
	suite.Create(t, server, objects...)
	r.client = interceptor.NewClient(server, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			r.mu.Lock()
			r.writes++
			r.mu.Unlock()
			return c.Patch(ctx, o, p, options...)
		},
	})
	r.c = NewController(r.client, r.cloud, r.cloud, "")
	return r
}

func (r *rig) run() {
	r.Helper()
	r.ensured, r.dropped, r.writes = nil, nil, 0
	if _, err := r.c.Reconcile(context.Background()); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) annotations(n int) map[string]string {
	r.Helper()
	c := &karpv1.NodeClaim{}
	if err := r.client.Get(context.Background(), client.ObjectKey{Name: fmt.Sprintf("c%d", n)}, c); err != nil {
		r.Fatal(err)
	}
	return c.Annotations
}

func ours(n int, more map[string]string) map[string]string {
	return lo.Assign(map[string]string{csv1.TagManagedBy: "production", csv1.TagNodeClaim: fmt.Sprintf("c%d", n), "foreign": "stays"}, more)
}

func TestLostTagsAreWritten(t *testing.T) {
	r := newRig(t, nodeClass(map[string]string{"team": "a"}), claim(1), claim(2), claim(3))
	r.instances = []*instance.Instance{machine(1, map[string]string{}), machine(2, ours(2, map[string]string{"team": "a"})), machine(3, ours(3, map[string]string{"team": "other"}))}
	r.run()
	slices.Sort(r.ensured)
	if !slices.Equal(r.ensured, []string{id(1), id(3)}) || r.instances[0].Tags[csv1.TagNodeClaim] != "c1" || r.instances[2].Tags["team"] != "a" {
		t.Errorf("written: %v", r.ensured)
	}
	for n := 1; n <= 3; n++ {
		if got := r.annotations(n); got[csv1.AnnotationInstanceTagged] != "true" || got[annotationTagKeys] != `["team"]` {
			t.Errorf("NodeClaim %d: %v", n, got)
		}
	}
	// Once all is as it has to be, a pass is one list.
	r.lists = 0
	r.run()
	if len(r.ensured)+len(r.dropped)+r.writes != 0 || r.lists != 1 {
		t.Errorf("a pass for nothing: tags of %v written, %v taken, %d NodeClaims, %d lists", r.ensured, r.dropped, r.writes, r.lists)
	}
}

func TestTagsThatWereTakenAway(t *testing.T) {
	ctx := context.Background()
	n := nodeClass(map[string]string{"team": "a", "cost": "1"})
	r := newRig(t, n, claim(1))
	r.instances = []*instance.Instance{machine(1, map[string]string{"foreign": "stays"})}
	r.volumes["ours"] = &cloudstack.Volume{Id: "ours", Tags: []sdk.Tags{{Key: csv1.TagManagedBy, Value: "production"}, {Key: "cost", Value: "1"}}}
	r.volumes["csi"] = &cloudstack.Volume{Id: "csi", Tags: []sdk.Tags{{Key: "cost", Value: "1"}}}
	r.run()
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
		t.Fatal(err)
	}
	n.Spec.Tags = map[string]string{"team": "b"}
	if err := r.client.Update(ctx, n); err != nil {
		t.Fatal(err)
	}
	r.run()
	slices.Sort(r.dropped)
	if want := []string{fmt.Sprint("UserVm", []string{id(1)}, []string{"cost"}), fmt.Sprint("Volume", []string{"ours"}, []string{"cost"})}; !slices.Equal(r.dropped, want) {
		t.Errorf("taken away: %v, not %v", r.dropped, want)
	}
	if got := r.instances[0].Tags; got["team"] != "b" || got["foreign"] != "stays" || lo.HasKey(got, "cost") {
		t.Errorf("tags %v", got)
	}
	if got := r.annotations(1)[annotationTagKeys]; got != `["team"]` {
		t.Errorf("recorded: %s", got)
	}
}

func TestOwnershipStays(t *testing.T) {
	r := newRig(t, nodeClass(nil), claim(1, func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{annotationTagKeys: `["karpenter.k8s.cloudstack/cluster-uid","karpenter.sh/nodepool"]`}
	}))
	r.instances = []*instance.Instance{machine(1, ours(1, map[string]string{"karpenter.sh/nodepool": "x", csv1.TagClusterUID: "y"}))}
	r.run()
	if len(r.dropped) != 0 {
		t.Errorf("taken away: %v", r.dropped)
	}
}

func TestWhatIsNotTagged(t *testing.T) {
	gone := &metav1.Time{Time: metav1.Now().Time}
	for name, test := range map[string]struct {
		machine *instance.Instance
		objects []client.Object
	}{
		"no NodeClaim":                 {machine(1, nil), []client.Object{nodeClass(nil), claim(2)}},
		"NodeClaim that is deleted":    {machine(1, nil), []client.Object{nodeClass(nil), claim(2), claim(1, func(c *karpv1.NodeClaim) { c.Finalizers, c.DeletionTimestamp = []string{"x/y"}, gone })}},
		"NodeClaim without a machine":  {machine(1, nil), []client.Object{nodeClass(nil), claim(2), claim(1, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "" })}},
		"NodeClaim of another cloud":   {machine(1, nil), []client.Object{nodeClass(nil), claim(2), claim(1, func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Group = "x" })}},
		"NodeClass that is gone":       {machine(1, nil), []client.Object{claim(1)}},
		"machine that is being killed": {&instance.Instance{ID: id(1), Deleting: true}, []client.Object{nodeClass(nil), claim(1)}},
		"machine that failed":          {&instance.Instance{ID: id(1), State: cloudstack.StateError}, []client.Object{nodeClass(nil), claim(1)}},
	} {
		r := newRig(t, test.objects...)
		r.instances = []*instance.Instance{test.machine}
		r.run()
		if len(r.ensured)+r.writes != 0 {
			t.Errorf("%s: tags of %v written, %d NodeClaims", name, r.ensured, r.writes)
		}
	}
}

func TestNoNodeClaimsNoRequests(t *testing.T) {
	r := newRig(t, nodeClass(nil))
	r.run()
	if r.lists != 0 {
		t.Errorf("%d lists", r.lists)
	}
}

func TestFailures(t *testing.T) {
	r := newRig(t, nodeClass(nil), claim(1), claim(2))
	r.instances = []*instance.Instance{machine(1, map[string]string{}), machine(2, map[string]string{})}
	r.ensureErr = errors.New("no answer")
	before := testutil.ToFloat64(written.WithLabelValues(resultFailed))
	if _, err := r.c.Reconcile(context.Background()); err == nil || len(r.ensured) != 2 || r.writes != 0 {
		t.Errorf("%v: one that fails must not stop the other: %v; %d NodeClaims written", err, r.ensured, r.writes)
	}
	if testutil.ToFloat64(written.WithLabelValues(resultFailed)) != before+2 {
		t.Error("the metric does not count the failures")
	}
	r.listErr = errors.New("no answer")
	if _, err := r.c.Reconcile(context.Background()); err == nil {
		t.Error("a list that fails is no error")
	}
}

func TestProviderIDOfAnotherFormat(t *testing.T) {
	r := newRig(t, nodeClass(nil), claim(1, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "mycloud://" + id(1) }))
	r.c = NewController(r.client, r.cloud, r.cloud, "mycloud://")
	r.instances = []*instance.Instance{machine(1, map[string]string{})}
	r.run()
	if len(r.ensured) != 1 {
		t.Errorf("written: %v", r.ensured)
	}
}

// TestPeriod: tags are looked at again after a while, whether there is a machine or not.
func TestPeriod(t *testing.T) {
	for name, objects := range map[string][]client.Object{"no NodeClaims": nil, "a NodeClaim": {nodeClass(nil), claim(1)}} {
		r := newRig(t, objects...)
		if result, err := r.c.Reconcile(context.Background()); err != nil || result.RequeueAfter != 5*time.Minute {
			t.Errorf("%s: again in %s (%v)", name, result.RequeueAfter, err)
		}
	}
}

// TestTagsThatCannotBeTaken: what is left is taken by a later pass, which knows of it until then.
func TestTagsThatCannotBeTaken(t *testing.T) {
	recorded := func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{annotationTagKeys: `["cost"]`} }
	no := errors.New("no answer")
	for name, fail := range map[string]func(*cloud){
		"of the machine": func(c *cloud) { c.jobErr = no },
		"of its disks":   func(c *cloud) { c.volumeErr = no },
	} {
		r := newRig(t, nodeClass(nil), claim(1, recorded))
		r.instances = []*instance.Instance{machine(1, ours(1, map[string]string{"cost": "1"}))}
		r.instances[0].ProjectID = "p"
		fail(r.cloud)
		failed, done := testutil.ToFloat64(written.WithLabelValues(resultFailed)), testutil.ToFloat64(written.WithLabelValues(resultWritten))
		if _, err := r.c.Reconcile(context.Background()); !errors.Is(err, no) || r.annotations(1)[annotationTagKeys] != `["cost"]` {
			t.Errorf("%s: %v, recorded %s", name, err, r.annotations(1)[annotationTagKeys])
		}
		r.jobErr, r.volumeErr = nil, nil
		r.instances[0].Tags["cost"] = "1"
		r.run()
		if want := fmt.Sprint("UserVm", []string{id(1)}, []string{"cost"}); !slices.Equal(r.dropped, []string{want}) || lo.HasKey(r.annotations(1), annotationTagKeys) {
			t.Errorf("%s: taken away: %v, recorded %v", name, r.dropped, r.annotations(1))
		}
		if slices.ContainsFunc(r.scopes, func(s cloudstack.Scope) bool { return s.ProjectID != "p" }) || len(r.scopes) == 0 {
			t.Errorf("%s: its disks were looked for in %v", name, r.scopes)
		}
		if testutil.ToFloat64(written.WithLabelValues(resultFailed)) != failed+1 || testutil.ToFloat64(written.WithLabelValues(resultWritten)) != done+1 {
			t.Errorf("%s: the metric does not count a failure, and then a machine", name)
		}
	}
}

// TestOnlyTagsThatThereAre: CloudStack refuses to take a tag that a disk does not have.
func TestOnlyTagsThatThereAre(t *testing.T) {
	r := newRig(t, nodeClass(nil), claim(1, func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{annotationTagKeys: `["cost","team"]`} }))
	r.instances = []*instance.Instance{machine(1, ours(1, map[string]string{"cost": "1", "team": "a"}))}
	of := func(id string, keys ...string) *cloudstack.Volume {
		return &cloudstack.Volume{Id: id, Tags: append([]sdk.Tags{{Key: csv1.TagManagedBy, Value: "production"}},
			lo.Map(keys, func(key string, _ int) sdk.Tags { return sdk.Tags{Key: key, Value: "1"} })...)}
	}
	r.volumes["root"], r.volumes["data"] = of("root", "team"), of("data")
	r.run()
	slices.Sort(r.dropped)
	if want := []string{fmt.Sprint("UserVm", []string{id(1)}, []string{"cost", "team"}), fmt.Sprint("Volume", []string{"root"}, []string{"team"})}; !slices.Equal(r.dropped, want) {
		t.Errorf("taken away: %v, not %v", r.dropped, want)
	}
}

// TestNodeClaimThatGoesMeanwhile: there is nothing to be written into any more.
func TestNodeClaimThatGoesMeanwhile(t *testing.T) {
	r := newRig(t, nodeClass(nil), claim(1))
	r.instances = []*instance.Instance{machine(1, map[string]string{})}
	r.c.kubeClient = interceptor.NewClient(r.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := c.Delete(ctx, o.DeepCopyObject().(client.Object)); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	r.run()
	if len(r.ensured) != 1 {
		t.Errorf("written: %v", r.ensured)
	}
}

// TestTagsOfANodeClassChange: machines get them at once, not with the next look at all of them.
func TestTagsOfANodeClassChange(t *testing.T) {
	ctx := context.Background()
	n := nodeClass(map[string]string{"team": "a"})
	r := newRig(t, n, claim(1))
	r.instances = []*instance.Instance{machine(1, ours(1, map[string]string{"team": "a"}))}
	suite.Manage(t, r.c)
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			r.mu.Lock()
			done := is()
			r.mu.Unlock()
			if done {
				return
			}
			if time.Since(began) > 30*time.Second {
				t.Fatal(what)
			}
		}
	}
	until("machines are not looked at", func() bool { return r.writes > 0 })
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
		t.Fatal(err)
	}
	n.Spec.Tags = map[string]string{"team": "b"}
	if err := r.client.Update(ctx, n); err != nil {
		t.Fatal(err)
	}
	until("the machine does not get the tag", func() bool { return r.instances[0].Tags["team"] == "b" })
}
