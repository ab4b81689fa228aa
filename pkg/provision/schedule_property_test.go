package provision

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// graphs draws graphs without circles, whose nodes need others in any order of their numbers.
func graphs() *rapid.Generator[[][]int] {
	return rapid.Custom(func(t *rapid.T) [][]int {
		n := rapid.IntRange(0, 25).Draw(t, "nodes")
		order := rapid.Permutation(numbers(n)).Draw(t, "order")
		needs := make([][]int, n)
		for at, node := range order {
			for _, earlier := range order[:at] {
				// Some are needed twice: by two fields.
				for range rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "needed") {
					needs[node] = append(needs[node], earlier)
				}
			}
		}
		return needs
	})
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// above are all nodes that a node needs, and those that they need.
func above(needs [][]int, node int) map[int]bool {
	found := map[int]bool{}
	var visit func(int)
	visit = func(i int) {
		for _, needed := range needs[i] {
			if !found[needed] {
				found[needed] = true
				visit(needed)
			}
		}
	}
	visit(node)
	return found
}

// log is what a schedule did.
type log struct {
	mu             sync.Mutex
	began, ended   []int
	running, most  int
	beganTooEarly  []int
	needs          [][]int
	pause          func()
	endedCorrectly map[int]bool
}

func (l *log) run(node int, status Status) Status {
	l.mu.Lock()
	for _, needed := range l.needs[node] {
		if !l.endedCorrectly[needed] {
			l.beganTooEarly = append(l.beganTooEarly, node)
		}
	}
	l.began = append(l.began, node)
	l.running++
	l.most = max(l.most, l.running)
	l.mu.Unlock()
	l.pause()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.ended = append(l.ended, node)
	l.endedCorrectly[node] = status == StatusSucceeded
	return status
}

// TestSchedule: what is needed comes first and has succeeded, never more run than are allowed, and a failure keeps exactly those from
// running that need it.
func TestSchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needs := graphs().Draw(t, "needs")
		parallel := rapid.IntRange(1, 6).Draw(t, "parallel")
		fails := make([]bool, len(needs))
		for i := range fails {
			fails[i] = rapid.IntRange(0, 5).Draw(t, "fails") == 0
		}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 5).Draw(t, "pauses")
		l := &log{needs: needs, endedCorrectly: map[int]bool{}}
		var mu sync.Mutex
		next := 0
		l.pause = func() {
			mu.Lock()
			next++
			pause := pauses[next%len(pauses)]
			mu.Unlock()
			time.Sleep(time.Duration(pause) * 20 * time.Microsecond)
		}
		tasks := schedule(context.Background(), needs, parallel, func(node int) Status {
			if fails[node] {
				return l.run(node, StatusFailed)
			}
			return l.run(node, StatusSucceeded)
		})

		if len(l.beganTooEarly) > 0 {
			t.Fatalf("%v began before what they need had succeeded", l.beganTooEarly)
		}
		if l.most > parallel {
			t.Fatalf("%d ran side by side, and %d are allowed", l.most, parallel)
		}
		for node := range needs {
			var want task
			up := above(needs, node)
			// Of the failed ones above, those that ran: a failed one below another failed one never did.
			for _, failed := range numbers(len(needs)) {
				if up[failed] && fails[failed] && tasks[failed].status == StatusFailed {
					want.because = append(want.because, failed)
				}
			}
			switch {
			case len(want.because) > 0:
				want.status = StatusSkipped
			case fails[node]:
				want.status = StatusFailed
			default:
				want.status = StatusSucceeded
			}
			if diff := cmp.Diff(want, tasks[node], cmp.AllowUnexported(task{})); diff != "" {
				t.Fatalf("node %d: -want +got:\n%s", node, diff)
			}
			began := 0
			for _, one := range l.began {
				if one == node {
					began++
				}
			}
			if ran := want.status != StatusSkipped; began != map[bool]int{true: 1, false: 0}[ran] {
				t.Fatalf("node %d, which is %s, began %d times", node, want.status, began)
			}
		}
	})
}

// TestScheduleCanceled: after the end of the context nothing is begun, and what was begun is waited for.
func TestScheduleCanceled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needs := graphs().Draw(t, "needs")
		parallel := rapid.IntRange(1, 6).Draw(t, "parallel")
		last := rapid.IntRange(0, 25).Draw(t, "canceled after the beginning of")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var mu sync.Mutex
		began, ended := 0, 0
		if last == 0 {
			cancel()
		}
		tasks := schedule(ctx, needs, parallel, func(int) Status {
			mu.Lock()
			began++
			isLast := began == last
			mu.Unlock()
			if isLast {
				cancel()
			}
			time.Sleep(20 * time.Microsecond)
			mu.Lock()
			defer mu.Unlock()
			ended++
			return StatusSucceeded
		})
		if began != ended {
			t.Fatalf("%d began, and only %d had ended", began, ended)
		}
		if most := last + parallel; began >= most && last+parallel <= len(needs) {
			t.Fatalf("%d began, although it was canceled in number %d, and %d are allowed side by side", began, last, parallel)
		}
		count := map[Status]int{}
		for _, one := range tasks {
			count[one.status]++
		}
		want := map[Status]int{}
		if began > 0 {
			want[StatusSucceeded] = began
		}
		if left := len(needs) - began; left > 0 {
			want[StatusCanceled] = left
		}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// TestScheduleOrder: one at a time, what may begin begins in the order of the numbers.
func TestScheduleOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needs := graphs().Draw(t, "needs")
		var order []int
		schedule(context.Background(), needs, 1, func(node int) Status {
			order = append(order, node)
			return StatusSucceeded
		})
		done := map[int]bool{}
		for _, node := range order {
			for _, other := range numbers(len(needs)) {
				mayBegin := !done[other] && !slices.ContainsFunc(needs[other], func(needed int) bool { return !done[needed] })
				if mayBegin && other < node {
					t.Fatalf("%d began before %d, which was ready too", node, other)
				}
			}
			done[node] = true
		}
		if len(order) != len(needs) {
			t.Fatalf("%d of %d ran", len(order), len(needs))
		}
	})
}

// TestScheduleIsParallel: as many run side by side as are allowed. Each waits for the others, so that it would hang otherwise.
func TestScheduleIsParallel(t *testing.T) {
	t.Parallel()
	const parallel = 4
	var all sync.WaitGroup
	all.Add(parallel)
	tasks := schedule(t.Context(), make([][]int, parallel), parallel, func(int) Status {
		all.Done()
		all.Wait()
		return StatusSucceeded
	})
	if len(tasks) != parallel {
		t.Errorf("%d tasks", len(tasks))
	}
}

// TestReversed: what was needed needs, and twice reversed is the same.
func TestReversed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needs := graphs().Draw(t, "needs")
		turned := reversed(needs)
		for i := range needs {
			for _, needed := range needs[i] {
				if !slices.Contains(turned[needed], i) {
					t.Fatalf("%d needs %d, and reversed it is not the other way", i, needed)
				}
			}
			if diff := cmp.Diff(unique(needs[i]), unique(reversed(turned)[i])); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
		}
	})
}
