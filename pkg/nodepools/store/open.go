package store

import (
	"context"
	"log/slog"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/riverqueue/river"
)

var (
	// ErrClosed says that Close was called before.
	ErrClosed = errors.New("the store is closed")
	// ErrUnknown says that the connection to the database was lost while it committed: what was written may be there or not.
	// Read to find out.
	ErrUnknown = errors.New("the outcome of the commit is not known")
	// ErrNewer says that a later version of the program has migrated the database.
	ErrNewer = errors.New("the database was migrated by a later version of the program: use that version, or restore a backup")
	// ErrNotMigrated says that the database lacks migrations and that Options.NoMigrate keeps Open from running them.
	ErrNotMigrated = errors.New("the database is not migrated: run the migrations first")
)

// Options say how a database is used. The zero value is fit for most.
type Options struct {
	// NoMigrate has Open fail with ErrNotMigrated, instead of migrating the database.
	NoMigrate bool
	// Readers is how many connections read at the same time. Default: 4 for SQLite, for PostgreSQL 4 a processor.
	Readers int
	// Batch is how many transactions are committed together at most. Default: 128.
	Batch int
	// Poll is how often the database is asked for what other processes wrote, as long as somebody waits for it. PostgreSQL tells
	// at once; this is what remains when it cannot. Default: one second.
	Poll time.Duration
	// KeepEvents, KeepAudit and KeepTombstones are for how long Prune leaves events (default: 7 days), audit entries (400 days)
	// and the ids of removed objects (90 days).
	KeepEvents, KeepAudit, KeepTombstones time.Duration
	// Logger is told what nobody is there to be returned an error of. Default: nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	positive := func(value *int, otherwise int) {
		if *value <= 0 {
			*value = otherwise
		}
	}
	lasting := func(value *time.Duration, otherwise time.Duration) {
		if *value <= 0 {
			*value = otherwise
		}
	}
	positive(&o.Batch, 128)
	lasting(&o.Poll, time.Second)
	lasting(&o.KeepEvents, 7*24*time.Hour)
	lasting(&o.KeepAudit, 400*24*time.Hour)
	lasting(&o.KeepTombstones, 90*24*time.Hour)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// DB is a Store in a database.
type DB struct {
	options Options
	backend backend

	requests chan *request
	closing  sync.RWMutex // held for reading by those who send requests
	closed   atomic.Bool
	done     chan struct{} // closed when the goroutine that commits has ended

	changes *changes
	totals  totals
	lists   lists
	lookups map[Kind]*lookups
	// known is what the last batch read, careful for how many batches to ask before objects are made; for the goroutine that commits.
	known   *known
	careful int
	// begun is when the batch began that is being committed, in nanoseconds since 1970; 0 when none is.
	begun atomic.Int64
	stats struct{ batches, transactions, failed atomic.Int64 }

	background context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup
}

var _ Store = (*DB)(nil)

// Open opens a database and migrates it. The address is
//
//   - "sqlite:///var/lib/nodepools/nodepools.db", or the path of the file: SQLite. The file is made, readable for its owner only,
//     with its folder where they are missing. It is for one machine: SQLite must not be used over a network file system.
//   - "postgres://user:password@host:5432/database?sslmode=verify-full" or postgresql://: PostgreSQL. Several processes may use one
//     database.
//
// Errors never hold the password of an address. Close the database after use.
func Open(ctx context.Context, address string, options Options) (*DB, error) {
	options = options.withDefaults()
	backend, err := openBackend(ctx, address, options)
	if err != nil {
		return nil, err
	}
	if err := backend.migrate(ctx, !options.NoMigrate); err != nil {
		_ = backend.close()
		return nil, err
	}
	revision, err := backend.start(ctx)
	if err != nil {
		_ = backend.close()
		return nil, err
	}
	d := &DB{
		options: options, backend: backend,
		requests: make(chan *request, 4*options.Batch), done: make(chan struct{}),
		changes: newChanges(revision),
		lists:   lists{running: map[string]*reading{}},
		lookups: map[Kind]*lookups{NodePool: {}, Cluster: {}},
	}
	d.background, d.stop = context.WithCancel(context.Background())
	d.running.Go(d.listen)
	go d.commitAll()
	return d, nil
}

// Migrate runs the migrations of the database that the address names, as Open does, and nothing else.
func Migrate(ctx context.Context, address string, options Options) error {
	backend, err := openBackend(ctx, address, options.withDefaults())
	if err != nil {
		return err
	}
	defer func() { _ = backend.close() }()
	return backend.migrate(ctx, true)
}

func openBackend(ctx context.Context, address string, options Options) (backend, error) {
	if isPostgres(address) {
		if options.Readers <= 0 {
			options.Readers = 4 * runtime.GOMAXPROCS(0)
		}
		return openPostgres(ctx, address, options)
	}
	path, err := sqlitePath(address)
	if err != nil {
		return nil, err
	}
	if options.Readers <= 0 {
		options.Readers = 4
	}
	return openSQLite(path, options)
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// sqlitePath is the path of the file of an address.
func sqlitePath(address string) (string, error) {
	scheme, _, found := strings.Cut(address, "://")
	switch {
	case address == "":
		return "", errors.New("the address of the database is empty: give a path, sqlite:///path, or a postgres:// URL")
	case !found:
		return address, nil
	case scheme != "sqlite":
		return "", errors.Errorf("the address of the database begins with %s://: give a path, sqlite:///path, or a postgres:// URL", scheme)
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host != "" || parsed.Path == "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
		return "", errors.New("the address of the database is not sqlite:///path: three slashes, the path, and nothing else")
	}
	return parsed.Path, nil
}

// Ping asks the database whether it is there.
func (d *DB) Ping(ctx context.Context) error {
	_, err := d.Revision(ctx)
	return err
}

// Stuck is for how long the transactions that are being committed have been at it; 0 when none are. A database that is away fails them
// after a while. Where they stay for minutes, only another process helps.
func (d *DB) Stuck() time.Duration {
	begun := d.begun.Load()
	if begun == 0 {
		return 0
	}
	return max(time.Since(time.Unix(0, begun)), 1)
}

// Close waits for the transactions that were begun, fails those that were not with ErrClosed, and closes the database. End what
// Work does first.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.closing.Lock()
	close(d.requests)
	d.closing.Unlock()
	<-d.done
	d.stop()
	d.running.Wait()
	return d.backend.close()
}

// Stats are counts since the database was opened.
type Stats struct {
	// Transactions are those that were committed, Batches the commits that took, Failed the transactions that failed together with
	// their batch.
	Transactions, Batches, Failed int64
	// Waiting is how many transactions wait now.
	Waiting int
}

// Stats returns the counts.
func (d *DB) Stats() Stats {
	return Stats{
		Transactions: d.stats.transactions.Load(), Batches: d.stats.batches.Load(), Failed: d.stats.failed.Load(), Waiting: len(d.requests),
	}
}

// backend is one kind of database. Statements are written with the parameters ?1, ?2 and so on.
type backend interface {
	// migrate brings the schema to this program's version, or only checks it.
	migrate(ctx context.Context, run bool) error
	// start prepares for use and returns the revision.
	start(ctx context.Context) (int64, error)
	// query runs a statement outside of a transaction and calls each for every row.
	query(ctx context.Context, statement string, arguments []any, each func(scan scan) error) error
	// documents reads what Document returns of several objects.
	documents(ctx context.Context, kind Kind, ids []string, each func(scan scan) error) error
	// begin begins the transaction of a batch. It reads the state and keeps other processes from doing so until its end.
	begin(ctx context.Context) (transaction, state, error)
	// listen calls heard for revisions that other processes tell of, until the context ends. It may do nothing.
	listen(ctx context.Context, heard func(revision int64))
	// workers makes what runs the jobs.
	workers(options WorkOptions, work func(ctx context.Context, job job) error) (workers, error)
	backup(ctx context.Context, file string) error
	close() error
}

// scan reads the columns of a row.
type scan func(targets ...any) error

// state is the one row of the table of that name.
type state struct {
	revision, sequence int64
	now                time.Time
}

// transaction is that of a batch. It need not be safe for use by several goroutines.
type transaction interface {
	// query runs a statement, after those that were sent.
	query(statement string, arguments []any, each func(scan scan) error) error
	// send runs a statement now or later. Its error is returned by the next query or flush.
	send(each func(scan scan) error, statement string, arguments ...any)
	// push has the database begin with what was sent, while the caller does something else.
	push()
	// flush waits for what was sent.
	flush() error
	// insert adds jobs.
	insert(jobs []job) error
	// pipelines says that statements which are sent together cost less than each by itself.
	pipelines() bool
	// lost says that an error is not that of a statement: the database is not there.
	lost(err error) bool
	// commit ends the transaction, keeping the state. When it fails, unknown says that it may have been written all the same.
	commit(state state) (unknown bool, err error)
	rollback()
}

// workers run jobs.
type workers interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
	JobList(ctx context.Context, params *river.JobListParams) (*river.JobListResult, error)
}
