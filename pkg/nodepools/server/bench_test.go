package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

// The cost of a read in the server and the service, without the network and net/http's part.
func BenchmarkReads(b *testing.B) {
	for name, path := range map[string]string{"get": "/api/v1/nodepools/" + guidePool, "list50": "/api/v1/nodepools"} {
		b.Run(name, func(b *testing.B) {
			bench := newBench(b)
			bench.cluster()
			bench.do("POST", "/api/v1/nodepools", `{"id":"`+guidePool+`","name":"pool","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`}`)
			for i := range 49 {
				bench.pool("p" + string(rune('a'+i/26)) + string(rune('a'+i%26)))
			}
			request := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
			request.RemoteAddr = "127.0.0.1:1"
			request.Header.Set(auth.UserHeader, "user@example.com")
			b.ReportAllocs()
			for b.Loop() {
				out := httptest.NewRecorder()
				bench.server.ServeHTTP(out, request)
				if out.Code != http.StatusOK {
					b.Fatalf("%d %s", out.Code, out.Body)
				}
			}
		})
	}
}

// The cost of a create in the server, the service and SQLite, one after the other: each is committed by itself.
func BenchmarkCreate(b *testing.B) {
	bench := newBench(b)
	bench.cluster()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		request := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/nodepools",
			strings.NewReader(fmt.Sprintf(`{"name":"pool-%d","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`}`, n)))
		request.RemoteAddr = "127.0.0.1:1"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(auth.UserHeader, "user@example.com")
		out := httptest.NewRecorder()
		bench.server.ServeHTTP(out, request)
		if out.Code != http.StatusCreated {
			b.Fatalf("%d %s", out.Code, out.Body)
		}
	}
}
