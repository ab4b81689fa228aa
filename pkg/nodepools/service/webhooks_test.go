package service_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

func TestWebhooks(t *testing.T) {
	t.Parallel()
	const secret = "a secret of sixteen"
	came := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || request.Header.Get("Webhook-Signature") != events.Sign(secret, request.Header.Get("Webhook-Id"), request.Header.Get("Webhook-Timestamp"), body) {
			t.Errorf("the signature is wrong (%v)", err)
		}
		came <- string(body)
	}))
	defer receiver.Close()
	b := newBench(t, func(options *service.Options) {
		options.Webhooks = events.WebhookOptions{AllowHTTP: true, AllowPrivate: true, Refresh: time.Millisecond}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	webhook := must[*nodepoolsv1.Webhook](t, "create a webhook")(b.CreateWebhook(b.as(alice), &nodepoolsv1.CreateWebhookRequest{Webhook: &nodepoolsv1.Webhook{
		Url: receiver.URL, Secret: secret, Types: []string{"nodepool.created"},
	}}))
	if webhook.GetSecret() != "(redacted)" || webhook.GetCreatedBy() != alice.Name {
		t.Errorf("the webhook is %v", webhook)
	}
	b.pool(bob, b.cluster(bob, "production", "gcp").GetId(), "not-seen")
	b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	if got := <-came; !strings.Contains(got, `"name":"workers"`) || !strings.Contains(got, "nodepool.created") {
		t.Errorf("the event is %s", got)
	}
	cancel()
	<-done

	kept, err := b.store.Webhooks(t.Context())
	if err != nil || len(kept) != 1 || strings.Contains(string(kept[0].Secret), secret) {
		t.Errorf("the store keeps %v (%v)", kept, err)
	}
	for who, want := range map[string]int{alice.Name: 1, bob.Name: 0, root.Name: 1} {
		identity := alice
		switch who {
		case bob.Name:
			identity = bob
		case root.Name:
			identity = root
		}
		list := must[*nodepoolsv1.ListWebhooksResponse](t, "list webhooks")(b.ListWebhooks(b.as(identity), &nodepoolsv1.ListWebhooksRequest{}))
		if len(list.GetWebhooks()) != want {
			t.Errorf("%s sees %v", who, list)
		}
	}
	for name, bad := range map[string]*nodepoolsv1.Webhook{
		"no URL":        {Secret: secret},
		"no secret":     {Url: "https://example.com/"},
		"short secret":  {Url: "https://example.com/", Secret: "short"},
		"other scheme":  {Url: "ftp://example.com/", Secret: secret},
		"unknown event": {Url: "https://example.com/", Secret: secret, Types: []string{"nodepool.exploded"}},
	} {
		_, err := b.CreateWebhook(b.as(alice), &nodepoolsv1.CreateWebhookRequest{Webhook: bad})
		refused(t, name, err, "VALIDATION_ERROR")
		if strings.Contains(err.Error()+details(err), secret) {
			t.Errorf("%s: the error shows the secret", name)
		}
	}
	_, err = b.DeleteWebhook(b.as(bob), &nodepoolsv1.DeleteWebhookRequest{Id: webhook.GetId()})
	refused(t, "remove another's webhook", err, "NOT_FOUND")
	if _, err := b.DeleteWebhook(b.as(alice), &nodepoolsv1.DeleteWebhookRequest{Id: webhook.GetId()}); err != nil {
		t.Fatal(err)
	}
	_, err = b.DeleteWebhook(b.as(alice), &nodepoolsv1.DeleteWebhookRequest{Id: webhook.GetId()})
	refused(t, "remove it again", err, "NOT_FOUND")
	log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{ObjectId: webhook.GetId()}))
	if entries := log.GetEntries(); len(entries) != 2 || entries[1].GetAction() != "webhook" || strings.Contains(log.String(), secret) {
		t.Errorf("the audit log says %v", log)
	}

	private := newBench(t)
	_, err = private.CreateWebhook(private.as(alice), &nodepoolsv1.CreateWebhookRequest{Webhook: &nodepoolsv1.Webhook{Url: "https://169.254.169.254/", Secret: secret}})
	refused(t, "a private address", err, "VALIDATION_ERROR")
}

// TestWebhookLimit: an owner has 20 at most, and a repeat of a request that made one is no other one.
func TestWebhookLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	create := func(key string) (*nodepoolsv1.Webhook, error) {
		return b.CreateWebhook(b.as(alice, service.Request{IdempotencyKey: key}), &nodepoolsv1.CreateWebhookRequest{
			Webhook: &nodepoolsv1.Webhook{Url: "https://example.com/", Secret: "0123456789abcdef"},
		})
	}
	var last *nodepoolsv1.Webhook
	for i := range 20 {
		last = must[*nodepoolsv1.Webhook](t, "create a webhook")(create(fmt.Sprint(i)))
	}
	if again := must[*nodepoolsv1.Webhook](t, "repeat the last one")(create("19")); again.GetId() != last.GetId() {
		t.Errorf("the repeat made %v, and the first time %v", again, last)
	}
	_, err := create("20")
	refused(t, "one more", err, "QUOTA_EXCEEDED")
	if kept, err := b.store.Webhooks(t.Context()); err != nil || len(kept) != 20 {
		t.Errorf("%d webhooks are kept (%v)", len(kept), err)
	}
}

// TestPastEvents reads events and the audit log page by page.
func TestPastEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	for i := range 3 {
		must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"nodeCount": `+string(rune('4'+i))+`}}`))
	}
	b.cluster(bob, "production", "gcp")
	var texts []string
	request := &nodepoolsv1.ListEventsRequest{ClusterId: cluster.GetId(), Limit: proto.Int32(2)}
	for {
		page := must[*nodepoolsv1.ListEventsResponse](t, "events")(b.ListEvents(b.as(alice), request))
		if len(page.GetEvents()) == 0 {
			break
		}
		for _, event := range page.GetEvents() {
			texts = append(texts, event.GetMessage())
			request.Before = event.GetRevision()
		}
	}
	want := []string{"node pool workers changed: spec.nodeCount from 5 to 6", "node pool workers changed: spec.nodeCount from 4 to 5", "node pool workers changed: spec.nodeCount from 3 to 4", "node pool workers created", "cluster production created"}
	if !slices.Equal(texts, want) {
		t.Errorf("the events are %q, want %q", texts, want)
	}
	log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{Actor: alice.Name, Limit: proto.Int32(3)}))
	if len(log.GetEntries()) != 3 || log.GetEntries()[0].GetAction() != "update" || log.GetEntries()[0].GetBefore() != log.GetEntries()[1].GetAfter() {
		t.Errorf("the audit log says %v", log)
	}
	_, err := b.ListEvents(b.as(alice), &nodepoolsv1.ListEventsRequest{Before: "yesterday"})
	refused(t, "events before nothing", err, "VALIDATION_ERROR")
}
