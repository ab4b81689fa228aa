package cli

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/internal/s3emulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
)

// troubled is a planton whose state something befalls while it applies one manifest: a cluster and the firewall that comes with it.
type troubled struct {
	*victim
	file string
	// befalls happens when the cloud is next asked to make something, before it does; nil for nothing.
	befalls func()
}

func newTroubled(t *testing.T) *troubled {
	t.Helper()
	s := &troubled{victim: newVictim(t)}
	s.file = filepath.Join(s.directory, "cluster.yaml")
	cloud, err := civo.New(emulator.Options{Token: "token", Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		s.mu.Lock()
		befalls := s.befalls
		if r.Method != http.MethodGet {
			s.asked[r.Method+" "+lastWord(r.URL.Path)]++
			s.befalls = nil
		}
		s.mu.Unlock()
		if r.Method != http.MethodGet && befalls != nil {
			befalls()
		}
		next.ServeHTTP(w, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.serve("CIVO_API_URL", cloud)
	s.keepKeys()
	for _, network := range cloud.Networks() {
		if network.Region == "FRA1" {
			text := strings.Join([]string{
				"apiVersion: civo.project-planton.org/v1", "kind: CivoKubernetesCluster", "metadata: {name: main}",
				"spec: {clusterName: acme, region: fra1, kubernetesVersion: 1.29.0+k3s1, network: {value: " + network.ID + "},",
				"  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}}",
			}, "\n")
			if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// apply applies the manifest, and checks the exit code and that stderr has words.
func (s *troubled) apply(reason string, want int, words ...string) (stderr string) {
	s.t.Helper()
	code, stdout, stderr := s.run("apply", "-f", s.file, "--yes", "--plugins", "native")
	s.t.Logf("%s: exit code %d\n%s%s", reason, code, stdout, stderr)
	if code != want {
		s.t.Errorf("%s: exit code %d, want %d", reason, code, want)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			s.t.Errorf("%s: stderr lacks %q", reason, word)
		}
	}
	return stderr
}

// checkAsked checks what the cloud was asked to change so far.
func (s *troubled) checkAsked(reason string, want map[string]int) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.asked); diff != "" {
		s.t.Errorf("%s: what the cloud was asked (-want +got):\n%s", reason, diff)
	}
}

// everythingOnce is what the cloud is asked in all, whatever happened in between.
var everythingOnce = map[string]int{"POST firewalls": 1, "POST clusters": 1}

// TestBackendGoneHalfWay: the store of the states stops to answer when the first object is being made, and comes back.
func TestBackendGoneHalfWay(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	store := &s3emulator.Store{}
	server, err := emulator.Listen("127.0.0.1:0", store)
	if err != nil {
		t.Fatal(err)
	}
	s.environment = append(s.environment, "AWS_MAX_ATTEMPTS=1") // the engine tries again by itself
	for name, value := range s3emulator.Environment(server.URL()) {
		s.environment = append(s.environment, name+"="+value)
	}
	s.befalls = func() { _ = server.Close() }
	s.apply("the backend goes", ExitState, "connection refused", "hint: the backend of the states does not answer")
	s.checkAsked("the backend goes", map[string]int{"POST firewalls": 1})
	s.apply("the backend is still gone", ExitState, "connection refused", "hint: the backend of the states does not answer")

	back, err := emulator.Listen(server.Addr(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Close() })
	s.apply("it is back", ExitOK)
	s.checkAsked("it is back", everythingOnce)
	s.checkState()
}

// TestFolderGoneHalfWay: the folder of the states is moved away when the first object is being made, and comes back.
func TestFolderGoneHalfWay(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	folder, elsewhere := filepath.Join(s.directory, "state", "backend"), filepath.Join(s.directory, "elsewhere")
	s.befalls = func() {
		if err := os.Rename(folder, elsewhere); err != nil {
			t.Error(err)
		}
	}
	s.apply("the folder goes", ExitState, folder, "hint: ")
	s.apply("the folder is still gone", ExitState, folder, "hint: ")
	// The engine made a folder of that name, with nothing in it but what it did last.
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(elsewhere, folder); err != nil {
		t.Fatal(err)
	}
	s.apply("it is back", ExitOK)
	s.checkAsked("it is back", everythingOnce)
	s.checkState()
}

// TestTwoAppliesAtOnce: while one process applies, a second one fails cleanly, and a third one that may wait does, and has nothing to do.
func TestTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	var third bytes.Buffer
	command := exec.Command(s.binary, "apply", "-f", s.file, "--yes", "--plugins", "native", "--lock-timeout", "5m")
	command.Env, command.Dir, command.WaitDelay = s.environment, s.directory, time.Second
	waits := &waitingFor{words: "waiting up to 5m0s", seen: make(chan struct{})}
	command.Stdout, command.Stderr = &third, waits
	s.befalls = func() {
		s.apply("somebody else applies", ExitLocked, "works on the stack", "hint: ", "--lock-timeout")
		if err := command.Start(); err != nil {
			t.Error(err)
			return
		}
		select {
		case <-waits.seen:
		case <-time.After(time.Minute):
			t.Error("the one that may wait says nothing")
		}
	}
	s.apply("the first", ExitOK)
	if command.Process == nil {
		t.Fatal("the first one asked the cloud for nothing")
	}
	if err := command.Wait(); err != nil || !strings.Contains(third.String(), "no changes") {
		t.Errorf("the one that waits: %v\n%s%s", err, third.String(), waits.written.String())
	}
	s.checkAsked("three applies", everythingOnce)
	s.checkState()
}

// waitingFor is what a process writes, and tells when it has written some words.
type waitingFor struct {
	written bytes.Buffer
	words   string
	seen    chan struct{} // closed when they were
}

func (w *waitingFor) Write(p []byte) (int, error) {
	before := strings.Contains(w.written.String(), w.words)
	n, err := w.written.Write(p)
	if !before && strings.Contains(w.written.String(), w.words) {
		close(w.seen)
	}
	return n, err
}
