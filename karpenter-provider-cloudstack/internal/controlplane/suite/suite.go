// Package suite gives the tests of a package one real API server, with the custom resource definitions of this provider and of Karpenter
// core, through envtest of controller-runtime:
//
//	func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }
//
//	func TestX(t *testing.T) {
//		c := suite.Client(t)
//		suite.Create(t, c, object)
//
// The programs are those that package controlplane runs, and not ones that envtest would start: they end with the test binary, however it
// ends.
package suite

import (
	"context"
	"sync"
	"testing"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// server is the API server of this test binary.
var server struct {
	once   sync.Once
	plane  *controlplane.ControlPlane
	client client.WithWatch
	err    error
}

// Run runs the tests, and stops the API server if one of them had it started. It returns the status to exit with.
func Run(m *testing.M) int {
	status := m.Run()
	if server.plane != nil {
		server.plane.Stop()
	}
	return status
}

// Client returns the administrator's client for the API server, which the first call starts. It asks the server itself, and has no cache and
// no indexes. Objects of earlier tests are removed, so tests that run side by side cannot have it. Where programs have not been built, the
// test is skipped and says so.
func Client(t testing.TB) client.WithWatch {
	t.Helper()
	server.once.Do(func() { server.err = start() })
	if controlplane.IsMissing(server.err) {
		t.Skipf("############ NOT TESTED: %v", server.err)
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	if err := clean(t.Context(), server.client); err != nil {
		t.Fatal(err)
	}
	return server.client
}

// Config returns how to reach the API server as its administrator, under the same terms as Client.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	Client(t)
	return rest.CopyConfig(server.plane.Config)
}

// Manage runs a controller until the test ends, as the provider's manager does.
func Manage(t testing.TB, c controller.Controller) {
	t.Helper()
	m, err := manager.New(server.plane.Config, manager.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // another test may have had it
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Register(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	wait(t, m.Start)
}

// wait has something run until the test ends, and waits for its end.
func wait(t testing.TB, start func(context.Context) error) {
	t.Helper()
	ctx, done := t.Context(), make(chan error, 1)
	go func() { done <- start(ctx) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Index is an index that a cache has of a kind of object.
type Index struct {
	Kind   client.Object
	Field  string
	Values client.IndexerFunc
}

// Cached returns a client like that of a manager, after Client: it reads from a cache with these indexes, which has what there is now of the
// kinds of the indexes, and follows changes until the test ends.
func Cached(t testing.TB, indexes ...Index) client.Client {
	t.Helper()
	reader, err := cache.New(server.plane.Config, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range indexes {
		if err := reader.IndexField(t.Context(), i.Kind, i.Field, i.Values); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, reader.Start)
	if !reader.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache has not been filled")
	}
	c, err := client.New(server.plane.Config, client.Options{Scheme: scheme.Scheme, Cache: &client.CacheOptions{Reader: reader}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start() (err error) {
	log.SetLogger(logr.Discard()) // envtest tells what it does
	// The server outlives the test that is the first to need it.
	if server.plane, err = controlplane.Start(context.Background(), controlplane.Options{}); err != nil {
		return err
	}
	environment := &envtest.Environment{UseExistingCluster: ptr.To(true), Config: server.plane.Config, CRDs: crds.All(), Scheme: scheme.Scheme}
	config, err := environment.Start()
	if err != nil {
		return errors.Wrap(err, "preparing the API server")
	}
	server.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme})
	return errors.Wrap(err, "making a client for the API server")
}

// clean removes the objects that tests make. Nothing else makes any: there are no controllers. Namespaces stay, as one takes some to go.
func clean(ctx context.Context, c client.Client) error {
	for _, list := range []client.ObjectList{
		&karpv1.NodeClaimList{}, &karpv1.NodePoolList{}, &csv1.CloudStackNodeClassList{}, &corev1.NodeList{}, &corev1.SecretList{},
		&corev1.PersistentVolumeList{},
	} {
		if err := c.List(ctx, list); err != nil {
			return errors.Wrap(err, "listing what earlier tests made")
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object) // all kinds above are
			err := c.Delete(ctx, o)
			if err == nil && len(o.GetFinalizers()) > 0 {
				before := o.DeepCopyObject().(client.Object) // as it is
				o.SetFinalizers(nil)
				err = c.Patch(ctx, o, client.MergeFrom(before))
			}
			return client.IgnoreNotFound(err)
		})
		if err != nil {
			return errors.Wrap(err, "removing what earlier tests made")
		}
	}
	return nil
}

// Create creates objects, which then are as the API server has them, with their UIDs. Their namespaces are made, their status is written, too,
// and those that have a time of deletion, and so finalizers, are deleted.
func Create(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := create(t.Context(), c, o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func create(ctx context.Context, c client.Client, o client.Object) error {
	if name := o.GetNamespace(); name != "" {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	wanted, deleted := o.DeepCopyObject().(client.Object), o.GetDeletionTimestamp() != nil // a copy is of the same type
	if err := c.Create(ctx, o); err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return err
	}
	// The API server leaves the status out of what is created.
	if status, _ := content["status"].(map[string]any); len(status) > 0 {
		wanted.SetUID(o.GetUID())
		wanted.SetResourceVersion(o.GetResourceVersion())
		if err := c.Status().Update(ctx, wanted); err != nil {
			return err
		}
	}
	if deleted {
		if err := c.Delete(ctx, o); err != nil {
			return err
		}
	}
	return c.Get(ctx, client.ObjectKeyFromObject(o), o)
}
