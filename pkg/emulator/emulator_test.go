package emulator

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"k8s.io/client-go/tools/clientcmd"
	"pgregory.net/rapid"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		options Options
		valid   bool
	}{
		{"the zero options", Options{}, true},
		{"as slow as the real cloud", Options{TimeScale: 1}, true},
		{"time does not run backwards", Options{TimeScale: -0.1}, false},
		{"not a number", Options{TimeScale: math.NaN()}, false},
		{"nothing would ever be ready", Options{TimeScale: math.Inf(1)}, false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			if err := test.options.Validate(); (err == nil) != test.valid {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, test := range []struct {
		configured, presented string
		want                  bool
	}{
		{"", "", false}, {"", "anything", true}, {"right", "right", true}, {"right", "wrong", false}, {"right", "", false}, {"right", "right ", false},
	} {
		if got := (Options{Token: test.configured}).Accepts(test.presented); got != test.want {
			t.Errorf("token %q against %q: %v", test.presented, test.configured, got)
		}
	}
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc ": "abc", "Basic abc": "", "abc": "", "": "", "Bearer": "",
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("Authorization", header)
		if got := BearerToken(request); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

func TestListenOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1", ""} {
		if server, err := Listen(addr, http.NotFoundHandler()); err == nil {
			t.Errorf("%q was accepted", addr)
			_ = server.Close()
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		server, err := Listen(addr, http.NotFoundHandler())
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		response, err := http.Get(server.URL())
		if err != nil {
			t.Errorf("%q: %v", addr, err)
		} else {
			_ = response.Body.Close()
		}
		for range 2 {
			if err := server.Close(); err != nil {
				t.Errorf("%q: %v", addr, err)
			}
		}
		if connection, err := net.Dial("tcp", server.Addr()); err == nil {
			_ = connection.Close()
			t.Errorf("%q answers after Close", addr)
		}
	}
}

func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	first, err := Listen("127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	if second, err := Listen(first.Addr(), http.NotFoundHandler()); err == nil {
		_ = second.Close()
		t.Errorf("two servers on %s", first.Addr())
	}
}

func TestHandlerHandsTheBodyOn(t *testing.T) {
	t.Parallel()
	var log Log
	handler := Handler(Options{}, &log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		WriteJSON(w, http.StatusCreated, map[string]any{"length": len(body), "failed": err != nil})
	}))
	for _, test := range []struct {
		reason, body, want, logged string
	}{
		{"no body", "", `{"failed":false,"length":0}`, ""},
		{"JSON", `{"a":1}`, `{"failed":false,"length":7}`, `{"a":1}`},
		{"a number keeps its digits", `12345678901234567890`, `{"failed":false,"length":20}`, `12345678901234567890`},
		{"not JSON", `a=b`, `{"failed":false,"length":3}`, `"3 bytes that are not JSON"`},
		{"two documents", `{} {}`, `{"failed":false,"length":5}`, `"5 bytes that are not JSON"`},
		{"more than is read", strings.Repeat(" ", maxBody) + "{}", `{"failed":true,"length":1048576}`, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			log.Reset()
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body)))
			if got := strings.TrimSpace(recorder.Body.String()); got != test.want || recorder.Code != http.StatusCreated {
				t.Errorf("answer %d %s, want %s", recorder.Code, got, test.want)
			}
			if got := log.Requests(); len(got) != 1 || string(got[0].Body) != test.logged || got[0].Status != http.StatusCreated {
				t.Errorf("logged %+v, want %s", got, test.logged)
			}
		})
	}
}

// Wherever a client puts its token, the log does not have it.
func TestHandlerLogsNoToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdefABCDEF"
	var log Log
	var told []Request
	handler := Handler(Options{OnRequest: func(r Request) { told = append(told, r) }}, &log, http.NotFoundHandler())
	for reason, request := range map[string]*http.Request{
		"path":       httptest.NewRequest(http.MethodGet, "/v2/"+token, http.NoBody),
		"query":      httptest.NewRequest(http.MethodGet, "/v2?q="+token, http.NoBody),
		"body":       httptest.NewRequest(http.MethodPost, "/v2", strings.NewReader(`{"a":"`+token+`"}`)),
		"query name": httptest.NewRequest(http.MethodGet, "/v2?"+token+"=1", http.NoBody),
	} {
		log.Reset()
		told = nil
		request.Header.Set("Authorization", "Bearer "+token)
		handler.ServeHTTP(httptest.NewRecorder(), request)
		for _, requests := range [][]Request{log.Requests(), told} {
			text, err := json.Marshal(requests)
			if err != nil || len(requests) != 1 || strings.Contains(string(text), token) {
				t.Errorf("the token in the %s: logged %s, error %v", reason, text, err)
			}
		}
	}
}

func TestHandlerRecordsWhatNoOneWrote(t *testing.T) {
	t.Parallel()
	var log Log
	handler := Handler(Options{}, &log, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if got := log.Requests(); len(got) != 1 || got[0].Status != http.StatusOK {
		t.Errorf("logged %+v", got)
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var log Log
	const count = 3*logCapacity + 7
	for i := range count {
		log.Add(Request{Status: i})
	}
	got := log.Requests()
	if len(got) > logCapacity || got[len(got)-1].Status != count-1 {
		t.Fatalf("%d requests, the last %d", len(got), got[len(got)-1].Status)
	}
	for i := 1; i < len(got); i++ {
		if got[i].Status != got[i-1].Status+1 {
			t.Fatalf("a gap after %d", got[i-1].Status)
		}
	}
}

// No secret survives redaction, wherever in the request it stands, and what is not secret does.
func TestRedaction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[A-Za-z0-9]{20,40}`).Draw(t, "token")
		secret := rapid.StringMatching(`[A-Za-z0-9]{20,40}`).Draw(t, "secret")
		name := rapid.SampledFrom([]string{"token", "api_token", "KubeConfig", "client-key-data", "initial_password", "secretKey", "api_key"}).Draw(t, "name")
		depth := rapid.IntRange(0, 4).Draw(t, "depth")
		var body any = map[string]any{name: map[string]any{"deep": secret}, "kept": "plain", "copy": "x" + token + "y", token: 1}
		for range depth {
			body = []any{map[string]any{"inner": body}, 3.5, nil, true}
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		redact := redactor{token: token}
		logged := string(redact.body(encoded)) + redact.query(url.Values{name: {secret}, "q": {token}}) + redact.text("/"+token)
		if strings.Contains(logged, token) || strings.Contains(logged, secret) {
			t.Fatalf("logged %s", logged)
		}
		if !strings.Contains(logged, `"kept":"plain"`) {
			t.Fatalf("logged %s", logged)
		}
	})
}

func TestReadJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, body string
		want         int
		fails        bool
	}{
		{"a document", `{"n":2,"other":true}`, 2, false},
		{"nothing leaves what is there", "", 1, false},
		{"white space leaves what is there", " \n", 1, false},
		{"the wrong type", `{"n":"2"}`, 0, true},
		{"two documents", `{"n":2}{"n":3}`, 0, true},
		{"no JSON", `n=2`, 0, true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			into := struct{ N int }{N: 1}
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
			// What civogo claims of a body that is not compressed.
			request.Header.Set("Content-Encoding", "gzip")
			err := ReadJSON(request, &into)
			if (err != nil) != test.fails || !test.fails && into.N != test.want {
				t.Errorf("got %d, %v", into.N, err)
			}
		})
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))
	clock := NewClock(0.5, func() time.Time { return now })
	if got := clock.Now(); !got.Equal(now) || got.Location() != time.UTC {
		t.Errorf("now: %v", got)
	}
	due := clock.After(time.Minute)
	if want := now.Add(30 * time.Second); !due.Equal(want) {
		t.Errorf("due %v, want %v", due, want)
	}
	if clock.Reached(due) || !clock.Reached(now) || !clock.Reached(time.Time{}) {
		t.Error("reached before its time, or not in time")
	}
	now = now.Add(30 * time.Second)
	if !clock.Reached(due) {
		t.Error("not reached when due")
	}
	if still := NewClock(0, nil); !still.Reached(still.After(24 * time.Hour)) {
		t.Error("without time nothing takes time")
	}
}

type document struct {
	Items []int     `json:"items"`
	Due   time.Time `json:"due"`
}

func TestStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b", "state.json")
	store, err := OpenStore(path, &document{Items: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the initial state is not kept: %v", err)
	}
	due := NewClock(1, nil).After(time.Hour)
	if err := store.Update(func(d *document) error { d.Items = append(d.Items, 2); d.Due = due; return nil }); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("refused")
	err = store.Update(func(d *document) error { d.Items[0] = 99; d.Items = append(d.Items, 3); return refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want the change's own error", err)
	}
	want := document{Items: []int{1, 2}, Due: due}
	store.View(func(d *document) {
		if diff := cmp.Diff(want, *d); diff != "" {
			t.Errorf("after a refused change (-want +got):\n%s", diff)
		}
	})
	again, err := OpenStore(path, &document{})
	if err != nil {
		t.Fatal(err)
	}
	again.View(func(d *document) {
		if diff := cmp.Diff(want, *d); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o", mode)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files beside the state, %v", len(entries)-1, err)
	}
}

func TestStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	store, err := OpenStore(filepath.Join(folder, "state.json"), &document{Items: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var failed *WriteError
	if err := store.Update(func(d *document) error { d.Items = nil; return nil }); !errors.As(err, &failed) || failed.Unwrap() == nil {
		t.Errorf("got %v, want a *WriteError", err)
	}
	store.View(func(d *document) {
		if len(d.Items) != 1 {
			t.Errorf("a change that was not written is there: %+v", d)
		}
	})
	if _, err := OpenStore(filepath.Join(folder, "state.json"), &document{}); err == nil {
		t.Error("a store that cannot keep its initial state was opened")
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	authority, err := NewAuthority("prod")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := authority.ClientCertificate("admin")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason     string
		kubeconfig Kubeconfig
	}{
		{"a certificate", Kubeconfig{ClientCertificate: certificate, ClientKey: key}},
		{"a token", Kubeconfig{Token: NewToken("dop_v1_", 32)}},
		{"both, and names that YAML has to quote", Kubeconfig{Cluster: "a: b", User: "- c", Context: "#", ClientCertificate: certificate, ClientKey: key, Token: "t"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			kubeconfig := test.kubeconfig
			if kubeconfig.Cluster == "" {
				kubeconfig.Cluster, kubeconfig.User, kubeconfig.Context = "prod", "admin", "prod"
			}
			kubeconfig.Server = "https://198.18.0.1:6443"
			kubeconfig.CertificateAuthority = authority.Certificate
			text, err := kubeconfig.YAML()
			if err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != kubeconfig.Server || string(config.CAData) != string(authority.Certificate) ||
				string(config.CertData) != string(kubeconfig.ClientCertificate) || string(config.KeyData) != string(kubeconfig.ClientKey) || config.BearerToken != kubeconfig.Token {
				t.Errorf("read back: %+v", config)
			}
		})
	}
	if _, _, err := (Authority{}).ClientCertificate("admin"); err == nil {
		t.Error("an authority without a key signed")
	}
}

func TestTokensAndIDsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		seen[NewToken("p", 16)], seen[NewID()] = true, true
	}
	if len(seen) != 200 {
		t.Errorf("%d different values of 200", len(seen))
	}
	if token := NewToken("p", 16); len(token) != 33 || !strings.HasPrefix(token, "p") {
		t.Errorf("token %q", token)
	}
}

func TestWriteJSONRefusesWhatItCannotEncode(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	WriteJSON(httptest.NewRecorder(), http.StatusOK, map[string]any{"function": fmt.Sprint, "channel": make(chan int)})
}
