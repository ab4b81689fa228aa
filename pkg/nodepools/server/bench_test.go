package server_test

import (
	"net/http"
	"net/http/httptest"
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
