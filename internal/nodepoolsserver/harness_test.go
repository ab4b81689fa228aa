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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/internal/cli"
	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// childVariable makes the test binary the server, so that there is a real process to kill.
const childVariable = "NODEPOOLS_TEST_CHILD"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "planton" {
		os.Exit(cli.Main())
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(Main())
	}
	// Two of the tests wait for most of their time, and need no core for that.
	flag.Parse()
	if side, ok := flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int); ok {
		_ = flag.Set("test.parallel", strconv.Itoa(side+2)) // it is a number
	}
	os.Exit(postgrestest.Main(m))
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
}

func newWorld(t *testing.T, environment ...string) *world {
	t.Helper()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("the tests of the whole way need the Pulumi CLI, and %v", err)
	}
	w := &world{t: t, dir: t.TempDir()}
	if w.civo, w.civoFaults, err = fault.New(civo.New, emulator.Options{Token: civoToken}, fault.Plan{}); err != nil {
		t.Fatal(err)
	}
	if w.digitalOcean, w.doFaults, err = fault.New(digitalocean.New, emulator.Options{Token: digitalOceanToken}, fault.Plan{}); err != nil {
		t.Fatal(err)
	}
	w.environment = append(os.Environ(),
		childVariable+"=1", "PLANTON_STATE_DIR="+w.dir, "PLANTON_PULUMI="+cli.Path, "PULUMI_BACKEND_URL=file://"+filepath.Join(w.dir, "stacks"),
		"CIVO_TOKEN="+civoToken, "CIVO_API_URL="+serveCloud(t, http.HandlerFunc(w.serveCivo)), "DIGITALOCEAN_TOKEN="+digitalOceanToken,
		"DIGITALOCEAN_API_URL="+serveCloud(t, w.digitalOcean), "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_CONFIG_PASSPHRASE=for tests only",
	)
	if err := os.MkdirAll(filepath.Join(w.dir, "stacks"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A vault keeps the keys of the stacks: a key of a passphrase costs a second of a core for each operation.
	for name, value := range vaultemulator.Environment(serveCloud(t, &vaultemulator.Vault{})) {
		w.environment = append(w.environment, name+"="+value)
	}
	w.environment = append(w.environment, environment...)
	return w
}

// hold has the answers to changes of pools held until the channel is closed, and lost then.
func (w *world) hold(until <-chan struct{}) {
	held := func(r *http.Request) <-chan struct{} {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/pools") {
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
}

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
	line := append(slices.Clone(w.wrapper), self, "--listen", "127.0.0.1:0", "--cloud", "real", "--plugins", "native", "--log-level", "warn")
	p.command = exec.CommandContext(context.WithoutCancel(w.t.Context()), line[0], append(line[1:], args...)...)
	p.command.Env, p.command.Stdout, p.command.Stderr = w.environment, p.log, p.log
	// The engines of a killed server are in its group, and end with the test at the latest.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		<-p.ended
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

// kill ends a server as a crash does. Its engines go on for as long as they can without it.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// until waits for something that must come.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			w.t.Fatalf("in three minutes it did not come to this: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
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
	response, err := http.DefaultClient.Do(request)
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
	last := ""
	defer func() {
		if p.w.t.Failed() {
			p.w.t.Logf("%s was last: %s", path, last)
		}
	}()
	p.w.until(path+" is Ready", func() bool {
		o = object{}
		_, last = p.call(http.MethodGet, path, "", &o)
		return o.Status.Phase == "Ready" && o.Status.ObservedGeneration == o.Generation
	})
	return o
}

// gone waits until an object cannot be read any more.
func (p *process) gone(path string) {
	p.w.t.Helper()
	defer func() {
		if p.w.t.Failed() {
			_, text, _ := p.try(http.MethodGet, path+"/status", "", nil)
			p.w.t.Logf("%s is %s", path, text)
		}
	}()
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
