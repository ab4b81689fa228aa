package digitalocean

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// recorder keeps an answer, so that a test can lose or change it.
type recorder struct{ *httptest.ResponseRecorder }

func newRecorder() recorder { return recorder{httptest.NewRecorder()} }

// replay gives the answer on, with its body changed.
func (r recorder) replay(out http.ResponseWriter, change *strings.Replacer) {
	for key, values := range r.Header() {
		if key != "Content-Length" {
			out.Header()[key] = values
		}
	}
	out.WriteHeader(r.Code)
	_, _ = change.WriteString(out, r.Body.String())
}
