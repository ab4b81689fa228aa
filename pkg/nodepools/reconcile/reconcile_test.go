package reconcile

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
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
	locks    []provision.Lock
	unlocked int
	during   func(operation string) // called in the middle of an operation
	progress *Progress
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

func (w *world) Release(_ context.Context, key store.Key, token int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.leases[key]; have.token == token {
		have.expires = time.Time{}
		w.leases[key] = have
	}
	return nil
}

func (w *world) Report(_ context.Context, key store.Key, report *nodepoolsv1.ControllerStatus) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports[key] = proto.CloneOf(report)
	var conditions []string
	for _, c := range report.GetConditions() {
		conditions = append(conditions, c.GetType()+"="+c.GetStatus()+"("+c.GetReason()+")")
	}
	w.history = append(w.history, fmt.Sprintf("%s %d %s", key.Kind, report.GetObservedGeneration(), strings.Join(conditions, " ")))
	return nil
}

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
	}}}}}, w.operate(ctx, "preview", all)
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
		w.work(r, theCluster)
		if got := w.last(theCluster).GetObservedGeneration(); got != 2 {
			t.Errorf("generation %d was reported, want 2", got)
		}
		if got := strings.Count(w.operations(), "up"); got != 2 {
			t.Errorf("up was done %d times, want 2", got)
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
	}{
		"the cloud is away": {
			err:       &provision.Error{Kind: provision.Unreachable, Message: "503 from api.civo.com"},
			errorType: "Transient", code: "CloudUnreachable", mustSay: "503",
		},
		"the cloud says no": {
			err:       &provision.Error{Kind: provision.Failed, Message: "no such size", Hint: "look at the sizes"},
			errorType: "System", code: "RefusedByCloud", mustSay: "no such size",
		},
		"a quota":               {err: &provision.Error{Kind: provision.Failed, Message: "Quota exceeded"}, errorType: "Quota", code: "RefusedByCloud"},
		"the manifest is wrong": {err: &provision.Error{Kind: provision.Invalid, Message: "x"}, errorType: "Configuration", code: "Refused"},
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
				if status(got, conditionReady) != statusFalse {
					t.Error("it was reported as ready")
				}
				text := got.String()
				if !strings.Contains(text, test.mustSay) || test.mustNotSay != "" && strings.Contains(text, test.mustNotSay) {
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
		w.work(r, theCluster)
		if !strings.HasSuffix(w.operations(), "refresh CivoVpc+CivoKubernetesCluster, up CivoVpc+CivoKubernetesCluster") {
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
	}{
		"of a process of this machine that ended":    {lock: provision.Lock{Holder: provision.Ended, Host: host}, clears: true},
		"of a process that lives":                    {lock: provision.Lock{Holder: provision.Alive, Host: host}},
		"of a machine that never was a worker's":     {lock: provision.Lock{Holder: provision.Elsewhere, Host: "laptop"}},
		"of a worker's machine that is silent":       {lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: time.Minute, clears: true},
		"of a worker's machine that was silent once": {lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: time.Second},
		"of a worker's machine that lives":           {lock: provision.Lock{Holder: provision.Elsewhere, Host: "pod-1"}, worker: -20 * time.Second},
		"that does not say whose it is":              {lock: provision.Lock{Holder: provision.Unreadable}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.put(theCluster, civoCluster(t), 1)
				w.fail["up"] = &provision.Error{Kind: provision.Conflict, Message: "the stack is locked"}
				w.locks = []provision.Lock{test.lock}
				if test.worker != 0 {
					w.leases[store.Key{Kind: store.Worker, ID: test.lock.Host}] = lease{holder: test.lock.Host, expires: time.Now().Add(-test.worker)}
				}
				again := w.work(w.reconciler("one"), theCluster)
				if cleared := w.unlocked > 0; cleared != test.clears {
					t.Errorf("the lock was taken away: %t, want %t", cleared, test.clears)
				}
				if test.clears && again > time.Second {
					t.Errorf("it goes on after %s", again)
				}
				if !test.clears && w.last(theCluster).GetLastError().GetErrorCode() != "StackLocked" {
					t.Errorf("the lock was reported as %v", w.last(theCluster))
				}
			})
		})
	}
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

// TestProgressIsReported: what the engine waits for becomes the message of the condition, the last word of each second.
func TestProgressIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(theCluster, civoCluster(t), 1)
		all, err := clusterManifests(civoCluster(t))
		if err != nil {
			t.Fatal(err)
		}
		identity, err := stackidentity.For(all[1].Kind, metadataOf(all[1]))
		if err != nil {
			t.Fatal(err)
		}
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
