//go:build unix

package nodepoolsserver

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/plantonhq/project-planton/internal/openapi/prism"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// metered is a service without workers at an address, and its registry.
func metered(t testing.TB) (url string, db *store.DB, registry *prometheus.Registry) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "nodepools.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	core, err := service.New(service.Options{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	registry = prometheus.NewRegistry()
	registerMetrics(registry, db, slog.New(slog.DiscardHandler))
	api, err := server.New(server.Options{
		Service: core, Ready: db.Ping, Registry: registry, Logger: slog.New(slog.DiscardHandler),
		Authenticator: auth.Header(auth.Roles{{Subject: "*", Role: auth.Admin}}, auth.LoopbackPeer),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(api)
	t.Cleanup(listener.Close)
	return listener.URL, db, registry
}

// client asks a server, through prism where it stands.
func client(t *testing.T) *http.Client {
	t.Helper()
	client := &http.Client{Timeout: patience}
	prism.Through(t, client)
	return client
}

// call asks as a user, must succeed, and returns the answer.
func call(t *testing.T, method, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-User-Email", "user@example.com")
	request.Header.Set("Content-Type", "application/json")
	answer, err := client(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		t.Fatalf("%s %s was answered with %d: %s (%v)", method, url, answer.StatusCode, text, err)
	}
	return string(text)
}

// exported are the metrics as they are scraped: by name, the names of their labels.
func exported(t *testing.T, registry *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, family := range families {
		// What Prometheus adds to what it scrapes.
		names := []string{"instance", "namespace"}
		for _, label := range family.GetMetric()[0].GetLabel() {
			names = append(names, label.GetName())
		}
		found[family.GetName()] = names
		if family.GetType().String() == "HISTOGRAM" {
			found[family.GetName()+"_bucket"] = append(slices.Clone(names), "le")
		}
	}
	return found
}

const (
	metricsCluster = `{"id": "550e8400-e29b-41d4-a716-446655440000", "name": "production",
		"spec": {"platform": {"type": "gcp", "gcp": {"region": "us-central1"}}}}`
	metricsPool = `{"id": "123e4567-e89b-12d3-a456-426614174000", "name": "workers", "cluster_id": "550e8400-e29b-41d4-a716-446655440000",
		"spec": {"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": 3}}`
)

// TestMetricsOfTheDatabase: they count what there is; and when the database is gone, that is told, beside what is known without it.
func TestMetricsOfTheDatabase(t *testing.T) {
	t.Parallel()
	url, db, _ := metered(t)
	call(t, "POST", url+"/api/v1/clusters", metricsCluster)
	call(t, "POST", url+"/api/v1/nodepools", metricsPool)
	text := func() string { return call(t, "GET", url+"/metrics", "") }
	// What was read counts for a moment.
	expect := func(line string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if got = text(); regexp.MustCompile("\n" + line + "\n").MatchString(got) {
				return
			}
		}
		t.Errorf("there is no %s in:\n%s", line, got)
	}
	for _, line := range []string{
		`nodepools_database_up 1`, `nodepools_objects{kind="cluster",phase="Pending",platform="gcp"} 1`,
		`nodepools_objects{kind="nodepool",phase="Pending",platform="gcp"} 1`, `nodepools_work_waiting 0`, `nodepools_work_longest_wait_seconds 0`,
		`nodepools_deletions_stalled 0`, `nodepools_store_transactions_total 2`,
	} {
		expect(regexp.QuoteMeta(line))
	}
	key := store.Key{Kind: store.NodePool, ID: "123e4567-e89b-12d3-a456-426614174000"}
	if err := db.Write(t.Context(), func(tx store.Tx) error {
		record, err := tx.Get(key)
		if err != nil {
			return err
		}
		// As the service writes what is being deleted for too long.
		record.Phase, record.Deleting = "Deleting", true
		record.Document = []byte(`{"status": {"reason": "DeletionStalled"}}`)
		if err := tx.Put(record); err != nil {
			return err
		}
		return tx.Enqueue(key, time.Time{})
	}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`nodepools_objects\{kind="nodepool",phase="Deleting",platform="gcp"\} 1`, `nodepools_deletions_stalled 1`, `nodepools_work_waiting 1`, `nodepools_work_longest_wait_seconds [0.]*[1-9].*`,
	} {
		expect(line)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect("nodepools_database_up 0")
	got := text()
	if strings.Contains(got, "\nnodepools_objects{") || !strings.Contains(got, "\nnodepools_http_requests_total{") {
		t.Errorf("without a database, this is told:\n%s", got)
	}
}

// TestScrapesAreBounded: who scrapes all the time makes the database be read for a small part of it.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	_, db, _ := metered(t)
	m := &databaseMetrics{db: db, logger: slog.New(slog.DiscardHandler)}
	first := m.read()
	m.last.took = time.Hour
	if again := m.read(); !again.at.Equal(first.at) {
		t.Error("what took long to read is read again at once")
	}
	m.last.at = time.Now().Add(-scrapeKept)
	if again := m.read(); again.err != nil || again.at.Equal(first.at) || again.took >= time.Hour {
		t.Error("what was read long ago is not read again")
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:nodepools|process|go)_[a-z_]+`)
	// What is looked at of a metric, and what it is summed by.
	metricLabels = regexp.MustCompile(`((?:nodepools|process|go)_[a-z_]+)\{([^}]*)\}`)
	labelName    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouped      = regexp.MustCompile(`\bby \(([^)]*)\)`)
	legendLabel  = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// TestDashboardAndAlertsAskForWhatIsExported: a metric or label that was renamed would leave a panel empty, and an alert silent.
func TestDashboardAndAlertsAskForWhatIsExported(t *testing.T) {
	t.Parallel()
	url, _, registry := metered(t)
	call(t, "POST", url+"/api/v1/clusters", metricsCluster) // counters with labels begin with the first request
	have := exported(t, registry)

	type query struct{ where, expression, texts string }
	var queries []query
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(chartFolder, "rules", "nodepools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || rule.For == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" ||
				!slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]) {
				t.Errorf("the alert %s lacks a time, a severity or what it says", rule.Alert)
			}
			queries = append(queries, query{"alert " + rule.Alert, rule.Expr, strings.Join(slices.Collect(maps.Values(rule.Annotations)), " ")})
		}
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	if text, err = os.ReadFile(filepath.Join(chartFolder, "dashboards", "nodepools.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || panel.Title == "" || (len(panel.Targets) == 0) != (panel.Type == "row") {
			t.Errorf("panel %d, %q, has another's id, no title or nothing to show", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			queries = append(queries, query{"panel " + panel.Title, target.Expr, target.LegendFormat})
		}
	}
	for _, one := range dashboard.Templating.List {
		if one.Definition != "" {
			queries = append(queries, query{"variable", one.Definition, ""})
		}
	}
	if len(queries) < 30 {
		t.Fatalf("only %d queries were found", len(queries))
	}

	asked := map[string]bool{}
	for _, one := range queries {
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(one.expression, pair[:1]) != strings.Count(one.expression, pair[1:]) {
				t.Errorf("%s: a bracket %s is open: %s", one.where, pair, one.expression)
			}
		}
		names := metricName.FindAllString(one.expression, -1)
		if len(names) == 0 {
			t.Errorf("%s asks for nothing: %s", one.where, one.expression)
		}
		var labels []string
		for _, name := range names {
			asked[strings.TrimSuffix(name, "_bucket")] = true
			if have[name] == nil {
				t.Errorf("%s asks for %s, which is not exported", one.where, name)
			}
			labels = append(labels, have[name]...)
		}
		for _, match := range metricLabels.FindAllStringSubmatch(one.expression, -1) {
			for _, label := range labelName.FindAllStringSubmatch(match[2], -1) {
				if !slices.Contains(have[match[1]], label[1]) {
					t.Errorf("%s asks for the label %s of %s, which has %v", one.where, label[1], match[1], have[match[1]])
				}
			}
		}
		var more []string
		for _, match := range grouped.FindAllStringSubmatch(one.expression, -1) {
			more = append(more, strings.Split(match[1], ", ")...)
		}
		for _, match := range legendLabel.FindAllStringSubmatch(one.texts, -1) {
			more = append(more, match[1])
		}
		for _, label := range more {
			if !slices.Contains(labels, label) {
				t.Errorf("%s shows the label %s, and its metrics have %v", one.where, label, labels)
			}
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "nodepools_") && !strings.HasSuffix(name, "_bucket") && !asked[name] {
			t.Errorf("%s is exported, and neither shown nor alerted by", name)
		}
	}
}
