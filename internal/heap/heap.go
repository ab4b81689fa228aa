// Package heap keeps the garbage collector from working on heaps that are not worth it. A program that imports it collects nothing before
// its heap has grown to Floor, and from there on as Go does by itself: when the heap is twice as large as what was in use.
//
// Most commands end before that. The packages that planton is linked with make some megabytes at their start, which Go would look
// through several times. Go initializes packages in the order of their import paths, those that need others after these, so that this one,
// which needs next to none, comes before nearly all that make much.
// https://go.dev/doc/go1.21#language
//
// On Linux, what the heap grows into up to half of that is asked for as huge pages: the first touch of a page goes through the kernel, in a virtual
// machine also through what is below it, and with pages of 4 KiB that was a fifth of the time of a short command.
//
// Where GOGC or GOMEMLIMIT is set, it does nothing.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Floor is the size of the heap, in bytes, below which nothing is collected.
const Floor = 64 << 20

const (
	// leastPercent is Go's own GOGC.
	leastPercent = 100
	// mostPercent is the GOGC with which the first collection comes at Floor: without it, it comes at 4 MiB, whatever is in use.
	mostPercent = leastPercent * Floor / (4 << 20)
)

func init() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(mostPercent)
		afterCollection(adjust)
		useHugePages(Floor / 2)
	}
}

// adjust makes the next collection come when the heap has doubled, and not below Floor.
func adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := leastPercent
	if live[0].Value.Kind() == metrics.KindUint64 {
		percent = percentFor(live[0].Value.Uint64())
	}
	debug.SetGCPercent(percent)
}

// percentFor is the GOGC for so many bytes that are in use.
func percentFor(live uint64) int {
	percent := leastPercent
	if live < Floor {
		percent = int(100 * (Floor - live) / max(live, 1))
	}
	return min(max(percent, leastPercent), mostPercent)
}

// afterCollection runs a function after each collection.
func afterCollection(do func()) {
	type mark struct{ _ [16]byte } // large enough to be a block of its own
	runtime.SetFinalizer(&mark{}, func(*mark) {
		do()
		afterCollection(do)
	})
}
