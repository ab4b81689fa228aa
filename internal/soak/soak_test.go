//go:build linux

package soak

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

var (
	seeds = flag.Uint64("seeds", 30, "how many seeds TestSoak plays")
	first = flag.Uint64("start", 1, "the first seed that TestSoak plays")
	side  = flag.Int("side-by-side", 4, "how many seeds run at the same time")
	kills = flag.Bool("kills", true, "whether processes are killed with -9")
)

// TestSoak plays schedules, a few side by side. A seed that fails tells how to repeat it.
func TestSoak(t *testing.T) {
	t.Parallel()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		t.Skipf("the soak test needs the Pulumi CLI, and %v", err)
	}
	var (
		mu      sync.Mutex
		total   struct{ seeds, failed, kills, strikes, requests, mended int }
		begin   = time.Now()
		spent   time.Duration
		next    = *first
		workers sync.WaitGroup
	)
	play := func(t *testing.T, seed uint64) {
		schedule := NewSchedule(seed, Options{NoKills: !*kills})
		directory := t.TempDir()
		started := time.Now()
		r, outcome, err := play(t, schedule, directory, cli.Path)
		took := time.Since(started)
		failed := err != nil || len(outcome.Problems) > 0

		mu.Lock()
		total.seeds++
		total.kills += outcome.Kills
		total.mended += outcome.Mended
		total.strikes += outcome.Strikes
		total.requests += outcome.Requests
		spent += took
		word := "ok"
		if failed {
			total.failed++
			word = "FAILED"
		}
		mu.Unlock()

		t.Logf("seed %d %s: %s, %d manifests, %d faults struck, %d kills, %d requests, destroyed %t, %v",
			seed, word, schedule.Way, len(schedule.Last), outcome.Strikes, outcome.Kills, outcome.Requests,
			len(schedule.Destroying) > 0, took.Round(10*time.Millisecond))
		if !failed {
			return
		}
		if err != nil {
			t.Errorf("the runner failed: %v", err)
		}
		for _, problem := range outcome.Problems {
			t.Error(problem)
		}
		t.Errorf("repeat it with: make soak SEEDS=1 START=%d\nthe schedule: %s\nthe requests that change something:\n%s\nthe processes wrote:\n%s",
			seed, schedule.Text(), r.writes(), r.log.String())
	}
	for range *side {
		workers.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= *first+*seeds {
					return
				}
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, seed) })
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds, %d failed; %d faults struck, %d processes killed, %d files mended, %d requests; %v a seed, %v in all",
		total.seeds, total.failed, total.strikes, total.kills, total.mended, total.requests,
		(spent / time.Duration(max(total.seeds, 1))).Round(10*time.Millisecond), time.Since(begin).Round(time.Second))
}

// writes are the requests that changed something, or should have.
func (r *run) writes() string {
	text := ""
	if r.civo == nil || r.digitalOcean == nil {
		return text
	}
	for _, request := range append(r.civo.Requests(), r.digitalOcean.Requests()...) {
		if request.Method != http.MethodGet {
			text += fmt.Sprintf("%s %s %s %d %v %s\n", request.Time.Format("15:04:05.000"), request.Method, request.Path, request.Status,
				request.Faults, request.Body)
		}
	}
	return text
}
