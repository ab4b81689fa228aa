package reconcile

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetesnodepool/module"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// world stands for the store, the reports and the engine.
type world struct {
	t *testing.T

	mu       sync.Mutex
	records  map[store.Key]store.Record
	reports  map[store.Key]*nodepoolsv1.ControllerStatus
	history  []string // what was reported, a line each
	leases   map[store.Key]lease
	done     []string // operations on the cloud
	fail     map[string]error
	drift    []*provision.Result
	warnings []provision.Diagnostic // of previews
	locks    []provision.Lock
	away     error // of the database, for leases
	bucket   bool  // the backend tells of locks only in errors
	unlocked int
	during   func(operation string) // called in the middle of an operation
	progress *Progress
	foreign  string // a platform that other processes provision
}

type lease struct {
	holder  string
	token   int64
	expires time.Time
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, records: map[store.Key]store.Record{}, reports: map[store.Key]*nodepoolsv1.ControllerStatus{},
		leases: map[store.Key]lease{}, fail: map[string]error{}, progress: NewProgress(),
	}
}

var (
	theCluster = store.Key{Kind: store.Cluster, ID: clusterID}
	thePool    = store.Key{Kind: store.NodePool, ID: poolID}
)

func (w *world) put(key store.Key, message proto.Message, generation int32, edit ...func(*store.Record)) {
	w.t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		w.t.Fatal(err)
	}
	record := store.Record{Key: key, ClusterID: clusterID, Platform: "civo", Generation: generation, Message: data}
	for _, e := range edit {
		e(&record)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records[key] = record
}

func deleting(record *store.Record) { record.Deleting = true }

func (w *world) reconciler(holder string) *Reconciler {
	return New(Options{Objects: w, Reporter: w, Provisioner: w, Progress: w.progress, Holder: holder})
}

func (w *world) Get(_ context.Context, key store.Key) (store.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record, ok := w.records[key]
	if !ok {
		return record, store.ErrNotFound
	}
	return record, nil
}

func (w *world) Reports(_ context.Context, key store.Key) ([]store.Report, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	report, ok := w.reports[key]
	if !ok {
		return nil, nil
	}
	data, err := proto.Marshal(report)
	return []store.Report{{Controller: report.GetControllerName(), Message: data}}, err
}

func (w *world) List(_ context.Context, query store.Query) (store.Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	page := store.Page{}
	for key, record := range w.records {
		if key.Kind == query.Kind && record.ClusterID == query.ClusterID {
			page.Total++
		}
	}
	return page, nil
}

func (w *world) Acquire(_ context.Context, key store.Key, holder string, ttl time.Duration) (int64, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.leases[key]
	if have.holder != holder && time.Now().Before(have.expires) {
		return 0, false, nil
	}
	w.leases[key] = lease{holder: holder, token: have.token + 1, expires: time.Now().Add(ttl)}
	return have.token + 1, true, nil
}

func (w *world) Renew(_ context.Context, key store.Key, token int64, ttl time.Duration) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.leases[key]
	if w.away != nil {
		return false, w.away
	}
	if have.token != token {
		return false, nil
	}
	have.expires = time.Now().Add(ttl)
	w.leases[key] = have
	return true, nil
}

func (w *world) Lease(_ context.Context, key store.Key) (string, time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have, ok := w.leases[key]
	if !ok {
		return "", time.Time{}, store.ErrNotFound
	}
	return have.holder, have.expires, nil
}

func (w *world) Release(ctx context.Context, key store.Key, token int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.leases[key]; have.token == token {
		have.expires = time.Time{}
		w.leases[key] = have
	}
	return nil
}

func (w *world) Report(ctx context.Context, key store.Key, report *nodepoolsv1.ControllerStatus) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := validation.Validate(report); err != nil {
		return err // as the service does
	}
	kept := proto.CloneOf(report) // as the service keeps it
	kept.UpdatedAt = timestamppb.Now()
	for _, c := range kept.GetConditions() {
		c.LastTransitionTime = timestamppb.Now()
	}
	slices.Reverse(kept.Conditions)
	w.reports[key] = kept
	var conditions []string
	for _, c := range report.GetConditions() {
		conditions = append(conditions, c.GetType()+"="+c.GetStatus()+"("+c.GetReason()+")")
	}
	w.history = append(w.history, fmt.Sprintf("%s %d %s", key.Kind, report.GetObservedGeneration(), strings.Join(conditions, " ")))
	return nil
}

func (w *world) Provisions(platform string) bool { return platform != w.foreign }

func (w *world) operate(ctx context.Context, operation string, all []*manifest.Manifest) error {
	var names []string
	for _, m := range all {
		names = append(names, m.Kind.Name)
	}
	w.mu.Lock()
	w.done = append(w.done, operation+" "+strings.Join(names, "+"))
	during, err := w.during, w.fail[operation]
	w.mu.Unlock()
	if during != nil {
		during(operation)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (w *world) Up(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	if err := w.operate(ctx, "up", all); err != nil {
		return nil, err
	}
	var results []*provision.Result
	for _, m := range all {
		outputs := provision.Outputs{"cluster_id": {Value: "cloud-cluster"}}
		if strings.HasSuffix(m.Kind.Name, "NodePool") {
			outputs["node_pool_id"] = provision.Output{Value: "cloud-pool"}
			outputs["node_names"] = provision.Output{Value: []any{"a", "b", "c"}}
		}
		results = append(results, &provision.Result{Outputs: outputs})
	}
	return results, nil
}

func (w *world) Preview(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return []*provision.Result{{Resources: []provision.Change{{Resource: "node_pool", Op: provision.OpUpdate, Properties: []provision.PropertyChange{
		{Path: "nodeCount", Kind: "update"}, {Path: "size", Kind: "update", Replaces: true},
	}}}, Diagnostics: w.warnings}}, w.operate(ctx, "preview", all)
}

func (w *world) Refresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return nil, w.operate(ctx, "refresh", all)
}

func (w *world) PreviewRefresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return w.drift, w.operate(ctx, "look", all)
}

func (w *world) Destroy(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return nil, w.operate(ctx, "destroy", all)
}

func (w *world) Locks(stackidentity.Identity) ([]provision.Lock, bool, error) {
	if w.bucket {
		return nil, false, nil
	}
	return w.locks, true, nil
}

func (w *world) Unlock(context.Context, stackidentity.Identity, bool) ([]provision.Lock, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlocked++
	w.locks = nil
	delete(w.fail, "up")
	return nil, nil
}

// last is the last report about an object.
func (w *world) last(key store.Key) *nodepoolsv1.ControllerStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports[key]
}

func (w *world) work(r *Reconciler, key store.Key) time.Duration {
	w.t.Helper()
	again, err := r.Work(w.t.Context(), key)
	if err != nil {
		w.t.Fatalf("work on %s: %v", key.Kind, err)
	}
	return again
}

func (w *world) operations() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.done, ", ")
}

func status(report *nodepoolsv1.ControllerStatus, name string) string {
	return conditionOf(report, name).GetStatus()
}

func TestClusterThenPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1)

		if again := w.work(r, thePool); again == 0 || again > 3*time.Second {
			t.Errorf("a pool that waits for its cluster is looked at again after %s", again)
		}
		if got := conditionOf(w.last(thePool), conditionReady); got.GetStatus() != statusFalse || got.GetReason() != "WaitingForCluster" {
			t.Errorf("a pool without a cluster is %v", got)
		}
		w.work(r, theCluster)
		if got := w.last(theCluster); status(got, conditionReady) != statusTrue || got.GetMetadata().GetFields()[metadataCloudID].GetStringValue() != "cloud-cluster" {
			t.Errorf("the cluster was reported as %v", got)
		}
		again := w.work(r, thePool)
		if again < 8*time.Minute || again > 12*time.Minute {
			t.Errorf("drift is looked for after %s", again)
		}
		got := w.last(thePool)
		if status(got, conditionReady) != statusTrue || got.GetObservedGeneration() != 1 || got.GetLastError() != nil {
			t.Errorf("the pool was reported as %v", got)
		}
		if nodes := got.GetMetadata().GetFields()[metadataReadyNodes].GetNumberValue(); nodes != 3 {
			t.Errorf("%v nodes were reported, want 3", nodes)
		}
		if got, want := w.operations(), "up CivoVpc+CivoKubernetesCluster, up CivoKubernetesNodePool"; got != want {
			t.Errorf("what was done: %s; want %s", got, want)
		}
		// Once more, and nothing is done again.
		w.work(r, thePool)
		if got := strings.Count(w.operations(), "NodePool"); got != 1 {
			t.Errorf("a ready pool was worked on %d times", got)
		}
	})
}

// TestNewGeneration: what is ready at another generation is not.
func TestNewGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		w.put(theCluster, civoCluster(t), 2)
		w.during = func(string) {
			// Its pools are made in it, and its deletion goes by it.
			if got := w.last(theCluster).GetMetadata().GetFields()[metadataCloudID].GetStringValue(); got != "cloud-cluster" {
				t.Errorf("while a new generation is made, the cloud's id of the cluster is %q", got)
			}
		}
		w.work(r, theCluster)
		if got := w.last(theCluster).GetObservedGeneration(); got != 2 {
			t.Errorf("generation %d was reported, want 2", got)
		}
		if got := strings.Count(w.operations(), "up"); got != 2 {
			t.Errorf("up was done %d times, want 2", got)
		}
	})
}

// TestNewName: a name is no part of the spec, and the cloud has it too.
func TestNewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		w.put(thePool, civoPool(t), 1)
		w.work(r, thePool)
		w.put(thePool, civoPool(t, func(p *nodepoolsv1.NodePool) { p.Name = "other" }), 1)
		for range 2 {
			w.work(r, thePool)
		}
		if got := strings.Count(w.operations(), "up CivoKubernetesNodePool"); got != 2 {
			t.Errorf("a pool that was renamed was made %d times, want 2: %s", got, w.operations())
		}
	})
}

// TestNothingNewIsNotReported: what waits is looked at every other second, and each report is a write.
func TestNothingNewIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1)
		for range 5 {
			w.work(r, thePool)
			time.Sleep(time.Second)
		}
		if len(w.history) != 1 {
			t.Errorf("a pool that waits for its cluster was reported %d times: %v", len(w.history), w.history)
		}
		w.put(thePool, civoPool(t), 2)
		if w.work(r, thePool); w.last(thePool).GetObservedGeneration() != 2 {
			t.Errorf("a new generation that waits was reported as %v", w.last(thePool))
		}
	})
}

// TestAutoscaler: how many nodes an autoscaler made is shown, is no drift, and is not written each time it is looked at.
func TestAutoscaler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		onDigitalOcean := func(r *store.Record) { r.Platform = "digitalocean" }
		w.put(theCluster, digitalOceanCluster(t), 1, onDigitalOcean)
		w.put(thePool, digitalOceanPool(t), 1, onDigitalOcean)
		w.work(r, theCluster)
		w.work(r, thePool)
		look := func(drift ...provision.PropertyChange) *nodepoolsv1.ControllerStatus {
			w.drift = []*provision.Result{{Resources: []provision.Change{{Resource: "node_pool", Op: provision.OpUpdate, Properties: drift}}}}
			time.Sleep(11 * time.Minute)
			w.work(r, thePool)
			return w.last(thePool)
		}
		scaled := provision.PropertyChange{Path: "nodeCount", Kind: "update", Old: float64(3), New: float64(5)}
		got := look(scaled, provision.PropertyChange{Path: "actualNodeCount", Kind: "update", Old: float64(3), New: float64(5)},
			provision.PropertyChange{Path: "nodes[3].name", Kind: "add", New: "d"})
		if status(got, conditionDrifted) != statusFalse || got.GetMetadata().GetFields()[metadataReadyNodes].GetNumberValue() != 5 {
			t.Errorf("a pool that was scaled was reported as %v", got)
		}
		reports := len(w.history)
		if look(scaled); len(w.history) != reports {
			t.Errorf("nothing new was reported: %v", w.history[reports:])
		}
		got = look(scaled, provision.PropertyChange{Path: "size", Kind: "update", Old: "small", New: "big"})
		if c := conditionOf(got, conditionDrifted); c.GetStatus() != statusTrue || c.GetMessage() != "node_pool.size is big, was small" {
			t.Errorf("another size was reported as %v", c)
		}
		if strings.Contains(w.operations(), "refresh") || strings.Count(w.operations(), "up DigitalOceanKubernetesNodePool") != 1 {
			t.Errorf("the autoscaler was fought: %s", w.operations())
		}

		// Without an autoscaler another count is drift.
		w.put(thePool, digitalOceanPool(t, func(p *nodepoolsv1.NodePool) {
			p.Spec.Autoscaling, p.Spec.NodeCount = nil, proto.Int32(3)
		}), 2, onDigitalOcean)
		w.work(r, thePool)
		if c := conditionOf(look(scaled), conditionDrifted); c.GetStatus() != statusTrue {
			t.Errorf("another count of a pool that nobody scales was reported as %v", c)
		}
	})
}

// TestNotAllAtOnce: what was made at one moment is not looked at at one moment ever after.
func TestNotAllAtOnce(t *testing.T) {
	r := New(Options{})
	all := map[time.Duration]bool{}
	for range 50 {
		d := r.jitter(time.Minute)
		if d < 54*time.Second || d > 66*time.Second {
			t.Errorf("a minute, more or less, is %s", d)
		}
		all[d] = true
	}
	if len(all) < 10 {
		t.Errorf("the times are %v", all)
	}
}

// TestParallel: no more engines run side by side than may, and who waits for one can be stopped.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := NewProgress()
		s, ok := NewProvisioner(&provision.Engine{}, provision.ProviderConfigs{}, 2, progress).(*stacks)
		if !ok {
			t.Fatal("it is another Provisioner")
		}
		all, err := clusterManifests(civoCluster(t, func(c *nodepoolsv1.Cluster) { c.Spec.Platform.Civo.NetworkId = proto.String("n") }))
		if err != nil {
			t.Fatal(err)
		}
		var running, most int
		var mu sync.Mutex
		operate := func(changes bool) {
			_, err := s.do(t.Context(), all, changes, func(*provision.Set, context.Context) ([]*provision.Result, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				running--
				mu.Unlock()
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		var told []string
		unfollow := progress.follow(all, func(message string) { told = append(told, message) })
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { operate(true) })
		}
		synctest.Wait()
		group.Go(func() { operate(false) })
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("those that need not wait, and one that looks, said %q", told)
		}
		for range 5 {
			group.Go(func() { operate(true) })
		}
		synctest.Wait()
		if want := []string{"waits: 2 others are worked on, and no more may be at a time"}; !slices.Equal(told, want) {
			t.Errorf("those that wait said %q, want %q", told, want)
		}
		stopped, cancel := context.WithCancelCause(t.Context())
		cancel(errLeaseLost)
		if _, err := s.do(stopped, all, true, nil); !errors.Is(err, errLeaseLost) {
			t.Errorf("who waits for an engine and is stopped: %v", err)
		}
		group.Wait()
		unfollow()
		if most != 2 {
			t.Errorf("%d engines ran side by side, want 2", most)
		}
		if last := told[len(told)-1]; last != engineStarts {
			t.Errorf("the last of those that waited said %q, want %q", last, engineStarts)
		}
	})
}

// TestGenerationOfTheWork: what is reported is the generation that was worked on, whatever came meanwhile.
func TestGenerationOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.during = func(string) { w.put(theCluster, civoCluster(t), 2) }
		w.work(r, theCluster)
		if got := w.last(theCluster).GetObservedGeneration(); got != 1 {
			t.Errorf("generation %d was reported as made, want 1", got)
		}
	})
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		err                 error
		errorType, code     string
		mustNotSay, mustSay string
		owners              bool // whether its owner can do something
	}{
		"the cloud is away": {
			err:       &provision.Error{Kind: provision.Unreachable, Message: "503 from api.civo.com"},
			errorType: "Transient", code: "CloudUnreachable", mustSay: "503",
		},
		"the cloud says no": {
			err:       &provision.Error{Kind: provision.Failed, Message: "no such size", Hint: "look at the sizes"},
			errorType: "System", code: "RefusedByCloud", mustSay: "look at the sizes", owners: true,
		},
		"a story without an end": {
			err:       &provision.Error{Kind: provision.Failed, Message: strings.Repeat("é", 5000)},
			errorType: "System", code: "RefusedByCloud", mustSay: "é…", owners: true,
		},
		"a quota":               {err: &provision.Error{Kind: provision.Failed, Message: "Quota exceeded"}, errorType: "Quota", code: "RefusedByCloud", owners: true},
		"the manifest is wrong": {err: &provision.Error{Kind: provision.Invalid, Message: "x"}, errorType: "Configuration", code: "Refused", owners: true},
		"the token is wrong":    {err: &provision.Error{Kind: provision.Credentials, Message: "x"}, errorType: "System", code: "Credentials"},
		"the disk is full":      {err: &provision.Error{Kind: provision.StateTrouble, Message: "x"}, errorType: "System", code: "State"},
		"something of ours": {
			err: errors.New("fork /home/me/secret: no"), errorType: "System", code: "Failed", mustNotSay: "secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r := w.reconciler("one")
				w.put(theCluster, civoCluster(t), 1)
				w.fail["up"] = test.err
				var waits []time.Duration
				for range 12 {
					waits = append(waits, w.work(r, theCluster))
				}
				got := w.last(theCluster)
				if got.GetLastError().GetErrorType() != test.errorType || got.GetLastError().GetErrorCode() != test.code {
					t.Errorf("the error is %v, want %s %s", got.GetLastError(), test.errorType, test.code)
				}
				if got.GetLastError().GetUserActionable() != test.owners {
					t.Errorf("whether its owner can do something: %t, want %t", got.GetLastError().GetUserActionable(), test.owners)
				}
				if at := got.GetLastError().GetRetryAfter().AsTime(); !at.Equal(time.Now().Add(waits[11])) {
					t.Errorf("it is said to be tried again at %s, and is in %s", at, waits[11])
				}
				if status(got, conditionReady) != statusFalse {
					t.Error("it was reported as ready")
				}
				text, err := protojson.MarshalOptions{}.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(text), test.mustSay) || test.mustNotSay != "" && strings.Contains(string(text), test.mustNotSay) {
					t.Errorf("the report says %s", text)
				}
				if waits[0] > 3*time.Second || waits[11] < time.Minute || slices.Max(waits) > 3*time.Minute {
					t.Errorf("it is tried again after %v", waits)
				}
				delete(w.fail, "up")
				w.work(r, theCluster)
				if got := w.last(theCluster); status(got, conditionReady) != statusTrue || got.GetLastError() != nil {
					t.Errorf("after the trouble: %v", got)
				}
				w.fail["up"] = test.err
				w.put(theCluster, civoCluster(t), 2)
				if again := w.work(r, theCluster); again > 3*time.Second {
					t.Errorf("after a success the first failure is tried again after %s", again)
				}
			})
		})
	}
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1)
		w.work(r, theCluster)
		w.work(r, thePool)

		w.put(theCluster, civoCluster(t), 1, deleting)
		if again := w.work(r, theCluster); again == 0 || strings.Contains(w.operations(), "destroy") {
			t.Fatal("the cluster was destroyed before its pools")
		}
		w.put(thePool, civoPool(t), 1, deleting)
		w.fail["destroy"] = &provision.Error{Kind: provision.Unreachable, Message: "503"}
		if again := w.work(r, thePool); again == 0 || status(w.last(thePool), conditionDeleted) == statusTrue {
			t.Fatal("a pool that could not be destroyed counts as deleted")
		}
		if status(w.last(thePool), conditionDeleting) != statusTrue {
			t.Errorf("a pool that is being deleted was reported as %v", w.last(thePool))
		}
		delete(w.fail, "destroy")
		if again := w.work(r, thePool); again != 0 || status(w.last(thePool), conditionDeleted) != statusTrue {
			t.Fatalf("the pool was reported as %v", w.last(thePool))
		}
		delete(w.records, thePool)
		if w.work(r, theCluster); status(w.last(theCluster), conditionDeleted) != statusTrue {
			t.Fatalf("the cluster was reported as %v", w.last(theCluster))
		}
		if got := w.operations(); !strings.HasSuffix(got, "destroy CivoKubernetesNodePool, destroy CivoVpc+CivoKubernetesCluster") {
			t.Errorf("what was done: %s", got)
		}
	})
}

// TestDeletePoolThatNeverBegan: nothing has to be asked for what nothing was made of.
func TestDeletePoolThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1, deleting)
		if again := w.work(w.reconciler("one"), thePool); again != 0 || status(w.last(thePool), conditionDeleted) != statusTrue {
			t.Errorf("the pool was reported as %v", w.last(thePool))
		}
		if w.operations() != "" {
			t.Errorf("what was done: %s", w.operations())
		}
	})
}

// TestDeletePoolThatIsThere: what was made is taken away, though nobody knows any more what it stands in.
func TestDeletePoolThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1)
		w.work(r, theCluster)
		w.work(r, thePool)
		delete(w.reports, theCluster)
		w.put(thePool, civoPool(t), 1, deleting)
		if w.work(r, thePool); !strings.HasSuffix(w.operations(), "destroy CivoKubernetesNodePool") {
			t.Errorf("what was done: %s", w.operations())
		}
	})
}

func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		reports := len(w.history)

		time.Sleep(11 * time.Minute)
		w.work(r, theCluster)
		if !strings.HasSuffix(w.operations(), "look CivoVpc+CivoKubernetesCluster") {
			t.Fatalf("what was done: %s", w.operations())
		}
		if status(w.last(theCluster), conditionDrifted) != statusFalse {
			t.Errorf("without drift it was reported as %v", w.last(theCluster))
		}
		if len(w.history) != reports {
			t.Errorf("a look that found nothing was reported: %v", w.history[reports:])
		}
		time.Sleep(time.Minute)
		if again := w.work(r, theCluster); again > 10*time.Minute || strings.Count(w.operations(), "look") != 1 {
			t.Errorf("a minute after a look, with the next one in %s: %s", again, w.operations())
		}

		w.drift = []*provision.Result{{Resources: []provision.Change{{Resource: "cluster", Op: provision.OpDelete}}}}
		time.Sleep(11 * time.Minute)
		w.work(r, theCluster)
		got := conditionOf(w.last(theCluster), conditionDrifted)
		if got.GetStatus() != statusTrue || !strings.Contains(got.GetMessage(), "cluster does not exist any more") {
			t.Errorf("the drift was reported as %v", got)
		}
		if status(w.last(theCluster), conditionReady) != statusTrue {
			t.Error("drift alone made the cluster not ready")
		}

		w.fail["look"] = &provision.Error{Kind: provision.Unreachable, Message: "503"}
		time.Sleep(11 * time.Minute)
		w.work(r, theCluster)
		if got := w.last(theCluster); status(got, conditionDrifted) != statusUnknown || status(got, conditionReady) != statusTrue {
			t.Errorf("a look that failed was reported as %v", got)
		}

		delete(w.fail, "look")
		time.Sleep(11 * time.Minute)
		w.work(r, theCluster)
		w.put(theCluster, civoCluster(t), 2)
		w.fail["refresh"] = &provision.Error{Kind: provision.Unreachable, Message: "503"}
		w.work(r, theCluster)
		delete(w.fail, "refresh")
		w.work(r, theCluster)
		if !strings.HasSuffix(w.operations(), "refresh CivoVpc+CivoKubernetesCluster, refresh CivoVpc+CivoKubernetesCluster, "+
			"up CivoVpc+CivoKubernetesCluster") {
			t.Errorf("what drifted was updated by an old state: %s", w.operations())
		}
		if status(w.last(theCluster), conditionDrifted) != statusFalse {
			t.Error("drift stays after an update")
		}
	})
}

// TestOneWorkerAtATime: another one waits for the lease, and takes over when it is not prolonged.
func TestOneWorkerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.reconciler("one"), w.reconciler("two")
		w.put(theCluster, civoCluster(t), 1)
		w.during = func(string) {
			// An hour is nothing for a lease that is prolonged.
			time.Sleep(time.Hour)
			before := w.operations()
			if again := w.work(two, theCluster); again == 0 {
				t.Error("a second worker forgot the object")
			}
			if w.operations() != before {
				t.Errorf("a second worker did %s", w.operations())
			}
		}
		w.work(one, theCluster)
	})
}

// TestLeaseLost: who has lost the lease stops, and says nothing more.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.during = func(string) {
			w.mu.Lock()
			w.leases[theCluster] = lease{holder: "two", token: 99, expires: time.Now().Add(time.Hour)}
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
		_, err := r.Work(t.Context(), theCluster)
		if !errors.Is(err, errLeaseLost) {
			t.Errorf("the error is %v", err)
		}
		if status(w.last(theCluster), conditionReady) == statusTrue {
			t.Error("who lost the lease reported that all is ready")
		}
		if got := w.leases[theCluster]; got.holder != "two" || got.expires.IsZero() {
			t.Error("who lost the lease took the other's away")
		}
	})
}

// TestLeaseNotRenewed: who cannot say for a moment that it lives goes on; who cannot for so long that others think it dead stops.
func TestLeaseNotRenewed(t *testing.T) {
	for away, stops := range map[time.Duration]bool{15 * time.Second: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.put(theCluster, civoCluster(t), 1)
			w.during = func(string) {
				for _, err := range []error{errors.New("no database"), nil} {
					w.mu.Lock()
					w.away = err
					w.mu.Unlock()
					time.Sleep(away)
				}
			}
			if _, err := w.reconciler("one").Work(t.Context(), theCluster); errors.Is(err, errLeaseLost) != stops || err != nil && !stops {
				t.Errorf("after %s without the database the error is %v, and it stops: %t", away, err, stops)
			}
		})
	}
}

// TestLocks: a lock is taken away when its holder is dead for certain, and in no other case.
func TestLocks(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		lock   provision.Lock
		worker time.Duration // how long ago the lease of the lock's machine ended; 0 when it never had one
		clears bool
		again  time.Duration // when it is tried again, at the latest
	}{
		"of a process of this machine that ended": {lock: provision.Lock{Holder: provision.Ended, Host: host}, clears: true},
		"of a process that lives":                 {lock: provision.Lock{Holder: provision.Alive, Host: host}, again: 3 * time.Second},
		"of a machine that never was a worker's":  {lock: provision.Lock{Holder: provision.Elsewhere, Host: "laptop"}, again: 3 * time.Second},
		"of a worker's machine that is silent":    {lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: time.Minute, clears: true},
		"of a worker's machine that is silent for a moment": {
			lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: time.Second, again: 30 * time.Second,
		},
		"of a worker's machine that lives": {
			lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: -20 * time.Second, again: 3 * time.Second,
		},
		"that does not say whose it is": {lock: provision.Lock{Holder: provision.Unreadable}, again: 3 * time.Second},
	} {
		for _, bucket := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in a bucket: %t", name, bucket), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.put(theCluster, civoCluster(t), 1)
					w.locks, w.bucket = []provision.Lock{test.lock}, bucket
					w.fail["up"] = &provision.Error{Kind: provision.Conflict, Message: "the stack is locked", Stack: clusterStack(t), Locks: w.locks}
					if test.worker != 0 {
						w.leases[store.Key{Kind: store.Worker, ID: test.lock.Host}] = lease{holder: test.lock.Host, expires: time.Now().Add(-test.worker)}
					}
					again := w.work(w.reconciler("one"), theCluster)
					if cleared := w.unlocked > 0; cleared != test.clears {
						t.Errorf("the lock was taken away: %t, want %t", cleared, test.clears)
					}
					if bucket && w.unlocked > 1 {
						t.Error("the lock of a stack that nobody was locked out of was taken away")
					}
					if again > max(test.again, time.Second) {
						t.Errorf("it goes on after %s", again)
					}
					if test.again > 3*time.Second {
						time.Sleep(again)
						if w.work(w.reconciler("one"), theCluster); w.unlocked == 0 {
							t.Error("the lock is there when enough time has passed")
						}
					} else if !test.clears && w.last(theCluster).GetLastError().GetErrorCode() != "StackLocked" {
						t.Errorf("the lock was reported as %v", w.last(theCluster))
					}
				})
			})
		}
	}
}

// clusterStack is the stack of the cluster itself.
func clusterStack(t *testing.T) stackidentity.Identity {
	t.Helper()
	all, err := clusterManifests(civoCluster(t))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := stackidentity.For(all[1].Kind, metadataOf(all[1]))
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// TestStopped: what a shutdown stopped is no failure of the object.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(theCluster, civoCluster(t), 1)
		ctx, cancel := context.WithCancel(t.Context())
		w.during = func(string) { cancel() }
		if _, err := w.reconciler("one").Work(ctx, theCluster); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		if got := w.last(theCluster).GetLastError(); got != nil {
			t.Errorf("the shutdown was reported as %v", got)
		}
		if got := w.leases[theCluster]; !got.expires.IsZero() {
			t.Error("the lease was not given back")
		}
	})
}

// TestStoppedLook: a look at the cloud that a shutdown stopped says nothing about it.
func TestStoppedLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		time.Sleep(11 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		w.during = func(string) { cancel() }
		if _, err := r.Work(ctx, theCluster); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "stopped") {
			t.Errorf("the error is %v", err)
		}
		if got := status(w.last(theCluster), conditionDrifted); got != statusFalse {
			t.Errorf("after a look that was stopped the drift is %s", got)
		}
	})
}

// TestNothingIsKeptOfWhatIsGone: a process runs for years, and objects come and go.
func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		w.put(theCluster, civoCluster(t), 2)
		w.fail["up"] = errors.New("no")
		w.work(r, theCluster)
		delete(w.records, theCluster)
		if again := w.work(r, theCluster); again != 0 || len(r.attempts)+len(r.looked) != 0 {
			t.Errorf("of an object that was forgotten there are %v and %v, and it is worked on after %s", r.attempts, r.looked, again)
		}
		delete(w.fail, "up")
		w.put(theCluster, civoCluster(t), 1)
		w.work(r, theCluster)
		w.put(theCluster, civoCluster(t), 1, deleting)
		if again := w.work(r, theCluster); again != 0 || len(r.attempts)+len(r.looked) != 0 {
			t.Errorf("of an object that was deleted there are %v and %v, and it is worked on after %s", r.attempts, r.looked, again)
		}
	})
}

// TestProgressIsReported: what the engine waits for becomes the message of the condition, the last word of each second.
func TestProgressIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(theCluster, civoCluster(t), 1)
		identity := clusterStack(t)
		seen := map[string]bool{}
		w.during = func(string) {
			for i := range 100 {
				w.progress.Take(provision.Event{
					Kind: provision.EventResourceStatus, Stack: identity, Resource: "cluster", Message: fmt.Sprintf("%d %% built", i),
				})
				time.Sleep(100 * time.Millisecond)
				seen[conditionOf(w.last(theCluster), conditionProgressing).GetMessage()] = true
			}
		}
		w.work(w.reconciler("one"), theCluster)
		if len(seen) < 8 || len(seen) > 13 {
			t.Errorf("in ten seconds there were these messages: %v", slices.Collect(maps.Keys(seen)))
		}
		w.progress.Take(provision.Event{Kind: provision.EventResourceStatus, Stack: identity, Message: "late"})
		if got := conditionOf(w.last(theCluster), conditionReady).GetMessage(); got != "the cluster is active" {
			t.Errorf("the last message is %q", got)
		}
	})
}

func TestPreview(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler("one")
	w.put(theCluster, civoCluster(t), 1)
	if text, err := r.Preview(t.Context(), civoCluster(t), civoPool(t)); err != nil || !strings.Contains(text, "once cluster") {
		t.Errorf("the preview of a pool without a cluster says %q, %v", text, err)
	}
	w.work(r, theCluster)
	text, err := r.Preview(t.Context(), civoCluster(t), civoPool(t))
	if err != nil || text != "update node_pool: nodeCount, size (replaces)" {
		t.Errorf("the preview says %q, %v", text, err)
	}
	w.fail["preview"] = errors.New("open /home/me/secret")
	if _, err = r.Preview(t.Context(), civoCluster(t), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error of a preview is %v", err)
	}
}

// TestPreviewWarns: whoever tries a spec reads what its module warns of, and nothing else that is said on the way.
func TestPreviewWarns(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler("one")
	w.put(theCluster, civoCluster(t), 1)
	w.work(r, theCluster)
	pool := civoPool(t, func(p *nodepoolsv1.NodePool) {
		p.Spec.Autoscaling = &nodepoolsv1.Autoscaling{Enabled: true, MinNodes: 2, MaxNodes: 5}
	})
	warnings := warningsOf(t, pool)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "autoscaler") {
		t.Fatalf("the module warns %q", warnings)
	}
	w.warnings = []provision.Diagnostic{
		{Severity: "info", Message: "reads the price list"}, {Severity: "warning", Resource: "node_pool", Message: warnings[0]},
		{Severity: "error", Message: "is told by the error itself"},
	}
	const changes = "update node_pool: nodeCount, size (replaces)"
	if text, err := r.Preview(t.Context(), civoCluster(t), pool); err != nil || text != changes+"\nwarning: "+warnings[0] {
		t.Errorf("the preview says %q, %v", text, err)
	}
	if warnings := warningsOf(t, civoPool(t)); len(warnings) > 0 {
		t.Errorf("without autoscaling the module warns %q", warnings)
	}
}

// warningsOf are those of the module that makes a pool of Civo.
func warningsOf(t *testing.T, pool *nodepoolsv1.NodePool) []string {
	t.Helper()
	all, err := poolManifests(civoCluster(t), pool, "2b8e4a52-35a1-4c0e-8a36-5b5f3e8d7c90")
	if err != nil {
		t.Fatal(err)
	}
	input := &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{Target: all[0].Target.(*civokubernetesnodepoolv1.CivoKubernetesNodePool)}
	result := moduletest.Run(t, func(ctx *pulumi.Context) error { return module.Resources(ctx, input) },
		moduletest.WithConfig(map[string]string{"civo:token": "token"}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	return result.Warnings()
}

// TestForeignPlatform: what other processes provision is given back, untouched, and more and more rarely as long as nobody takes it.
func TestForeignPlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.foreign = "civo"
		r := w.reconciler("one")
		w.put(theCluster, civoCluster(t), 1)
		w.put(thePool, civoPool(t), 1, deleting)
		waits := func(what string, times int, last time.Duration) {
			t.Helper()
			for i := range times {
				want := min(2*time.Second<<i, last)
				again := w.work(r, theCluster)
				if again < want*9/10 || again > want*11/10 {
					t.Errorf("%s, the cluster comes back after %s, want %s", what, again, want)
				}
				w.work(r, thePool)
				time.Sleep(again)
			}
		}
		waits("at first", 9, 2*time.Minute)
		time.Sleep(10 * time.Minute) // another process had it
		waits("after a while", 2, 4*time.Second)
		if w.operations() != "" || len(w.history) > 0 {
			t.Errorf("what was done: %s; what was reported: %v", w.operations(), w.history)
		}
		w.foreign = "digitalocean"
		w.work(r, theCluster)
		if got, want := w.operations(), "up CivoVpc+CivoKubernetesCluster"; got != want {
			t.Errorf("what was done: %s; want %s", got, want)
		}
	})
}

// TestProcessesOfDifferentPlatforms: of processes that share a database and provision different platforms, each does what is its own, whoever
// is given the jobs.
func TestProcessesOfDifferentPlatforms(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "nodepools.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	clusters := map[string]*nodepoolsv1.Cluster{"civo": civoCluster(t), "digitalocean": digitalOceanCluster(t)}
	const each = 5
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	worlds := map[string]*world{}
	for platform, foreign := range map[string]string{"civo": "digitalocean", "digitalocean": "civo"} {
		w := newWorld(t)
		w.foreign, worlds[platform] = foreign, w
		r := New(Options{Objects: db, Reporter: w, Provisioner: w, Progress: w.progress, Holder: platform, Poll: 10 * time.Millisecond})
		working.Go(func() {
			if err := db.Work(ctx, store.WorkOptions{Poll: 10 * time.Millisecond}, r.Work); err != nil {
				t.Error(err)
			}
		})
	}
	err = db.Write(ctx, func(tx store.Tx) error {
		for platform, cluster := range clusters {
			for i := range each {
				key := store.Key{Kind: store.Cluster, ID: fmt.Sprintf("%s-%d", platform, i)}
				one := proto.CloneOf(cluster)
				one.Id = key.ID
				message, err := proto.Marshal(one)
				if err != nil {
					return err
				}
				record := store.Record{Key: key, ClusterID: key.ID, Name: key.ID, Owner: "alice", Platform: platform, Generation: 1, Message: message}
				if err := errors.Wrap(tx.Put(record), "put"); err != nil {
					return err
				}
				if err := tx.Enqueue(key, time.Time{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count := func(platform string) int {
		w := worlds[platform]
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.done)
	}
	for deadline := time.Now().Add(time.Minute); count("civo") < each || count("digitalocean") < each; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of Civo and %d of DigitalOcean are made, want %d", count("civo"), count("digitalocean"), each)
		}
	}
	stop()
	working.Wait()
	for platform, kind := range map[string]string{"civo": "CivoKubernetesCluster", "digitalocean": "DigitalOceanKubernetesCluster"} {
		for _, done := range worlds[platform].done {
			if !strings.HasSuffix(done, kind) {
				t.Errorf("the process that provisions %s did: %s", platform, done)
			}
		}
	}
}
