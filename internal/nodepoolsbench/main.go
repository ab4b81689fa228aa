// Command nodepoolsbench is what `make bench-nodepools` runs: how many requests a second the NodePools service answers, how long they
// take, and what it needs for that, on SQLite and on PostgreSQL; and how long fifty node pools take to become Ready beside what their
// engines cost. Server and load share the machine, and every acknowledged write is on the disk.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/client"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

const (
	// serveVariable makes the program the server.
	serveVariable = "NODEPOOLS_BENCH_SERVE"
	// profileVariable has the server write a profile of its CPU time to the file that it names.
	profileVariable = "NODEPOOLS_BENCH_PROFILE"
	// clients is how many requests are under way at a time.
	clients = 16
	// stored is how many node pools there are when lists are measured.
	stored = 10_000
	// watchers is how many clients watch.
	watchers = 100
	// pools is how many node pools are provisioned.
	pools = 50
)

// options are the flags.
type options struct {
	// phase is how long each kind of request is measured.
	phase time.Duration
	// only is what is measured: sqlite, postgres, provisioning; empty is all of it.
	only string
	// requests are the kinds of requests that are measured beside creates, by the begin of their names; empty is all.
	requests string
	// profiles is a folder for CPU profiles of the servers; empty is none.
	profiles string
}

func (o options) wants(part string) bool { return o.only == "" || strings.Contains(o.only, part) }

func main() {
	switch os.Getenv(serveVariable) {
	case "":
	case "floor":
		if err := serveFloor(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	default:
		os.Exit(serveProfiled())
	}
	var o options
	flag.DurationVar(&o.phase, "phase", 5*time.Second, "how long each kind of request is measured")
	flag.StringVar(&o.only, "only", "", "what to measure, of sqlite,postgres,provisioning; all of it when empty")
	flag.StringVar(&o.requests, "requests", "", "which requests to measure beside creates, by how their names begin; all of them when empty")
	flag.StringVar(&o.profiles, "profiles", "", "folder for CPU profiles of the servers")
	flag.Parse()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	fmt.Printf("%d cores, %s; %d clients\n", runtime.NumCPU(), loadAverage(), clients)
	if o.requests == "" && (o.wants("sqlite") || o.wants("postgres")) {
		if err := o.floors(ctx, os.Stdout); err != nil {
			return err
		}
	}
	if o.wants("sqlite") {
		if err := o.onDatabase(ctx, "SQLite", "", 0); err != nil {
			return err
		}
	}
	if o.wants("postgres") {
		if err := o.onPostgres(ctx); err != nil {
			return err
		}
	}
	if o.wants("provisioning") {
		return o.provisioning(ctx)
	}
	return nil
}

func (o options) onPostgres(ctx context.Context) error {
	server, err := postgrestest.Start()
	if err != nil {
		fmt.Println("PostgreSQL is left out:", err)
		return nil
	}
	defer server.Stop()
	address, err := server.Database(ctx)
	if err != nil {
		return err
	}
	if o.requests == "" {
		if err := o.postgresFloor(ctx, os.Stdout, address, server.PID()); err != nil {
			return err
		}
	}
	return o.onDatabase(ctx, "PostgreSQL", address, server.PID())
}

// service is a server under measurement.
type service struct {
	command *exec.Cmd
	url     string
}

var servingOn = regexp.MustCompile(`serving on (https?://\S+)`)

// start starts a server with a state directory of its own.
func (o options) start(ctx context.Context, directory, database string, args ...string) (*service, error) {
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
	if o.profiles != "" {
		name := "sqlite"
		if database != "" {
			name = "postgres"
		}
		s.command.Env = append(s.command.Env, profileVariable+"="+filepath.Join(o.profiles, name))
	}
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

// ask makes one request on a connection of its own, which must succeed.
func (s *service) ask(method, path, body string) error {
	c, err := dial(s.url)
	if err != nil {
		return err
	}
	defer c.close()
	return c.ask(method, path, body)
}

// figures are what was measured of one kind of request.
type figures struct {
	count    int
	rate     float64
	p50, p99 time.Duration
	// cpu is the CPU time that a request cost, by who spent it.
	cpu []share
}

// share is the CPU time that somebody spent on one request.
type share struct {
	who string
	cpu time.Duration
}

func (f figures) String() string {
	text := fmt.Sprintf("%8.0f/s   p50 %-9s p99 %-9s", f.rate, f.p50.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond))
	for i, one := range f.cpu {
		if i == 0 {
			text += "  CPU"
		}
		text += fmt.Sprintf(" %d µs %s", one.cpu.Microseconds(), one.who)
	}
	return text
}

// beside adds what the original answers a second, and ten times that.
func (f figures) beside(original float64) string {
	return fmt.Sprintf("%s  (ten times the original: %.0f/s)", f, 10*original)
}

// spender is a process, with those that it started, whose CPU time is counted.
type spender struct {
	who string
	pid int
}

// load makes requests side by side for a while, or so many, each client on a connection of its own. do gets a number that no other
// request has.
func load(url string, length time.Duration, most int64, spenders []spender, do func(c *connection, n int64) error) (figures, error) {
	return measure(length, most, spenders, func() (func(n int64) error, func(), error) {
		c, err := dial(url)
		if err != nil {
			return nil, nil, err
		}
		return func(n int64) error { return do(c, n) }, c.close, nil
	})
}

// measure does something side by side for a while, or so many times. client makes what one client does, and what ends it.
func measure(length time.Duration, most int64, spenders []spender, client func() (do func(n int64) error, end func(), err error)) (figures, error) {
	var (
		next   atomic.Int64
		mu     sync.Mutex
		times  []time.Duration
		failed error
		group  sync.WaitGroup
	)
	spenders = append(slices.Clone(spenders), spender{"load", os.Getpid()})
	before := make([]time.Duration, len(spenders))
	for i, one := range spenders {
		before[i] = cpuTime(one.pid)
	}
	began := time.Now()
	for range clients {
		group.Go(func() {
			var own []time.Duration
			do, end, err := client()
			if err == nil {
				defer end()
			}
			for err == nil && (length == 0 || time.Since(began) < length) {
				n := next.Add(1)
				if most > 0 && n > most {
					break
				}
				start := time.Now()
				if err = do(n); err == nil {
					own = append(own, time.Since(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			if err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	if failed != nil {
		return figures{}, failed
	}
	result := of(times, time.Since(began))
	for i, one := range spenders {
		result.cpu = append(result.cpu, share{one.who, (cpuTime(one.pid) - before[i]) / time.Duration(len(times))})
	}
	return result, nil
}

func of(times []time.Duration, took time.Duration) figures {
	slices.Sort(times)
	return figures{count: len(times), rate: float64(len(times)) / took.Seconds(), p50: times[len(times)/2], p99: times[len(times)*99/100]}
}

const clusterID = "550e8400-e29b-41d4-a716-446655440000"

// poolID is the id of the n-th pool.
func poolID(n int64) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// What the original answered a second on a machine of this class, by PostgreSQL.
const (
	originalCreates = 263
	originalGets    = 2000
	originalLists   = 275
)

// onDatabase measures the API on a database, whose server has a pid where it is a process of its own.
func (o options) onDatabase(ctx context.Context, name, address string, database int) error {
	directory, err := os.MkdirTemp("", "nodepoolsbench-")
	if err != nil {
		return errors.Wrap(err, "make a folder")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	s, err := o.start(ctx, directory, address, "--workers", "0")
	if err != nil {
		return err
	}
	defer s.stop()
	spenders := []spender{{"service", s.command.Process.Pid}}
	if database != 0 {
		spenders = append(spenders, spender{"database", database})
	}
	if err := s.ask(http.MethodPost, "/api/v1/clusters",
		`{"id": "`+clusterID+`", "name": "main", "spec": {"platform": {"type": "gcp"}}}`); err != nil {
		return err
	}
	create := func(c *connection, n int64) error {
		return c.ask(http.MethodPost, "/api/v1/nodepools", fmt.Sprintf(`{"id": %q, "name": "pool-%d", "cluster_id": %q, "spec": {"nodeCount": 3,
			"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "diskSize": 100, "zones": ["us-central1-a"]}}}}`, poolID(n), n, clusterID))
	}
	fmt.Printf("%s\n  idle                          %s\n", name, s.memory())
	creates, err := load(s.url, 0, stored, spenders, create)
	if err != nil {
		return err
	}
	fmt.Printf("  durable create         %s\n", creates.beside(originalCreates))
	cursors, err := s.cursors()
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name     string
		original float64
		do       func(c *connection, n int64) error
	}{
		{"get", originalGets, func(c *connection, n int64) error {
			return c.ask(http.MethodGet, "/api/v1/nodepools/"+poolID(1+n*7919%stored), "")
		}},
		{"list 50 of 10,000", originalLists, func(c *connection, _ int64) error { return c.ask(http.MethodGet, "/api/v1/nodepools?limit=50", "") }},
		{"list 50, any page", 0, func(c *connection, n int64) error {
			return c.ask(http.MethodGet, "/api/v1/nodepools?limit=50&cursor="+cursors[n*7919%int64(len(cursors))], "")
		}},
		{"update, no conflict", 0, func(c *connection, n int64) error {
			return c.ask(http.MethodPatch, "/api/v1/nodepools/"+poolID(1+n*7919%stored), fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, n%1000))
		}},
	} {
		if !strings.HasPrefix(kind.name, o.requests) {
			continue
		}
		measured, err := load(s.url, o.phase, 0, spenders, kind.do)
		if err != nil {
			return err
		}
		line := measured.String()
		if kind.original > 0 {
			line = measured.beside(kind.original)
		}
		fmt.Printf("  %-22s %s\n", kind.name, line)
	}
	if o.requests == "" {
		fan, err := s.fanOut(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("  an update to %d watchers %s\n", watchers, fan)
	}
	fmt.Printf("  after all that                %s\n\n", s.memory())
	return nil
}

// cursors are those of the pages that all pools make.
func (s *service) cursors() (cursors []string, err error) {
	c, err := dial(s.url)
	if err != nil {
		return nil, err
	}
	defer c.close()
	path := "/api/v1/nodepools?limit=50"
	for next := path; ; next = path + "&cursor=" + cursors[len(cursors)-1] {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if err := c.get(next, &page); err != nil {
			return nil, err
		}
		if page.NextCursor == "" {
			return cursors, nil
		}
		cursors = append(cursors, page.NextCursor)
	}
}

// fanOut measures how long it takes from the begin of an update until each of many watchers has been told of it.
func (s *service) fanOut(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	api, err := client.New(client.Options{Server: s.url, User: "bench@example.com"})
	if err != nil {
		return "", err
	}
	const updates = 200
	var began [updates + 1]atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	told := make(chan struct{}, watchers*updates)
	page, err := nodepoolsv1.NewNodePoolServiceClient(api).ListNodePools(ctx, &nodepoolsv1.ListNodePoolsRequest{Limit: proto.Int32(1)})
	if err != nil {
		return "", err
	}
	for range watchers {
		stream, err := nodepoolsv1.NewEventServiceClient(api).WatchEvents(ctx, &nodepoolsv1.WatchEventsRequest{
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
		if err := s.ask(http.MethodPatch, "/api/v1/nodepools/"+poolID(1), fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, 500+n)); err != nil {
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
func (o options) provisioning(ctx context.Context) error {
	directory, err := os.MkdirTemp("", "nodepoolsbench-")
	if err != nil {
		return errors.Wrap(err, "make a folder")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	s, err := o.start(ctx, directory, "", "--cloud", "emulated", "--time-scale", "0", "--workers", fmt.Sprint(pools))
	if err != nil {
		return err
	}
	defer s.stop()
	api, err := client.New(client.Options{Server: s.url, User: "bench@example.com"})
	if err != nil {
		return err
	}
	if err := s.ask(http.MethodPost, "/api/v1/clusters", `{"id": "`+clusterID+`", "name": "main", "spec": {"kubernetesVersion": "1.29.0+k3s1",
		"platform": {"type": "civo", "civo": {"region": "fra1", "defaultNodePool": {"size": "g4s.kube.medium", "nodeCount": 1}}}}}`); err != nil {
		return err
	}
	clusters, nodePools := nodepoolsv1.NewClusterServiceClient(api), nodepoolsv1.NewNodePoolServiceClient(api)
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
	if _, err := load(s.url, 0, pools, nil, func(c *connection, n int64) error {
		return c.ask(http.MethodPost, "/api/v1/nodepools", fmt.Sprintf(`{"name": "pool-%d", "cluster_id": %q, "spec": {"nodeCount": 1,
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
	_, times := stat(pid)
	return (times[2] + times[3]).Seconds()
}

// cpuTime is the CPU time of a process and of those that it started. This process is counted alone: what it started is counted for itself.
func cpuTime(pid int) time.Duration {
	_, times := stat(pid)
	spent := times[0] + times[1]
	if pid == os.Getpid() {
		return spent
	}
	spent += times[2] + times[3]
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		child, _ := strconv.Atoi(filepath.Base(folder))
		if parent, times := stat(child); parent == pid {
			spent += times[0] + times[1]
		}
	}
	return spent
}

// stat is the parent of a process, its CPU time in programs and in the kernel, and those of the processes that it waited for.
func stat(pid int) (parent int, times [4]time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, times
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, times
	}
	parent, _ = strconv.Atoi(fields[1])
	for i := range times {
		ticks, _ := strconv.ParseInt(fields[11+i], 10, 64)
		times[i] = time.Duration(ticks) * 10 * time.Millisecond // the kernel counts in hundredths of a second
	}
	return parent, times
}

// loadAverage tells how busy the machine is with other things.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load " + strings.Fields(string(text))[0]
}
