package service_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

func names(pools []*nodepoolsv1.NodePool) []string {
	result := []string{}
	for _, pool := range pools {
		result = append(result, pool.GetName())
	}
	return result
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		gcp, aws := b.cluster(alice, "gcp", "gcp"), b.cluster(alice, "aws", "aws")
		ready := b.pool(alice, gcp.GetId(), "ready")
		b.pool(alice, gcp.GetId(), "pending")
		must[*nodepoolsv1.NodePool](t, "create")(b.create(alice, aws.GetId(), "labelled", `{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "nodeCount": 1, "labels": {"team": "a", "tier": ""}}`))
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(ready.GetId(), "a", 1, "Ready=True"))
		tests := []struct {
			request *nodepoolsv1.ListNodePoolsRequest
			want    []string
		}{
			{&nodepoolsv1.ListNodePoolsRequest{}, []string{"ready", "pending", "labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Status: "Ready"}, []string{"ready"}},
			{&nodepoolsv1.ListNodePoolsRequest{Status: "Pending"}, []string{"pending", "labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Health: "healthy"}, []string{"ready"}},
			{&nodepoolsv1.ListNodePoolsRequest{Health: "unknown", Platform: "gcp"}, []string{"pending"}},
			{&nodepoolsv1.ListNodePoolsRequest{ClusterId: aws.GetId()}, []string{"labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Platform: "azure"}, []string{}},
			{&nodepoolsv1.ListNodePoolsRequest{Name: "pending"}, []string{"pending"}},
			{&nodepoolsv1.ListNodePoolsRequest{Label: []string{"team=a", "tier"}}, []string{"labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Label: []string{"tier="}}, []string{"labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Label: []string{"team=b"}}, []string{}},
			{&nodepoolsv1.ListNodePoolsRequest{NeedsReconcile: true}, []string{"pending", "labelled"}},
			{&nodepoolsv1.ListNodePoolsRequest{Offset: 1, Limit: proto.Int32(1)}, []string{"pending"}},
		}
		for _, test := range tests {
			got := must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(alice), test.request))
			if !slices.Equal(names(got.GetNodepools()), test.want) {
				t.Errorf("%v: %v, want %v", test.request, names(got.GetNodepools()), test.want)
			}
			if test.request.Limit == nil && int(got.GetTotal()) != len(test.want) {
				t.Errorf("%v: the total is %d", test.request, got.GetTotal())
			}
			documents, page, err := b.RawNodePools(b.as(alice), test.request)
			if err != nil || len(documents) != len(got.GetNodepools()) || page.GetTotal() != got.GetTotal() || page.GetNextCursor() != got.GetNextCursor() {
				t.Fatalf("%v: raw: %v, %v", test.request, page, err)
			}
			for i, document := range documents {
				pool := &nodepoolsv1.NodePool{}
				if err := protojson.Unmarshal(document, pool); err != nil || !proto.Equal(pool, got.GetNodepools()[i]) || !json.Valid(document) {
					t.Errorf("the JSON %s is not %v (%v)", document, got.GetNodepools()[i], err)
				}
			}
		}
		bad := map[string]*nodepoolsv1.ListNodePoolsRequest{
			"limit 0":            {Limit: proto.Int32(0)},
			"limit 101":          {Limit: proto.Int32(101)},
			"offset":             {Offset: -1},
			"status":             {Status: "Sleeping"},
			"health":             {Health: "ill"},
			"platform":           {Platform: "banana"},
			"label":              {Label: []string{"=a"}},
			"two values":         {Label: []string{"a=1", "a=2"}},
			"cursor":             {Cursor: "x"},
			"cluster":            {ClusterId: "x"},
			"zero in a name":     {Name: "a\x00"},
			"name not in UTF-8":  {Name: "\xff"},
			"label not in UTF-8": {Label: []string{"\xff=b"}},
			"zero in a label":    {Label: []string{"a\x00=b"}},
			"cursor and offset":  {Cursor: "MS5h", Offset: 1},
			"cursor of old kind": {Cursor: "MC5hLjE"},
		}
		for name, request := range bad {
			_, err := b.ListNodePools(b.as(alice), request)
			refused(t, name, err, "VALIDATION_ERROR")
		}
	})
}

// TestCursor checks that pages neither skip nor repeat pools while others create and delete.
func TestCursor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	var pools []*nodepoolsv1.NodePool
	for i := range 10 {
		pools = append(pools, b.pool(alice, cluster.GetId(), fmt.Sprintf("pool-%d", i)))
	}
	request := &nodepoolsv1.ListNodePoolsRequest{Limit: proto.Int32(4)}
	page := must[*nodepoolsv1.ListNodePoolsResponse](t, "first page")(b.ListNodePools(b.as(alice), request))
	got := names(page.GetNodepools())
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pools[1].GetId()}); err != nil {
		t.Fatal(err)
	}
	b.pool(alice, cluster.GetId(), "pool-10")
	first := page.GetNextCursor()
	for page.GetNextCursor() != "" {
		request.Cursor = page.GetNextCursor()
		page = must[*nodepoolsv1.ListNodePoolsResponse](t, "next page")(b.ListNodePools(b.as(alice), request))
		got = append(got, names(page.GetNodepools())...)
	}
	want := "pool-0 pool-1 pool-2 pool-3 pool-4 pool-5 pool-6 pool-7 pool-8 pool-9 pool-10"
	if strings.Join(got, " ") != want {
		t.Errorf("the pages hold %v, want %s", got, want)
	}
	_, err := b.ListNodePools(b.as(alice), &nodepoolsv1.ListNodePoolsRequest{Cursor: first, Status: "Ready"})
	refused(t, "a cursor with other filters", err, "VALIDATION_ERROR")
	_, err = b.ListNodePools(b.as(bob), &nodepoolsv1.ListNodePoolsRequest{Cursor: first})
	refused(t, "a cursor of somebody else", err, "VALIDATION_ERROR")
}
