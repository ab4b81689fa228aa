package store_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of this name
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// execute runs statements past the store.
func execute(t *testing.T, address string, statements ...string) {
	t.Helper()
	driver := "sqlite"
	if strings.HasPrefix(address, "postgres:") {
		driver = "pgx"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %s", statement, err)
		}
	}
}

// count runs a statement that counts, past the store.
func count(t *testing.T, address, statement string) (count int) {
	t.Helper()
	db, err := sql.Open(map[bool]string{true: "pgx", false: "sqlite"}[strings.HasPrefix(address, "postgres:")], address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRow(statement).Scan(&count); err != nil {
		t.Fatalf("%s: %s", statement, err)
	}
	return count
}

func TestMigrate(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		ctx := context.Background()
		if _, err := store.Open(ctx, address, store.Options{NoMigrate: true}); !errors.Is(err, store.ErrNotMigrated) {
			t.Errorf("a database that is empty: %v", err)
		}
		// Those that start at once do not all migrate.
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if err := store.Migrate(ctx, address, store.Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		db := open(t, address, store.Options{NoMigrate: true})
		write(t, db, func(tx store.Tx) error { return put(tx, pool("1"), nil) })
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if record, err := open(t, address, store.Options{}).Get(ctx, pool("1")); err != nil || record.Revision != 1 {
			t.Errorf("%+v, %v", record, err)
		}
	})
}

func TestNewerDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		for _, statements := range [][2]string{
			{`INSERT INTO river_migration (line, version) VALUES ('main', 999)`, `DELETE FROM river_migration WHERE version = 999`},
			{`INSERT INTO store_migrations (version_id, is_applied) VALUES (999, true)`, `DELETE FROM store_migrations WHERE version_id = 999`},
		} {
			if err := store.Migrate(context.Background(), address, store.Options{}); err != nil {
				t.Fatal(err)
			}
			execute(t, address, statements[0])
			if _, err := store.Open(context.Background(), address, store.Options{}); !errors.Is(err, store.ErrNewer) {
				t.Errorf("%v, want %v", err, store.ErrNewer)
			}
			execute(t, address, statements[1])
		}
	})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ address, reason, says string }{
		{"", "no address", "is empty"},
		{"mysql://host/db", "a database that is not known", "mysql://"},
		{"sqlite://file.db", "file.db would be a host", "three slashes"},
		{"sqlite:///tmp/file.db?mode=memory", "options are ours to choose", "nothing else"},
		{"postgres://user:secret@host:port/db", "the port is no number", "address"},
		{"postgres://user:secret@127.0.0.1:1/db?connect_timeout=1", "nobody is there", "database"},
	} {
		_, err := store.Open(context.Background(), test.address, store.Options{})
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want it to say %q: %s", test.address, err, test.says, test.reason)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %s", err)
		}
	}
}

func TestSQLiteFiles(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a?b c%20d", "data")
	db := open(t, "sqlite://"+strings.NewReplacer("%", "%25", "?", "%3f").Replace(filepath.Join(folder, "store.db")), store.Options{})
	write(t, db, func(tx store.Tx) error { return put(tx, pool("1"), nil) })
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) < 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has the mode %o", entry.Name(), mode)
		}
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %o, %v", info.Mode().Perm(), err)
	}
}
