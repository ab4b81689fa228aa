package operator

import (
	"testing"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

// The cache keeps nothing that nobody reads, of what a cluster has thousands of; and a patch of what it has leaves the rest where it is.
func TestCacheIsSlim(t *testing.T) {
	defer func(before time.Duration) { lifecycle.LaunchTimeout = before }(lifecycle.LaunchTimeout)
	ctx := t.Context()
	o := quick()
	o.CredentialsDirectory = t.TempDir()
	c, _ := core(t, kubeSystem())
	if _, _, err := Build(options.ToContext(ctx, o), c); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}},
		Status: corev1.NodeStatus{
			Phase: corev1.NodeRunning, Images: []corev1.ContainerImage{{Names: []string{"pause"}, SizeBytes: 1}},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: karpv1.NodeClaimSpec{
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
		NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
	}}
	server := suite.Client(t)
	suite.Create(t, server, node, pod, claim)
	t.Cleanup(func() { _ = server.Delete(t.Context(), pod, client.GracePeriodSeconds(0)) }) // nothing else here looks at pods

	started := make(chan error, 1)
	go func() { started <- c.GetCache().Start(ctx) }()
	t.Cleanup(func() {
		if err := <-started; err != nil {
			t.Error(err)
		}
	})
	if !c.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache has not been filled")
	}
	for _, object := range []client.Object{node, pod, claim} {
		name := client.ObjectKeyFromObject(object)
		if err := c.GetAPIReader().Get(ctx, name, object); err != nil || len(object.GetManagedFields()) == 0 {
			t.Errorf("%T: the API server has %d managed fields (%v)", object, len(object.GetManagedFields()), err)
		}
		if err := c.GetClient().Get(ctx, name, object); err != nil || object.GetUID() == "" || object.GetManagedFields() != nil {
			t.Errorf("%T: the cache has managed fields %v (%v)", object, object.GetManagedFields(), err)
		}
	}
	if node.Status.Images != nil || node.Status.Phase != corev1.NodeRunning || node.Labels["a"] != "b" {
		t.Errorf("the cache has a node with %v, %+v", node.Labels, node.Status)
	}

	before := node.DeepCopy()
	node.Labels["a"], node.Status.Phase = "c", corev1.NodePending
	if err := c.GetClient().Patch(ctx, node.DeepCopy(), client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.GetClient().Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Node{}
	if err := c.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(node), after); err != nil {
		t.Fatal(err)
	}
	if after.Labels["a"] != "c" || after.Status.Phase != corev1.NodePending || len(after.Status.Images) != 1 || len(after.ManagedFields) == 0 {
		t.Errorf("the API server has a node with %v, %+v, %d managed fields", after.Labels, after.Status, len(after.ManagedFields))
	}
}

// mapper knows of no kinds, or has no answer.
type mapper struct {
	meta.RESTMapper
	err error
}

func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.err != nil {
		return nil, m.err
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// Definitions that are missing stop nothing here: core says so. An API server that does not tell is an error.
func TestSlimWithoutDefinitions(t *testing.T) {
	for name, err := range map[string]error{"no definitions": nil, "no answer": errors.New("no answer")} {
		informers, made := cache.New(&rest.Config{Host: "http://127.0.0.1:1"}, cache.Options{
			Scheme: scheme.Scheme, Mapper: mapper{meta.NewDefaultRESTMapper(nil), err},
		})
		if made != nil {
			t.Fatal(made)
		}
		if got := slim(t.Context(), informers); !errors.Is(got, err) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
