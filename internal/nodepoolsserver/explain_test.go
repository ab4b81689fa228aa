//go:build unix

package nodepoolsserver

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
)

// explained are the metrics that tell what servers are at.
var explained = regexp.MustCompile(`(?m)^nodepools_(?:work_|objects\{|deletions_stalled|database_up|store_transactions_waiting).*$`)

// explain tells what the servers are at: the work that waits and the work that is done, and which engines do it.
func (w *world) explain() {
	w.t.Helper()
	w.mu.Lock()
	servers := append([]*process{}, w.servers...)
	w.mu.Unlock()
	for n, p := range servers {
		select {
		case <-p.ended:
			w.t.Logf("server %d ended: %s", n+1, p.command.ProcessState)
			continue
		default:
		}
		_, text, err := p.try(http.MethodGet, "/metrics", "", nil)
		w.t.Logf("server %d tells (error: %v):\n%s", n+1, err, strings.Join(explained.FindAllString(text, -1), "\n"))
	}
	for _, process := range marked(w.dir) {
		w.t.Logf("process %d runs: %s", process.Pid, commandLine(process))
		_ = process.Release()
	}
}

// tellOf tells, where the test failed, what an object is and what happened to it, the newest first.
func (p *process) tellOf(of string) {
	p.w.t.Helper()
	if !p.w.t.Failed() {
		return
	}
	code, text, err := p.try(http.MethodGet, of, "", nil)
	p.w.t.Logf("%s is (error: %v): %d %s", of, err, code, text)
	events, err := p.events(path.Base(of))
	p.w.t.Logf("its events (error: %v):\n%s", err, strings.Join(events, "\n"))
}

// events are the latest of an object, a line each.
func (p *process) events(id string) (lines []string, err error) {
	var list struct {
		Events []struct {
			Time, Type, Actor, Message string
			Generation                 int
		}
	}
	if _, _, err := p.try(http.MethodGet, "/api/v1/events?limit=30&object_id="+id, "", &list); err != nil {
		return nil, err
	}
	for _, event := range list.Events {
		lines = append(lines, fmt.Sprintf("%s %s of generation %d, by %s: %s", event.Time, event.Type, event.Generation, event.Actor, event.Message))
	}
	return lines, nil
}

// TestExplanations: what a test that waits in vain tells of the servers is there, and so are the events of an object.
func TestExplanations(t *testing.T) {
	t.Parallel()
	url, _, _ := metered(t)
	call(t, http.MethodPost, url+"/api/v1/clusters", metricsCluster)
	call(t, http.MethodPost, url+"/api/v1/nodepools", metricsPool)
	p := &process{w: &world{t: t, client: client(t)}, url: url}
	_, text := p.call(http.MethodGet, "/metrics", "", nil)
	told := strings.Join(explained.FindAllString(text, -1), "\n")
	for _, want := range []string{
		"nodepools_work_waiting 0", "nodepools_work_running 0", "nodepools_work_longest_wait_seconds 0", "nodepools_database_up 1",
		`nodepools_objects{kind="nodepool",phase="Pending",platform="gcp"} 1`, "nodepools_deletions_stalled 0",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("there is no %s in:\n%s", want, told)
		}
	}
	events, err := p.events("123e4567-e89b-12d3-a456-426614174000")
	if err != nil || len(events) == 0 || !strings.Contains(events[len(events)-1], "nodepool.created of generation 1, by user@example.com") {
		t.Errorf("the events are %q, %v", events, err)
	}
}
