package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pkg/errors"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

const (
	// channel is what commits are told of on.
	channel = "nodepools_revision"
	// migrationLock is the advisory lock of migrations: "nodepool" as a number.
	migrationLock = 0x6e6f6465706f6f6c
	// batchTimeout is how long a batch may take: a server that does not answer must not hold all writers for ever.
	batchTimeout = 30 * time.Second
)

// postgres keeps everything in a PostgreSQL database. One connection writes; the row of the state is locked through each batch,
// so that batches of all processes follow each other and revisions are in the order of commits.
type postgres struct {
	options         Options
	writer, readers *pgxpool.Pool
	river           *river.Client[pgx.Tx]
	// planned is how many objects there had been when the statements of the writer were planned; for the goroutine that commits.
	planned int64
}

func openPostgres(ctx context.Context, address string, options Options) (*postgres, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// The library leaves the password out of its error.
		return nil, errors.Wrap(err, "read the address of the database")
	}
	config.ConnConfig.RuntimeParams["application_name"] = "nodepools"
	p := &postgres{options: options}
	readers := config.Copy()
	// River's workers listen, elect and fetch on these too.
	readers.MaxConns = int32(options.Readers) + 4
	if p.readers, err = pgxpool.NewWithConfig(ctx, readers); err != nil {
		return nil, errors.Wrap(err, "open the database")
	}
	writer := config.Copy()
	writer.MaxConns, writer.MinConns = 1, 0
	milliseconds := strconv.FormatInt(batchTimeout.Milliseconds(), 10)
	// A process that vanishes in the middle of a batch must not keep the others from writing.
	writer.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds
	writer.ConnConfig.RuntimeParams["statement_timeout"] = milliseconds
	// A server whose default is off would lose what was acknowledged.
	writer.AfterConnect = func(ctx context.Context, connection *pgx.Conn) error {
		_, err := connection.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
		return err
	}
	if p.writer, err = pgxpool.NewWithConfig(ctx, writer); err != nil {
		p.readers.Close()
		return nil, errors.Wrap(err, "open the database")
	}
	return p, nil
}

func (p *postgres) migrate(ctx context.Context, run bool) error {
	connection, err := p.readers.Acquire(ctx)
	if err != nil {
		return errors.Wrap(err, "connect to the database")
	}
	defer connection.Release()
	if _, err := connection.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return errors.Wrap(err, "wait for the migrations of another process")
	}
	defer func() {
		// A connection that cannot unlock is given up, which unlocks.
		if _, err := connection.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock)); err != nil {
			_ = connection.Conn().Close(ctx)
		}
	}()
	db := stdlib.OpenDBFromPool(p.readers)
	defer func() { _ = db.Close() }() // it has no connections of its own
	return migrate(ctx, goose.DialectPostgres, db, riverpgxv5.New(p.readers), p.options, run)
}

func (p *postgres) start(ctx context.Context) (revision int64, err error) {
	if p.river, err = river.NewClient(riverpgxv5.New(p.writer), &river.Config{Logger: quiet(p.options.Logger)}); err != nil {
		return 0, errors.Wrap(err, "prepare the job queue")
	}
	err = p.query(ctx, `SELECT revision FROM state`, nil, func(scan scan) error { return scan(&revision) })
	return revision, err
}

// dollars writes the parameters of a statement as PostgreSQL does. No statement has a ? that is not a parameter's.
func dollars(statement string) string { return strings.ReplaceAll(statement, "?", "$") }

// readAttempts is how many connections a read may find broken: after a restart of the server, all of the pool's are.
const readAttempts = 3

func (p *postgres) query(ctx context.Context, statement string, arguments []any, each func(scan scan) error) error {
	statement = dollars(statement)
	for attempt := 1; ; attempt++ {
		rows, err := p.readers.Query(ctx, statement, arguments...)
		seen := false
		if err == nil {
			err = readPostgres(rows, func(scan scan) error {
				seen = true
				return each(scan)
			})
		}
		if err == nil || seen || attempt == readAttempts || !isLost(err) || ctx.Err() != nil {
			return errors.Wrap(err, "read the database")
		}
	}
}

// isLost says whether a connection was lost, as opposed to a statement that failed.
func isLost(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return true
	}
	// Class 57P: the server ends the connection, or is about to start.
	return strings.HasPrefix(answer.Code, "57P") || strings.HasPrefix(answer.Code, "08")
}

func readPostgres(rows pgx.Rows, each func(scan scan) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p *postgres) begin(ctx context.Context) (transaction, state, error) {
	for attempt := 1; ; attempt++ {
		t, found, err := p.tryBegin(ctx)
		// Nothing was done yet, so a connection that was lost since the last batch is no error.
		if err == nil || attempt == 2 || !isLost(err) || ctx.Err() != nil {
			return t, found, err
		}
	}
}

func (p *postgres) tryBegin(ctx context.Context) (transaction, state, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	connection, err := p.writer.Acquire(ctx)
	if err != nil {
		cancel()
		return nil, state{}, err
	}
	begun, err := connection.Conn().Begin(ctx)
	if err != nil {
		connection.Release()
		cancel()
		return nil, state{}, err
	}
	t := &postgresTransaction{postgres: p, connection: connection, tx: begun, ctx: ctx, cancel: cancel}
	var found state
	var last, now int64
	t.send(func(scan scan) error { return scan(&found.revision, &found.sequence, &last) }, `SELECT revision, sequence, time FROM state FOR UPDATE`)
	// The clock is the database's, as those of several machines differ.
	err = t.query(`SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`, nil, func(scan scan) error { return scan(&now) })
	if err != nil {
		t.rollback()
		return nil, state{}, err
	}
	found.now = instant(max(now, last))
	if found.sequence > 2*p.planned+64 {
		// How a statement is best run with a few rows is not how it is with many; the server itself notices after a minute.
		p.planned = found.sequence
		t.send(nil, `DISCARD PLANS`)
	}
	return t, found, nil
}

// listen hears of commits, of this process's too. After a connection was lost it connects again, at intervals.
func (p *postgres) listen(ctx context.Context, heard func(revision int64)) {
	for ctx.Err() == nil {
		if err := p.listenOnce(ctx, heard); err != nil && ctx.Err() == nil {
			p.options.Logger.Warn("the database does not tell of changes; it is asked for them", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.options.Poll):
		}
	}
}

func (p *postgres) listenOnce(ctx context.Context, heard func(revision int64)) error {
	connection, err := pgx.ConnectConfig(ctx, p.readers.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	if _, err := connection.Exec(ctx, `LISTEN `+channel); err != nil {
		return err
	}
	// What was committed while nobody listened.
	var revision int64
	if err := connection.QueryRow(ctx, `SELECT revision FROM state`).Scan(&revision); err != nil {
		return err
	}
	heard(revision)
	for {
		notification, err := connection.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if revision, err := strconv.ParseInt(notification.Payload, 10, 64); err == nil {
			heard(revision)
		}
	}
}

var errPostgresBackup = errors.New("a PostgreSQL database is backed up and restored by PostgreSQL's own means, as pg_dump and pg_restore")

func (p *postgres) backup(context.Context, string) error { return errPostgresBackup }

func (p *postgres) close() error {
	p.writer.Close()
	p.readers.Close()
	return nil
}

// postgresTransaction sends statements together with the next one whose answer is needed: a round trip costs more than they do.
type postgresTransaction struct {
	postgres   *postgres
	connection *pgxpool.Conn
	tx         pgx.Tx
	ctx        context.Context
	cancel     context.CancelFunc
	sent       []sent
	// pushed is there while the connection is busy with what was pushed, and gets its error.
	pushed chan error
}

func (t *postgresTransaction) query(statement string, arguments []any, each func(scan scan) error) error {
	if err := t.wait(); err != nil {
		return err
	}
	if len(t.sent) == 0 {
		rows, err := t.tx.Query(t.ctx, dollars(statement), arguments...)
		if err != nil {
			return errors.Wrap(err, "read the database")
		}
		return errors.Wrap(readPostgres(rows, each), "read the database")
	}
	t.send(each, statement, arguments...)
	return t.flush()
}

func (t *postgresTransaction) send(each func(scan scan) error, statement string, arguments ...any) {
	t.sent = append(t.sent, sent{dollars(statement), arguments, each})
}

// push sends what there is, unless the connection is still busy with what was pushed before.
func (t *postgresTransaction) push() {
	if t.pushed != nil && len(t.pushed) == 0 || len(t.sent) == 0 || t.wait() != nil {
		return
	}
	sent, pushed := t.sent, make(chan error, 1)
	t.sent, t.pushed = nil, pushed
	go func() { pushed <- t.sendBatch(sent) }()
}

// wait waits for what was pushed. Its error stays: the transaction is of no use after it.
func (t *postgresTransaction) wait() error {
	if t.pushed == nil {
		return nil
	}
	err := <-t.pushed
	if err != nil {
		t.pushed <- err
		return err
	}
	t.pushed = nil
	return nil
}

func (t *postgresTransaction) flush() error {
	if err := t.wait(); err != nil || len(t.sent) == 0 {
		return err
	}
	sent := t.sent
	t.sent = nil
	return t.sendBatch(sent)
}

func (t *postgresTransaction) sendBatch(sent []sent) (err error) {
	batch := &pgx.Batch{}
	for _, s := range sent {
		batch.Queue(s.statement, s.arguments...)
	}
	results := t.tx.SendBatch(t.ctx, batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
		err = errors.Wrap(err, "write to the database")
	}()
	for _, s := range sent {
		if s.each == nil {
			tag, err := results.Exec()
			if err != nil {
				return err
			}
			if s.statement == commitStatement && tag.String() != commitStatement {
				return pgx.ErrTxCommitRollback // the server's answer to a commit of what it has undone already
			}
			continue
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := readPostgres(rows, s.each); err != nil {
			return err
		}
	}
	return nil
}

func (t *postgresTransaction) pipelines() bool { return true }

func (t *postgresTransaction) lost(err error) bool { return isLost(err) }

func (t *postgresTransaction) insert(jobs []job) error {
	if err := t.flush(); err != nil {
		return err
	}
	_, err := t.postgres.river.InsertManyFastTx(t.ctx, t.tx, insertions(jobs))
	return err
}

const commitStatement = "COMMIT"

func (t *postgresTransaction) commit(state state) (unknown bool, err error) {
	t.send(nil, `UPDATE state SET revision = ?1, sequence = ?2, time = ?3`, state.revision, state.sequence, micros(state.now))
	t.send(nil, `SELECT pg_notify(?1, ?2)`, channel, strconv.FormatInt(state.revision, 10))
	// With what was sent before, so that all of it is one round trip: where one fails, the server does not come to this.
	t.send(nil, commitStatement)
	if err = t.flush(); err == nil {
		t.connection.Release()
		t.cancel()
		return false, nil
	}
	t.rollback()
	return !isRefused(err), err
}

// isRefused says whether the server itself said that it did not commit. Anything else may be the loss of its answer: the server
// ends sessions with FATAL at any moment, and the driver calls errors safe to retry whose request the server did get.
func isRefused(err error) bool {
	var answer *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR"
}

func (t *postgresTransaction) rollback() {
	defer t.cancel()
	defer t.connection.Release()
	_ = t.wait()
	_ = t.tx.Rollback(t.ctx) // a connection that cannot is closed, which rolls back
}

func (p *postgres) workers(options WorkOptions, run func(ctx context.Context, job job) error) (workers, error) {
	return newWorkers(riverpgxv5.New(p.readers), 250*time.Millisecond, options, quiet(p.options.Logger), run)
}
