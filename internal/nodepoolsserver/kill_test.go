//go:build unix

package nodepoolsserver

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// kills is how often servers are killed. More find more: go test ./internal/nodepoolsserver -run '^TestKilledServers$' -timeout 1h -kills 50
var kills = flag.Int("kills", 3, "how often TestKilledServers kills a server, on each database")

// fleet is what a client was told, of the pools that it alone writes.
type fleet struct {
	mu sync.Mutex
	// counts are the node counts that a pool may have: the last one that was acknowledged, and those whose answers were lost since.
	counts map[string][]int
	// gone are pools whose deletion was acknowledged, or whose answer was lost.
	gone map[string]bool
}

// TestKilledServers: servers are killed at random while clients write and the clouds are provisioned. Afterwards every acknowledged write
// is there, every pool is what it is to be, no stack is locked, and the cloud holds what the API says and nothing else.
func TestKilledServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		environment func(t *testing.T) string
		servers     int
	}{
		"one server on SQLite":      {func(*testing.T) string { return "X=" }, 1},
		"two servers on PostgreSQL": {func(t *testing.T) string { return databaseVariable + "=" + postgrestest.Database(t) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("the seed is %d", seed)
			random := rand.New(rand.NewPCG(seed, seed))
			w := newWorld(t, test.environment(t), keyVariable+"=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
			servers := make([]*process, test.servers)
			for i := range servers {
				servers[i] = w.start("--parallel", "2")
			}
			servers[0].do(http.MethodPost, "/api/v1/clusters", civoBody)
			servers[0].ready("/api/v1/clusters/" + civoClusterID)

			var mu sync.Mutex // guards servers
			server := func(i int) *process {
				mu.Lock()
				defer mu.Unlock()
				return servers[i%len(servers)]
			}
			f := &fleet{counts: map[string][]int{}, gone: map[string]bool{}}
			stop := make(chan struct{})
			var writing sync.WaitGroup
			for client := range 2 {
				own := rand.New(rand.NewPCG(seed, uint64(client)))
				writing.Go(func() { f.write(server, client, own, stop) })
			}
			for range *kills {
				time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
				victim := random.IntN(len(servers))
				server(victim).kill()
				started := w.start("--parallel", "2")
				mu.Lock()
				servers[victim] = started
				mu.Unlock()
			}
			close(stop)
			writing.Wait()
			f.check(w, server(0))
			for _, p := range servers {
				p.stop()
			}
			if locks := w.locks(); len(locks) > 0 {
				t.Errorf("stacks are locked: %v", locks)
			}
		})
	}
}

// write creates, scales and deletes pools of its own until it is told to stop.
func (f *fleet) write(server func(int) *process, client int, random *rand.Rand, stop <-chan struct{}) {
	var pools []string
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
		}
		p := server(random.IntN(2))
		nodes := 1 + random.IntN(3)
		switch action := random.IntN(10); {
		case len(pools) < 2 || action == 0 && len(pools) < 3:
			id := fmt.Sprintf("00000000-0000-4000-8000-%06d%06d", client, n)
			body := fmt.Sprintf(`{"id": %q, "name": "p-%d-%d", "cluster_id": %q, "spec": {"nodeCount": %d,
				"platform": {"type": "civo", "civo": {"size": "g4s.kube.large"}}}}`, id, client, n, civoClusterID, nodes)
			code, _, err := p.try(http.MethodPost, "/api/v1/nodepools", body, nil)
			f.mu.Lock()
			switch {
			case err != nil:
				f.counts[id] = []int{-1, nodes} // it may not be there
			case code == http.StatusCreated:
				f.counts[id] = []int{nodes}
			}
			f.mu.Unlock()
			if err == nil && code == http.StatusCreated {
				pools = append(pools, id)
			}
		case action == 1:
			id := pools[0]
			code, _, err := p.try(http.MethodDelete, "/api/v1/nodepools/"+id, "", nil)
			if err != nil || code == http.StatusNoContent {
				f.mu.Lock()
				f.gone[id] = err == nil
				f.mu.Unlock()
				pools = pools[1:]
			}
		default:
			id := pools[random.IntN(len(pools))]
			code, _, err := p.try(http.MethodPatch, "/api/v1/nodepools/"+id, fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, nodes), nil)
			f.mu.Lock()
			switch {
			case err != nil:
				f.counts[id] = append(f.counts[id], nodes)
			case code == http.StatusOK:
				f.counts[id] = []int{nodes}
			}
			f.mu.Unlock()
		}
	}
}

// check compares what clients were told with what the API says, and that with the cloud.
func (f *fleet) check(w *world, p *process) {
	t := w.t
	t.Helper()
	acknowledged, deleted := 0, 0
	var want []string
	for id, counts := range f.counts {
		path := "/api/v1/nodepools/" + id
		if known, asked := f.gone[id]; asked && known {
			deleted++
			p.gone(path)
			continue
		} else if asked {
			// Nobody knows whether the deletion was taken. It is asked for again.
			p.call(http.MethodDelete, path, "", nil)
			p.gone(path)
			continue
		}
		var o struct {
			Name string `json:"name"`
			Spec struct {
				NodeCount int `json:"nodeCount"`
			} `json:"spec"`
		}
		code, text := p.call(http.MethodGet, path, "", &o)
		if code == http.StatusNotFound && counts[0] == -1 && len(counts) == 2 {
			continue
		}
		acknowledged++
		if code != http.StatusOK || !slices.Contains(counts, o.Spec.NodeCount) {
			t.Errorf("the pool has %d nodes, and may have %v: %d %s", o.Spec.NodeCount, counts, code, text)
			continue
		}
		p.ready(path)
		want = append(want, fmt.Sprintf("%s:%d", o.Name, o.Spec.NodeCount))
	}
	if acknowledged < 2 {
		t.Errorf("only %d pools are left, and %d were deleted: nothing was tested", acknowledged, deleted)
	}
	slices.Sort(want)
	got := strings.Fields(strings.Replace(w.nodes("main"), "default:1", "", 1))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the cloud holds %v, the API says %v", got, want)
	}
}

// locks are the locks in the backend of the stacks.
func (w *world) locks() []string {
	var locks []string
	_ = filepath.WalkDir(filepath.Join(w.dir, "backend", ".pulumi", "locks"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			locks = append(locks, path)
		}
		return nil
	})
	return locks
}
