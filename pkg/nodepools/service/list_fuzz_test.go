package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// FuzzLists: whatever a list or a watch is asked for, it is told which field cannot be, or it is answered; and the pages of a list, from
// cursor to cursor, hold together what the list holds.
func FuzzLists(f *testing.F) {
	b := newBench(f)
	gcp := b.cluster(alice, "production", "gcp")
	for i := range 5 {
		pool := b.pool(alice, gcp.GetId(), fmt.Sprintf("workers-%d", i))
		if i%2 == 0 {
			must[*nodepoolsv1.NodePoolStatus](f, "report")(b.report(pool.GetId(), "a", 1, "Ready=True"))
		}
	}
	aws := b.cluster(alice, "elsewhere", "aws")
	must[*nodepoolsv1.NodePool](f, "create")(b.create(alice, aws.GetId(), "labelled",
		`{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "nodeCount": 1, "labels": {"team": "a", "tier": ""}}`))
	two := &nodepoolsv1.ListNodePoolsRequest{Limit: proto.Int32(2)}
	next := must[*nodepoolsv1.ListNodePoolsResponse](f, "list")(b.ListNodePools(b.as(alice), two)).GetNextCursor()

	f.Add("", "", "", "", "", "", false, int32(2), int32(0), "")
	f.Add("Ready", "healthy", "gcp", "workers-0", "team=a\ntier", gcp.GetId(), true, int32(1), int32(0), "")
	f.Add("", "", "", "", "team=a\nteam=b", strings.ToUpper(aws.GetId()), false, int32(100), int32(3), "")
	f.Add("", "", "", "", "", "", false, int32(2), int32(0), next)
	f.Add("Sleeping", "ill", "banana", "\x00", "=a", "x", false, int32(101), int32(-1), "MS5h")
	f.Add("", "", "", "\xff", "", "", false, int32(0), int32(0), "")
	f.Add("", "", "banana", "\xff", "\xff=\xfe", "123e4567-e89b-12d3-a456-426614174000", false, int32(0), int32(1), next)
	f.Fuzz(func(t *testing.T, phase, health, platform, name, labels, cluster string, needs bool, limit, offset int32, cursor string) {
		as := func(who auth.Identity) context.Context { return auth.NewContext(t.Context(), who) }
		pools := &nodepoolsv1.ListNodePoolsRequest{
			ClusterId: cluster, Offset: offset, Status: phase, Health: health, Platform: platform, Name: name, Cursor: cursor, NeedsReconcile: needs,
		}
		if labels != "" {
			pools.Label = strings.Split(labels, "\n")
		}
		clusters := &nodepoolsv1.ListClustersRequest{
			Offset: offset, Status: phase, Health: health, Platform: platform, Name: name, Cursor: cursor, NeedsReconcile: needs,
		}
		if limit != 0 {
			pools.Limit, clusters.Limit = &limit, &limit
		}
		pages(t, pools, func(limit *int32, offset int32, cursor string) (ids []string, total int32, next string, err error) {
			pools.Limit, pools.Offset, pools.Cursor = limit, offset, cursor
			page, err := b.ListNodePools(as(alice), pools)
			for _, pool := range page.GetNodepools() {
				ids = append(ids, pool.GetId())
			}
			return ids, page.GetTotal(), page.GetNextCursor(), err
		}, "cluster_id", "limit", "offset", "status", "health", "platform", "label", "name", "cursor")
		pages(t, clusters, func(limit *int32, offset int32, cursor string) (ids []string, total int32, next string, err error) {
			clusters.Limit, clusters.Offset, clusters.Cursor = limit, offset, cursor
			page, err := b.ListClusters(as(alice), clusters)
			for _, cluster := range page.GetClusters() {
				ids = append(ids, cluster.GetId())
			}
			return ids, page.GetTotal(), page.GetNextCursor(), err
		}, "limit", "offset", "status", "health", "platform", "name", "cursor")

		// A watch, and what lists events, read a revision.
		ctx, end := context.WithCancel(as(alice))
		end()
		watch := &nodepoolsv1.WatchEventsRequest{Since: cursor, ClusterId: cluster, ObjectId: name, Platform: platform}
		err := b.Watch(ctx, watch, func(*events.Entry) error { return nil })
		if service.Reason(err) != service.ReasonUnavailable { // it was given up
			isNamed(t, "a watch", err, "since", "platform")
		}
		_, err = b.ListEvents(as(alice), &nodepoolsv1.ListEventsRequest{ObjectId: name, ClusterId: cluster, Limit: pools.Limit, Before: cursor})
		isNamed(t, "a list of events", err, "object_id", "cluster_id", "limit", "before")
		keepable(t, err, name, cluster)
		_, err = b.ListAudit(as(root), &nodepoolsv1.ListAuditRequest{ObjectId: name, Actor: cluster, Limit: pools.Limit, Before: cursor})
		isNamed(t, "a list of the audit log", err, "object_id", "actor", "limit", "before")
		keepable(t, err, name, cluster)
	})
}

// pages asks for a page as the request says, and when it is answered for the whole list, at once and page by page.
func pages(
	t *testing.T, request interface {
		GetLimit() int32
		GetOffset() int32
		GetCursor() string
		GetName() string
	},
	list func(limit *int32, offset int32, cursor string) (ids []string, total int32, next string, err error), fields ...string,
) {
	t.Helper()
	limit, offset, cursor := request.GetLimit(), request.GetOffset(), request.GetCursor()
	size := &limit
	if limit == 0 {
		size = nil
	}
	found, total, _, err := list(size, offset, cursor)
	if service.Reason(err) == service.ReasonNotFound { // the cluster
		return
	}
	isNamed(t, "a list", err, fields...)
	keepable(t, err, request.GetName())
	if err != nil {
		return
	}
	whole, counted, next, err := list(proto.Int32(100), 0, "")
	if err != nil || next != "" || counted != total || int(total) != len(whole) {
		t.Fatalf("the whole list: %d of %d, before %d, next %q, %v", len(whole), counted, total, next, err)
	}
	at := int(min(int64(offset), int64(len(whole))))
	if cursor != "" {
		at = len(whole) - len(found) // the last page, or one before it
		for at > 0 && len(found) > 0 && whole[at] != found[0] {
			at--
		}
	}
	if end := min(len(whole), at+len(found)); !slices.Equal(whole[at:end], found) {
		t.Errorf("the page %v is no part of %v", found, whole)
	}
	var walked []string
	for next = ""; ; {
		page, _, after, err := list(size, 0, next)
		if err != nil {
			t.Fatalf("the page after %q: %v", next, err)
		}
		walked = append(walked, page...)
		if next = after; next == "" {
			break
		}
	}
	if !slices.Equal(walked, whole) {
		t.Errorf("page by page the list holds %v, at once %v", walked, whole)
	}
}

// isNamed checks that a refusal says which of the fields cannot be.
func isNamed(t *testing.T, what string, err error, known ...string) {
	t.Helper()
	if err == nil {
		return
	}
	if reason := service.Reason(err); reason != service.ReasonValidation {
		t.Fatalf("%s is refused for the reason %q: %v, %s", what, reason, err, details(err))
	}
	named := fields(err)
	for _, field := range named {
		name, _, _ := strings.Cut(field, "[")
		if !slices.Contains(known, name) {
			t.Errorf("%s has no field %q", what, field)
		}
	}
	if len(named) == 0 {
		t.Errorf("%s is refused, and no field is named: %v, %s", what, err, details(err))
	}
}

// keepable checks that what was taken are texts that each database knows: some refuse others.
func keepable(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
			t.Errorf("%q is looked for", text)
		}
	}
}
