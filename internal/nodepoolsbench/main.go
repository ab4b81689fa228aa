// Command nodepoolsbench is what `make bench-nodepools` runs: how many requests a second the NodePools service answers, how long they
// take, and what it needs for that, on SQLite and on PostgreSQL; and how long fifty node pools take to become Ready beside what their
// engines cost. Server and load share the machine, and every acknowledged write is on the disk.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/internal/nodepoolsserver"
	"github.com/plantonhq/project-planton/pkg/nodepools/client"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

const (
	// serveVariable makes the program the server.
	serveVariable = "NODEPOOLS_BENCH_SERVE"
	// clients is how many requests are under way at a time.
	clients = 16
	// stored is how many node pools there are when lists are measured.
	stored = 10_000
	// phase is how long each kind of request is measured.
	phase = 5 * time.Second
	// watchers is how many clients watch.
	watchers = 100
	// pools is how many node pools are provisioned.
	pools = 50
)

func main() {
	if os.Getenv(serveVariable) != "" {
		os.Exit(nodepoolsserver.Main())
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	fmt.Printf("%d cores, %s; %d clients\n", runtime.NumCPU(), loadAverage(), clients)
	fsyncs, err := fsyncRate()
	if err != nil {
		return err
	}
	fmt.Printf("the disk: %.0f writes of 4 KiB a second, each with fsync, one after the other\n\n", fsyncs)
	if err := onDatabase(ctx, "SQLite", ""); err != nil {
		return err
	}
	server, err := postgrestest.Start()
	if err != nil {
		fmt.Println("PostgreSQL is left out:", err)
	} else {
		defer server.Stop()
		address, err := server.Database(ctx)
		if err != nil {
			return err
		}
		if err := onDatabase(ctx, "PostgreSQL", address); err != nil {
			return err
		}
	}
	return provisioning(ctx)
}

// service is a server under measurement.
type service struct {
	command *exec.Cmd
	url     string
	user    *http.Client
}

var servingOn = regexp.MustCompile(`serving on (https?://\S+)`)

// start starts a server with a state directory of its own.
func start(ctx context.Context, directory, database string, args ...string) (*service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Wrap(err, "find this program")
	}
	log, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		return nil, errors.Wrap(err, "make the log")
	}
	s := &service{command: exec.CommandContext(ctx, self, append([]string{"--listen", "127.0.0.1:0", "--log-level", "warn"}, args...)...)}
	s.command.Env = append(os.Environ(), serveVariable+"=1", "PLANTON_STATE_DIR="+directory, "NODEPOOLS_DATABASE="+database,
		"NODEPOOLS_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "PULUMI_SKIP_UPDATE_CHECK=true")
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return nil, errors.Wrap(err, "start the server")
	}
	for range 600 {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			return nil, errors.Wrap(err, "read the log")
		}
		if found := servingOn.FindSubmatch(text); found != nil {
			s.url = string(found[1])
			s.user = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}
			return s, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.stop()
	return nil, errors.Errorf("the server does not serve; see %s", log.Name())
}

func (s *service) stop() {
	_ = s.command.Process.Signal(os.Interrupt)
	_ = s.command.Wait()
}

// memory is the resident memory of the server in MiB.
func (s *service) memory() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		return "unknown"
	}
	var kib int
	if found := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(text); found != nil {
		_, _ = fmt.Sscan(string(found[1]), &kib)
	}
	return fmt.Sprintf("%d MiB", kib>>10)
}

// ask makes one request, which must succeed.
func (s *service) ask(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return errors.Wrap(err, "make a request")
	}
	request.Header.Set("X-User-Email", "bench@example.com")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := s.user.Do(request)
	if err != nil {
		return errors.Wrap(err, "ask")
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = errors.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return err
}

// figures are what was measured of one kind of request.
type figures struct {
	rate     float64
	p50, p99 time.Duration
}

func (f figures) String() string {
	return fmt.Sprintf("%8.0f/s   p50 %-9s p99 %s", f.rate, f.p50.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond))
}

// load makes requests side by side for a while, or so many. do gets a number that no other request has.
func load(length time.Duration, most int64, do func(n int64) error) (figures, error) {
	var (
		next   atomic.Int64
		mu     sync.Mutex
		times  []time.Duration
		failed error
		group  sync.WaitGroup
	)
	began := time.Now()
	for range clients {
		group.Go(func() {
			var own []time.Duration
			for length == 0 || time.Since(began) < length {
				n := next.Add(1)
				if most > 0 && n > most {
					break
				}
				start := time.Now()
				if err := do(n); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	group.Wait()
	if failed != nil {
		return figures{}, failed
	}
	return of(times, time.Since(began)), nil
}

func of(times []time.Duration, took time.Duration) figures {
	slices.Sort(times)
	return figures{float64(len(times)) / took.Seconds(), times[len(times)/2], times[len(times)*99/100]}
}

const clusterID = "550e8400-e29b-41d4-a716-446655440000"

// poolID is the id of the n-th pool.
func poolID(n int64) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// onDatabase measures the API on a database.
func onDatabase(ctx context.Context, name, address string) error {
	directory, err := os.MkdirTemp("", "nodepoolsbench-")
	if err != nil {
		return errors.Wrap(err, "make a folder")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	s, err := start(ctx, directory, address, "--workers", "0")
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.ask(ctx, http.MethodPost, "/api/v1/clusters",
		`{"id": "`+clusterID+`", "name": "main", "spec": {"platform": {"type": "gcp"}}}`); err != nil {
		return err
	}
	create := func(n int64) error {
		return s.ask(ctx, http.MethodPost, "/api/v1/nodepools", fmt.Sprintf(`{"id": %q, "name": "pool-%d", "cluster_id": %q, "spec": {"nodeCount": 3,
			"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "diskSize": 100, "zones": ["us-central1-a"]}}}}`, poolID(n), n, clusterID))
	}
	fmt.Printf("%s\n  idle                          %s\n", name, s.memory())
	creates, err := load(0, stored, create)
	if err != nil {
		return err
	}
	fmt.Printf("  durable create         %s\n", creates)
	for _, kind := range []struct {
		name string
		do   func(n int64) error
	}{
		{"get", func(n int64) error {
			return s.ask(ctx, http.MethodGet, "/api/v1/nodepools/"+poolID(1+n*7919%stored), "")
		}},
		{"list 50 of 10,000", func(int64) error { return s.ask(ctx, http.MethodGet, "/api/v1/nodepools?limit=50", "") }},
		{"update, no conflict", func(n int64) error {
			return s.ask(ctx, http.MethodPatch, "/api/v1/nodepools/"+poolID(1+n*7919%stored), fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, n%1000))
		}},
	} {
		measured, err := load(phase, 0, kind.do)
		if err != nil {
			return err
		}
		fmt.Printf("  %-22s %s\n", kind.name, measured)
	}
	fan, err := s.fanOut(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  an update to %d watchers %s\n  after all that                %s\n\n", watchers, fan, s.memory())
	return nil
}

// fanOut measures how long it takes from the begin of an update until each of many watchers has been told of it.
func (s *service) fanOut(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connection, err := client.New(client.Options{Server: s.url, User: "bench@example.com"})
	if err != nil {
		return "", err
	}
	const updates = 50
	var began [updates + 1]atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	told := make(chan struct{}, watchers*updates)
	page, err := nodepoolsv1.NewNodePoolServiceClient(connection).ListNodePools(ctx, &nodepoolsv1.ListNodePoolsRequest{Limit: proto.Int32(1)})
	if err != nil {
		return "", err
	}
	for range watchers {
		stream, err := nodepoolsv1.NewEventServiceClient(connection).WatchEvents(ctx, &nodepoolsv1.WatchEventsRequest{
			Since: page.GetResourceVersion(), ObjectId: poolID(1),
		})
		if err != nil {
			return "", err
		}
		go func() {
			for {
				event, err := stream.Recv()
				if err != nil {
					return
				}
				n := event.GetNodepool().GetSpec().GetNodeCount() - 500
				if n < 1 || n > updates {
					continue
				}
				took := time.Duration(time.Now().UnixNano() - began[n].Load())
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
				told <- struct{}{}
			}
		}()
	}
	time.Sleep(2 * time.Second) // until all watch
	for n := 1; n <= updates; n++ {
		began[n].Store(time.Now().UnixNano())
		if err := s.ask(ctx, http.MethodPatch, "/api/v1/nodepools/"+poolID(1), fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, 500+n)); err != nil {
			return "", err
		}
		for range watchers {
			select {
			case <-told:
			case <-time.After(30 * time.Second):
				return "", errors.New("a watcher was not told")
			}
		}
	}
	f := of(times, time.Second)
	return fmt.Sprintf("p50 %s p99 %s", f.p50.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond)), nil
}

// provisioning measures how long many pools take to become Ready in clouds that take no time, and what their engines cost.
func provisioning(ctx context.Context) error {
	directory, err := os.MkdirTemp("", "nodepoolsbench-")
	if err != nil {
		return errors.Wrap(err, "make a folder")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	s, err := start(ctx, directory, "", "--cloud", "emulated", "--time-scale", "0", "--workers", fmt.Sprint(pools))
	if err != nil {
		return err
	}
	defer s.stop()
	connection, err := client.New(client.Options{Server: s.url, User: "bench@example.com"})
	if err != nil {
		return err
	}
	if err := s.ask(ctx, http.MethodPost, "/api/v1/clusters", `{"id": "`+clusterID+`", "name": "main", "spec": {"kubernetesVersion": "1.29.0+k3s1",
		"platform": {"type": "civo", "civo": {"region": "fra1", "defaultNodePool": {"size": "g4s.kube.medium", "nodeCount": 1}}}}}`); err != nil {
		return err
	}
	clusters, nodePools := nodepoolsv1.NewClusterServiceClient(connection), nodepoolsv1.NewNodePoolServiceClient(connection)
	for {
		cluster, err := clusters.GetCluster(ctx, &nodepoolsv1.GetClusterRequest{Id: clusterID})
		if err != nil {
			return err
		}
		if cluster.GetStatus().GetPhase() == "Ready" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	began, engines := time.Now(), engineSeconds(s.command.Process.Pid)
	if _, err := load(0, pools, func(n int64) error {
		return s.ask(ctx, http.MethodPost, "/api/v1/nodepools", fmt.Sprintf(`{"name": "pool-%d", "cluster_id": %q, "spec": {"nodeCount": 1,
			"platform": {"type": "civo", "civo": {"size": "g4s.kube.large"}}}}`, n, clusterID))
	}); err != nil {
		return err
	}
	for {
		page, err := nodePools.ListNodePools(ctx, &nodepoolsv1.ListNodePoolsRequest{Status: "Ready", Limit: proto.Int32(1)})
		if err != nil {
			return err
		}
		if page.GetTotal() == pools {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	spent := engineSeconds(s.command.Process.Pid) - engines
	fmt.Printf("%d node pools Ready after %s: %.2f s each; their engines cost %.2f s of CPU each, of %d cores that is %.0f %% of the time\n",
		pools, took.Round(100*time.Millisecond), took.Seconds()/pools, spent/pools, runtime.NumCPU(),
		100*spent/took.Seconds()/float64(runtime.NumCPU()))
	return nil
}

// engineSeconds is the CPU time of the processes that a server has waited for: its engines.
func engineSeconds(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	var user, system int64
	_, _ = fmt.Sscan(fields[13], &user)
	_, _ = fmt.Sscan(fields[14], &system)
	return float64(user+system) / 100 // the kernel counts in hundredths
}

// fsyncRate is how many small writes a second the disk takes, each with fsync.
func fsyncRate() (float64, error) {
	file, err := os.CreateTemp("", "nodepoolsbench-")
	if err != nil {
		return 0, errors.Wrap(err, "make a file")
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	block, count, began := make([]byte, 4<<10), 0, time.Now()
	for ; time.Since(began) < time.Second; count++ {
		if _, err := file.WriteAt(block, 0); err != nil {
			return 0, errors.Wrap(err, "write")
		}
		if err := file.Sync(); err != nil {
			return 0, errors.Wrap(err, "sync")
		}
	}
	return float64(count) / time.Since(began).Seconds(), nil
}

// loadAverage tells how busy the machine is with other things.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load " + strings.Fields(string(text))[0]
}
