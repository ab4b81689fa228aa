package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// receiver is where a webhook's events go.
type receiver struct {
	*httptest.Server
	t      *testing.T
	mutex  sync.Mutex
	answer func(attempt int) int
	tries  int
	got    []event.Event
	came   chan struct{}
}

func newReceiver(t *testing.T, answer func(attempt int) int) *receiver {
	result := &receiver{t: t, answer: answer, came: make(chan struct{}, 1000)}
	result.Server = httptest.NewServer(http.HandlerFunc(result.serve))
	t.Cleanup(result.Close)
	return result
}

func (r *receiver) serve(response http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		r.t.Error(err)
	}
	want := events.Sign("0123456789abcdef", request.Header.Get("Webhook-Id"), request.Header.Get("Webhook-Timestamp"), body)
	if request.Header.Get("Webhook-Signature") != want || !strings.HasPrefix(want, "v1,") {
		r.t.Errorf("the signature is %q, want %q", request.Header.Get("Webhook-Signature"), want)
	}
	if got := request.Header.Get("Content-Type"); got != "application/cloudevents+json; charset=utf-8" {
		r.t.Errorf("the content type is %q", got)
	}
	r.tries++
	code := r.answer(r.tries)
	if code >= 300 && code < 400 {
		response.Header().Set("Location", r.URL+"/elsewhere")
	}
	if code == 200 {
		var one event.Event
		if err := json.Unmarshal(body, &one); err != nil {
			r.t.Errorf("%s: %v", body, err)
		}
		if one.ID() != request.Header.Get("Webhook-Id") || one.Validate() != nil {
			r.t.Errorf("the event is %s", body)
		}
		r.got = append(r.got, one)
	}
	response.WriteHeader(code)
	r.came <- struct{}{}
}

// wait waits for so many requests.
func (r *receiver) wait(requests int) {
	r.t.Helper()
	for range requests {
		select {
		case <-r.came:
		case <-time.After(30 * time.Second):
			r.t.Fatal("no event came")
		}
	}
}

func open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "nodepools.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func write(t *testing.T, db *store.DB, function func(tx store.Tx) error) {
	t.Helper()
	if err := db.Write(t.Context(), function); err != nil {
		t.Fatal(err)
	}
}

func happen(t *testing.T, db *store.DB, owner, kind string) {
	t.Helper()
	write(t, db, func(tx store.Tx) error {
		return tx.Event(store.Event{Type: kind, Object: store.Key{Kind: store.NodePool, ID: "p"}, Owner: owner, Platform: "gcp", Document: []byte(`{"id":"p"}`)})
	})
}

func hook(t *testing.T, db *store.DB, url string) {
	t.Helper()
	write(t, db, func(tx store.Tx) error {
		return tx.PutWebhook(store.Webhook{ID: "w", URL: url, Owner: "alice", Types: []string{"nodepool.created", "nodepool.deleted"}, Secret: []byte("sealed"), Delivered: tx.Revision()})
	})
}

// run delivers until the returned function is called.
func run(t *testing.T, db *store.DB, options events.WebhookOptions) (stop func()) {
	t.Helper()
	options.Backoff, options.Logger = time.Millisecond, slog.New(slog.DiscardHandler)
	if options.Refresh == 0 {
		options.Refresh = time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	deliverer := events.NewDeliverer(db, func(webhook store.Webhook) (string, error) {
		if string(webhook.Secret) != "sealed" {
			return "", fmt.Errorf("the secret is %q", webhook.Secret)
		}
		return "0123456789abcdef", nil
	}, options)
	go func() {
		defer close(done)
		deliverer.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// lastError waits until the webhook tells what a test looks for.
func lastError(t *testing.T, db *store.DB, want func(webhook store.Webhook) bool) store.Webhook {
	t.Helper()
	for range 3000 {
		list, err := db.Webhooks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && want(list[0]) {
			return list[0]
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the webhook does not tell what it should")
	return store.Webhook{}
}

var private = events.WebhookOptions{AllowHTTP: true, AllowPrivate: true}

func TestWebhookDelivery(t *testing.T) {
	t.Parallel()
	db := open(t)
	happen(t, db, "alice", "nodepool.created")
	to := newReceiver(t, func(attempt int) int {
		if attempt == 2 || attempt == 3 {
			return 503
		}
		return 200
	})
	hook(t, db, to.URL)
	stop := run(t, db, private)
	happen(t, db, "alice", "nodepool.created")
	happen(t, db, "bob", "nodepool.created")
	happen(t, db, "alice", "nodepool.updated")
	happen(t, db, "alice", "nodepool.deleted")
	to.wait(4)
	newest, err := db.Events(t.Context(), store.EventQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	lastError(t, db, func(webhook store.Webhook) bool {
		return webhook.LastError == "" && webhook.Delivered == newest[0].Revision
	})
	stop()
	// What happens while nobody delivers comes later; what was delivered does not come again.
	happen(t, db, "alice", "nodepool.deleted")
	run(t, db, private)
	to.wait(1)
	var kinds []string
	for _, one := range to.got {
		kinds = append(kinds, one.Type())
	}
	if got, want := strings.Join(kinds, " "), "org.project-planton.nodepool.created org.project-planton.nodepool.deleted org.project-planton.nodepool.deleted"; got != want {
		t.Errorf("the events are %s, want %s", got, want)
	}
	if data := string(to.got[0].Data()); !strings.Contains(data, `"nodepool":{"id":"p"}`) || to.got[0].Subject() != "p" {
		t.Errorf("the event is %s", to.got[0])
	}
}

func TestWebhookGivesUp(t *testing.T) {
	t.Parallel()
	for _, code := range []int{500, 404, 302} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			db := open(t)
			to := newReceiver(t, func(attempt int) int {
				if attempt <= 3 {
					return code
				}
				return 200
			})
			hook(t, db, to.URL)
			options := private
			options.Attempts = 3
			run(t, db, options)
			happen(t, db, "alice", "nodepool.created")
			to.wait(3)
			given := lastError(t, db, func(webhook store.Webhook) bool { return strings.HasPrefix(webhook.LastError, "gave up") })
			if !strings.Contains(given.LastError, fmt.Sprintf("attempt 3 of 3: the answer is %d", code)) {
				t.Errorf("the last error is %q", given.LastError)
			}
			happen(t, db, "alice", "nodepool.deleted")
			to.wait(1)
			lastError(t, db, func(webhook store.Webhook) bool { return webhook.LastError == "" })
		})
	}
}

// TestWebhookToPrivateAddress checks that the address is looked at where it is connected to: the URL may name a host.
func TestWebhookToPrivateAddress(t *testing.T) {
	t.Parallel()
	db := open(t)
	to := newReceiver(t, func(int) int { return 200 })
	hook(t, db, strings.Replace(to.URL, "127.0.0.1", "localhost", 1))
	run(t, db, events.WebhookOptions{AllowHTTP: true, Attempts: 1})
	happen(t, db, "alice", "nodepool.created")
	given := lastError(t, db, func(webhook store.Webhook) bool { return webhook.LastError != "" })
	if !strings.Contains(given.LastError, "not public") || to.tries != 0 {
		t.Errorf("%d requests came, and the last error is %q", to.tries, given.LastError)
	}
}

// TestRemovedWebhook checks that a webhook that is removed while it is served stays removed.
func TestRemovedWebhook(t *testing.T) {
	t.Parallel()
	db := open(t)
	entered, remove := make(chan struct{}), make(chan struct{})
	to := newReceiver(t, func(int) int {
		close(entered)
		<-remove
		return 200
	})
	hook(t, db, to.URL)
	happen(t, db, "alice", "nodepool.created")
	options := private
	options.Refresh = time.Hour
	run(t, db, options)
	<-entered
	write(t, db, func(tx store.Tx) error { return tx.DeleteWebhook("w") })
	close(remove)
	// The delivery has ended when its lease is free.
	for range 3000 {
		if list, err := db.Webhooks(t.Context()); err != nil || len(list) != 0 {
			t.Fatalf("the webhooks are %v (%v)", list, err)
		}
		if _, free, err := db.Acquire(t.Context(), store.Key{Kind: "webhook", ID: "w"}, "test", time.Minute); err != nil || free {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the delivery does not end")
}

// TestOneDeliverer checks that two processes on one store share the webhooks: nothing comes twice.
func TestOneDeliverer(t *testing.T) {
	t.Parallel()
	db := open(t)
	to := newReceiver(t, func(int) int { return 200 })
	hook(t, db, to.URL)
	run(t, db, private)
	run(t, db, private)
	for range 20 {
		happen(t, db, "alice", "nodepool.created")
	}
	to.wait(20)
	lastError(t, db, func(webhook store.Webhook) bool { return webhook.Delivered >= 21 })
	if to.tries != 20 {
		t.Errorf("20 events made %d requests", to.tries)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://example.com/events":      true,
		"https://example.com:8443/?a=b":   true,
		"https://93.184.216.34/":          true,
		"https://[2606:2800:220:1::1]/":   true,
		"http://example.com/":             false,
		"ftp://example.com/":              false,
		"https://":                        false,
		"https:///x":                      false,
		"https://user:secret@example.com": false,
		"https://example.com/#x":          false,
		"https://127.0.0.1/":              false,
		"https://10.1.2.3/":               false,
		"https://169.254.169.254/latest":  false,
		"https://100.64.1.1/":             false,
		"https://0.0.0.0/":                false,
		"https://224.0.0.1/":              false,
		"https://255.255.255.255/":        false,
		"https://[::1]/":                  false,
		"https://[::]/":                   false,
		"https://[fe80::1]/":              false,
		"https://[fd00::1]/":              false,
		"https://[::ffff:127.0.0.1]/":     false,
		"https://[64:ff9b::7f00:1]/":      false,
		"https://[2002:7f00:1::]/":        false,
		"":                                false,
	} {
		if err := events.CheckURL(url, events.WebhookOptions{}); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestSign checks the example of the specification of Standard Webhooks.
func TestSign(t *testing.T) {
	t.Parallel()
	got := events.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}
