package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/client"
)

const id = "123e4567-e89b-12d3-a456-426614174000"

// serve answers every request with one answer, and tells what was asked.
func serve(t *testing.T, status int, answer string) (connection *client.Client, asked *string) {
	t.Helper()
	asked = new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = strings.TrimSpace(fmt.Sprintf("%s %s [%s] if-match=%s key=%s user=%s auth=%s %s", r.Method, r.URL, r.Header.Get("Content-Type"),
			r.Header.Get("If-Match"), r.Header.Get("Idempotency-Key"), r.Header.Get("X-User-Email"), r.Header.Get("Authorization"),
			strings.ReplaceAll(string(body), " ", "")))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	connection, err := client.New(client.Options{Server: server.URL, User: "a@example.com", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return connection, asked
}

func TestRequests(t *testing.T) {
	t.Parallel()
	const as = " user=a@example.com auth=Bearer t"
	for name, test := range map[string]struct {
		call func(context.Context, *client.Client) error
		want string
	}{
		"a path": {
			func(ctx context.Context, c *client.Client) error {
				_, err := nodepoolsv1.NewNodePoolServiceClient(c).GetNodePool(ctx, &nodepoolsv1.GetNodePoolRequest{Id: id})
				return err
			},
			"GET /api/v1/nodepools/" + id + " [] if-match= key=" + as,
		},
		"a query": {
			func(ctx context.Context, c *client.Client) error {
				_, err := nodepoolsv1.NewNodePoolServiceClient(c).ListNodePools(ctx, &nodepoolsv1.ListNodePoolsRequest{
					Limit: proto.Int32(10), Status: "Ready", Label: []string{"a=b", "c"}, NeedsReconcile: true,
				})
				return err
			},
			"GET /api/v1/nodepools?label=a%3Db&label=c&limit=10&needs_reconcile=true&status=Ready [] if-match= key=" + as,
		},
		"a body": {
			func(ctx context.Context, c *client.Client) error {
				ctx = metadata.AppendToOutgoingContext(ctx, client.IdempotencyKey, "k")
				_, err := nodepoolsv1.NewNodePoolServiceClient(c).CreateNodePool(ctx, &nodepoolsv1.CreateNodePoolRequest{
					Nodepool: &nodepoolsv1.NodePool{Name: "x", ClusterId: id}, DryRun: true,
				})
				return err
			},
			"POST /api/v1/nodepools?dry_run=true [application/json] if-match= key=k" + as + ` {"name":"x","cluster_id":"` + id + `"}`,
		},
		"a merge patch": {
			func(ctx context.Context, c *client.Client) error {
				ctx = metadata.AppendToOutgoingContext(ctx, client.IfMatch, `"7"`)
				patch, err := structpb.NewStruct(map[string]any{"spec": map[string]any{"taints": nil}})
				if err != nil {
					return err
				}
				_, err = nodepoolsv1.NewNodePoolServiceClient(c).PatchNodePool(ctx, &nodepoolsv1.PatchNodePoolRequest{Id: id, Patch: patch})
				return err
			},
			"PATCH /api/v1/nodepools/" + id + ` [application/merge-patch+json] if-match="7" key=` + as + ` {"spec":{"taints":null}}`,
		},
		"what must be escaped": {
			func(ctx context.Context, c *client.Client) error {
				_, err := nodepoolsv1.NewControllerServiceClient(c).DeleteController(ctx, &nodepoolsv1.DeleteControllerRequest{Name: "../x?y"})
				return err
			},
			"DELETE /api/v1/controllers/..%2Fx%3Fy [] if-match= key=" + as,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, asked := serve(t, http.StatusOK, `{"something_newer": 1}`)
			if err := test.call(t.Context(), connection); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, *asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		answer string
		code   string
		says   string
	}{
		"of the service": {
			404, `{"error":{"code":"NOT_FOUND","message":"NodePool not found","details":""}}`, "NOT_FOUND", "NodePool not found",
		},
		"with several rules": {
			400, `{"error":{"code":"VALIDATION_ERROR","message":"Validation failed","details":"x",
				"violations":[{"field":"name","message":"no"},{"field":"","message":"never"}]}}`,
			"VALIDATION_ERROR", "Validation failed\n  name: no\n  never",
		},
		"of something in between": {502, `<html>\x1b[31m`, "", "the service answered with status Bad Gateway"},
		"inside": {
			500, `{"error":{"code":"INTERNAL","message":"Internal error","details":"","request_id":"r1"}}`, "INTERNAL", "Internal error (request r1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, _ := serve(t, test.status, test.answer)
			_, err := nodepoolsv1.NewNodePoolServiceClient(connection).GetNodePool(t.Context(), &nodepoolsv1.GetNodePoolRequest{Id: id})
			var refused *client.Error
			if !errors.As(err, &refused) || refused.Code != test.code || refused.StatusCode != test.status || err.Error() != test.says {
				t.Errorf("the error is %q, %+v", err, refused)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for server, good := range map[string]bool{
		"https://nodepools.example.com": true, "http://127.0.0.1:8080": true, "http://localhost:8080/": true, "http://[::1]:80": true,
		"http://nodepools.example.com": false, "nodepools.example.com": false, "": false, "ftp://x": false, "https://u:p@x": false,
	} {
		_, err := client.New(client.Options{Server: server, Token: "secret"})
		if (err == nil) != good {
			t.Errorf("a token for %q: %v", server, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the token: %v", err)
		}
	}
	if _, err := client.New(client.Options{Server: "http://nodepools.example.com"}); err != nil {
		t.Errorf("without a token: %v", err)
	}
}

// TestATokenIsForOneServer: a redirect is not followed, wherever it leads.
func TestATokenIsForOneServer(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	connection, err := client.New(client.Options{Server: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodepoolsv1.NewClusterServiceClient(connection).ListClusters(t.Context(), &nodepoolsv1.ListClustersRequest{}); err == nil {
		t.Error("a redirect counts as an answer")
	}
}

// TestWatch: a lost connection is made again after the last revision that was told whole.
func TestWatch(t *testing.T) {
	t.Parallel()
	var since []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since = append(since, r.URL.Query().Get("since"))
		switch len(since) {
		case 1:
			_, _ = io.WriteString(w, ": hello\n\nid: 5\nevent: nodepool.created\ndata: {\"revision\":\"5\",\"type\":\"nodepool.created\"}\n\n"+
				"data: {\"revision\":\"6\",\"type\":\"nodepool.deleting\"}\n\ndata: {\"revision\":\"6\"") // and the connection ends
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			_, _ = io.WriteString(w, "data: {\"revision\":\"6\",\"type\":\"nodepool.deleting\"}\n\nid: 6\ndata: {\"revision\":\"6\",\"type\":\"cluster.deleting\"}\n\n")
		default:
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"error":{"code":"EXPIRED","message":"read anew","details":""}}`)
		}
	}))
	defer server.Close()
	connection, err := client.New(client.Options{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := nodepoolsv1.NewEventServiceClient(connection).WatchEvents(t.Context(), &nodepoolsv1.WatchEventsRequest{Since: "4"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		event, err := stream.Recv()
		if err != nil {
			var refused *client.Error
			if !errors.As(err, &refused) || refused.Code != "EXPIRED" {
				t.Errorf("the watch ended with %v", err)
			}
			break
		}
		got = append(got, event.GetRevision()+" "+event.GetType())
	}
	want := []string{"5 nodepool.created", "6 nodepool.deleting", "6 nodepool.deleting", "6 cluster.deleting"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"4", "5", "5", "6"}, since); diff != "" {
		t.Errorf("it watched since: %s", diff)
	}
}
