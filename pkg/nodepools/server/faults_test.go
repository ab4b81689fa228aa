package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

const asController = "X-User-Email: controller@example.com"

// report is what a controller says about a pool at a generation.
func report(generation int, conditions string, more ...string) string {
	name := "gcp-nodepool-controller"
	if len(more) > 0 {
		name = more[0]
	}
	return fmt.Sprintf(`{"controller_name":%q,"observed_generation":%d,"conditions":[%s]}`, name, generation, conditions)
}

const ready = `{"type":"Ready","status":"True","reason":"NodesReady"}`

// TestKnownFaults holds what services of this kind got wrong before.
func TestKnownFaults(t *testing.T) {
	t.Parallel()
	path := "/api/v1/nodepools/" + guidePool
	sized := func(count int) string {
		return `{"name":"pool","spec":` + strings.Replace(gcpSpec, `"nodeCount":3`, fmt.Sprintf(`"nodeCount":%d`, count), 1) + `}`
	}
	for _, test := range []struct {
		fault string
		check func(t *testing.T, b *bench)
	}{
		{"1. parallel updates are lost", func(t *testing.T, b *bench) {
			var wait sync.WaitGroup
			for i := range 50 {
				wait.Go(func() {
					if got := b.do("PUT", path, sized(10+i)); got.status != http.StatusOK {
						t.Errorf("%d %s", got.status, got.body)
					}
				})
			}
			wait.Wait()
			if got := b.do("GET", path, ""); got.at(t, "generation") != 51.0 {
				t.Errorf("after 50 changes: %s", got.body)
			}
		}},
		{"2. anything is a spec", func(t *testing.T, b *bench) {
			for _, body := range []string{
				sized(-7), `{"name":"x","spec":{"platform":{"type":"banana"},"nodeCount":1}}`, strings.Replace(sized(1), "pool", "UPPER / space", 1),
				strings.Replace(sized(1), "pool", strings.Repeat("n", 300), 1), `{"name":"x"}`,
			} {
				expectError(t, b.malformed("POST", "/api/v1/clusters/"+guideCluster+"/nodepools", body), http.StatusBadRequest, "VALIDATION_ERROR", "")
			}
		}},
		{"4. every update is a new generation", func(t *testing.T, b *bench) {
			before := b.do("PUT", path, sized(5))
			again := b.do("PUT", path, sized(5))
			if before.at(t, "generation") != 2.0 || again.at(t, "generation") != 2.0 {
				t.Errorf("%s, then %s", before.body, again.body)
			}
		}},
		{"5. a changed pool stays Ready", func(t *testing.T, b *bench) {
			b.do("PUT", path+"/status", report(1, ready), asController)
			if got := b.do("GET", path, ""); got.at(t, "status", "phase") != "Ready" {
				t.Fatalf("%s", got.body)
			}
			if got := b.do("PUT", path, sized(5)); got.at(t, "status", "phase") == "Ready" {
				t.Errorf("%s", got.body)
			}
		}},
		{"6. users forge reports, and reports claim anything", func(t *testing.T, b *bench) {
			expectError(t, b.do("PUT", path+"/status", report(1, ready)), http.StatusForbidden, "FORBIDDEN", "")
			expectError(t, b.do("PUT", path+"/status", report(999999, ready), asController), http.StatusConflict, "CONFLICT", "")
			expectError(t, b.malformed("PUT", path+"/status", report(1, `{"type":"Ready","status":"Maybe"}`), asController), http.StatusBadRequest, "VALIDATION_ERROR", "")
			b.do("PUT", path, sized(5))
			b.do("PUT", path+"/status", report(2, ready), asController)
			b.do("PUT", path+"/status", report(1, `{"type":"Ready","status":"False"}`), asController)
			if got := b.do("GET", path, ""); got.at(t, "status", "phase") != "Ready" || got.at(t, "status", "observed_generation") != 2.0 {
				t.Errorf("an old report goes before a new one: %s", got.body)
			}
		}},
		{"7. nothing ever fails", func(t *testing.T, b *bench) {
			body := `{"controller_name":"gcp-nodepool-controller","observed_generation":1,"conditions":[],"last_error":{"error_type":"Fatal","message":"no such zone"}}`
			body = strings.Replace(body, "error_type", "errorType", 1)
			if got := b.do("PUT", path+"/status", body, asController); got.at(t, "status", "phase") != "Failed" {
				t.Errorf("%s", got.body)
			}
		}},
		{"8. the first of two controllers makes a pool Ready", func(t *testing.T, b *bench) {
			for _, name := range []string{"machines", "network"} {
				got := b.do("PUT", "/api/v1/controllers/"+name, `{"name":"`+name+`","platforms":["gcp"]}`, asController)
				if got.status != http.StatusOK {
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			if got := b.do("PUT", path+"/status", report(1, ready, "machines"), asController); got.at(t, "status", "phase") == "Ready" {
				t.Errorf("%s", got.body)
			}
			if got := b.do("PUT", path+"/status", report(1, ready, "network"), asController); got.at(t, "status", "phase") != "Ready" {
				t.Errorf("%s", got.body)
			}
		}},
		{"9. reading changes what is read", func(t *testing.T, b *bench) {
			b.do("PUT", path+"/status", report(1, ready), asController)
			first := b.do("GET", path, "")
			b.do("GET", path+"/status", "")
			if again := b.do("GET", path, ""); again.body != first.body {
				t.Errorf("%s, then %s", first.body, again.body)
			}
			b.do("PUT", path+"/status", report(1, `{"type":"Ready","status":"True","reason":"StillReady"}`), asController)
			again := b.do("GET", path, "")
			transition := func(a answer) any {
				return a.at(t, "status").(map[string]any)["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"]
			}
			if transition(first) != transition(again) {
				t.Errorf("the time of a transition changes without one: %s, then %s", first.body, again.body)
			}
		}},
		{"10. a deletion hides what must be destroyed", func(t *testing.T, b *bench) {
			b.do("PUT", path+"/status", report(1, ready), asController)
			if got := b.do("DELETE", "/api/v1/clusters/"+guideCluster, ""); got.status != http.StatusConflict {
				t.Errorf("a cluster goes before its pools: %d %s", got.status, got.body)
			}
			b.do("DELETE", path, "")
			for _, who := range []string{asController, "X-User-Email: user@example.com"} {
				if got := b.do("GET", path, "", who); got.status != http.StatusOK || got.at(t, "deletion_requested_at") == nil {
					t.Errorf("while it is deleted: %d %s", got.status, got.body)
				}
			}
			if got := b.do("GET", path+"/status", "", asController); len(got.at(t, "controller_status").([]any)) != 1 {
				t.Errorf("reports while it is deleted: %s", got.body)
			}
		}},
		{"11. a name is never free again", func(t *testing.T, b *bench) {
			b.do("PUT", path+"/status", report(1, ready), asController)
			b.do("DELETE", path, "")
			b.do("PUT", path+"/status", report(1, `{"type":"Deleted","status":"True"}`), asController)
			expectError(t, b.do("GET", path, ""), http.StatusNotFound, "NOT_FOUND", "")
			b.pool("pool")
		}},
		{"12, 13. events are lost or doubled", func(t *testing.T, b *bench) {
			// A controller that has begun must be waited for.
			b.do("PUT", path+"/status", report(1, ready), asController)
			start := b.do("GET", "/api/v1/nodepools", "").at(t, "resource_version").(string)
			b.do("PUT", path, sized(5))
			b.malformed("PUT", path, sized(-5)) // refused: no event
			b.do("PUT", path, sized(6))
			b.do("DELETE", path, "")
			types, _ := b.events("/api/v1/watch?since="+start, "", 3)
			if strings.Join(types, " ") != "nodepool.updated nodepool.updated nodepool.deleting" {
				t.Errorf("events %v", types)
			}
		}},
		{"14. controllers cannot read", func(t *testing.T, b *bench) {
			if got := b.do("GET", "/api/v1/nodepools?platform=gcp&needs_reconcile=true", "", asController); got.at(t, "total") != 1.0 {
				t.Errorf("%s", got.body)
			}
			if got := b.do("GET", path+"/status", "", asController); got.status != http.StatusOK {
				t.Errorf("%d %s", got.status, got.body)
			}
			expectError(t, b.do("PUT", path, sized(9), asController), http.StatusForbidden, "FORBIDDEN", "")
		}},
		{"15. totals tell of others' pools, and no pools are null", func(t *testing.T, b *bench) {
			got := b.do("GET", "/api/v1/nodepools", "", "X-User-Email: other@example.com")
			if !strings.HasPrefix(got.body, `{"nodepools":[],"total":0`) {
				t.Errorf("%s", got.body)
			}
			for _, path := range []string{path, "/api/v1/nodepools?cluster_id=" + guideCluster, "/api/v1/clusters/" + guideCluster + "/nodepools"} {
				if got := b.do("GET", path, "", "X-User-Email: other@example.com"); got.status != http.StatusNotFound {
					t.Errorf("%s: %d %s", path, got.status, got.body)
				}
			}
		}},
		{"16. every web site is let in", func(t *testing.T, b *bench) {
			got := b.do("GET", "/api/v1/nodepools", "", "Origin: https://example.com")
			for name := range got.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("header %s", name)
				}
			}
		}},
		{"17. secrets are shown", func(t *testing.T, b *bench) {
			expectError(t, b.malformed("POST", "/api/v1/clusters", `{"name":"x","spec":{"platform":{"type":"gcp"},"serviceAccountSigningKey":"key"}}`),
				http.StatusBadRequest, "VALIDATION_ERROR", "unknown field")
			b.do("POST", "/api/v1/clusters", `{"id":"550e8400-e29b-41d4-a716-446655440001","name":"aws","spec":{"platform":{"type":"aws"}}}`)
			created := b.do("POST", "/api/v1/nodepools", `{"name":"x","cluster_id":"550e8400-e29b-41d4-a716-446655440001","spec":{"platform":{"type":"aws",`+
				`"aws":{"instanceType":"m5.xlarge","userData":"hunter2"}},"nodeCount":1}}`)
			if created.status != http.StatusCreated {
				t.Fatalf("%d %s", created.status, created.body)
			}
			id := created.at(t, "id").(string)
			for _, got := range []answer{
				created, b.do("GET", "/api/v1/nodepools/"+id, ""), b.do("GET", "/api/v1/nodepools", ""), b.do("GET", "/api/v1/events", ""),
				b.do("GET", "/api/v1/audit", "", "X-User-Email: admin@example.com"),
				b.do("PATCH", "/api/v1/nodepools/"+id, `{"spec":{"nodeCount":2}}`, "Content-Type: application/merge-patch+json"),
			} {
				if strings.Contains(got.body, "hunter2") || got.status >= 300 {
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		}},
		{"18. clients set what the service makes", func(t *testing.T, b *bench) {
			got := b.do("POST", "/api/v1/nodepools", `{"name":"x","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`,"status":{"phase":"Ready"},`+
				`"deletion_requested_at":"2020-01-01T00:00:00Z","created_by":"root@example.com","generation":7,"finalizers":["x"]}`)
			if got.at(t, "status", "phase") == "Ready" || got.at(t, "deletion_requested_at") != nil || got.at(t, "created_by") != "user@example.com" || got.at(t, "generation") != 1.0 {
				t.Errorf("%s", got.body)
			}
		}},
		{"20. the last change of a burst is dropped", func(t *testing.T, b *bench) {
			for i := range 10 {
				b.do("PUT", path, sized(10+i))
			}
			if got := b.do("GET", "/api/v1/nodepools?needs_reconcile=true", "", asController); !strings.Contains(got.body, `"nodeCount":19`) {
				t.Errorf("%s", got.body)
			}
		}},
		{"23. pages skip and repeat while others write", func(t *testing.T, b *bench) {
			for i := range 5 {
				b.pool(fmt.Sprintf("p%d", i))
			}
			seen, cursor := map[string]int{}, ""
			for page := 0; page == 0 || cursor != ""; page++ {
				got := b.do("GET", "/api/v1/nodepools?limit=2&cursor="+cursor, "")
				for _, one := range got.at(t, "nodepools").([]any) {
					seen[one.(map[string]any)["name"].(string)]++
				}
				cursor, _ = got.at(t, "next_cursor").(string)
				if page == 0 {
					b.do("PUT", path, sized(9)) // on the page that was read
					b.pool("late")
				}
			}
			for _, name := range []string{"pool", "p0", "p1", "p2", "p3", "p4", "late"} {
				if seen[name] != 1 {
					t.Errorf("%s was listed %d times", name, seen[name])
				}
			}
		}},
		{"24. a cluster that is Ready cannot be deleted", func(t *testing.T, b *bench) {
			cluster := "550e8400-e29b-41d4-a716-446655440002"
			b.do("POST", "/api/v1/clusters", `{"id":"`+cluster+`","name":"x","spec":{"platform":{"type":"gcp"}}}`)
			b.do("PUT", "/api/v1/clusters/"+cluster+"/status", report(1, ready), asController)
			if got := b.do("GET", "/api/v1/clusters/"+cluster, ""); got.at(t, "status", "phase") != "Ready" {
				t.Fatalf("%s", got.body)
			}
			if got := b.do("DELETE", "/api/v1/clusters/"+cluster, ""); got.status != http.StatusNoContent {
				t.Errorf("%d %s", got.status, got.body)
			}
		}},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			b := guideBench(t, "pool")
			test.check(t, b)
		})
	}
}

// TestBrokenDatabase is about two more known faults: the words of a database in answers (3), and health that looks at nothing (21).
func TestBrokenDatabase(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	core, err := service.New(service.Options{Store: db, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *server.Options) {
		o.Service, o.Ready = core, db.Ping
		o.Authenticator = auth.Header(auth.Everyone(auth.Editor), auth.LoopbackPeer)
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, got := range []answer{
		b.do("GET", "/api/v1/nodepools", ""), b.do("GET", "/api/v1/nodepools/"+guidePool, ""),
		b.do("POST", "/api/v1/clusters", `{"name":"x","spec":{"platform":{"type":"gcp"}}}`),
	} {
		expectError(t, got, http.StatusServiceUnavailable, "UNAVAILABLE", "")
		if text := strings.ToLower(got.body); strings.Contains(text, "sql") || got.at(t, "error", "request_id") != got.header.Get("X-Request-Id") {
			t.Errorf("%s", got.body)
		}
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/health": http.StatusServiceUnavailable} {
		if got := b.do("GET", path, ""); got.status != want || strings.Contains(strings.ToLower(got.body), "sql") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}
