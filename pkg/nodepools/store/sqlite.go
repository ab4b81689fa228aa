package store

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/plantonhq/project-planton/pkg/filelock"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite" // the driver of this name
)

// sqlite keeps everything in one file. One connection writes, through which River goes too, so that writers wait for each other
// in Go and not by SQLITE_BUSY; others read, each from the last commit.
type sqlite struct {
	path            string
	options         Options
	writer, readers *sql.DB
	// mover moves what was committed from the log into the file.
	mover *sql.DB
	river *river.Client[*sql.Tx]
	// committed says that there is something to move.
	committed atomic.Bool
}

const (
	// moveInterval is how long what was committed waits at least before it is moved from the log into the file, beside the writer. What is
	// written meanwhile waits for the disk longer, and a page that was written many times is moved once; but the more there is to move, the
	// longer is the time in which commits are slow.
	moveInterval = 100 * time.Millisecond
	// moveShare is how many times longer than the last move the pause before the next one is at least: a slow disk is left to the writer.
	moveShare = 10
	// maxLog is the size of the log in pages of 4 KiB from which on it is to begin anew. It does when nothing of it is left to move, which does
	// not happen by itself while the writer always adds to it. Those who write wait then until the disk has all of the file, some ten
	// milliseconds: with a longer log less often.
	maxLog = 32768
	// maxLogAlone is the size with which the writer moves it all itself, as nobody else seems to.
	maxLogAlone = 2 * maxLog
)

func openSQLite(path string, options Options) (*sqlite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.Wrap(err, "open the database")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Wrap(err, "make the folder of the database")
	}
	// SQLite gives its other files the mode of this one. A file that is there is left to SQLite: to close it would take the locks
	// away that this process has on it.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !os.IsExist(err) {
		return nil, errors.Wrap(err, "open the database")
	}
	s := &sqlite{path: path, options: options}
	if s.writer, err = openFile(path, false, 1); err != nil {
		return nil, err
	}
	if s.readers, err = openFile(path, true, options.Readers); err != nil {
		_ = s.writer.Close()
		return nil, err
	}
	if s.mover, err = openFile(path, false, 1); err != nil {
		_ = s.writer.Close()
		_ = s.readers.Close()
		return nil, err
	}
	return s, nil
}

// openFile opens a database file for a number of connections.
func openFile(path string, readOnly bool, connections int) (*sql.DB, error) {
	values := url.Values{"_pragma": {
		"busy_timeout(10000)", // other processes
		"journal_mode(WAL)", "synchronous(FULL)", "cache_size(-8192)", "temp_store(MEMORY)", "trusted_schema(0)",
		"wal_autocheckpoint(" + strconv.Itoa(maxLogAlone) + ")",
	}}
	if readOnly {
		values.Add("_pragma", "query_only(1)")
	} else {
		values.Set("_txlock", "immediate")
	}
	address := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: values.Encode()}
	registered, err := sql.Open("sqlite", "")
	if err != nil {
		return nil, errors.Wrap(err, "open the database")
	}
	db := sql.OpenDB(&connector{address: address.String(), driver: registered.Driver()})
	if err := registered.Close(); err != nil {
		return nil, errors.Wrap(err, "open the database")
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func (s *sqlite) start(ctx context.Context) (revision int64, err error) {
	if s.river, err = river.NewClient(riversqlite.New(s.writer), &river.Config{Logger: quiet(s.options.Logger)}); err != nil {
		return 0, errors.Wrap(err, "prepare the job queue")
	}
	err = s.query(ctx, `SELECT revision FROM state`, nil, func(scan scan) error { return scan(&revision) })
	return revision, errors.Wrap(err, "read the database")
}

func (s *sqlite) query(ctx context.Context, statement string, arguments []any, each func(scan scan) error) error {
	return read(s.readers.QueryContext(ctx, statement, arguments...))(each)
}

// read calls a function for each row.
func read(rows *sql.Rows, err error) func(each func(scan scan) error) error {
	return func(each func(scan scan) error) error {
		if err != nil {
			return errors.Wrap(err, "read the database")
		}
		defer func() { _ = rows.Close() }() // its errors are those of Err
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return errors.Wrap(err, "read the database")
			}
		}
		return errors.Wrap(rows.Err(), "read the database")
	}
}

func (s *sqlite) begin(context.Context) (transaction, state, error) {
	begun, err := s.writer.BeginTx(background, nil)
	if err != nil {
		return nil, state{}, err
	}
	t := &sqliteTransaction{sqlite: s, tx: begun}
	var found state
	var last int64
	err = t.query(`SELECT revision, sequence, time FROM state`, nil, func(scan scan) error { return scan(&found.revision, &found.sequence, &last) })
	if err != nil {
		t.rollback()
		return nil, state{}, err
	}
	found.now = instant(max(micros(time.Now()), last))
	return t, found, nil
}

// listen hears of nothing: others who write to the file tell nobody, and asking finds it. It moves the log into the file.
func (s *sqlite) listen(ctx context.Context, _ func(int64)) {
	timer := time.NewTimer(moveInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		if s.committed.Swap(false) {
			if err := s.move(maxLog); err != nil {
				s.committed.Store(true)
				s.options.Logger.Warn("the log of the database is not moved into its file; it is tried again", "error", err)
			}
		}
		timer.Reset(max(moveInterval, moveShare*time.Since(begun)))
	}
}

// move moves the log into the file. When the log has become long, what was added meanwhile is moved between two commits: with nothing left to
// move, the next commit begins it anew.
func (s *sqlite) move(long int) error {
	size, err := checkpoint(s.mover)
	if err == nil && size >= long {
		_, err = checkpoint(s.writer)
	}
	return err
}

// checkpoint moves as much of the log as it can without waiting for others, and tells the size of the log in pages; -1 says that another is at
// it.
func checkpoint(db *sql.DB) (size int, err error) {
	var busy, moved int
	err = db.QueryRowContext(background, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &size, &moved)
	return size, errors.Wrap(err, "move the log")
}

func (s *sqlite) close() (err error) {
	// Closing the last connection moves the log into the file.
	for _, db := range []*sql.DB{s.mover, s.readers, s.writer} {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}
	return errors.Wrap(err, "close the database")
}

type sqliteTransaction struct {
	sqlite *sqlite
	tx     *sql.Tx
	failed error // of what was sent
}

// background is for statements: nothing interrupts a transaction that others share.
var background = context.Background()

func (t *sqliteTransaction) query(text string, arguments []any, each func(scan scan) error) error {
	if err := t.flush(); err != nil {
		return err
	}
	return read(t.tx.QueryContext(background, text, arguments...))(each)
}

func (t *sqliteTransaction) send(each func(scan scan) error, text string, arguments ...any) {
	if t.failed != nil {
		return
	}
	if each != nil {
		t.failed = t.query(text, arguments, each)
		return
	}
	_, err := t.tx.ExecContext(background, text, arguments...)
	t.failed = errors.Wrap(err, "write to the database")
}

func (t *sqliteTransaction) push() {}

func (t *sqliteTransaction) flush() error {
	failed := t.failed
	t.failed = nil
	return failed
}

func (t *sqliteTransaction) pipelines() bool { return false }

func (t *sqliteTransaction) lost(error) bool { return false }

func (t *sqliteTransaction) insert(jobs []job) error {
	if err := t.flush(); err != nil {
		return err
	}
	_, err := t.sqlite.river.InsertManyFastTx(background, t.tx, insertions(jobs))
	return err
}

func (t *sqliteTransaction) commit(state state) (unknown bool, err error) {
	t.send(nil, `UPDATE state SET revision = ?1, sequence = ?2, time = ?3`, state.revision, state.sequence, micros(state.now))
	if err := t.flush(); err != nil {
		t.rollback()
		return false, err
	}
	// A commit that fails leaves the transaction open in SQLite, so it is rolled back and nothing was written.
	if err := t.tx.Commit(); err != nil {
		return false, err
	}
	t.sqlite.committed.Store(true)
	return false, nil
}

func (t *sqliteTransaction) rollback() { _ = t.tx.Rollback() }

func (s *sqlite) migrate(ctx context.Context, run bool) error {
	lock, err := filelock.Acquire(ctx, s.path+".lock", nil)
	if err != nil {
		return errors.Wrap(err, "wait for another process that opens the database")
	}
	defer func() { _ = lock.Unlock() }()
	return migrate(ctx, goose.DialectSQLite3, s.writer, riversqlite.New(s.writer), s.options, run)
}

func (s *sqlite) workers(options WorkOptions, run func(ctx context.Context, job job) error) (workers, error) {
	// Nothing tells of new jobs.
	return newWorkers(riversqlite.New(s.writer), 50*time.Millisecond, options, quiet(s.options.Logger), run)
}
