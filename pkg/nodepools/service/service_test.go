package service_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// TestMain has rapid draw fewer histories than it would by itself: each is a concurrent run on a database. -rapid.checks draws more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	os.Exit(postgrestest.Main(m))
}

// Who the requests of the tests come from.
var (
	alice      = auth.Identity{Name: "alice@example.com", Role: auth.Editor}
	bob        = auth.Identity{Name: "bob@example.com", Role: auth.Editor}
	watcher    = auth.Identity{Name: "alice@example.com", Role: auth.Viewer}
	root       = auth.Identity{Name: "root@example.com", Role: auth.Admin}
	controller = auth.Identity{Name: "gcp-nodepool-controller", Role: auth.ControllerRole}
)

// bench is a service on a database of its own, with a clock that only the test moves.
type bench struct {
	*service.Service
	t     testing.TB
	store *store.DB
	mutex sync.Mutex
	clock time.Time
}

// newBench returns a service on SQLite.
func newBench(t testing.TB, change ...func(*service.Options)) *bench {
	t.Helper()
	return newBenchAt(t, filepath.Join(t.TempDir(), "nodepools.db"), change...)
}

func newBenchAt(t testing.TB, address string, change ...func(*service.Options)) *bench {
	t.Helper()
	db, err := store.Open(t.Context(), address, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	result := &bench{t: t, store: db, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	options := service.Options{Store: db, Key: []byte(strings.Repeat("k", 32)), Now: result.now, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range change {
		change(&options)
	}
	if result.Service, err = service.New(options); err != nil {
		t.Fatal(err)
	}
	return result
}

// databases runs a test on each database that the service runs on.
func databases(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "nodepools.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgrestest.Database(t))
	})
}

func (b *bench) now() time.Time {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.clock
}

func (b *bench) pass(duration time.Duration) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.clock = b.clock.Add(duration)
}

// as is a context of a request of somebody.
func (b *bench) as(who auth.Identity, request ...service.Request) context.Context {
	ctx := auth.NewContext(b.t.Context(), who)
	for _, request := range request {
		ctx = service.WithRequest(ctx, request)
	}
	return ctx
}

func must[A any](t testing.TB, what string) func(A, error) A {
	return func(result A, err error) A {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v, details %q", what, err, details(err))
		}
		return result
	}
}

// refused checks that a request was refused for a reason.
func refused(t testing.TB, what string, err error, reason string) {
	t.Helper()
	if got := service.Reason(err); got != reason {
		t.Fatalf("%s: the error is %v (reason %q, details %q), want the reason %s", what, err, got, details(err), reason)
	}
}

// details is what the REST API shows as details.
func details(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()[service.DetailsKey]
		}
	}
	return ""
}

// fields are the fields that an error complains about.
func fields(err error) []string {
	var result []string
	for _, detail := range status.Convert(err).Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range request.GetFieldViolations() {
				result = append(result, violation.GetField())
			}
		}
	}
	return result
}

// parse reads a message from JSON.
func parse[M proto.Message](t testing.TB, message M, text string) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	return message
}

const gcpSpec = `{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "diskSize": 100, "zones": ["us-central1-a", "us-central1-b"]}}, "nodeCount": 3}`

func spec(t testing.TB, text string) *nodepoolsv1.NodePoolSpec {
	t.Helper()
	return parse(t, &nodepoolsv1.NodePoolSpec{}, text)
}

func (b *bench) cluster(who auth.Identity, name, platform string) *nodepoolsv1.Cluster {
	b.t.Helper()
	text := map[string]string{
		"gcp":          `{"platform": {"type": "gcp"}}`,
		"aws":          `{"platform": {"type": "aws"}}`,
		"civo":         `{"platform": {"type": "civo", "civo": {"region": "fra1", "defaultNodePool": {"size": "g4s.kube.medium", "nodeCount": 1}}}}`,
		"digitalocean": `{"platform": {"type": "digitalocean", "digitalocean": {"region": "nyc3", "highlyAvailable": true, "defaultNodePool": {"size": "s-2vcpu-4gb", "nodeCount": 1}}}}`,
	}[platform]
	return must[*nodepoolsv1.Cluster](b.t, "create cluster "+name)(b.CreateCluster(b.as(who), &nodepoolsv1.CreateClusterRequest{
		Cluster: &nodepoolsv1.Cluster{Name: name, Spec: parse(b.t, &nodepoolsv1.ClusterSpec{}, text)},
	}))
}

func (b *bench) create(who auth.Identity, cluster, name, text string) (*nodepoolsv1.NodePool, error) {
	b.t.Helper()
	return b.CreateNodePool(b.as(who), &nodepoolsv1.CreateNodePoolRequest{
		Nodepool: &nodepoolsv1.NodePool{Name: name, ClusterId: cluster, Spec: spec(b.t, text)},
	})
}

// pool creates a pool that must be created.
func (b *bench) pool(who auth.Identity, cluster, name string) *nodepoolsv1.NodePool {
	b.t.Helper()
	return must[*nodepoolsv1.NodePool](b.t, "create pool "+name)(b.create(who, cluster, name, gcpSpec))
}

func (b *bench) get(id string) *nodepoolsv1.NodePool {
	b.t.Helper()
	return must[*nodepoolsv1.NodePool](b.t, "get pool")(b.GetNodePool(b.as(root), &nodepoolsv1.GetNodePoolRequest{Id: id}))
}

func (b *bench) put(who auth.Identity, id, text string) (*nodepoolsv1.NodePool, error) {
	b.t.Helper()
	return b.UpdateNodePool(b.as(who), &nodepoolsv1.UpdateNodePoolRequest{Id: id, Nodepool: &nodepoolsv1.NodePool{Spec: spec(b.t, text)}})
}

func (b *bench) patch(id, text string) (*nodepoolsv1.NodePool, error) {
	b.t.Helper()
	request := parse(b.t, &nodepoolsv1.PatchNodePoolRequest{}, `{"patch": `+text+`}`)
	request.Id = id
	return b.PatchNodePool(b.as(alice), request)
}

// report has a controller report conditions, each given as "Ready=True".
func (b *bench) report(id, name string, generation int32, conditions ...string) (*nodepoolsv1.NodePoolStatus, error) {
	b.t.Helper()
	return b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: id, Report: reportOf(name, generation, conditions...)})
}

func reportOf(name string, generation int32, conditions ...string) *nodepoolsv1.ControllerStatus {
	report := &nodepoolsv1.ControllerStatus{ControllerName: name, ObservedGeneration: generation}
	for _, condition := range conditions {
		kind, value, _ := strings.Cut(condition, "=")
		report.Conditions = append(report.Conditions, &nodepoolsv1.Condition{Type: kind, Status: value})
	}
	return report
}

func (b *bench) register(name string, platforms ...string) {
	b.t.Helper()
	must[*nodepoolsv1.Controller](b.t, "register "+name)(b.RegisterController(b.as(controller), &nodepoolsv1.RegisterControllerRequest{
		Name: name, Controller: &nodepoolsv1.Controller{Platforms: platforms},
	}))
}

func (b *bench) phase(id, want string) {
	b.t.Helper()
	if got := b.get(id).GetStatus(); got.GetPhase() != want {
		b.t.Fatalf("the phase is %s (%s: %s), want %s", got.GetPhase(), got.GetReason(), got.GetMessage(), want)
	}
}

// eventTypes are the types of all events of an object, the oldest first.
func (b *bench) eventTypes(id string) []string {
	b.t.Helper()
	list := must[*nodepoolsv1.ListEventsResponse](b.t, "list events")(b.ListEvents(b.as(root), &nodepoolsv1.ListEventsRequest{ObjectId: id}))
	var result []string
	for _, event := range list.GetEvents() {
		result = append(result, event.GetType())
	}
	slices.Reverse(result)
	return result
}
