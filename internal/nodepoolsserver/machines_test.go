//go:build unix

package nodepoolsserver

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plantonhq/project-planton/internal/s3emulator"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// startOn starts a server on a machine of its own: with another home, another state directory and, where the tests may, another name and
// processes of its own.
func (w *world) startOn(machine string, args ...string) *process {
	w.t.Helper()
	environment := w.environment
	defer func() { w.environment, w.wrapper = environment, nil }()
	home := filepath.Join(w.dir, machine)
	w.environment = append(slices.Clone(environment), "HOME="+home, "PLANTON_STATE_DIR="+filepath.Join(home, "state"))
	container := []string{"unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		container = append(container, "--user", "--map-root-user")
	}
	if err := exec.CommandContext(w.t.Context(), container[0], append(container[1:], "true")...).Run(); err != nil {
		w.t.Logf("all is on one machine, because this one cannot be several: %v", err)
	} else {
		w.wrapper = append(container, "sh", "-c", `hostname "$0" && exec "$@"`, machine)
	}
	return w.start(args...)
}

// crash ends a server and its engines at once, as the loss of its machine does.
func (p *process) crash() {
	p.kill()
	p.w.end(p.mark)
}

// TestLostMachine: a machine is lost while its worker makes a pool and takes one away. A worker of another machine, which shares nothing with
// it but the database and the backend of the stacks, goes on with both: nothing is made twice, nothing is left, nobody has to help.
func TestLostMachine(t *testing.T) {
	t.Parallel()
	environment := []string{databaseVariable + "=" + postgrestest.Database(t), keyVariable + "=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	for name, value := range s3emulator.Environment(serveCloud(t, &s3emulator.Store{})) {
		environment = append(environment, name+"="+value)
	}
	w := newIdleWorld(t, environment...)
	const pools, asks = "/api/v1/nodepools", "/v2/kubernetes/clusters/*/pools"
	p := w.startOn("machine-a", "--parallel", "4")
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	gone := p.do(http.MethodPost, pools, poolBody("gone", 1))
	p.ready(pools + "/" + gone.ID)

	// One pool is made and one is deleted, and nobody hears of either.
	w.hold(make(chan struct{}), "/pools")
	one := p.do(http.MethodPost, pools, poolBody("one", 2))
	p.do(http.MethodDelete, pools+"/"+gone.ID, "")
	w.until("a pool is made, and one is deleted", func() bool { return w.nodes("main") == "default:1 one:2" })
	p.crash()
	w.held.Store(nil)
	asked := w.civo.Count("POST", asks)

	p = w.startOn("machine-b", "--parallel", "4")
	p.ready(pools + "/" + one.ID)
	p.gone(pools + "/" + gone.ID)
	if got, want := w.nodes("main"), "default:1 one:2"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	if again := w.civo.Count("POST", asks) - asked; again != 0 {
		t.Errorf("%d pools were asked for once more", again)
	}
}
