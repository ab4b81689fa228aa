package auth_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

// FuzzParseTokens: who shows a token is the identity that stands beside its hash, and nobody else is let in. A file that is taken names
// each hash once, and gives a bound to controllers alone.
func FuzzParseTokens(f *testing.F) {
	const token = "npt_of-the-tests"
	hash := auth.HashToken(token)
	entry := func(name, hash, rest string) string {
		return "{name: " + name + ", sha256: " + hash + ", " + rest + "}"
	}
	for _, tokens := range [][]string{
		nil,
		{entry("ci@Example.com", hash, "role: editor")},
		{entry("ci", strings.ToUpper(hash), "role: viewer")},
		{entry("one", hash, "role: editor"), entry("other", auth.HashToken("npt_another"), "role: admin")},
		{entry("one", hash, "role: editor"), entry("other", strings.ToUpper(hash), "role: admin")},
		{entry("ci", hash, "role: editor, expires: 2020-01-01T00:00:00Z")},
		{entry("ci", hash, "role: controller, platforms: [gcp], controllers: [one]")},
		{entry("ci", hash, "role: editor, platforms: [gcp]")},
		{entry("a name", hash, "role: editor")},
		{entry("ci", token, "role: editor")},
	} {
		f.Add([]byte("tokens: [" + strings.Join(tokens, ", ") + "]"))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		tokens, err := auth.ParseTokens(content)
		if err != nil {
			return
		}
		hashes := map[string]auth.Token{}
		for _, one := range tokens {
			hash := strings.ToLower(one.SHA256)
			if _, twice := hashes[hash]; twice || len(hash) != 64 {
				t.Errorf("the hash %q is taken twice, or is none", hash)
			}
			hashes[hash] = one
			if one.Name == "" || strings.ContainsAny(one.Name, " \t\r\n\x00") {
				t.Errorf("the name %q is taken", one.Name)
			}
			if one.Role != auth.ControllerRole && len(one.Platforms)+len(one.Controllers) > 0 {
				t.Errorf("the role %s of %s is bound like a controller", one.Role, one.Name)
			}
		}
		authenticator := auth.NewTokens(tokens)
		for _, shown := range []string{token, "npt_", "npt_another"} {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.Header.Set("Authorization", "Bearer "+shown)
			identity, err := authenticator.Authenticate(request)
			want, known := hashes[auth.HashToken(shown)]
			known = known && (want.Expires.IsZero() || time.Now().Before(want.Expires))
			if (err == nil) != known {
				t.Fatalf("%s stands in the file and is valid: %t, and the answer is %v", shown, known, err)
			}
			if known && (identity.Name != want.Name || identity.Role != want.Role ||
				!slices.Equal(identity.Platforms, want.Platforms) || !slices.Equal(identity.Controllers, want.Controllers)) {
				t.Errorf("%s is %+v, and in the file %+v", shown, identity, want)
			}
		}
	})
}
