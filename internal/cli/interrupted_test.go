package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/provision"
)

const civoSet = `
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: main}
spec: {networkName: acme-net, region: fra1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoFirewall
metadata: {name: main}
spec:
  name: acme-fw
  networkId: {valueFrom: {name: main}}
  inboundRules:
    - {protocol: tcp, portRange: "6443", cidrs: [203.0.113.0/24]}
---
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: main}
spec:
  clusterName: acme
  region: fra1
  kubernetesVersion: 1.29.0+k3s1
  network: {valueFrom: {name: main}}
  firewall: {valueFrom: {name: main}}
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata: {name: web}
spec:
  nodePoolName: web
  cluster: {valueFrom: {name: main}}
  size: g4s.kube.medium
  nodeCount: 2
`

const digitalOceanSet = `
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanVpc
metadata: {name: main}
spec: {region: fra1, ipRangeCidr: 10.20.0.0/20}
---
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesCluster
metadata: {name: main}
spec:
  clusterName: acme
  region: fra1
  kubernetesVersion: "1.33"
  vpc: {valueFrom: {name: main}}
  defaultNodePool: {name: system, size: s-2vcpu-4gb, nodeCount: 1}
---
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesNodePool
metadata: {name: web}
spec:
  nodePoolName: web
  cluster: {valueFrom: {name: main}}
  size: s-2vcpu-4gb
  nodeCount: 2
`

// blow is what happens to a run.
type blow string

const (
	killAll     blow = "planton and the engine are killed"
	killPlanton blow = "planton is killed, and the engine lives"
	killEngine  blow = "the engine is killed, and planton lives"
	interrupt   blow = "Ctrl-C"
	terminate   blow = "SIGTERM"
	twice       blow = "Ctrl-C, and once more"
)

// victim is a planton that is run on a cloud, and struck in the middle of requests.
type victim struct {
	t           *testing.T
	binary      string
	directory   string
	environment []string
	attributes  *syscall.SysProcAttr // of the process, nil for none

	mu      sync.Mutex
	process *os.Process
	blows   map[string]blow // by method and path: what happens, once, when such a request was served
	struck  []string
	last    blow           // what struck the run
	asked   map[string]int // by method and path: how often the cloud was asked to make something
}

// newVictim makes planton's binary, and a folder for its state.
func newVictim(t *testing.T) *victim {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this test finds the processes to kill in /proc")
	}
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	directory := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary runs as planton when that is its name, see TestMain.
	binary := filepath.Join(directory, "planton")
	if err := os.Symlink(self, binary); err != nil {
		t.Fatal(err)
	}
	name, value, err := engineVariable(cli, filepath.Join(directory, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	return &victim{
		t: t, binary: binary, directory: directory, blows: map[string]blow{}, asked: map[string]int{},
		environment: append(os.Environ(), "HOME="+directory, name+"="+value,
			"PLANTON_STATE_DIR="+filepath.Join(directory, "state"), "CIVO_TOKEN=token", "DIGITALOCEAN_TOKEN=token"),
	}
}

// intercept strikes planton when a request that is due for it was served, so that the answer is lost.
func (v *victim) intercept(w http.ResponseWriter, r *http.Request, next http.Handler) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := r.Method + " " + lastWord(r.URL.Path)
	if r.Method == http.MethodPost {
		v.asked[key]++
	}
	blow, due := v.blows[key]
	if !due || v.process == nil {
		next.ServeHTTP(w, r)
		return
	}
	delete(v.blows, key)
	v.struck, v.last = append(v.struck, key), blow
	if blow == interrupt || blow == terminate {
		// The run hears of it while the request is in flight, and has its answer.
		v.strike(blow)
		next.ServeHTTP(w, r)
		return
	}
	next.ServeHTTP(&nobody{header: http.Header{}}, r)
	v.strike(blow)
	emulator.DropConnection(r)
}

// lastWord is the last word of a path that is no id.
func lastWord(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(words) - 1; i > 0; i-- {
		if !strings.ContainsAny(words[i], "0123456789") {
			return words[i]
		}
	}
	return words[0]
}

// nobody hears an answer.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n *nobody) WriteHeader(int)             {}

func (v *victim) strike(b blow) {
	planton := v.process.Pid
	kill := func(pid int, signal syscall.Signal) {
		if err := syscall.Kill(pid, signal); err != nil {
			v.t.Errorf("%s: process %d: %v", b, pid, err)
		}
	}
	switch b {
	case interrupt:
		kill(planton, syscall.SIGINT)
	case terminate:
		kill(planton, syscall.SIGTERM)
	case twice:
		kill(planton, syscall.SIGINT)
		time.Sleep(200 * time.Millisecond) // two signals at once are one
		kill(planton, syscall.SIGINT)
	case killPlanton:
		kill(planton, syscall.SIGKILL)
	case killEngine, killAll:
		engines := children(v.t, planton)
		if len(engines) == 0 {
			v.t.Errorf("%s: there is no engine", b)
		}
		if b == killAll {
			kill(planton, syscall.SIGKILL)
		}
		for _, engine := range engines {
			kill(engine, syscall.SIGKILL)
		}
	}
}

// children are the processes that a process started.
func children(t *testing.T, parent int) []int {
	t.Helper()
	var found []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Error(err)
	}
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			if err != nil {
				t.Error(err)
			}
			found = append(found, pid)
		}
	}
	return found
}

// run runs planton.
func (v *victim) run(args ...string) (code int, stdout, stderr string) {
	v.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(v.binary, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = v.environment, v.directory, &out, &errs
	cmd.SysProcAttr = v.attributes
	// An engine that outlives planton holds its streams.
	cmd.WaitDelay = time.Second
	v.mu.Lock()
	err := cmd.Start()
	v.process = cmd.Process
	v.mu.Unlock()
	if err != nil {
		v.t.Fatal(err)
	}
	_ = cmd.Wait()
	v.mu.Lock()
	v.process = nil
	v.mu.Unlock()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// insist runs planton until it succeeds, which takes a run for each blow and no more: an engine that outlived its planton is waited for.
func (v *victim) insist(args ...string) (stdout, stderr string) {
	v.t.Helper()
	for runs := len(v.blows) + 1; runs > 0; runs-- {
		var code int
		left := len(v.blows)
		for waits := 0; ; waits++ {
			code, stdout, stderr = v.run(args...)
			if code != ExitLocked || waits > 60 {
				break
			}
			time.Sleep(time.Second)
		}
		v.t.Logf("planton %s: exit code %d, struck %v\n%s", args[0], code, v.struck, stderr)
		v.mu.Lock()
		if asked := v.last == interrupt || v.last == terminate || v.last == twice; asked != strings.Contains(stderr, "Canceling: ") {
			v.t.Errorf("%s: planton says that it is canceling: %t", v.last, !asked)
		}
		v.last = ""
		v.mu.Unlock()
		if code == ExitOK {
			if len(v.blows) > 0 {
				v.t.Errorf("never struck: %v", v.blows)
			}
			return stdout, stderr
		}
		if len(v.blows) == left {
			v.t.Fatalf("planton %s: exit code %d, and nothing struck it", args[0], code)
		}
	}
	v.t.Fatal("too many runs")
	return "", ""
}

// checkState looks for locks, marks and pending operations.
func (v *victim) checkState() {
	v.t.Helper()
	state := filepath.Join(v.directory, "state")
	err := filepath.WalkDir(state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, _ := filepath.Rel(state, path)
		if strings.Contains(inside, "/locks/") || strings.HasPrefix(inside, "running/") {
			v.t.Errorf("%s stayed behind", inside)
		}
		if strings.Contains(inside, ".pulumi/stacks/") && strings.HasSuffix(inside, ".json") {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var file struct {
				Checkpoint struct {
					Latest struct {
						Pending []any `json:"pending_operations"`
					} `json:"latest"`
				} `json:"checkpoint"`
			}
			if err := json.Unmarshal(content, &file); err != nil {
				return err
			}
			if len(file.Checkpoint.Latest.Pending) > 0 {
				v.t.Errorf("%s has pending operations: %v", inside, file.Checkpoint.Latest.Pending)
			}
		}
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

// keepKeys has a key management service keep the keys of stacks that are made from now on. Others keep the one of the passphrase, of which
// each process of the engine takes half a second to make a key.
func (v *victim) keepKeys() {
	v.t.Helper()
	keys := httptest.NewServer(&vaultemulator.Vault{})
	v.t.Cleanup(keys.Close)
	v.environment = append(v.environment, provision.EnvironmentSecretsProvider+"="+vaultemulator.SecretsProvider)
	for name, value := range vaultemulator.Environment(keys.URL) {
		v.environment = append(v.environment, name+"="+value)
	}
}

// write writes the set into the file that is applied.
func (v *victim) write(set string) (file string) {
	v.t.Helper()
	file = filepath.Join(v.directory, "set.yaml")
	if err := os.WriteFile(file, []byte(set), 0o600); err != nil {
		v.t.Fatal(err)
	}
	return file
}

// begin applies a set once, under a blow that it does not survive.
func (v *victim) begin(set, key string, deadly blow) {
	v.t.Helper()
	v.blows = map[string]blow{key: deadly}
	if code, _, stderr := v.run("apply", "-f", v.write(set), "--yes", "--plugins", "native"); code == ExitOK || len(v.blows) > 0 {
		v.t.Fatalf("the first apply was not struck: exit code %d\n%s", code, stderr)
	}
	v.last = ""
}

// walk applies and destroys a set under blows.
func (v *victim) walk(set string, applying, destroying map[string]blow, made func() string, want string) {
	v.t.Helper()
	file := v.write(set)
	v.blows = applying
	v.insist("apply", "-f", file, "--yes", "--plugins", "native")
	if got := made(); got != want {
		v.t.Errorf("after the applies there are %s, want %s", got, want)
	}
	for key, times := range v.asked {
		if times != 1 {
			v.t.Errorf("%s was sent %d times", key, times)
		}
	}
	v.checkState()
	if stdout, _ := v.insist("apply", "-f", file, "--yes", "--plugins", "native", "-o", "json"); strings.Contains(stdout, `"changed":true`) {
		v.t.Errorf("the next apply changes something: %s", stdout)
	}
	v.blows = destroying
	v.insist("destroy", "-f", file, "--yes", "--plugins", "native")
	if got := made(); got != "" {
		v.t.Errorf("after the destroys there are %s", got)
	}
	v.checkState()
}

// TestSignals: the first signal asks what runs to end, and the second ends it.
func TestSignals(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said bytes.Buffer
	kill := endBy(signals, &said, cancel)
	if ctx.Err() != nil {
		t.Error("canceled before there was a signal")
	}
	signals <- os.Interrupt
	<-ctx.Done()
	select {
	case <-kill:
		t.Error("the first signal kills")
	default:
	}
	if !strings.Contains(said.String(), "Once more to end at once") {
		t.Errorf("it says %q", said.String())
	}
	signals <- syscall.SIGTERM
	select {
	case <-kill:
	case <-time.After(time.Minute):
		t.Error("the second signal does not kill")
	}
}

// TestInterruptedCivo strikes applies and destroys at the moment when Civo is asked for each object. The secrets of the first stack are kept
// with a passphrase, those of the others by a key management service.
func TestInterruptedCivo(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	cloud, err := civo.New(emulator.Options{Token: "token", Intercept: v.intercept})
	if err != nil {
		t.Fatal(err)
	}
	v.serve("CIVO_API_URL", cloud)
	v.begin(civoSet, "POST networks", killAll)
	v.keepKeys()
	v.walk(civoSet, map[string]blow{
		"POST firewalls": interrupt, "POST clusters": killPlanton, "POST pools": twice,
	}, map[string]blow{"DELETE clusters": killAll, "DELETE networks": terminate}, func() string {
		var made []string
		for _, network := range cloud.Networks() {
			if !network.Default {
				made = append(made, "network "+network.Label)
			}
		}
		for _, firewall := range cloud.Firewalls() {
			if firewall.Name == "acme-fw" {
				made = append(made, "firewall "+firewall.Name)
			}
		}
		for _, cluster := range cloud.Clusters() {
			made = append(made, fmt.Sprintf("cluster %s with %d pools", cluster.Name, len(cluster.Pools)))
		}
		return strings.Join(made, ", ")
	}, "network acme-net, firewall acme-fw, cluster acme with 2 pools")
}

// TestInterruptedDigitalOcean strikes applies and destroys at the moment when DigitalOcean is asked for each object. The key of each
// stack's secrets is kept by a key management service.
func TestInterruptedDigitalOcean(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.keepKeys()
	cloud, err := digitalocean.New(emulator.Options{Token: "token", Intercept: v.intercept})
	if err != nil {
		t.Fatal(err)
	}
	v.serve("DIGITALOCEAN_API_URL", cloud)
	v.walk(digitalOceanSet, map[string]blow{
		"POST vpcs": killEngine, "POST clusters": killAll, "POST node_pools": killPlanton,
	}, map[string]blow{"DELETE vpcs": killEngine}, func() string {
		var made []string
		for _, vpc := range cloud.VPCs() {
			if !vpc.Default {
				made = append(made, "vpc "+vpc.Name)
			}
		}
		for _, cluster := range cloud.Clusters() {
			made = append(made, fmt.Sprintf("cluster %s with %d pools", cluster.Name, len(cluster.NodePools)))
		}
		return strings.Join(made, ", ")
	}, "vpc main, cluster acme with 2 pools")
}

// serve serves a cloud to planton.
func (v *victim) serve(variable string, cloud http.Handler) {
	v.t.Helper()
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = server.Close() })
	v.environment = append(v.environment, variable+"="+server.URL())
}
