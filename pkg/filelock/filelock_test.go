package filelock

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pkg/errors"
)

func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "lock")

	lock, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := Holder(path); got != os.Getpid() {
		t.Errorf("Holder: got %d, want this process, %d", got, os.Getpid())
	}
	if _, err := Try(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: got error %v, want ErrLocked", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock, err = Try(path)
	if err != nil {
		t.Fatalf("after Unlock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Acquire(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while held: got error %v, want the context's", err)
	}

	waits := 0
	lock, err := Acquire(t.Context(), path, func() {
		waits++
		if err := held.Unlock(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if waits != 1 {
		t.Errorf("onWait was called %d times, want once", waits)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestHolderUnknown(t *testing.T) {
	t.Parallel()
	if got := Holder(filepath.Join(t.TempDir(), "missing")); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
