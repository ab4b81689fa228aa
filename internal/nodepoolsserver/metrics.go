package nodepoolsserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// scrapeTimeout is how long the database may take to answer a scrape.
const scrapeTimeout = 5 * time.Second

// scrapeShare bounds what scrapes cost, however many there are and whoever makes them: what was read counts for so many times as long as
// reading it took. Counting looks at every object: of 10,000 it takes some 35 ms, so that a scrape a second reads anew.
const (
	scrapeShare = 20
	// scrapeKept is how long it counts at most: that a database is back shows soon.
	scrapeKept = 10 * time.Second
)

// databaseMetrics are what the database tells when somebody asks. All processes on a database tell the same.
type databaseMetrics struct {
	db     *store.DB
	logger *slog.Logger

	mutex sync.Mutex
	last  reading

	up, objects, stalled                *prometheus.Desc
	waiting, running, longest           *prometheus.Desc
	transactions, batches, failed, open *prometheus.Desc
}

// registerMetrics adds the metrics of the database and of the process to those of the server.
func registerMetrics(registry *prometheus.Registry, db *store.DB, logger *slog.Logger) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &databaseMetrics{
		db: db, logger: logger,
		up:           describe("nodepools_database_up", "Whether the database answered; without it, what it tells is missing."),
		objects:      describe("nodepools_objects", "Clusters and node pools.", "kind", "platform", "phase"),
		stalled:      describe("nodepools_deletions_stalled", "Deletions that take longer than they should."),
		waiting:      describe("nodepools_work_waiting", "Objects that wait to be worked on, over all workers."),
		running:      describe("nodepools_work_running", "Objects that are being worked on, over all workers."),
		longest:      describe("nodepools_work_longest_wait_seconds", "How long the object that waits longest to be worked on has waited."),
		transactions: describe("nodepools_store_transactions_total", "Transactions of this process that were committed."),
		batches:      describe("nodepools_store_commits_total", "Commits of this process; one commits all transactions that waited."),
		failed:       describe("nodepools_store_transactions_failed_total", "Transactions of this process that failed together with their commit."),
		open:         describe("nodepools_store_transactions_waiting", "Transactions of this process that wait."),
	})
}

// Describe is that of a prometheus.Collector.
func (m *databaseMetrics) Describe(found chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{
		m.up, m.objects, m.stalled, m.waiting, m.running, m.longest, m.transactions, m.batches, m.failed, m.open,
	} {
		found <- one
	}
}

// Collect is that of a prometheus.Collector. A database that does not answer is told as such: the metrics of requests are needed then more
// than ever.
func (m *databaseMetrics) Collect(metrics chan<- prometheus.Metric) {
	stats := m.db.Stats()
	tell := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	tell(m.transactions, prometheus.CounterValue, float64(stats.Transactions))
	tell(m.batches, prometheus.CounterValue, float64(stats.Batches))
	tell(m.failed, prometheus.CounterValue, float64(stats.Failed))
	tell(m.open, prometheus.GaugeValue, float64(stats.Waiting))

	found := m.read()
	if found.err != nil {
		tell(m.up, prometheus.GaugeValue, 0)
		return
	}
	tell(m.up, prometheus.GaugeValue, 1)
	for _, one := range found.counts {
		tell(m.objects, prometheus.GaugeValue, float64(one.Objects), string(one.Kind), one.Platform, one.Phase)
	}
	tell(m.stalled, prometheus.GaugeValue, float64(found.stalled))
	tell(m.waiting, prometheus.GaugeValue, float64(found.waiting))
	tell(m.running, prometheus.GaugeValue, float64(found.running))
	tell(m.longest, prometheus.GaugeValue, found.longest.Seconds())
}

// reading is what was read of the database at a time.
type reading struct {
	counts                    []store.Count
	waiting, running, stalled int
	longest                   time.Duration
	err                       error

	at   time.Time
	took time.Duration
}

// read reads the database, or returns what was read last where that was lately.
func (m *databaseMetrics) read() reading {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if time.Since(m.last.at) < min(scrapeShare*m.last.took, scrapeKept) {
		return m.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	start, r := time.Now(), reading{}
	var errs [4]error
	r.counts, errs[0] = m.db.Counts(ctx)
	r.waiting, r.running, errs[1] = m.db.Backlog(ctx)
	r.longest, errs[2] = m.db.Longest(ctx)
	r.stalled, errs[3] = m.countStalled(ctx)
	if r.err = firstOf(errs[:]...); r.err != nil {
		m.logger.Error("read metrics of the database", "error", r.err)
	}
	r.at = time.Now()
	r.took = r.at.Sub(start)
	m.last = r
	return r
}

// countStalled counts deletions that are stalled. Few objects are being deleted at a time.
func (m *databaseMetrics) countStalled(ctx context.Context) (count int, err error) {
	for _, kind := range []store.Kind{store.Cluster, store.NodePool} {
		page, err := m.db.List(ctx, store.Query{Kind: kind, Phase: status.Deleting, DocumentsOnly: true})
		if err != nil {
			return 0, err
		}
		for _, record := range page.Records {
			var object struct {
				Status struct {
					Reason string `json:"reason"`
				} `json:"status"`
			}
			if err := json.Unmarshal(record.Document, &object); err != nil {
				return 0, err
			}
			if object.Status.Reason == status.ConditionDeletionStalled {
				count++
			}
		}
	}
	return count, nil
}
