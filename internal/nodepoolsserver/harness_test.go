//go:build unix

package nodepoolsserver

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/internal/cli"
	"github.com/plantonhq/project-planton/internal/openapi/prism"
	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

const (
	// childVariable makes the test binary the server, so that there is a real process to kill.
	childVariable = "NODEPOOLS_TEST_CHILD"
	// markVariable is the same in a server and in all that it starts, and in nothing else.
	markVariable = "NODEPOOLS_TEST_MARK"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "planton" {
		os.Exit(cli.Main())
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(Main())
	}
	// All tests begin at once; of those that work, as many do so side by side as go test is told.
	flag.Parse()
	if side, ok := flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int); ok {
		working = make(chan struct{}, side)
		_ = flag.Set("test.parallel", "100") // it is a number
	}
	// The requests of all tests go through prism, where the Makefile says that it stands.
	os.Exit(prism.Main(func() int { return postgrestest.Main(m) }, server.Description(), 500))
}

const (
	civoToken         = "civo-token-of-the-tests"
	digitalOceanToken = "digitalocean-token-of-the-tests"
)

// pulumiCLI finds the Pulumi CLI once for all tests.
var pulumiCLI = sync.OnceValues(func() (*pulumicli.CLI, error) {
	return pulumicli.Find(context.Background(), pulumicli.Options{Progress: os.Stderr})
})

// world is emulated clouds that outlive the servers under test, and a folder for their state.
type world struct {
	t            *testing.T
	civo         *civo.Cloud
	civoFaults   *fault.Injector
	digitalOcean *digitalocean.Cloud
	doFaults     *fault.Injector
	dir          string
	environment  []string
	// wrapper is what the next server is started through; nil for nothing.
	wrapper []string
	// held says which requests to Civo are never answered, though their work is done: the connection is closed when the channel is.
	held atomic.Pointer[func(*http.Request) <-chan struct{}]
	// client asks the servers, through prism where it stands.
	client *http.Client

	mu      sync.Mutex // guards servers
	servers []*process // all that were started
}

// working has an element for each test that works.
var working chan struct{}

// newWorld is the world of a test that works for most of its time. It waits for its turn.
func newWorld(t *testing.T, environment ...string) *world {
	t.Helper()
	working <- struct{}{}
	t.Cleanup(func() { <-working })
	return newIdleWorld(t, environment...)
}

// newIdleWorld is the world of a test that waits for most of its time, and needs no core for that. It begins at once: the tests end no sooner
// than it does.
func newIdleWorld(t *testing.T, environment ...string) *world {
	t.Helper()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("the tests of the whole way need the Pulumi CLI, and %v", err)
	}
	w := &world{t: t, dir: t.TempDir(), client: &http.Client{Timeout: patience}}
	if through := prism.Through(t, w.client); through != nil {
		t.Cleanup(func() {
			t.Logf("%d requests and their answers were held against the OpenAPI document", through.Passed())
			if through.Passed() == 0 && !t.Failed() {
				t.Error("nothing that this test asked was held against the OpenAPI document")
			}
		})
	}
	if w.civo, w.civoFaults, err = fault.New(civo.New, emulator.Options{Token: civoToken}, fault.Plan{}); err != nil {
		t.Fatal(err)
	}
	if w.digitalOcean, w.doFaults, err = fault.New(digitalocean.New, emulator.Options{Token: digitalOceanToken}, fault.Plan{}); err != nil {
		t.Fatal(err)
	}
	w.environment = append(os.Environ(),
		childVariable+"=1", "PLANTON_STATE_DIR="+w.dir, "PLANTON_PULUMI="+cli.Path,
		"CIVO_TOKEN="+civoToken, "CIVO_API_URL="+serveCloud(t, http.HandlerFunc(w.serveCivo)), "DIGITALOCEAN_TOKEN="+digitalOceanToken,
		"DIGITALOCEAN_API_URL="+serveCloud(t, w.digitalOcean), "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_CONFIG_PASSPHRASE=for tests only",
		// Engines live for a second or two; a tenth of their work was to collect garbage.
		"GOGC=400",
	)
	// A vault keeps the keys of the stacks: a key of a passphrase costs a second of a core for each operation.
	for name, value := range vaultemulator.Environment(serveCloud(t, &vaultemulator.Vault{})) {
		w.environment = append(w.environment, name+"="+value)
	}
	w.environment = append(w.environment, environment...)
	// Before the clouds end, which wait for those who ask them.
	t.Cleanup(func() { w.end(w.dir) })
	return w
}

// hold has the answers to changes of what is at such a path held until the channel is closed, and lost then.
func (w *world) hold(until <-chan struct{}, path string) {
	held := func(r *http.Request) <-chan struct{} {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, path) {
			return until
		}
		return nil
	}
	w.held.Store(&held)
}

// serveCivo is the emulated Civo, with answers that are held back.
func (w *world) serveCivo(answer http.ResponseWriter, r *http.Request) {
	if held := w.held.Load(); held != nil {
		if lost := (*held)(r); lost != nil {
			w.civo.ServeHTTP(httptest.NewRecorder(), r)
			select {
			case <-lost:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		}
	}
	w.civo.ServeHTTP(answer, r)
}

func serveCloud(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// process is a server under test.
type process struct {
	w       *world
	command *exec.Cmd
	url     string
	log     *log
	ended   chan struct{}
	mark    string // of what it started, and of itself
}

// patience is how long is waited for what must come, on a machine that is busy too.
const patience = 3 * time.Minute

// log keeps what a process says.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var servingOn = regexp.MustCompile(`serving on (https?://\S+)`)

// start starts a server, and waits until it serves.
func (w *world) start(args ...string) *process {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{w: w, log: &log{}, ended: make(chan struct{})}
	w.mu.Lock()
	w.servers = append(w.servers, p)
	p.mark = fmt.Sprintf("%s/%d/", w.dir, len(w.servers))
	w.mu.Unlock()
	line := append(slices.Clone(w.wrapper), self, "--listen", "127.0.0.1:0", "--cloud", "real", "--plugins", "native", "--log-level", "warn")
	p.command = exec.CommandContext(context.WithoutCancel(w.t.Context()), line[0], append(line[1:], args...)...)
	p.command.Env, p.command.Stdout, p.command.Stderr = append(slices.Clone(w.environment), markVariable+"="+p.mark), p.log, p.log
	if err := p.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	w.t.Cleanup(func() {
		p.kill()
		if w.t.Failed() {
			w.t.Logf("a server said:\n%s", p.log)
		}
	})
	w.until("the server serves", func() bool {
		select {
		case <-p.ended:
			w.t.Fatalf("the server ended:\n%s", p.log)
		default:
		}
		found := servingOn.FindStringSubmatch(p.log.String())
		if found != nil {
			p.url = found[1]
		}
		return found != nil
	})
	return p
}

// stop ends a server as an orchestrator does, and says whether it ended well.
func (p *process) stop() {
	p.w.t.Helper()
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		p.w.t.Fatalf("the server did not end:\n%s", p.log)
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		p.w.t.Errorf("the server ended with %d:\n%s", code, p.log)
	}
}

// kill ends a server as a crash does. Its engines go on for as long as they can without it, and end with the test at the latest.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// until waits for something that must come. When it does not, what the servers are at is told.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	// What comes soon is seen soon; what takes long is not asked for all the time, which would cost as much as what it waits for.
	const first, longest = 50 * time.Millisecond, 500 * time.Millisecond
	deadline := time.Now().Add(patience)
	for pause := first; !done(); pause = min(pause*3/2, longest) {
		if time.Now().After(deadline) {
			w.explain()
			w.t.Fatalf("in %s it did not come to this: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// door is an address of the server for clients that are processes of their own: what they ask goes through prism, where it stands.
func (p *process) door() string {
	p.w.t.Helper()
	target, err := url.Parse(p.url)
	if err != nil {
		p.w.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: p.w.client.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return serveCloud(p.w.t, http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody() // it never fails
		proxy.ServeHTTP(answer, r)
	}))
}

// object is an object of the API, as far as these tests look at it.
type object struct {
	ID              string `json:"id"`
	Name            string `json:"name"`
	Generation      int    `json:"generation"`
	ResourceVersion string `json:"resource_version"`
	Spec            map[string]any
	Status          struct {
		Phase              string `json:"phase"`
		Reason             string `json:"reason"`
		Message            string `json:"message"`
		ObservedGeneration int    `json:"observed_generation"`
		Nodes              struct {
			Ready   int `json:"ready"`
			Desired int `json:"desired"`
		} `json:"nodes"`
		Conditions []struct {
			Type, Status, Reason, Message string
		} `json:"conditions"`
	} `json:"status"`
}

// condition is the status of a condition, empty when there is none.
func (o *object) condition(name string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == name {
			return c.Status
		}
	}
	return ""
}

// call asks the API as a user, and returns the status code; the answer is decoded into an object that is not nil.
func (p *process) call(method, path, body string, into any) (int, string) {
	p.w.t.Helper()
	code, text, err := p.try(method, path, body, into)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return code, text
}

func (p *process) try(method, path, body string, into any) (int, string, error) {
	request, err := http.NewRequestWithContext(p.w.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-User-Email", "user@example.com")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			request.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	response, err := p.w.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && into != nil && response.StatusCode/100 == 2 {
		err = json.Unmarshal(text, into)
	}
	return response.StatusCode, string(text), err
}

// do is a call that must succeed.
func (p *process) do(method, path, body string) object {
	p.w.t.Helper()
	var o object
	var into any = &o
	if method == http.MethodDelete {
		into = nil
	}
	if code, text := p.call(method, path, body, into); code/100 != 2 {
		p.w.t.Fatalf("%s %s was answered with %d: %s", method, path, code, text)
	}
	return o
}

// ready waits until an object is Ready at its generation.
func (p *process) ready(path string) object {
	p.w.t.Helper()
	var o object
	defer p.tellOf(path)
	p.w.until(path+" is Ready", func() bool {
		o = object{}
		p.call(http.MethodGet, path, "", &o)
		return o.Status.Phase == "Ready" && o.Status.ObservedGeneration == o.Generation
	})
	return o
}

// gone waits until an object cannot be read any more.
func (p *process) gone(path string) {
	p.w.t.Helper()
	defer p.tellOf(path)
	p.w.until(path+" is gone", func() bool {
		code, _ := p.call(http.MethodGet, path, "", nil)
		return code == http.StatusNotFound
	})
}

// nodes says which pools a cluster of the emulated Civo has, and how many nodes each.
func (w *world) nodes(cluster string) string {
	found, ok := w.civo.Cluster(cluster)
	if !ok {
		return "no cluster"
	}
	var pools []string
	for _, pool := range found.Pools {
		pools = append(pools, fmt.Sprintf("%s:%d", pool.ID, len(pool.Instances)))
	}
	slices.Sort(pools)
	return strings.Join(pools, " ")
}

// left is what there is at the emulated Civo that was made.
func (w *world) left() string {
	var left []string
	for _, cluster := range w.civo.Clusters() {
		left = append(left, "cluster "+cluster.Name)
	}
	for _, network := range w.civo.Networks() {
		if !network.Default {
			left = append(left, "network "+network.Label)
		}
	}
	return strings.Join(left, ", ")
}
