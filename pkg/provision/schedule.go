package provision

import (
	"context"
	"runtime"
	"slices"
)

// Status is what became of one manifest of a set.
type Status string

// The statuses.
const (
	// StatusSucceeded: the operation was done.
	StatusSucceeded Status = "succeeded"
	// StatusFailed: the operation failed, and Result.Err says why.
	StatusFailed Status = "failed"
	// StatusSkipped: the operation was not begun, because one that has to come before it failed.
	StatusSkipped Status = "skipped"
	// StatusCanceled: the caller canceled the operation, or canceled before it was begun.
	StatusCanceled Status = "canceled"
)

// DefaultParallel is how many operations of a set run side by side when nobody says: twice the cores, at least 4 and at most 10. An
// operation needs a core for about a second, and then mostly waits for the cloud; meanwhile its engine keeps some 110 MiB.
func DefaultParallel() int { return min(max(2*runtime.NumCPU(), 4), 10) }

// task is what became of a node of a graph.
type task struct {
	status Status
	// because are the nodes whose failure skipped this one, in their order. They may be further away than its neighbors.
	because []int
}

// schedule runs a function for each node of a graph, after those that the node needs: at most so many side by side, the lowest ones first
// where there is a choice. After a failure it goes on with all that does not need the failed one. When the context ends nothing more
// is begun; schedule returns after all that was begun has ended. The function tells the status of its node.
func schedule(ctx context.Context, needs [][]int, parallel int, run func(int) Status) []task {
	tasks := make([]task, len(needs))
	waits := make([]int, len(needs)) // for how many others a node waits
	neededBy := make([][]int, len(needs))
	var ready []int // sorted
	for i := range needs {
		for _, needed := range unique(needs[i]) {
			neededBy[needed] = append(neededBy[needed], i)
			waits[i]++
		}
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	type ending struct {
		node   int
		status Status
	}
	endings := make(chan ending)
	for running := 0; ; {
		for running < max(parallel, 1) && len(ready) > 0 && ctx.Err() == nil {
			node := ready[0]
			ready = ready[1:]
			running++
			go func() { endings <- ending{node, run(node)} }()
		}
		if running == 0 {
			break
		}
		ended := <-endings
		running--
		tasks[ended.node].status = ended.status
		if ended.status != StatusSucceeded {
			continue // those that need it never become ready
		}
		for _, node := range neededBy[ended.node] {
			if waits[node]--; waits[node] == 0 {
				at, _ := slices.BinarySearch(ready, node)
				ready = slices.Insert(ready, at, node)
			}
		}
	}
	for i := range tasks {
		if tasks[i].status == "" {
			settle(tasks, needs, i)
		}
	}
	return tasks
}

// settle finds out why a node was not begun: it was skipped when anything that it needs failed or was skipped, else the caller canceled.
func settle(tasks []task, needs [][]int, node int) {
	status, because := StatusCanceled, []int(nil)
	for _, needed := range needs[node] {
		if tasks[needed].status == "" {
			settle(tasks, needs, needed)
		}
		switch tasks[needed].status {
		case StatusFailed:
			because = append(because, needed)
		case StatusSkipped:
			because = append(because, tasks[needed].because...)
		}
	}
	if len(because) > 0 {
		slices.Sort(because)
		status, because = StatusSkipped, slices.Compact(because)
	}
	tasks[node] = task{status: status, because: because}
}

// unique are the numbers, each once, in order.
func unique(numbers []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// reversed is the graph with its arrows the other way: what was needed needs.
func reversed(needs [][]int) [][]int {
	turned := make([][]int, len(needs))
	for i := range needs {
		for _, needed := range unique(needs[i]) {
			turned[needed] = append(turned[needed], i)
		}
	}
	return turned
}
