package events

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Defaults of WebhookOptions.
const (
	DefaultAttempts = 12
	DefaultBackoff  = time.Second
	DefaultTimeout  = 10 * time.Second
)

// CloudEvents attributes of the events that are sent: the type is TypePrefix and that of the event.
const (
	TypePrefix   = "org.project-planton."
	EventsSource = "/api/v1/events"
)

// WebhookOptions say how events are delivered. The zero value is good.
type WebhookOptions struct {
	// AllowHTTP lets URLs be http too.
	AllowHTTP bool
	// AllowPrivate lets webhooks be at addresses that are not public. Whoever may make a webhook then reaches the operator's network.
	AllowPrivate bool
	// Attempts is how often a delivery is tried before it is given up.
	Attempts int
	// Backoff is the pause after the first attempt; each further one is twice as long, up to five minutes.
	Backoff time.Duration
	// Timeout is how long an attempt may take.
	Timeout time.Duration
	// Refresh is how often the list of webhooks is read; 0 means every two seconds.
	Refresh time.Duration
	// Logger gets what goes wrong; nil is slog.Default().
	Logger *slog.Logger
}

// WebhookStore is where webhooks and events are kept; a store.Store is one.
type WebhookStore interface {
	Source
	Webhooks(ctx context.Context) ([]store.Webhook, error)
	Write(ctx context.Context, function func(tx store.Tx) error) error
	Acquire(ctx context.Context, key store.Key, holder string, ttl time.Duration) (int64, bool, error)
	Renew(ctx context.Context, key store.Key, token int64, ttl time.Duration) (bool, error)
	Release(ctx context.Context, key store.Key, token int64) error
}

// Deliverer sends events to webhooks: each webhook gets its events in their order, each one at least once, or not at all after it was
// given up. Any number of processes on the same store share the webhooks.
type Deliverer struct {
	store   WebhookStore
	hub     *Hub
	open    func(webhook store.Webhook) (secret string, err error)
	options WebhookOptions
	client  *http.Client
	holder  string
}

// NewDeliverer returns a deliverer. Open opens the sealed secret of a webhook.
func NewDeliverer(from WebhookStore, open func(store.Webhook) (string, error), options WebhookOptions) *Deliverer {
	if options.Attempts == 0 {
		options.Attempts = DefaultAttempts
	}
	if options.Backoff == 0 {
		options.Backoff = DefaultBackoff
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.Refresh == 0 {
		options.Refresh = 2 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	return &Deliverer{store: from, hub: NewHub(from), open: open, options: options, client: newClient(options), holder: uuid.NewString()}
}

// leaseTime is how long a process that is gone keeps others from delivering to its webhooks.
const leaseTime = 30 * time.Second

// Run delivers until the context ends, and returns when no delivery is under way any more.
func (d *Deliverer) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[string]context.CancelFunc{}
	ended := make(chan string)
	refresh := time.NewTicker(d.options.Refresh)
	defer refresh.Stop()
	for {
		webhooks, err := d.store.Webhooks(ctx)
		if err != nil && ctx.Err() == nil {
			d.options.Logger.LogAttrs(ctx, slog.LevelError, "read webhooks", slog.String("error", err.Error()))
		}
		if err == nil {
			for id, stop := range running {
				if !slices.ContainsFunc(webhooks, func(one store.Webhook) bool { return one.ID == id }) {
					stop()
				}
			}
			for _, webhook := range webhooks {
				if running[webhook.ID] != nil {
					continue
				}
				inner, stop := context.WithCancel(ctx)
				running[webhook.ID] = stop
				group.Go(func() {
					defer stop()
					d.serve(inner, webhook)
					select {
					case ended <- webhook.ID:
					case <-ctx.Done():
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case id := <-ended:
			delete(running, id)
			// Not at once again: it ended because another process serves it, or because something failed.
			select {
			case <-ctx.Done():
				return
			case <-refresh.C:
			}
		case <-refresh.C:
		}
	}
}

// serve delivers to one webhook while this process has its lease.
func (d *Deliverer) serve(ctx context.Context, webhook store.Webhook) {
	key := store.Key{Kind: "webhook", ID: webhook.ID}
	token, ok, err := d.store.Acquire(ctx, key, d.holder, leaseTime)
	if err != nil || !ok {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	defer func() {
		stop()
		renewing.Wait()
		_ = d.store.Release(context.WithoutCancel(ctx), key, token)
	}()
	renewing.Go(func() {
		tick := time.NewTicker(leaseTime / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if held, err := d.store.Renew(ctx, key, token, leaseTime); err != nil || !held {
					stop()
					return
				}
			}
		}
	})
	// The list may be older than what another process has delivered before it gave the lease up.
	if webhook, ok = d.reread(ctx, webhook.ID); !ok {
		return
	}
	if err := d.follow(ctx, webhook); err != nil && ctx.Err() == nil {
		d.options.Logger.LogAttrs(ctx, slog.LevelError, "serve a webhook", slog.String("webhook", webhook.ID), slog.String("error", err.Error()))
	}
}

func (d *Deliverer) reread(ctx context.Context, id string) (store.Webhook, bool) {
	webhooks, err := d.store.Webhooks(ctx)
	if err != nil {
		return store.Webhook{}, false
	}
	at := slices.IndexFunc(webhooks, func(one store.Webhook) bool { return one.ID == id })
	if at < 0 {
		return store.Webhook{}, false
	}
	return webhooks[at], true
}

// follow delivers events as they happen.
func (d *Deliverer) follow(ctx context.Context, webhook store.Webhook) error {
	saved := webhook.Delivered
	for {
		err := d.hub.Watch(ctx, webhook.Delivered, func(found []*Entry) error {
			for _, entry := range found {
				if matches(webhook, entry.Event) {
					if err := d.deliver(ctx, &webhook, entry); err != nil {
						return err
					}
				} else if entry.Revision-saved < kept {
					if entry.Last {
						webhook.Delivered = entry.Revision
					}
					continue
				}
				if entry.Last {
					webhook.Delivered, saved = entry.Revision, entry.Revision
					if err := d.save(ctx, webhook); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if !errors.Is(err, store.ErrExpired) {
			return err
		}
		revision, err := d.store.Revision(ctx)
		if err != nil {
			return err
		}
		webhook.LastError = fmt.Sprintf("the events of revisions %d to %d were no longer kept, and were not delivered", webhook.Delivered+1, revision)
		webhook.Delivered = revision
		if err := d.save(ctx, webhook); err != nil {
			return err
		}
	}
}

// matches says whether a webhook wants an event, and may see it.
func matches(webhook store.Webhook, event store.Event) bool {
	return (webhook.All || event.Owner == webhook.Owner) && (len(webhook.Types) == 0 || slices.Contains(webhook.Types, event.Type))
}

// deliver sends an event, again and again, until the receiver takes it or it is given up.
func (d *Deliverer) deliver(ctx context.Context, webhook *store.Webhook, entry *Entry) error {
	id := strconv.FormatInt(entry.Revision, 10) + "-" + entry.Object.ID + "-" + entry.Type
	body, err := cloudEvent(id, entry)
	if err != nil {
		return err
	}
	secret, err := d.open(*webhook)
	if err != nil {
		return errors.Wrap(err, "open the secret of a webhook")
	}
	pause := d.options.Backoff
	for attempt := 1; ; attempt++ {
		err := d.send(ctx, webhook.URL, id, secret, body)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			webhook.LastError = ""
			return nil
		}
		problem := fmt.Sprintf("event %s, attempt %d of %d: %s", id, attempt, d.options.Attempts, err)
		if attempt >= d.options.Attempts {
			webhook.LastError = "gave up " + problem
			d.options.Logger.LogAttrs(ctx, slog.LevelWarn, "gave up an event for a webhook", slog.String("webhook", webhook.ID), slog.String("event", id))
			return nil
		}
		webhook.LastError = problem
		if err := d.save(ctx, *webhook); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Minute)
	}
}

// cloudEvent is an event in the structured mode of CloudEvents.
func cloudEvent(id string, entry *Entry) ([]byte, error) {
	data, err := entry.JSON()
	if err != nil {
		return nil, err
	}
	message := event.New()
	message.SetID(id)
	message.SetSource(EventsSource)
	message.SetType(TypePrefix + entry.Type)
	message.SetSubject(entry.Object.ID)
	message.SetTime(entry.Time)
	if err := message.SetData(event.ApplicationJSON, json.RawMessage(data)); err != nil {
		return nil, errors.Wrap(err, "make a CloudEvent")
	}
	body, err := json.Marshal(message)
	return body, errors.Wrap(err, "write a CloudEvent")
}

// send makes one attempt. Errors tell no more of the receiver than its status: who made the webhook must not read answers through it.
func (d *Deliverer) send(ctx context.Context, url, id, secret string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", event.ApplicationCloudEventsJSON+"; charset=utf-8")
	request.Header.Set("User-Agent", "project-planton-nodepools")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", timestamp)
	request.Header.Set("Webhook-Signature", Sign(secret, id, timestamp, body))
	response, err := d.client.Do(request)
	if err != nil {
		var refused *addressError
		switch {
		case errors.As(err, &refused):
			return refused
		case errors.Is(err, context.DeadlineExceeded):
			return errors.New("no answer in time")
		}
		return errors.New("no connection")
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
		_ = response.Body.Close()
	}()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return errors.Errorf("the answer is %d", response.StatusCode)
	}
	return nil
}

// Sign makes the value of the header Webhook-Signature: HMAC-SHA256 of id, timestamp and body, as Standard Webhooks have it
// (https://www.standardwebhooks.com). A secret that begins with whsec_ is base64, any other one is taken as it is.
func Sign(secret, id, timestamp string, body []byte) string {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(id + "." + timestamp + "."))
	hash.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(hash.Sum(nil))
}

// save keeps how far a webhook is. A webhook that was removed meanwhile stays removed.
func (d *Deliverer) save(ctx context.Context, webhook store.Webhook) error {
	return d.store.Write(ctx, func(tx store.Tx) error {
		if err := tx.DeleteWebhook(webhook.ID); err != nil {
			return err
		}
		return tx.PutWebhook(webhook)
	})
}
