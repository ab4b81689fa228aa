//go:build unix

package nodepoolsserver

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// promtool runs the tool of Prometheus, which has its parser, its rules and its linter of metrics.
func promtool(t *testing.T, input string, arguments ...string) {
	t.Helper()
	program := os.Getenv("PROMTOOL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("promtool"); err != nil {
			t.Skip("there is no promtool on PATH, and PROMTOOL does not say where it is: make chart does")
		}
	}
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Stdin = strings.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// TestExpressionsAreUnderstood: Prometheus itself reads the alerts and each expression of the dashboard, and has nothing to say about how the
// metrics are named.
func TestExpressionsAreUnderstood(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(chartFolder, "dashboards", "nodepools.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	// What Grafana puts in.
	variables := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$instance", ".*")
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{Record: "panel:" + strings.Repeat("x", len(rules)+1), Expr: variables.Replace(target.Expr)})
		}
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", filepath.Join(chartFolder, "rules", "nodepools.yaml"), path)

	url, _, _ := metered(t)
	call(t, "POST", url+"/api/v1/clusters", metricsCluster)
	var ours []string
	for line := range strings.Lines(call(t, "GET", url+"/metrics", "")) {
		if strings.Contains(line, "nodepools_") {
			ours = append(ours, line)
		}
	}
	promtool(t, strings.Join(ours, ""), "check", "metrics")
}

// TestAlertsFire: each alert is silent while all is well, and told when what it is about has lasted.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	rules, err := filepath.Abs(filepath.Join(chartFolder, "rules", "nodepools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	// The series of a service that is well, a value a minute for an hour.
	well := map[string]string{
		`nodepools_database_up{instance="a"}`: "1x60",
		`nodepools_http_requests_total{instance="a",method="GET",route="/api/v1/nodepools",code="200"}`:    "0+6000x60",
		`nodepools_http_requests_total{instance="a",method="GET",route="/api/v1/nodepools",code="503"}`:    "0+6x60",
		`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/nodepools",le="0.01"}`: "0+6000x60",
		`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/nodepools",le="2.5"}`:  "0+6006x60",
		`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/nodepools",le="+Inf"}`: "0+6006x60",
		`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/watch",le="2.5"}`:      "0x60",
		`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/watch",le="+Inf"}`:     "0+100x60",
		`nodepools_store_transactions_failed_total{instance="a"}`:                                          "0x60",
		`nodepools_work_longest_wait_seconds{instance="a"}`:                                                "20x60",
		`nodepools_objects{instance="a",kind="nodepool",platform="civo",phase="Ready"}`:                    "3x60",
		`nodepools_deletions_stalled{instance="a"}`:                                                        "0x60",
	}
	// What makes each of them be told, instead or beside ("" is a series that there is not), and what is told then.
	ill := map[string]struct {
		series, values string
		labels         map[string]string
		summary        string
	}{
		"NodePoolsAbsent":       {`nodepools_database_up{instance="a"}`, "", nil, "Nothing is heard of the NodePools service."},
		"NodePoolsDatabaseDown": {`nodepools_database_up{instance="a"}`, "0x60", map[string]string{"instance": "a"}, "The database of the NodePools service does not answer a."},
		"NodePoolsErrors": {`nodepools_http_requests_total{instance="a",method="GET",route="/api/v1/nodepools",code="503"}`, "0+120x60", nil,
			"The NodePools service fails 1.961% of the requests."},
		"NodePoolsSlow": {`nodepools_http_request_duration_seconds_bucket{instance="a",route="/api/v1/nodepools",le="0.01"}`, "0+5000x60", nil,
			"One request in a hundred takes the NodePools service 2.351s or more."},
		"NodePoolsCommitsFail": {`nodepools_store_transactions_failed_total{instance="a"}`, "0+1x60", map[string]string{"instance": "a"}, "Writes of a cannot be committed."},
		"NodePoolsWorkWaits":   {`nodepools_work_longest_wait_seconds{instance="a"}`, "901+60x60", nil, "A cluster or node pool has waited 1h 14m 1s for a worker."},
		"NodePoolsFailed": {`nodepools_objects{instance="a",kind="nodepool",platform="civo",phase="Failed"}`, "1x60",
			map[string]string{"kind": "nodepool", "platform": "civo"}, "1 of kind nodepool on civo failed."},
		"NodePoolsDeletionStalled": {`nodepools_deletions_stalled{instance="a"}`, "2x60", nil, "2 deletions of the NodePools service do not come to an end."},
	}
	type told struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
	type check struct {
		EvalTime  string `yaml:"eval_time"`
		AlertName string `yaml:"alertname"`
		Expected  []told `yaml:"exp_alerts"`
	}
	type example struct {
		Name     string              `yaml:"name"`
		Interval string              `yaml:"interval"`
		Series   []map[string]string `yaml:"input_series"`
		Checks   []check             `yaml:"alert_rule_test"`
	}
	exampleOf := func(name string, series map[string]string, checks ...check) example {
		result := example{Name: name, Interval: "1m", Checks: checks}
		for series, values := range series {
			if values != "" {
				result.Series = append(result.Series, map[string]string{"series": series, "values": values})
			}
		}
		return result
	}
	var examples []example
	var silent []check
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			wrong, ok := ill[rule.Alert]
			if !ok {
				t.Errorf("nothing here makes the alert %s be told", rule.Alert)
			}
			series, labels, annotations := maps.Clone(well), maps.Clone(rule.Labels), maps.Clone(rule.Annotations)
			series[wrong.series] = wrong.values
			maps.Copy(labels, wrong.labels)
			annotations["summary"] = wrong.summary
			// At first nothing has lasted yet.
			examples = append(examples, exampleOf(rule.Alert, series, check{"1m", rule.Alert, nil}, check{"59m", rule.Alert, []told{{labels, annotations}}}))
			silent = append(silent, check{"59m", rule.Alert, nil})
		}
	}
	examples = append(examples, exampleOf("all is well", well, silent...))
	content, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": examples})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", path)
}
