package server

import (
	"embed"
	"net/http"
)

// description is what `make generate` made of the protos.
//
//go:embed openapi.json
var description []byte

// The page that shows the description.
//
//go:embed docs.html docs.js docs.css
var docs embed.FS

// Description returns the OpenAPI 3.1 document of the REST API.
func Description() []byte { return append([]byte(nil), description...) }

func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	if r.URL.Path == "/openapi.json" {
		writeJSON(w, description)
		return
	}
	name, media := "docs.html", "text/html; charset=utf-8"
	switch r.URL.Path {
	case "/docs", "/docs/":
	case "/docs/docs.js":
		name, media = "docs.js", "text/javascript; charset=utf-8"
	case "/docs/docs.css":
		name, media = "docs.css", "text/css; charset=utf-8"
	default:
		s.answer(w, r, pathNotFound())
		return
	}
	content, err := docs.ReadFile(name)
	if err != nil {
		s.answer(w, r, err)
		return
	}
	header.Set("Content-Type", media)
	// The page loads nothing from elsewhere, and nothing from elsewhere shows it.
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(content)
}
