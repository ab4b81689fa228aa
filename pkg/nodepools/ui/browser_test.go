package ui_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/ui"
)

// backend is the service, at an address of its own for the browser, which it can lose and get back.
type backend struct {
	t       *testing.T
	db      *store.DB
	address string
	api     *server.Server
	http    *http.Server
	direct  *httptest.Server // for the test, which always reaches the service
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "nodepools.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{t: t, db: db, address: "127.0.0.1:0"}
	t.Cleanup(func() { _ = db.Close() })
	b.start()
	t.Cleanup(b.stop)
	b.direct = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.api.ServeHTTP(w, r) }))
	t.Cleanup(b.direct.Close)
	return b
}

func (b *backend) start() {
	b.t.Helper()
	core, err := service.New(service.Options{Store: b.db})
	if err != nil {
		b.t.Fatal(err)
	}
	roles := auth.Roles{{Subject: "gcp@controllers.example.com", Role: auth.ControllerRole}, {Subject: "*", Role: auth.Editor}}
	if b.api, err = server.New(server.Options{
		Service: core, Ready: b.db.Ping, Authenticator: auth.Header(roles, auth.LoopbackPeer), Page: ui.Handler(),
	}); err != nil {
		b.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(b.t.Context(), "tcp", b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.address, b.http = listener.Addr().String(), b.api.HTTPServer()
	serving := b.http
	go func() { _ = serving.Serve(listener) }()
}

// stop ends the listener and its connections, as the end of the process does.
func (b *backend) stop() {
	b.api.EndStreams()
	_ = b.http.Close()
}

// do asks the service as somebody, and fails unless it succeeds.
func (b *backend) do(who, method, path, body string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.direct.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("X-User-Email", who)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		b.t.Fatalf("%s %s was answered with %d: %s (%v)", method, path, response.StatusCode, text, err)
	}
}

// report is a controller's about a pool, at its first generation.
func (b *backend) report(path, ready, reason, message string, nodes int) {
	b.t.Helper()
	b.do("gcp@controllers.example.com", http.MethodPut, path+"/status", fmt.Sprintf(`{"controller_name": "gcp-controller", "observed_generation": 1,
		"conditions": [{"type": "Ready", "status": %q, "reason": %q, "message": %q}],
		"metadata": {"desired_nodes": 3, "active_nodes": %d, "ready_nodes": %d}}`, ready, reason, message, nodes, nodes))
}

// browser is a tab of a real browser.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// newBrowser starts a browser that keeps to this machine. Without one, the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("the page is not tried in a browser: there is no chromium or google-chrome on PATH")
	}
	profile := t.TempDir()
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options,
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true),
		// A name is never asked for: what is not at the loopback address cannot be reached.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Env("HOME="+profile), chromedp.WSURLReadTimeout(time.Minute), chromedp.WindowSize(1280, 800),
	)
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	bounded, expire := context.WithTimeout(allocator, 4*time.Minute)
	t.Cleanup(expire)
	ctx, closeTab := chromedp.NewContext(bounded, chromedp.WithErrorf(t.Logf))
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			b.picture("failed")
		}
		_ = chromedp.Cancel(ctx)
		closeTab()
	})
	// The first action starts the browser, which lives as long as the context of that action.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate is the value of an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true in the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); !evaluate[bool](b, "Boolean("+expression+")"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("in a minute the page did not come to this: %s; it says:\n%s", expression, evaluate[string](b, `document.body.innerText`))
		}
	}
}

// picture keeps what the page looks like with the artifacts of the test: go test -artifacts.
func (b *browser) picture(name string) {
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Logf("no picture of the page: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		b.t.Log(err)
	}
}

func (b *browser) signIn(email string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible("#sign-in[open] #email"), chromedp.SendKeys("#email", email), chromedp.Click("#enter"))
}

const (
	clusterID = "550e8400-e29b-41d4-a716-446655440000"
	poolID    = "123e4567-e89b-12d3-a456-426614174000"
	clusters  = "/api/v1/clusters"
	pools     = "/api/v1/nodepools"

	cluster = `{"id": "` + clusterID + `", "name": "production", "spec": {"platform": {"type": "gcp", "gcp": {"region": "us-central1"}}}}`
	pool    = `{"id": "` + poolID + `", "name": "production-workers", "cluster_id": "` + clusterID + `",
		"spec": {"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "zones": ["us-central1-a"]}}, "nodeCount": 3}}`
	user = "user@example.com"
)

// cell is the text of a cell in the row of an object.
func cell(id, class string) string {
	return fmt.Sprintf(`document.querySelector("#object-%s .%s")?.textContent`, id, class)
}

// TestInABrowser: the page shows what happens while it happens, without being loaded anew.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	b, page := newBackend(t), newBrowser(t)
	page.do(chromedp.Navigate("http://" + b.address + "/"))

	// Nobody is told anything; then it is known who asks.
	page.signIn(user)
	page.until(`document.querySelector("#connection").textContent === "live"`)
	page.until(`!document.querySelector("#empty").hidden`)
	page.do(chromedp.Evaluate[chromedp.Void](`window.stays = true`))

	// What is made appears.
	b.do(user, http.MethodPost, clusters, cluster)
	b.do(user, http.MethodPost, pools, pool)
	page.until(cell(clusterID, "name") + ` === "production"`)
	page.until(cell(poolID, "name") + ` === "production-workers"`)
	page.until(cell(poolID, "phase") + ` === "Pending"`)
	if !evaluate[bool](page, `document.querySelector("#object-`+clusterID+`").nextElementSibling.id === "object-`+poolID+`"`) {
		t.Error("the pool does not stand below its cluster")
	}

	// What a controller says appears, in the row and in the details that are open.
	page.do(chromedp.Click("#object-" + poolID + " button"))
	page.until(`document.querySelector("#details").checkVisibility() && document.querySelector("#title").textContent === "production-workers"`)
	page.until(`document.activeElement.id === "title"`)
	page.until(`document.querySelector("#events").textContent.includes("created")`)
	const markup = `<img src=x onerror="window.harmed=true"><b>bold</b>`
	b.report(pools+"/"+poolID, "False", "Creating", "1 of 3 nodes "+markup, 1)
	page.until(cell(poolID, "phase") + ` === "Progressing"`)
	page.until(cell(poolID, "nodes") + ` === "1/3"`)
	page.until(`document.querySelector("#conditions").textContent.includes("Ready: False")`)
	page.until(`document.querySelector("#conditions").textContent.includes("gcp-controller: 1 of 3 nodes <img src=x")`)
	if evaluate[bool](page, `document.querySelector("main img, main b") !== null || window.harmed === true`) {
		t.Error("a message was taken for HTML")
	}
	page.picture("details")
	b.report(pools+"/"+poolID, "True", "AllReady", "all nodes are there", 3)
	page.until(cell(poolID, "phase") + ` === "Ready"`)
	page.until(cell(poolID, "nodes") + ` === "3/3"`)
	page.until(`document.querySelector("#events li").textContent.includes("status")`)

	// The filter keeps clusters whose pools it keeps.
	page.do(chromedp.SendKeys("#filter", "workers"))
	page.until(`document.querySelectorAll("#rows tr").length === 2`)
	page.do(chromedp.SendKeys("#filter", "x"))
	page.until(`document.querySelectorAll("#rows tr").length === 0 && !document.querySelector("#none").hidden`)
	page.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#filter").value = ""; document.querySelector("#filter").dispatchEvent(new Event("input"))`))

	// The service goes away and comes back; what happened in between is not missed.
	b.stop()
	page.until(`document.querySelector("#connection").textContent === "reconnecting"`)
	if !evaluate[bool](page, cell(poolID, "phase")+` === "Ready"`) {
		t.Error("what was known is not shown any more: a read that fails is taken for an answer")
	}
	b.report(pools+"/"+poolID, "False", "NodeLost", "a node is gone", 2)
	b.start()
	page.until(`document.querySelector("#connection").textContent === "live"`)
	page.until(cell(poolID, "nodes") + ` === "2/3"`)

	// What is gone leaves the list, and its details with it.
	b.do(user, http.MethodDelete, pools+"/"+poolID, "")
	page.until(cell(poolID, "phase") + ` === "Deleting"`)
	b.do("gcp@controllers.example.com", http.MethodPut, pools+"/"+poolID+"/status",
		`{"controller_name": "gcp-controller", "observed_generation": 1, "conditions": [{"type": "Deleted", "status": "True"}]}`)
	page.until(`document.querySelector("#object-` + poolID + `") === null && document.querySelector("#details").hidden`)
	page.until(cell(clusterID, "name") + ` === "production"`)
	if !evaluate[bool](page, `window.stays === true`) {
		t.Error("the page was loaded anew")
	}
}

// Each text that is seen, with the contrast between it and what it stands on, as WCAG 2 counts it.
const contrasts = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
	const luminance = (color) => {
		const [r, g, b] = [...rgba(color)].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgba(c)[3] === 255) return c; } return "white"; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
		const [a, b] = [luminance(getComputedStyle(e).color), luminance(back(e))].sort((a, b) => b - a);
		if ((a + .05) / (b + .05) < 4.5) bad.push(e.tagName + "." + e.className + " " + e.textContent.slice(0, 40) + ": " + ((a + .05) / (b + .05)).toFixed(1));
	}
	return bad.join("\n");
})()`

// What has no name for who does not see it.
const nameless = `[...document.querySelectorAll("input, button, a, table, aside, dialog")].filter((e) => e.checkVisibility() && e.tagName !== "TABLE" &&
	!(e.ariaLabel || e.getAttribute("aria-labelledby") || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML).join("\n")`

// TestEveryoneCanReadIt: on a telephone and on a desk, by day and by night, nothing is cut off, and every text stands out.
func TestEveryoneCanReadIt(t *testing.T) {
	t.Parallel()
	b, page := newBackend(t), newBrowser(t)
	b.do(user, http.MethodPost, clusters, cluster)
	b.do(user, http.MethodPost, pools, pool)
	b.report(pools+"/"+poolID, "False", "Creating", strings.Repeat("a long message about one of three nodes, ", 5)+strings.Repeat("unbroken", 20), 1)
	for i, state := range []struct{ ready, reason, message string }{
		{"True", "AllReady", "all nodes are ready"}, {"", "", ""},
	} {
		id := fmt.Sprintf("123e4567-e89b-12d3-a456-42661417400%d", i+1)
		b.do(user, http.MethodPost, pools, strings.NewReplacer(poolID, id, "production-workers", fmt.Sprintf("pool-%d-%s", i, strings.Repeat("x", 40))).Replace(pool))
		if state.ready != "" {
			b.report(pools+"/"+id, state.ready, state.reason, state.message, 3)
		}
	}
	check := func(where string) {
		t.Helper()
		page.picture(where)
		if wide, seen := evaluate[int](page, `document.documentElement.scrollWidth`), evaluate[int](page, `innerWidth`); wide > seen {
			t.Errorf("%s: the page is %d wide, of which %d are seen", where, wide, seen)
		}
		if narrow := evaluate[string](page, `[...document.querySelectorAll("#rows .name")].filter((e) => e.checkVisibility() && e.clientWidth < 120).map((e) => e.textContent).join()`); narrow != "" {
			t.Errorf("%s: there is no room for the names %s", where, narrow)
		}
		if low := evaluate[string](page, contrasts); low != "" {
			t.Errorf("%s: too little contrast:\n%s", where, low)
		}
		if without := evaluate[string](page, nameless); without != "" {
			t.Errorf("%s: nothing says what these are:\n%s", where, without)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		if _, err := chromedp.Call(page.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{360, 1280} {
			page.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("http://"+b.address+"/"), chromedp.Evaluate[chromedp.Void](`sessionStorage.clear()`), chromedp.Reload())
			at := fmt.Sprintf("%s-%d-", scheme, width)
			page.do(chromedp.WaitVisible("#sign-in[open] #email"))
			check(at + "sign-in")
			page.signIn(user)
			page.until(`document.querySelectorAll("#rows tr").length === 4 && document.querySelector("#connection").textContent === "live"`)
			check(at + "list")
			page.do(chromedp.Click("#object-" + poolID + " button"))
			page.until(`document.querySelectorAll("#events li").length > 0`)
			check(at + "details")
			page.do(chromedp.KeyEvent("\x1b"))
			page.until(`document.querySelector("#details").hidden && document.activeElement.closest("tr")?.id === "object-` + poolID + `"`)
		}
	}
}
