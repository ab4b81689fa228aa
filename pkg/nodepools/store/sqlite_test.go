package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// SQLite begins the log anew when nothing of it is left to move, which does not happen by itself while others write without a pause.
func TestLogBeginsAnewWhileOthersWrite(t *testing.T) {
	t.Parallel()
	db, err := Open(context.Background(), filepath.Join(t.TempDir(), "store.db"), Options{})
	if err != nil {
		t.Fatalf("open: %s", err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %s", err)
		}
	}()
	backend, ok := db.backend.(*sqlite)
	if !ok {
		t.Fatalf("a path opened a %T", db.backend)
	}
	const long, moves = 50, 40
	var writers sync.WaitGroup
	ended := make(chan struct{})
	for writer := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				if err := db.Write(context.Background(), func(tx Tx) error {
					id := fmt.Sprintf("%d-%d", writer, n)
					return tx.Put(Record{Key: Key{Kind: NodePool, ID: id}, Name: id, ClusterID: "c", Generation: 1, Document: make([]byte, 4<<10)})
				}); err != nil {
					t.Errorf("write: %s", err)
					return
				}
			}
		})
	}
	begun, sizes := 0, []int{0}
	for range moves {
		size, err := checkpoint(backend.mover)
		for err == nil && size < long && !t.Failed() { // the regular move is at it, or there is little to move
			size, err = checkpoint(backend.mover)
		}
		if err == nil {
			err = backend.move(long)
		}
		if err != nil {
			t.Errorf("move: %s", err)
		}
		if t.Failed() {
			break
		}
		if size < sizes[len(sizes)-1] {
			begun++
		}
		sizes = append(sizes, size)
	}
	close(ended)
	writers.Wait()
	if begun < moves/8 { // by itself it does once in a while
		t.Errorf("the log began anew %d times in %d moves; its sizes were %v", begun, moves, sizes)
	}
}
