package civo

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"google.golang.org/grpc/status"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// answer makes an intercept that answers requests that match with status and body.
func answer(match func(r *http.Request) bool, code int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if match(r) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func everything(*http.Request) bool { return true }

func TestOnlyADefiniteNotFoundMeansGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.must("create", clusterProgram(networkID, firewallID, nil))
	pool := b.object(NodePoolType, "pool")
	pool.must("create", map[string]any{"clusterId": cluster.id, "label": "extra", "nodeCount": 1, "size": "g4s.kube.small"})
	network, firewall := b.object(NetworkType, "net"), b.object(FirewallType, "fw")
	network.id, network.state = networkID, properties(map[string]any{"region": "LON1", "label": "net"})
	firewall.id, firewall.state = firewallID, properties(map[string]any{"region": "LON1", "name": "fw"})

	tests := []struct {
		name, reason string
		code         int
		body         string
	}{
		{"503", "an overloaded API", 503, `{"code":"service_unavailable","reason":"try later"}`},
		{"429", "too many requests", 429, `{"code":"too_many_requests"}`},
		{"401", "an expired token", 401, `{"code":"database_account_not_found","reason":"no account"}`},
		{"403", "a token without rights", 403, `{"code":"authentication_access_denied"}`},
		{"404 of a proxy", "a not-found that is not Civo's", 404, `<html>nothing here</html>`},
		{"404 with another code", "a wrong path in apiEndpoint", 404, `{"code":"not_found","reason":"no such route"}`},
		{"404 about another object", "a volume of it, say", 404, `{"code":"database_volume_not_found","reason":"no volume"}`},
		{"404 about a rule", "not the firewall", 404, `{"code":"database_firewall_rules_find","reason":"no rule"}`},
		{"500 with odd fields", "a reason that is no text", 500, `{"status":500,"reason":{"a":1}}`},
		{"200 that is not JSON", "a captive portal", 200, `welcome`},
		{"200 of nothing", "an answer that was lost on the way", 200, `null`},
		{"200 of an empty object", "an answer of something else", 200, `{}`},
	}
	at := func(part string) func(*http.Request) bool {
		return func(r *http.Request) bool { return strings.Contains(r.URL.Path, part) }
	}
	reads := []struct {
		fails  func(*http.Request) bool
		object *object
	}{
		{everything, network}, {everything, firewall}, {everything, cluster}, {everything, pool},
		// These are read with several requests. The first one is answered, and the other is not.
		{at("/rules"), firewall}, {at("/pools/"), pool},
	}
	for _, test := range tests {
		for _, read := range reads {
			o := read.object
			b.setIntercept(answer(read.fails, test.code, test.body))
			before := o.state
			gone, err := o.refresh(context.Background())
			if err == nil || gone {
				t.Errorf("%s (%s): refresh of %s: gone %t, error %v; want an error", test.name, test.reason, o.name, gone, err)
			}
			if err != nil && strings.Contains(err.Error(), testToken) {
				t.Errorf("%s: the error has the token in it: %v", test.name, err)
			}
			if !o.state.DeepEquals(before) {
				t.Errorf("%s: the state of %s changed", test.name, o.name)
			}
		}
	}

	b.setIntercept(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
	if gone, err := cluster.refresh(context.Background()); err == nil || gone {
		t.Errorf("dropped connections: gone %t, error %v", gone, err)
	}

	b.setIntercept(nil)
	if err := b.cloud.DeleteCluster(cluster.id); err != nil {
		t.Fatal(err)
	}
	if gone, err := cluster.refresh(context.Background()); err != nil || !gone {
		t.Errorf("a deleted cluster: gone %t, error %v", gone, err)
	}
}

func TestNotFoundIsAboutWhatStandsAtThePath(t *testing.T) {
	t.Parallel()
	const network, firewall, cluster = "database_network_not_found", "database_firewall_not_found", "database_kubernetes_cluster_not_found"
	const rule, pool = "database_firewall_rules_find", "database_cluster_pool_not_found"
	tests := []struct {
		path string
		gone []string
	}{
		{"/v2/regions", nil},
		{"/v2/networks", nil},
		{"/v2/networks/a%2Fb", []string{network}},
		{"/v2/firewalls", nil},
		{"/v2/firewalls/f", []string{firewall}},
		{"/v2/firewalls/f/rules", []string{firewall}},
		{"/v2/firewalls/f/rules/r", []string{firewall, rule}},
		{"/v2/kubernetes/clusters?page=1&per_page=100", nil},
		{"/v2/kubernetes/clusters/c", []string{cluster}},
		{"/v2/kubernetes/clusters/c/pools", []string{cluster}},
		{"/v2/kubernetes/clusters/c/pools/p", []string{cluster, pool}},
		{"/v2/kubernetes/versions", nil},
	}
	for _, test := range tests {
		for _, code := range []string{network, firewall, rule, cluster, pool} {
			err := refusal("GET", test.path, &http.Response{StatusCode: http.StatusNotFound}, []byte(`{"code":"`+code+`"}`))
			if want := slices.Contains(test.gone, code); nativeprovider.IsNotFound(err) != want {
				t.Errorf("%s with %s: gone %t, want %t", test.path, code, !want, want)
			}
		}
	}
}

// An object whose region is not recorded is gone when no region has it, and not when the regions cannot be told.
func TestUnknownRegionsDoNotMeanGone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason, body string
		code         int
		gone         bool
	}{
		{"no region has it", `[{"code":"LON1"},{"code":"FRA1"}]`, 200, true},
		{"an answer without regions", `[]`, 200, false},
		{"an answer that is nothing", `null`, 200, false},
		{"a region without a code", `[{"code":"LON1"},{"name":"fra1"}]`, 200, false},
		{"a not-found, which is not the object's", `{"code":"database_kubernetes_cluster_not_found"}`, 404, false},
		{"another not-found", `{"code":"database_network_not_found"}`, 404, false},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			pool := b.object(NodePoolType, "pool")
			pool.id, pool.state = "p", properties(map[string]any{"clusterId": "11111111-1111-4111-8111-111111111111"})
			b.setIntercept(answer(func(r *http.Request) bool { return r.URL.Path == "/v2/regions" }, test.code, test.body))
			if gone, err := pool.refresh(context.Background()); gone != test.gone || (err == nil) != test.gone {
				t.Errorf("gone %t, error %v", gone, err)
			}
		})
	}
}

func TestReadsAreRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	network := b.object(NetworkType, "net")
	network.must("create", map[string]any{"label": "net"})
	var failures atomic.Int32
	failures.Store(2)
	b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if failures.Add(-1) >= 0 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
	if _, err := network.refresh(context.Background()); err != nil {
		t.Errorf("two 429 must not fail a refresh: %v", err)
	}
}

func TestCreatesAreNotRepeatedBlindly(t *testing.T) {
	t.Parallel()
	posts := func(b *bench, path string) int {
		n := 0
		for _, request := range b.cloud.Requests() {
			if request.Method == http.MethodPost && request.Path == path {
				n++
			}
		}
		return n
	}
	t.Run("the answer is lost after the cluster was made", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, benchOptions{})
		networkID, firewallID := b.place()
		var lost atomic.Bool
		b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPost && r.URL.Path == "/v2/kubernetes/clusters" && lost.CompareAndSwap(false, true) {
				next.ServeHTTP(discard{header: http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
		cluster := b.object(ClusterType, "cluster")
		cluster.must("create", clusterProgram(networkID, firewallID, nil))
		if clusters := b.cloud.Clusters(); len(clusters) != 1 || clusters[0].ID != cluster.id {
			t.Errorf("clusters %v, want the one that was made, %s", clusters, cluster.id)
		}
		if n := posts(b, "/v2/kubernetes/clusters"); n != 1 {
			t.Errorf("%d POST requests, want 1", n)
		}
	})
	t.Run("a 502 before anything was made", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, benchOptions{})
		var failed atomic.Bool
		b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPost && failed.CompareAndSwap(false, true) {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			next.ServeHTTP(w, r)
		})
		network := b.object(NetworkType, "net")
		network.must("create", map[string]any{"label": "net"})
		if n := posts(b, "/v2/networks"); n != 2 {
			t.Errorf("%d POST requests, want 2", n)
		}
	})
	t.Run("a name that someone else has", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, benchOptions{})
		b.object(NetworkType, "one").must("create", map[string]any{"label": "net"})
		two := b.object(NetworkType, "two")
		_, err := two.up(context.Background(), map[string]any{"label": "net"})
		if err == nil || !strings.Contains(err.Error(), "exists") || two.id != "" {
			t.Errorf("error %v, id %q: want a refusal", err, two.id)
		}
	})
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func TestTimeoutKeepsWhatWasMade(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{timeScale: 1})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.timeout = 0.5
	program := clusterProgram(networkID, firewallID, nil)
	start := time.Now()
	_, err := cluster.up(context.Background(), program)
	if err == nil || !strings.Contains(err.Error(), "timed out after 500ms") || !strings.Contains(err.Error(), "BUILDING") {
		t.Errorf("error %v: want the timeout and the last status", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	if cluster.id == "" || cluster.value("status") != "BUILDING" || cluster.value("networkId") != networkID {
		t.Fatalf("id %q, state %v: want the half made cluster", cluster.id, cluster.state)
	}

	// The next update waits for it and makes no second one.
	if _, err := cluster.up(context.Background(), program); err == nil {
		t.Error("the cluster cannot be ready yet")
	}
	if n := len(b.cloud.Clusters()); n != 1 {
		t.Errorf("%d clusters", n)
	}
}

func TestUnfinishedClusterIsFinishedByTheNextUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{timeScale: 0.01}) // a cluster takes 1.2 s
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.timeout = 0.3
	program := clusterProgram(networkID, firewallID, nil)
	if _, err := cluster.up(context.Background(), program); err == nil || !cluster.unfinished {
		t.Fatalf("error %v: want an unfinished cluster", err)
	}
	id := cluster.id
	cluster.timeout = patience
	if gone, err := cluster.refresh(context.Background()); err != nil || gone || !cluster.unfinished {
		t.Errorf("a refresh must keep it unfinished: gone %t, %v", gone, err)
	}
	cluster.must("update", program)
	if cluster.id != id || cluster.value("status") != "ACTIVE" || cluster.value("pools.nodeCount") != 2.0 {
		t.Errorf("state %v", cluster.state)
	}
	cluster.must("same", program)
}

func TestCancelEndsAWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{timeScale: 1})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	result := make(chan error, 1)
	go func() {
		_, err := cluster.up(context.Background(), clusterProgram(networkID, firewallID, nil))
		result <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); len(b.cloud.Clusters()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no cluster was made")
		}
	}
	b.cancel()
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "cancelled") {
			t.Errorf("error %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the wait goes on after a cancel")
	}
	if cluster.id == "" || !cluster.unfinished {
		t.Error("the cluster that was made is not recorded")
	}
}

// Whatever Civo says that uses a network or a firewall, its delete waits until that has gone, and fails at once for any other reason.
func TestUsersAreWaitedFor(t *testing.T) {
	t.Parallel()
	cases := map[string]bool{
		"database_network_inuse_by_cluster": true, "database_network_inuse_by_instance": true, "database_network_inuse_by_instance_snapshot": true,
		"database_network_inuse_by_volumes": true, "database_network_inuse_by_database": true, "database_network_delete_with_instance": true,
		"database_firewall_inuse_by_cluster": true, "database_firewall_inuse_by_instance": true, "database_firewall_used_by_loadbalancer": true,
		"database_network_delete_default": false, "database_network_delete": false, "database_firewall_delete": false,
	}
	for code, waits := range cases {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			networkID, firewallID := b.place()
			used := b.object(NetworkType, "net")
			used.id, used.state = networkID, properties(map[string]any{"region": "LON1", "label": "net"})
			if strings.Contains(code, "firewall") {
				used = b.object(FirewallType, "fw")
				used.id, used.state = firewallID, properties(map[string]any{"region": "LON1"})
			}
			refusals := 2
			b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodDelete && refusals > 0 {
					refusals--
					w.WriteHeader(http.StatusConflict)
					_, _ = io.WriteString(w, `{"code":"`+code+`","reason":"not now"}`)
					return
				}
				next.ServeHTTP(w, r)
			})
			used.timeout = 30
			err := used.delete(context.Background())
			if waits != (err == nil) || !waits && !strings.Contains(err.Error(), code) {
				t.Errorf("error %v; waits for the user: %t", err, waits)
			}
		})
	}
}

func TestFirewallInUseIsDeletedWhenItIsFree(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.must("create", clusterProgram(networkID, firewallID, nil))
	firewall := b.object(FirewallType, "fw")
	firewall.id, firewall.state = firewallID, properties(map[string]any{"region": "LON1"})

	firewall.timeout = 0.5
	if err := firewall.delete(context.Background()); err == nil || !strings.Contains(err.Error(), "database_firewall_inuse_by_cluster") {
		t.Errorf("error %v: want one that says that a cluster uses it", err)
	}
	firewall.timeout = 30
	result := make(chan error, 1)
	go func() { result <- firewall.delete(context.Background()) }()
	time.Sleep(300 * time.Millisecond)
	if err := cluster.delete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestRepeatedDeleteOfANetworkThatLingers(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	network := b.object(NetworkType, "net")
	network.must("create", map[string]any{"label": "net"})
	var gets, deletes atomic.Int32
	b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/v2/networks/"+network.id {
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case r.Method == http.MethodDelete && deletes.Add(1) == 1:
			_, _ = io.WriteString(w, `{"result":"success"}`)
		case r.Method == http.MethodGet && gets.Add(1) < 4:
			_, _ = io.WriteString(w, `{"id":"`+network.id+`","label":"net","status":"Deleting"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"database_network_not_found","reason":"gone"}`)
		}
	})
	if err := network.delete(context.Background()); err != nil {
		t.Error(err)
	}
	if deletes.Load() != 1 || gets.Load() != 4 {
		t.Errorf("%d DELETE and %d GET requests", deletes.Load(), gets.Load())
	}
}

func TestPartialFirewallUpdateIsRecordedAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, _ := b.place()
	firewall := b.object(FirewallType, "rules")
	firewall.must("create", map[string]any{
		"name": "rules", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("80")},
	})
	wanted := map[string]any{
		"name": "rules", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("443"), rule("6443")},
	}
	var added atomic.Int32
	b.setIntercept(answer(func(r *http.Request) bool {
		return r.Method == http.MethodPost && added.Add(1) == 2
	}, http.StatusForbidden, `{"code":"quota_limit_reached","reason":"too many rules"}`))
	if _, err := firewall.up(context.Background(), wanted); err == nil || !firewall.unfinished {
		t.Fatalf("error %v: want a partial failure", err)
	}
	if rules, _ := firewall.value("ingressRules").([]any); len(rules) != 2 {
		t.Errorf("recorded rules %v, want the old one and the first new one", rules)
	}
	b.setIntercept(nil)
	firewall.must("update", wanted)
	firewall.must("same", wanted)
}

func TestConfiguration(t *testing.T) {
	// Not parallel: it sets environment variables.
	for _, name := range []string{"CIVO_TOKEN", "CIVO_API_URL", "CIVO_REGION", "CIVO_CREDENTIAL_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	b := newBench(t, benchOptions{unconfigured: true})

	if err := b.configure(nil); err == nil || !strings.Contains(err.Error(), "CIVO_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
	token := resource.NewStringProperty(testToken)
	if err := b.configure(resource.PropertyMap{"token": token, "apiEndpoint": resource.NewStringProperty("nowhere")}); err == nil ||
		!strings.Contains(err.Error(), "apiEndpoint") {
		t.Errorf("with a broken endpoint: %v", err)
	}
	unknown := resource.MakeComputed(resource.NewStringProperty(""))
	if err := b.configure(resource.PropertyMap{"token": unknown}); err != nil {
		t.Errorf("a token that is not known yet must do for a preview: %v", err)
	}
	network := b.object(NetworkType, "net")
	if _, err := network.up(context.Background(), map[string]any{"label": "net"}); err == nil || !strings.Contains(err.Error(), "not known yet") {
		t.Errorf("an update without a known token: %v", err)
	}

	endpoint := resource.NewStringProperty(b.url)
	if err := b.configure(resource.PropertyMap{"token": token, "apiEndpoint": endpoint}); err != nil {
		t.Fatal(err)
	}
	if _, err := network.up(context.Background(), map[string]any{"label": "net"}); err == nil || !strings.Contains(err.Error(), "no region") {
		t.Errorf("without a region: %v", err)
	}
	network.must("create", map[string]any{"label": "net", "region": "fra1"})
	if network.value("region") != "FRA1" {
		t.Errorf("region %v", network.value("region"))
	}

	t.Setenv("CIVO_TOKEN", testToken)
	t.Setenv("CIVO_API_URL", b.url)
	t.Setenv("CIVO_REGION", "nyc1")
	if err := b.configure(nil); err != nil {
		t.Fatal(err)
	}
	fromEnv := b.object(NetworkType, "env")
	fromEnv.must("create", map[string]any{"label": "env"})
	if fromEnv.value("region") != "NYC1" {
		t.Errorf("region %v, want the environment's", fromEnv.value("region"))
	}

	if err := b.configure(resource.PropertyMap{"token": resource.NewStringProperty("wrong")}); err != nil {
		t.Fatalf("configure calls nobody: %v", err)
	}
	_, err := fromEnv.refresh(context.Background())
	if err == nil || !strings.Contains(err.Error(), "check the token") || strings.Contains(status.Convert(err).Message(), "wrong") {
		t.Errorf("with a wrong token: %v", err)
	}
}
