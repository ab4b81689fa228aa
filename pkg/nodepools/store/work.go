package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

// job is what River keeps: that an object is to be worked on. The token tells the one job that counts from those that were
// given out for the same object before, or twice.
type job struct {
	Object string `json:"object"`
	ID     string `json:"id"`
	Token  int64  `json:"token"`
}

// Kind is the name of the jobs.
func (job) Kind() string { return "nodepools_reconcile" }

func (j job) key() Key { return Key{Kind: Kind(j.Object), ID: j.ID} }

func insertions(jobs []job) []river.InsertManyParams {
	insertions := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		insertions[i].Args = job
	}
	return insertions
}

// newToken is never 0, and hardly ever the same twice.
func newToken() int64 { return rand.Int64() | 1 }

// enqueueStatement has one object worked on at ?3; ?4 is the token of a new job, when one is to be given out now (?5 is the time).
// What waits, waits until the earlier time. A job is given out when it is time, none was, and none is at it; who is at it gives
// the next one out when it is done.
const enqueueStatement = `INSERT INTO work (kind, id, due, token, running, until, failures) ` +
	`VALUES (?1, ?2, ?3, CASE WHEN CAST(?3 AS BIGINT) <= CAST(?5 AS BIGINT) THEN CAST(?4 AS BIGINT) ELSE 0 END, 0, 0, 0) ` +
	`ON CONFLICT (kind, id) DO UPDATE SET ` +
	`due = CASE WHEN work.due = 0 OR excluded.due < work.due THEN excluded.due ELSE work.due END, ` +
	`token = CASE WHEN work.token = 0 AND excluded.due <= CAST(?5 AS BIGINT) AND (work.running = 0 OR work.until <= CAST(?5 AS BIGINT)) ` +
	`THEN CAST(?4 AS BIGINT) ELSE work.token END ` +
	`RETURNING token`

// Enqueue has an object worked on. See Tx.
func (t *tx) Enqueue(key Key, at time.Time) error {
	if t.ended {
		return errors.New("the transaction has ended: a Tx is for its function only")
	}
	if err := valid("the object", key.ID); err != nil {
		return err
	}
	token, now := newToken(), micros(t.state.now)
	due := max(micros(at), now)
	t.enqueued = true
	return t.sendAnd(func(scan scan) error {
		var given int64
		if err := scan(&given); err != nil {
			return err
		}
		if given == token {
			t.jobs = append(t.jobs, job{Object: string(key.Kind), ID: key.ID, Token: token})
		}
		return nil
	}, enqueueStatement, string(key.Kind), key.ID, due, token, now)
}

// WorkOptions say how jobs are run. The zero value is fit for most.
type WorkOptions struct {
	// Concurrency is how many jobs this process runs at the same time. Default: 10.
	Concurrency int
	// Grace is how long jobs may go on after the context of Work ended; then their contexts end, and they have the same time again
	// to return. Default: one minute.
	Grace time.Duration
	// Claim is how long a job is believed to run after its process was last heard of. It is heard of three times in that time;
	// after it, another process runs the job. Default: 30 seconds.
	Claim time.Duration
	// Poll is how often it is looked for jobs whose time has come. Default: 200 milliseconds.
	Poll time.Duration
	// Retry is how long a job that failed waits first; each time after that the wait is twice as long, up to MaxRetry, and up to a
	// fifth is taken off at random. Default: 2 seconds, 5 minutes.
	Retry, MaxRetry time.Duration
}

func (o WorkOptions) withDefaults() WorkOptions {
	if o.Concurrency <= 0 {
		o.Concurrency = 10
	}
	for value, otherwise := range map[*time.Duration]time.Duration{
		&o.Grace: time.Minute, &o.Claim: 30 * time.Second, &o.Poll: 200 * time.Millisecond, &o.Retry: 2 * time.Second, &o.MaxRetry: 5 * time.Minute,
	} {
		if *value <= 0 {
			*value = otherwise
		}
	}
	return o
}

// wait is how long a job waits that failed a number of times.
func (o WorkOptions) wait(failures int64) time.Duration {
	wait := o.MaxRetry
	if failures <= 30 && o.Retry<<(failures-1) < o.MaxRetry {
		wait = o.Retry << (failures - 1)
	}
	return wait - time.Duration(rand.Float64()*0.2*float64(wait))
}

// ErrTakenOver is the cause of the end of a job's context whose object another process works on: this one was not heard of for
// too long.
var ErrTakenOver = errors.New("another process has taken the job over")

// Work runs jobs until the context ends, and then waits for those that run (see WorkOptions.Grace); the error says that they did
// not return in time. At most one job of an object runs at a time, over all processes on the database; of those that are asked
// for while it runs, one runs after it. A process that ends without a word is missed after WorkOptions.Claim, and its jobs run
// elsewhere. A job whose context ended does not count as failed.
func (d *DB) Work(ctx context.Context, options WorkOptions, work Work) error {
	options = options.withDefaults()
	w := &worker{db: d, options: options, work: work, claims: map[int64]*claim{}}
	client, err := d.backend.workers(options, w.run)
	if err != nil {
		return errors.Wrap(err, "prepare the workers")
	}
	detached := context.WithoutCancel(ctx)
	if err := client.Start(detached); err != nil {
		return errors.Wrap(err, "start the workers")
	}
	var helpers sync.WaitGroup
	heartbeat, stopHeartbeat := context.WithCancel(detached)
	helpers.Go(func() { every(ctx, options.Poll, w.giveOut) })
	helpers.Go(func() { every(heartbeat, options.Claim/3, w.renew) })
	helpers.Go(func() { every(ctx, options.Claim/3, func(ctx context.Context) { w.giveOutAnew(ctx, client) }) })
	<-ctx.Done()
	soft, cancelSoft := context.WithTimeout(detached, options.Grace)
	defer cancelSoft()
	if err = client.Stop(soft); err != nil {
		hard, cancelHard := context.WithTimeout(detached, options.Grace)
		defer cancelHard()
		err = errors.Wrap(client.StopAndCancel(hard), "wait for the jobs to return")
	}
	stopHeartbeat()
	helpers.Wait()
	return err
}

// Backlog is how many objects wait to be worked on, those whose time is yet to come left out, and how many are worked on.
func (d *DB) Backlog(ctx context.Context) (waiting, running int, err error) {
	const statement = `SELECT count(CASE WHEN due > 0 AND due <= ?1 AND (running = 0 OR until <= ?1) THEN 1 END), count(CASE WHEN until > ?1 THEN 1 END) FROM work`
	_, err = one(statement, []any{micros(time.Now())}, func(scan scan) (int, error) { return 0, scan(&waiting, &running) }, d.reader(ctx))
	return waiting, running, err
}

func every(ctx context.Context, interval time.Duration, do func(ctx context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// worker runs the jobs of one call of Work.
type worker struct {
	db      *DB
	options WorkOptions
	work    Work

	mutex  sync.Mutex
	claims map[int64]*claim // by token
}

// claim is a job that runs.
type claim struct {
	key    Key
	token  int64
	cancel context.CancelCauseFunc
}

// run runs a job, unless it is not the one that counts.
func (w *worker) run(ctx context.Context, job job) error {
	const claimStatement = `UPDATE work SET running = ?3, until = ?4, token = 0, due = 0 WHERE kind = ?1 AND id = ?2 AND token = ?3 RETURNING failures`
	var failures int64
	err := w.db.write(ctx, false, func(tx *tx) (err error) {
		until := micros(tx.Now().Add(w.options.Claim))
		failures, err = one(claimStatement, []any{job.Object, job.ID, job.Token, until}, scanInt64, tx.query)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return errors.Wrap(err, "claim the job")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mutex.Lock()
	w.claims[job.Token] = &claim{key: job.key(), token: job.Token, cancel: cancel}
	w.mutex.Unlock()
	defer func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		delete(w.claims, job.Token)
	}()
	again, err := w.call(ctx, job.key())
	switch {
	case err == nil:
		failures = 0
		if again < 0 {
			again = time.Microsecond
		}
	case ctx.Err() != nil:
		again = time.Microsecond
	default:
		failures++
		again = w.options.wait(failures)
		w.db.options.Logger.Warn("a job failed", "kind", job.Object, "id", job.ID, "failures", failures, "again", again.Round(time.Millisecond), "error", err)
	}
	return w.finish(context.WithoutCancel(ctx), job, failures, again)
}

func (w *worker) call(ctx context.Context, key Key) (again time.Duration, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = errors.Errorf("the job panicked: %v", panicked)
		}
	}()
	return w.work(ctx, key)
}

// finish ends a claim and sees to the next job. When the database cannot be written, the claim ends by time.
func (w *worker) finish(ctx context.Context, j job, failures int64, again time.Duration) error {
	const (
		finishStatement = `UPDATE work SET running = 0, until = 0, failures = ?4, ` +
			`due = CASE WHEN CAST(?5 AS BIGINT) = 0 THEN due WHEN due = 0 OR CAST(?5 AS BIGINT) < due THEN CAST(?5 AS BIGINT) ELSE due END ` +
			`WHERE kind = ?1 AND id = ?2 AND running = ?3 RETURNING due`
		forgetStatement = `DELETE FROM work WHERE kind = ?1 AND id = ?2`
		giveStatement   = `UPDATE work SET token = ?3 WHERE kind = ?1 AND id = ?2`
	)
	err := w.db.write(ctx, false, func(tx *tx) error {
		now, next := micros(tx.Now()), int64(0)
		if again > 0 {
			next = now + again.Microseconds()
		}
		due, err := one(finishStatement, []any{j.Object, j.ID, j.Token, failures, next}, scanInt64, tx.query)
		switch {
		case errors.Is(err, ErrNotFound): // removed, or taken over
			return nil
		case err != nil:
			return err
		case due == 0:
			return tx.send(forgetStatement, j.Object, j.ID)
		case due <= now:
			token := newToken()
			tx.jobs = append(tx.jobs, job{Object: j.Object, ID: j.ID, Token: token})
			return tx.send(giveStatement, j.Object, j.ID, token)
		}
		return nil
	})
	if err != nil {
		w.db.options.Logger.Error("the end of a job was not written; it runs again when its claim is over", "kind", j.Object, "id", j.ID, "error", err)
	}
	return nil
}

// renew says that the jobs of this process still run.
func (w *worker) renew(ctx context.Context) {
	w.mutex.Lock()
	claims := make([]*claim, 0, len(w.claims))
	for _, claim := range w.claims {
		claims = append(claims, claim)
	}
	w.mutex.Unlock()
	if len(claims) == 0 {
		return
	}
	var lost []*claim
	err := w.db.write(ctx, false, func(tx *tx) error {
		lost = nil
		until := micros(tx.Now().Add(w.options.Claim))
		for _, claim := range claims {
			holder := claim.token
			err := tx.read(`SELECT running FROM work WHERE kind = ?1 AND id = ?2`, []any{string(claim.key.Kind), claim.key.ID},
				func(scan scan) error { return scan(&holder) })
			if err != nil {
				return err
			}
			if holder != claim.token {
				lost = append(lost, claim)
			}
			const statement = `UPDATE work SET until = ?4 WHERE kind = ?1 AND id = ?2 AND running = ?3`
			if err := tx.send(statement, string(claim.key.Kind), claim.key.ID, claim.token, until); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			w.db.options.Logger.Warn("the claims of running jobs were not renewed", "error", err)
		}
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, claim := range lost {
		// One that has returned meanwhile gave its claim up itself.
		if w.claims[claim.token] == claim {
			claim.cancel(ErrTakenOver)
		}
	}
}

// giveOut gives out jobs whose time has come, and those whose process was not heard of for too long.
func (w *worker) giveOut(ctx context.Context) {
	const (
		ready         = `token = 0 AND (due > 0 AND due <= ?1 AND (running = 0 OR until <= ?1) OR running <> 0 AND until <= ?1)`
		giveStatement = `UPDATE work SET token = ?4, due = CASE WHEN due = 0 THEN ?1 ELSE due END WHERE kind = ?2 AND id = ?3 AND ` + ready + ` RETURNING 1`
		most          = 100
	)
	for {
		keys, err := all(`SELECT kind, id FROM work WHERE `+ready+fmt.Sprintf(" LIMIT %d", most), []any{micros(time.Now())}, scanKey, w.db.reader(ctx))
		if err == nil && len(keys) > 0 {
			err = w.db.write(ctx, false, func(tx *tx) error {
				for _, key := range keys {
					token := newToken()
					_, err := one(giveStatement, []any{micros(tx.Now()), string(key.Kind), key.ID, token}, scanInt, tx.query)
					if errors.Is(err, ErrNotFound) {
						continue // another process was first
					}
					if err != nil {
						return err
					}
					tx.jobs = append(tx.jobs, job{Object: string(key.Kind), ID: key.ID, Token: token})
				}
				return nil
			})
		}
		if err != nil && ctx.Err() == nil {
			w.db.options.Logger.Warn("no jobs are given out", "error", err)
		}
		if err != nil || len(keys) < most {
			return
		}
	}
}

// giveOutAnew gives jobs out again that River handed to a process which then did not claim them: it ended in between, or could not write.
// River has them run again too, but takes minutes.
func (w *worker) giveOutAnew(ctx context.Context, client workers) {
	const (
		giveStatement = `UPDATE work SET token = ?4 WHERE kind = ?1 AND id = ?2 AND token = ?3 RETURNING 1`
		most          = 1000
	)
	params := river.NewJobListParams().Kinds(job{}.Kind()).States(rivertype.JobStateRunning, rivertype.JobStateRetryable).First(most)
	for {
		found, err := client.JobList(ctx, params)
		var unclaimed []job
		if err == nil {
			unclaimed, err = handedOut(found.Jobs, time.Now().Add(-w.options.Claim))
		}
		if err == nil && len(unclaimed) > 0 {
			err = w.db.write(ctx, false, func(tx *tx) error {
				for _, lost := range unclaimed {
					token := newToken()
					_, err := one(giveStatement, []any{lost.Object, lost.ID, lost.Token, token}, scanInt, tx.query)
					if errors.Is(err, ErrNotFound) {
						continue // it was claimed
					}
					if err != nil {
						return err
					}
					tx.jobs = append(tx.jobs, job{Object: lost.Object, ID: lost.ID, Token: token})
				}
				return nil
			})
		}
		if err != nil && ctx.Err() == nil {
			w.db.options.Logger.Warn("jobs that were not claimed are not given out again", "error", err)
		}
		if err != nil || len(found.Jobs) < most {
			return
		}
		params = params.After(found.LastCursor)
	}
}

// handedOut are the jobs that River handed to a process before a time.
func handedOut(rows []*rivertype.JobRow, before time.Time) (jobs []job, err error) {
	for _, row := range rows {
		if row.AttemptedAt == nil || row.AttemptedAt.After(before) {
			continue
		}
		var handed job
		if err := json.Unmarshal(row.EncodedArgs, &handed); err != nil {
			return nil, errors.Wrap(err, "read a job")
		}
		jobs = append(jobs, handed)
	}
	return jobs, nil
}

// runner is the worker as River has it.
type runner struct {
	river.WorkerDefaults[job]
	run func(ctx context.Context, job job) error
}

// Work runs a job.
func (r *runner) Work(ctx context.Context, j *river.Job[job]) error { return r.run(ctx, j.Args) }

// newWorkers makes a River client that runs jobs. River's own uniqueness, retries and schedule are not used: they cannot have a
// job run after one that runs already, or sooner than it was first meant to.
func newWorkers[TTx any](driver riverdriver.Driver[TTx], poll time.Duration, options WorkOptions, logger *slog.Logger, run func(ctx context.Context, job job) error) (workers, error) {
	registered := river.NewWorkers()
	if err := river.AddWorkerSafely(registered, &runner{run: run}); err != nil {
		return nil, err
	}
	return river.NewClient(driver, &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: options.Concurrency}},
		Workers:           registered,
		FetchCooldown:     10 * time.Millisecond,
		FetchPollInterval: poll,
		JobTimeout:        -1,
		// A job that was fetched and never claimed is fetched again. One that was claimed is fetched too, and found not to count.
		RescueStuckJobsAfter:        2 * time.Minute,
		CompletedJobRetentionPeriod: 10 * time.Minute,
		Logger:                      logger,
	})
}
