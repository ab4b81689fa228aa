package digitalocean

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// start puts a new instance of the plugin, with a journal, in the place of the one that there was.
func (w *world) start(t *testing.T, directory string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	port, err := New("4.57.0").ServeJournaled(ctx, journal.Open(directory))
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	w.provider = plugin.NewProviderWithClient(nil, pulumirpc.NewResourceProviderClient(connection), false)
	if err := configure(t, w.provider, props{"token": testToken, "apiEndpoint": w.url,
		"httpRetryMax": 1, "httpRetryWaitMin": 0.001, "httpRetryWaitMax": 0.01}); err != nil {
		t.Fatal(err)
	}
}

// subject is one kind of resource whose create is killed.
type subject struct {
	typ     tokens.Type
	program func(t *testing.T, w *world) props
	// foreign is a program of an object of the same name that is not what was asked for.
	foreign func(program props) props
	// path ends that of the request that makes it.
	path string
	// count is how many objects of its name there are.
	count func(w *world) int
	// dated tells that the cloud says when it made it.
	dated bool
}

func (s subject) creates(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, s.path)
}

var subjects = map[string]subject{
	"vpc": {
		typ: vpcToken,
		program: func(*testing.T, *world) props {
			return props{"name": "subject", "region": "nyc1", "ipRange": "10.9.0.0/20"}
		},
		foreign: func(p props) props { return with(p, props{"ipRange": "10.8.0.0/20"}) },
		path:    vpcsPath,
		count: func(w *world) (n int) {
			for _, vpc := range w.cloud.VPCs() {
				if vpc.Name == "subject" {
					n++
				}
			}
			return n
		},
		dated: true,
	},
	"cluster": {
		typ:     clusterToken,
		program: func(*testing.T, *world) props { return with(simpleCluster(), props{"name": "subject"}) },
		foreign: func(p props) props { return withPool(p, props{"size": "s-4vcpu-8gb"}) },
		path:    clustersPath,
		count:   func(w *world) int { return len(w.cloud.Clusters()) },
		dated:   true,
	},
	"pool": {
		typ: poolToken,
		program: func(t *testing.T, w *world) props {
			cluster := w.thing(t, clusterToken, "cluster")
			cluster.mustUp("create", simpleCluster())
			return with(simplePool(string(cluster.id)), props{"name": "subject", "labels": props{"a": "1"}})
		},
		foreign: func(p props) props { return with(p, props{"size": "s-4vcpu-8gb"}) },
		path:    "/node_pools",
		count:   func(w *world) int { return len(w.cloud.Clusters()[0].NodePools) - 1 },
	},
}

// deaths are the points at which a create dies.
var deaths = []string{"before the request", "answer lost", "answer not written", "id written", "returned"}

// die runs a create up to a point of death. What it does after that reaches neither the cloud nor the journal.
func (o *thing) die(s subject, point, directory string, program props) {
	o.t.Helper()
	var dead atomic.Bool
	kill := func() {
		if dead.CompareAndSwap(false, true) {
			provider := o.provider
			go func() { _ = provider.SignalCancellation(context.Background()) }()
		}
	}
	before := map[string][]byte{}
	o.fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case dead.Load():
			panic(http.ErrAbortHandler)
		case !s.creates(r) || point == "returned":
			next.ServeHTTP(w, r)
		case point == "before the request":
			kill()
			panic(http.ErrAbortHandler)
		case point == "answer lost":
			next.ServeHTTP(httptest.NewRecorder(), r)
			kill()
			panic(http.ErrAbortHandler)
		default:
			for _, path := range journalFiles(directory) {
				before[path], _ = os.ReadFile(path)
			}
			next.ServeHTTP(w, r)
			kill()
		}
	})
	_, err := o.up(program)
	if (err == nil) != (point == "returned") {
		o.t.Fatalf("a create that dies (%s): %v", point, err)
	}
	if point == "answer not written" {
		for path, content := range before {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	o.fault(nil)
}

func journalFiles(directory string) []string {
	files, _ := filepath.Glob(filepath.Join(directory, "*"))
	return files
}

// comparableState is a state without what differs from one object to the next.
func comparableState(o *thing) map[string]any {
	volatile := []string{"id", "clusterId", "createdAt", "updatedAt", "endpoint", "ipv4Address", "clusterUrn", "vpcUrn", "vpcUuid", "nodes",
		"clusterSubnet", "serviceSubnet", "kubeConfigs"}
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if slices.Contains(volatile, key) {
					v[key] = fmt.Sprintf("%T", value)
				} else {
					v[key] = strip(value)
				}
			}
		case []any:
			for i := range v {
				v[i] = strip(v[i])
			}
		}
		return v
	}
	plain := plainState(o.state).Mappable()
	for key, value := range o.state {
		if value.IsSecret() {
			plain[string(key)+" is secret"] = true
		}
	}
	return strip(plain).(map[string]any)
}

// TestACreateThatDiedIsGoneOnWith: at whatever point its process ends, the next create makes what is missing, and no more.
func TestACreateThatDiedIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for kind, s := range subjects {
		for _, point := range deaths {
			t.Run(kind+", "+point, func(t *testing.T) {
				t.Parallel()
				undisturbed := newWorld(t)
				reference := undisturbed.thing(t, s.typ, "subject")
				reference.mustUp("create", s.program(t, undisturbed))

				w, directory := newWorld(t), t.TempDir()
				program := s.program(t, w)
				w.start(t, directory)
				w.thing(t, s.typ, "subject").die(s, point, directory, program)
				if n := len(journalFiles(directory)); n != 1 {
					t.Fatalf("%d entries after the death, want 1", n)
				}

				w.start(t, directory)
				w.cloud.ForgetRequests()
				subject := w.thing(t, s.typ, "subject")
				subject.mustUp("create", program)
				posts := 0
				for _, request := range w.sent() {
					if strings.HasPrefix(request, "POST ") && strings.HasSuffix(request, s.path) {
						posts++
					}
				}
				if want := map[bool]int{true: 1}[point == "before the request"]; posts != want {
					t.Errorf("%d creating requests, want %d", posts, want)
				}
				if n := s.count(w); n != 1 {
					t.Errorf("%d objects, want 1", n)
				}
				if diff := cmp.Diff(comparableState(reference), comparableState(subject)); diff != "" {
					t.Errorf("the state is another than of an undisturbed create (-undisturbed +this):\n%s", diff)
				}
				subject.mustUp("same", program)
				if files := journalFiles(directory); len(files) != 0 {
					t.Errorf("what is recorded is still in the journal: %v", files)
				}
				if err := subject.destroy(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestAnotherOnesObjectIsNotTakenOver: what has the name and is not what was asked for is refused, and not touched.
func TestAnotherOnesObjectIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for kind, s := range subjects {
		for _, test := range []struct {
			reason, says string
			died, older  bool
			same         bool
		}{
			{reason: "made before the first create, and just what is asked for", same: true, says: "has not made it"},
			{reason: "made after a create died, of other attributes", died: true, says: "is another than this stack asked for"},
			{reason: "made before a create that died", died: true, older: true, same: true, says: "before this stack asked"},
		} {
			if test.older && !s.dated {
				continue
			}
			t.Run(kind+", "+test.reason, func(t *testing.T) {
				t.Parallel()
				w, directory := newWorld(t), t.TempDir()
				program := s.program(t, w)
				theirs, ours := w.thing(t, s.typ, "theirs"), w.thing(t, s.typ, "subject")
				if test.died {
					w.start(t, directory)
					w.thing(t, s.typ, "subject").die(s, "before the request", directory, program)
				}
				other := program
				if !test.same {
					other = s.foreign(program)
				}
				w.start(t, t.TempDir())
				theirs.mustUp("create", other)
				if test.older {
					age(t, directory, ours.urn)
				}

				w.start(t, directory)
				w.cloud.ForgetRequests()
				_, err := ours.up(program)
				wantErr(t, err, "already exists", test.says,
					"pulumi import "+string(s.typ)+" subject "+string(theirs.id))
				if ours.id != "" {
					t.Errorf("took over %s", ours.id)
				}
				if sent := w.sent(); len(sent) != 0 {
					t.Errorf("it was touched: %v", sent)
				}
			})
		}
	}
}

// age moves the entry of a journal an hour into the future, so that everything is older.
func age(t *testing.T, directory string, urn resource.URN) {
	t.Helper()
	j := journal.Open(directory)
	entries, err := j.Entries(string(urn))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	entries[0].AskedAt, entries[0].LastAskedAt = entries[0].AskedAt.Add(time.Hour), entries[0].LastAskedAt.Add(time.Hour)
	if err := j.Write(entries[0]); err != nil {
		t.Fatal(err)
	}
}

// TestWhatTheCloudDoesNotShowYetIsWaitedFor: the answer is lost, and the next run begins before reads see what was made. The cloud says
// that the name is taken, and the object is looked for again.
func TestWhatTheCloudDoesNotShowYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := subjects["vpc"]
	w, directory := newWorld(t), t.TempDir()
	program := s.program(t, w)
	w.start(t, directory)
	w.thing(t, s.typ, "subject").die(s, "answer lost", directory, program)

	w.start(t, directory)
	var taken atomic.Bool
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case s.creates(r):
			taken.Store(true)
		case r.URL.Path == vpcsPath && !taken.Load():
			emulator.WriteJSON(out, http.StatusOK, props{"vpcs": []any{}})
			return
		}
		next.ServeHTTP(out, r)
	})
	vpc := w.thing(t, s.typ, "subject")
	vpc.mustUp("create", program)
	w.fault(nil)
	if n := s.count(w); n != 1 || !taken.Load() {
		t.Errorf("%d objects; asked again: %t", n, taken.Load())
	}
	vpc.mustUp("same", program)
}

// TestAChangedManifestReachesWhatADeadCreateMade: the object whose id is known becomes what is wanted now.
func TestAChangedManifestReachesWhatADeadCreateMade(t *testing.T) {
	t.Parallel()
	s := subjects["cluster"]
	w, directory := newWorld(t), t.TempDir()
	w.start(t, directory)
	w.thing(t, s.typ, "subject").die(s, "id written", directory, s.program(t, w))
	w.start(t, directory)
	cluster := w.thing(t, s.typ, "subject")
	wanted := with(withPool(s.program(t, w), props{"nodeCount": 3}), props{"name": "renamed"})
	cluster.mustUp("create", wanted)
	if only := w.onlyCluster(t); only.Name != "renamed" || only.NodePools[0].Count != 3 {
		t.Errorf("cluster %s has %d nodes", only.Name, only.NodePools[0].Count)
	}
	cluster.mustUp("same", wanted)
}

// TestACreateThatDiedIsGoneOnWithByOtherInputs: what an earlier create asked for is known again although the inputs have changed since,
// and becomes what they say now.
func TestACreateThatDiedIsGoneOnWithByOtherInputs(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(props, string) props{
		"vpc":     func(p props, to string) props { return with(p, props{"description": to}) },
		"cluster": func(p props, to string) props { return with(p, props{"tags": []any{to}}) },
	} {
		for _, point := range []string{"answer lost", "answer not written", "id written"} {
			t.Run(kind+", "+point, func(t *testing.T) {
				t.Parallel()
				s := subjects[kind]
				w, directory := newWorld(t), t.TempDir()
				program := change(s.program(t, w), "before")
				w.start(t, directory)
				w.thing(t, s.typ, "subject").die(s, point, directory, program)

				w.start(t, directory)
				subject := w.thing(t, s.typ, "subject")
				subject.mustUp("create", change(program, "after"))
				if n := s.count(w); n != 1 {
					t.Errorf("%d objects, want 1", n)
				}
				subject.mustUp("same", change(program, "after"))
			})
		}
	}
}
