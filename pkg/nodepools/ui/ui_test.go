package ui_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/ui"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	ui.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

// TestThePageLoadsOnlyWhatIsServedWithIt: it works where nothing else can be reached, and nothing else can put a script into it.
func TestThePageLoadsOnlyWhatIsServedWithIt(t *testing.T) {
	t.Parallel()
	page := get(t, "/")
	if page.Code != 200 || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("the page is answered with %d, %s", page.Code, page.Header().Get("Content-Type"))
	}
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(page.Header().Get("Content-Security-Policy"), directive) {
			t.Errorf("the policy lacks %s", directive)
		}
	}
	found := 0
	for _, match := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1) {
		switch match[1] {
		case "data:,", "docs":
			continue
		}
		found++
		if file := get(t, "/"+match[1]); file.Code != 200 {
			t.Errorf("%s is answered with %d", match[1], file.Code)
		}
	}
	if found != 2 {
		t.Errorf("the page loads %d files, want its script and its style", found)
	}
	if inline := regexp.MustCompile(`<script>|\son[a-z]+=|style="`).FindString(page.Body.String()); inline != "" {
		t.Errorf("the page has %q in it, which the policy forbids", inline)
	}
}

// TestNothingIsPutInAsHTML: names and messages come from other people.
func TestNothingIsPutInAsHTML(t *testing.T) {
	t.Parallel()
	if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`).
		FindString(get(t, "/app.js").Body.String()); found != "" {
		t.Errorf("the script uses %s", found)
	}
}
