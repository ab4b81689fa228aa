package emulator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
)

func TestEffects(t *testing.T) {
	t.Parallel()
	if got := EffectsOf(context.Background()); got != (Effects{}) {
		t.Errorf("effects of a request that has none: %+v", got)
	}
	want := Effects{Stuck: time.Second, Unseen: Forever, Linger: time.Minute}
	if got := EffectsOf(WithEffects(context.Background(), want)); got != want {
		t.Errorf("effects %+v, want %+v", got, want)
	}
}

// A client that sees its connection reset finds its request in the log.
func TestDropConnection(t *testing.T) {
	t.Parallel()
	var log Log
	server, err := Listen("127.0.0.1:0", Handler(Options{
		Intercept: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { DropConnection(r) },
		OnRequest: func(Request) { time.Sleep(20 * time.Millisecond) },
	}, &log, http.NotFoundHandler()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	response, err := http.Post(server.URL(), "application/json", strings.NewReader("{}"))
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a connection that is reset", err)
	}
	if requests := log.Requests(); len(requests) != 1 || requests[0].Status != 0 {
		t.Errorf("the log has %+v", requests)
	}
}

// Where there is no connection to be had, dropping it is the panic that net/http knows.
func TestDropConnectionWithoutOne(t *testing.T) {
	t.Parallel()
	var log Log
	drop := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { DropConnection(r) }
	for reason, handler := range map[string]http.Handler{
		"no connection":      Handler(Options{Intercept: drop}, &log, http.NotFoundHandler()),
		"not behind Handler": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { drop(w, r, nil) }),
	} {
		func() {
			defer func() {
				if recovered := recover(); recovered != any(http.ErrAbortHandler) {
					t.Errorf("%s: recovered %v", reason, recovered)
				}
			}()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}()
	}
	if len(log.Requests()) != 1 {
		t.Errorf("the log has %v", log.Requests())
	}
}

func TestGatewayError(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	WriteGatewayError(recorder, http.StatusBadGateway)
	if body := recorder.Body.String(); recorder.Code != http.StatusBadGateway || !strings.Contains(body, "<h1>502 Bad Gateway</h1>") {
		t.Errorf("%d %s", recorder.Code, body)
	}
}
