package fault_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// ask sends a request to the admin route.
func (b *bench) ask(t *testing.T, method, path, body string, host ...string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	check(t, err)
	if len(host) > 0 {
		request.Host = host[0]
	}
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	text, err := io.ReadAll(response.Body)
	check(t, err)
	check(t, response.Body.Close())
	return response.StatusCode, string(text)
}

func TestAdminRoute(t *testing.T) {
	t.Parallel()
	onBothClouds(t, fault.Plan{}, func(t *testing.T, b *bench) {
		status, _ := b.ask(t, "PUT", "/_emulator/faults", "seed: 3\nfaults:\n- kind: quota\n  route: POST "+b.networksPath+"\n  count: 1\n")
		if status != http.StatusOK {
			t.Fatalf("PUT: %d", status)
		}
		if _, err := b.createNetwork("one"); !b.refused(err, fault.Quota, 0) {
			t.Errorf("create: %v", err)
		}
		must(b.createNetwork("one"))(t)

		_, text := b.ask(t, "GET", "/_emulator/faults", "")
		var shown struct {
			Plan    json.RawMessage
			Strikes []fault.Strike
		}
		check(t, json.Unmarshal([]byte(text), &shown))
		plan, err := fault.Parse("shown", shown.Plan)
		if err != nil || plan.Seed != 3 || len(plan.Faults) != 1 || plan.Faults[0].Kind != fault.Quota {
			t.Errorf("GET: %s (%v)", text, err)
		}
		if want := (fault.Strike{Kind: fault.Quota, Method: "POST", Path: b.networksPath}); len(shown.Strikes) != 1 || shown.Strikes[0] != want {
			t.Errorf("strikes %v", shown.Strikes)
		}

		// A plan that is wrong changes nothing.
		status, text = b.ask(t, "PUT", "/_emulator/faults", "faults:\n- kind: quota\n")
		if status != http.StatusBadRequest || !strings.HasPrefix(text, "plan:2:3: route") || len(b.Plan().Faults) != 1 {
			t.Errorf("PUT of a wrong plan: %d %s", status, text)
		}
		if status, _ := b.ask(t, "PUT", "/_emulator/faults", strings.Repeat(" ", 1<<20)+"{}"); status != http.StatusBadRequest {
			t.Errorf("PUT of a plan that is too large: %d", status)
		}

		var requests []emulator.Request
		_, text = b.ask(t, "GET", "/_emulator/requests?method=POST&path="+b.networksPath, "")
		check(t, json.Unmarshal([]byte(text), &requests))
		if len(requests) != 2 || len(requests[0].Faults) != 1 || len(requests[1].Faults) != 0 {
			t.Errorf("requests %s", text)
		}
		_, text = b.ask(t, "GET", "/_emulator/requests", "")
		check(t, json.Unmarshal([]byte(text), &requests))
		if len(requests) != 2 || strings.Contains(text, testToken) {
			t.Errorf("all requests: %s", text)
		}
		if _, text = b.ask(t, "GET", "/_emulator/requests?method=DELETE", ""); strings.TrimSpace(text) != "[]" {
			t.Errorf("no requests: %s", text)
		}

		if status, _ := b.ask(t, "DELETE", "/_emulator/faults", ""); status != http.StatusNoContent || len(b.Plan().Faults) != 0 {
			t.Errorf("DELETE: %d, in force: %v", status, b.Plan())
		}
		if _, text = b.ask(t, "GET", "/_emulator/faults", ""); strings.TrimSpace(text) != `{"plan":{"faults":[]},"strikes":[]}` {
			t.Errorf("GET after DELETE: %s", text)
		}
		if status, _ := b.ask(t, "POST", "/_emulator/faults", "{}"); status != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", status)
		}
	})
}

// A web page can make a browser ask a loopback address under a name of its own.
func TestAdminRouteIsForThisMachine(t *testing.T) {
	t.Parallel()
	b := start(t, "civo", emulator.Options{}, fault.Plan{})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8400": 200, "127.0.0.1": 200, "[::1]:8400": 200, "[::1]": 200,
		"example.com": 403, "localhost.example.com:8400": 403, "192.0.2.1": 403,
	} {
		if status, _ := b.ask(t, "GET", "/_emulator/faults", "", host); status != want {
			t.Errorf("host %s: %d, want %d", host, status, want)
		}
	}
}
