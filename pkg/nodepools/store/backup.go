package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/filelock"
)

// ErrInUse says that a process has the database open.
var ErrInUse = errors.New("the database is in use: end the processes that have it open")

// restoreGap is how far the revision is raised by Restore, so that no revision of after the backup is given a second time.
const restoreGap = 1 << 30

// Backup writes a copy of the SQLite database, as of one moment, to a new file that its owner alone can read. The database is
// used meanwhile. For PostgreSQL it is an error: PostgreSQL has its own means.
func (d *DB) Backup(ctx context.Context, file string) error {
	return d.backend.backup(ctx, file)
}

// Backup does what DB.Backup does, for a database that need not be open: that of a running service.
func Backup(ctx context.Context, address, file string) error {
	if isPostgres(address) {
		return errPostgresBackup
	}
	path, err := sqlitePath(address)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return errors.Wrap(err, "back up the database")
	}
	db, err := openFile(path, true, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return backupSQLite(ctx, db, file)
}

func (s *sqlite) backup(ctx context.Context, file string) error {
	return backupSQLite(ctx, s.readers, file)
}

func backupSQLite(ctx context.Context, db *sql.DB, file string) (err error) {
	defer func() { err = errors.Wrap(err, "back up the database") }()
	// A copy that was interrupted must not look like a backup.
	partial := file + ".partial"
	made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600) // reserves the name
	if err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file)
			_ = os.Remove(partial)
		}
	}()
	if made, err = os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	connection, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	// VACUUM INTO writes to the new file, which query_only forbids.
	if _, err := connection.ExecContext(ctx, `PRAGMA query_only = 0`); err != nil {
		return err
	}
	_, err = connection.ExecContext(ctx, `VACUUM INTO ?1`, partial)
	if _, again := connection.ExecContext(context.WithoutCancel(ctx), `PRAGMA query_only = 1`); err == nil {
		err = again
	}
	if err != nil {
		return err
	}
	if err := check(ctx, partial); err != nil {
		return err
	}
	if err := syncFile(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, file); err != nil {
		return err
	}
	return syncFile(filepath.Dir(file))
}

// check looks whether a file is a whole database of a version that this program knows how to migrate.
func check(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: "mode=ro&immutable=1"}).String())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var result string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&result); err != nil {
		return errors.Wrapf(err, "check %s", file)
	}
	if result != "ok" {
		return errors.Errorf("%s is damaged: %s", file, result)
	}
	var revision int64
	return errors.Wrapf(db.QueryRowContext(ctx, `SELECT revision FROM state`).Scan(&revision), "%s is no backup of this program", file)
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	err = file.Sync()
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// Restore puts the backup in the place of the SQLite database that the address names, once it has found it whole. A database that
// is in use is ErrInUse; one that is there and not in use is kept beside it, under the returned name. The revision is raised, so
// that who holds an older one, an ETag or a place in the events, finds that it is no longer true.
func Restore(ctx context.Context, address, backup string) (kept string, err error) {
	defer func() { err = errors.Wrap(err, "restore the database") }()
	if isPostgres(address) {
		return "", errPostgresBackup
	}
	path, err := sqlitePath(address)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// Who opens the database waits for this lock.
	lock, err := filelock.Acquire(ctx, path+".lock", nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Unlock() }()
	restored := path + ".restored"
	defer func() { removeDatabase(restored) }()
	removeDatabase(restored)
	if err := copyFile(backup, restored); err != nil {
		return "", err
	}
	if err := check(ctx, restored); err != nil {
		return "", err
	}
	if err := raise(ctx, restored); err != nil {
		return "", err
	}
	if err := syncFile(restored); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		if err := settle(ctx, path); err != nil {
			return "", err
		}
		kept = fmt.Sprintf("%s.before-restore-%s", path, time.Now().UTC().Format("20060102T150405.000000"))
		if err := os.Rename(path, kept); err != nil {
			return "", err
		}
	}
	if err := os.Rename(restored, path); err != nil {
		return kept, err
	}
	return kept, syncFile(filepath.Dir(path))
}

// settle moves the log of a database into its file, which only works when nobody has it open.
func settle(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_pragma=busy_timeout(0)"}).String())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	var mode string
	err = db.QueryRowContext(ctx, `PRAGMA journal_mode = DELETE`).Scan(&mode)
	if err != nil && strings.Contains(err.Error(), "locked") || err == nil && mode != "delete" {
		return ErrInUse
	}
	// A file that is no database, or a damaged one, is kept as it is.
	return nil
}

// raise raises the revision of a database, and has those who watch from before it read anew.
func raise(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		fmt.Sprintf(`UPDATE state SET revision = revision + %d, floor = revision + %d`, restoreGap, restoreGap),
		// Who held a lease or ran a job does so no longer.
		`UPDATE leases SET expires = 0`,
		`UPDATE work SET until = 0`,
		`PRAGMA journal_mode = DELETE`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return errors.Wrap(db.Close(), "close the restored database")
}

func removeDatabase(path string) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(path + suffix)
	}
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = target.ReadFrom(source); err == nil {
		err = target.Sync()
	}
	if closed := target.Close(); err == nil {
		err = closed
	}
	return err
}
