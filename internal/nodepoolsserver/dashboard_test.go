//go:build unix

package nodepoolsserver

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// panels are the types of the panels that the dashboard has, as Grafana's schema calls those of their options and fields.
var panels = map[string]struct{ file, options, fields string }{
	"stat":       {"Stat", "stat.Options", "Record<string, never>"},
	"timeseries": {"TimeSeries", "timeseries.Options", "timeseries.FieldConfig"},
}

// TestChartDashboard: the dashboard is what Grafana's schema says that one is, and so is each panel with its options, with nothing in it
// that the schema does not know, but for the fields of a kind of panel. The schema is of TypeScript, and so the dashboard is compiled.
func TestChartDashboard(t *testing.T) {
	t.Parallel()
	tools := os.Getenv("NODEPOOLS_DASHBOARD_TOOLS")
	if tools == "" {
		t.Skip("NODEPOOLS_DASHBOARD_TOOLS does not say where Grafana's schema is: make chart does")
	}
	text, err := os.ReadFile(filepath.Join(chartFolder, "dashboards", "nodepools.json"))
	if err != nil {
		t.Fatal(err)
	}
	if out := compile(t, tools, text); out != "" {
		t.Errorf("Grafana would not know all of the dashboard:\n%s", out)
	}
	// Were it not so, it would be told.
	changed := strings.NewReplacer(
		`"schemaVersion"`, `"schemeVersion": 1, "schemaVersion"`, `"graphMode"`, `"graphsMode": "area", "graphMode"`,
		`"lineWidth": 1`, `"lineWidth": "thin"`,
	).Replace(string(text))
	out := compile(t, tools, []byte(changed))
	for _, want := range []string{"schemeVersion", "graphsMode", "type 'number'"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is none, and is not told:\n%s", want, out)
		}
	}
}

// compile holds a dashboard against the schema, and returns what is wrong.
func compile(t *testing.T, tools string, text []byte) string {
	t.Helper()
	var dashboard struct{ Panels []json.RawMessage }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	const schema = "@grafana/schema/dist/esm/raw"
	var program strings.Builder
	program.WriteString("import type {Dashboard, Panel} from '@grafana/schema';\n")
	fmt.Fprintf(&program, "import type {RowPanel} from '%s/dashboard/x/Dashboard_types.gen';\n", schema)
	for name, panel := range panels {
		fmt.Fprintf(&program, "import type * as %s from '%s/composable/%s/panelcfg/x/%sPanelCfg_types.gen';\n", name, schema, name, panel.file)
	}
	// Of an enum, JSON has the values.
	program.WriteString("type Plain<T> = T extends string ? `${T}` : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;\n")
	fmt.Fprintf(&program, "export const dashboard: Plain<Dashboard> = %s;\n", text)
	for i, panel := range dashboard.Panels {
		var about struct{ Type string }
		if err := json.Unmarshal(panel, &about); err != nil {
			t.Fatal(err)
		}
		kind := "RowPanel"
		if about.Type != "row" {
			known, ok := panels[about.Type]
			if !ok {
				t.Fatalf("a panel is of the type %q, which is not known here", about.Type)
			}
			kind = fmt.Sprintf("Omit<Panel<%s, %s>, 'options'> & {options: %[1]s}", known.options, known.fields)
		}
		fmt.Fprintf(&program, "export const panel%d: Plain<%s> = %s;\n", i, kind, panel)
	}
	// Beside node_modules, where the compiler looks for the schema.
	folder, err := os.MkdirTemp(tools, "check")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "dashboard.ts")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(tools, "node_modules", ".bin", "tsc"),
		"--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", file)
	out, err := command.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}
