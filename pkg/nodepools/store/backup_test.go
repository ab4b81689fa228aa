package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

func TestBackup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	folder := t.TempDir()
	address := filepath.Join(folder, "store.db")
	db := open(t, address, store.Options{})
	// Writers go on while the copy is made.
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for writer := range 3 {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := pool(fmt.Sprint(writer, "-", i))
				err := db.Write(ctx, func(tx store.Tx) error {
					if err := put(tx, key, nil); err != nil {
						return err
					}
					return tx.Event(store.Event{Object: key})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	within(t, "writing", func() bool { return db.Stats().Transactions > 20 })
	file, another := filepath.Join(folder, "backup"), filepath.Join(folder, "another")
	if err := db.Backup(ctx, file); err != nil {
		t.Fatal(err)
	}
	if err := store.Backup(ctx, "sqlite://"+address, another); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(ctx, file); err == nil {
		t.Error("a backup was overwritten")
	}
	close(stop)
	wait.Wait()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has the mode %o, %v", info.Mode().Perm(), err)
	}
	for _, backup := range []string{file, another} {
		restored := filepath.Join(folder, "restored-"+filepath.Base(backup), "store.db")
		if kept, err := store.Restore(ctx, restored, backup); err != nil || kept != "" {
			t.Fatalf("%s, %v", kept, err)
		}
		copied := open(t, restored, store.Options{})
		page, err := copied.List(ctx, store.Query{Kind: store.NodePool})
		if err != nil || page.Total < 20 {
			t.Fatalf("%d objects, %v", page.Total, err)
		}
		events, err := copied.Events(ctx, store.EventQuery{})
		if err != nil || len(events) != page.Total || events[0].Revision != int64(page.Total) {
			t.Errorf("%d events, the last of revision %d, for %d objects, %v", len(events), events[0].Revision, page.Total, err)
		}
		// Revisions of after the backup are not given to other transactions, and those who have them learn that.
		latest, err := db.Revision(ctx)
		if err != nil || page.Revision <= latest {
			t.Errorf("restored at revision %d, the database was at %d, %v", page.Revision, latest, err)
		}
		if _, err := copied.EventsAfter(ctx, latest, 10); !errors.Is(err, store.ErrExpired) {
			t.Errorf("%v, want %v", err, store.ErrExpired)
		}
		if events, err := copied.EventsAfter(ctx, page.Revision, 10); err != nil || len(events) != 0 {
			t.Errorf("%v, %v", events, err)
		}
	}
	if _, err := store.Restore(ctx, address, file); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a database that is open: %v, want %v", err, store.ErrInUse)
	}
	write(t, db, func(tx store.Tx) error { return put(tx, pool("after"), nil) })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Restore(ctx, address, file)
	if err != nil || kept == "" {
		t.Fatalf("%s, %v", kept, err)
	}
	if _, err := open(t, address, store.Options{}).Get(ctx, pool("after")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v, want it gone", err)
	}
	if _, err := open(t, kept, store.Options{}).Get(ctx, pool("after")); err != nil {
		t.Errorf("what was replaced is not kept: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	folder := t.TempDir()
	address := filepath.Join(folder, "store.db")
	db := open(t, address, store.Options{})
	write(t, db, func(tx store.Tx) error {
		for i := range 200 {
			if err := put(tx, pool(fmt.Sprint(i)), func(r *store.Record) { r.Document = make([]byte, 1000) }); err != nil {
				return err
			}
		}
		return nil
	})
	good := filepath.Join(folder, "good")
	if err := db.Backup(ctx, good); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, content...)
	for i := len(damaged) / 2; i < len(damaged)/2+5000; i++ {
		damaged[i] ^= 0x55
	}
	for name, content := range map[string][]byte{
		"damaged": damaged, "cut": content[:len(content)/2], "empty": {}, "text": []byte("this is no database, whatever its name says"),
	} {
		backup := filepath.Join(folder, name)
		if err := os.WriteFile(backup, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(ctx, address, backup); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	if _, err := store.Restore(ctx, address, filepath.Join(folder, "none")); err == nil {
		t.Error("restored what is not there")
	}
	again := open(t, address, store.Options{})
	if page, err := again.List(ctx, store.Query{Kind: store.NodePool, Limit: 1}); err != nil || page.Total != 200 {
		t.Errorf("the database that was not replaced has %d objects, %v", page.Total, err)
	}
	if left, err := filepath.Glob(address + ".restored*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPostgresHasItsOwnBackup(t *testing.T) {
	t.Parallel()
	address := postgrestest.Database(t)
	db := open(t, address, store.Options{})
	_, err := store.Restore(context.Background(), address, "x")
	for _, err := range []error{err, db.Backup(context.Background(), "x"), store.Backup(context.Background(), address, "x")} {
		if err == nil {
			t.Error("no error")
		}
	}
}
