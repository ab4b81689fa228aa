package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8080/api/v1/nodepools", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// expect checks an outcome: a reason that the refusal says, or none when the identity is believed.
func expect(t *testing.T, got auth.Identity, err error, want auth.Identity, reason string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("identity (-want +got):\n%s", diff)
		}
		return
	}
	var refused *auth.Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, reason) {
		t.Errorf("error %v is no refusal that says %q", err, reason)
	}
	if got.Name != "" {
		t.Errorf("a refusal names %v", got)
	}
}

func TestParseEmail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, text, want string
	}{
		{"plain", "user@example.com", "user@example.com"},
		{"another case is the same person", "User@Example.COM", "user@example.com"},
		{"a tag", "user+ci@sub.example.com", "user+ci@sub.example.com"},
		{"nothing", "", ""},
		{"no domain", "user", ""},
		{"two signs", "a@b@example.com", ""},
		{"one label", "user@localhost", ""},
		{"an empty label", "user@example..com", ""},
		{"a dash at the end of a label", "user@example-.com", ""},
		{"a space", "user @example.com", ""},
		{"a space at the end", "user@example.com ", ""},
		{"a tab", "user\t@example.com", ""},
		{"two addresses", "a@example.com,b@example.com", ""},
		{"a name before it", "User <user@example.com>", ""},
		{"a letter that looks alike", "usеr@example.com", ""}, // the e is Cyrillic
		{"a zero byte", "user\x00@example.com", ""},
		{"too long", strings.Repeat("a", 65) + "@example.com", ""},
		{"too long a domain", "a@" + strings.Repeat("a.", 130) + "com", ""},
	} {
		got, err := auth.ParseEmail(test.text)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q gives %q, %v", test.reason, test.text, got, err)
		}
	}
}

func FuzzParseEmail(f *testing.F) {
	f.Add("user@example.com")
	f.Add("@.")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := auth.ParseEmail(text)
		if err != nil {
			return
		}
		again, err := auth.ParseEmail(got)
		if err != nil || again != got || strings.Count(got, "@") != 1 || strings.ContainsAny(got, " \t\r\n\x00<>,;\"") {
			t.Errorf("%q gives %q, then %q, %v", text, got, again, err)
		}
	})
}

func TestHeaderIsBelievedFromProvenPeersAlone(t *testing.T) {
	t.Parallel()
	user := auth.Identity{Name: "user@example.com", Role: auth.Editor}
	unix := func(r *http.Request) *http.Request {
		return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/x.sock", Net: "unix"}))
	}
	certificate := func(verified bool, names ...string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			spiffe, _ := url.Parse("spiffe://example.com/proxy")
			leaf := &x509.Certificate{DNSNames: names, URIs: []*url.URL{spiffe}}
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
			if verified {
				r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
			}
			return r
		}
	}
	from := func(remote, host string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			r.RemoteAddr, r.Host = remote, host
			return r
		}
	}
	for _, test := range []struct {
		reason string
		peer   auth.Peer
		change func(*http.Request) *http.Request
		want   string
	}{
		{"a unix socket", auth.UnixPeer, unix, ""},
		{"no unix socket", auth.UnixPeer, from("127.0.0.1:1", "localhost"), "not believed"},
		{"the proxy's certificate", auth.CertificatePeer("proxy.example.com"), certificate(true, "proxy.example.com"), ""},
		{"the proxy's certificate, by URI", auth.CertificatePeer("spiffe://example.com/proxy"), certificate(true), ""},
		{"another certificate", auth.CertificatePeer("proxy.example.com"), certificate(true, "other.example.com"), "not believed"},
		{"a certificate that nobody verified", auth.CertificatePeer("proxy.example.com"), certificate(false, "proxy.example.com"), "not believed"},
		{"no certificate", auth.CertificatePeer("proxy.example.com"), from("127.0.0.1:1", "localhost"), "not believed"},
		{"the same machine", auth.LoopbackPeer, from("127.0.0.1:1", "localhost:8080"), ""},
		{"the same machine, IPv6", auth.LoopbackPeer, from("[::1]:1", "[::1]:8080"), ""},
		{"another machine", auth.LoopbackPeer, from("192.0.2.1:1", "localhost:8080"), "not believed"},
		{"a web page whose name was made to lead here", auth.LoopbackPeer, from("127.0.0.1:1", "evil.example.com:8080"), "not believed"},
	} {
		got, err := auth.Header(auth.Everyone(auth.Editor), test.peer).Authenticate(test.change(request("X-User-Email: user@example.com")))
		t.Run(test.reason, func(t *testing.T) { expect(t, got, err, user, test.want) })
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	token, hash := auth.NewToken()
	chain := auth.Chain(
		auth.NewTokens([]auth.Token{{Name: "ci", SHA256: hash, Role: auth.Viewer}}),
		auth.Header(auth.Everyone(auth.Editor), auth.LoopbackPeer),
	)
	for _, test := range []struct {
		reason  string
		headers []string
		want    auth.Identity
		refusal string
	}{
		{"a token", []string{"Authorization: Bearer " + token}, auth.Identity{Name: "ci", Role: auth.Viewer}, ""},
		{"the scheme in another case", []string{"Authorization: bearer " + token}, auth.Identity{Name: "ci", Role: auth.Viewer}, ""},
		{"a user", []string{"X-User-Email: user@example.com"}, auth.Identity{Name: "user@example.com", Role: auth.Editor}, ""},
		{"two lines of users: which one counts would depend on who reads", []string{"X-User-Email: a@example.com", "X-User-Email: b@example.com"}, auth.Identity{}, "once"},
		{"two tokens", []string{"Authorization: Bearer " + token, "Authorization: Bearer x"}, auth.Identity{}, "once"},
		{"a token and a user", []string{"Authorization: Bearer " + token, "X-User-Email: root@example.com"}, auth.Identity{}, "not both"},
		{"an unknown token does not fall through to others", []string{"Authorization: Bearer npt_x"}, auth.Identity{}, "not known"},
		{"a token of a kind that is not accepted", []string{"Authorization: Bearer a.b.c"}, auth.Identity{}, "no credentials of this kind"},
		{"another scheme", []string{"Authorization: Basic dXNlcjpwYXNz"}, auth.Identity{}, "Bearer"},
		{"no address", []string{"X-User-Email: user"}, auth.Identity{}, "email"},
		{"an empty address", []string{"X-User-Email: "}, auth.Identity{}, "email"},
	} {
		got, err := chain.Authenticate(request(test.headers...))
		t.Run(test.reason, func(t *testing.T) { expect(t, got, err, test.want, test.refusal) })
	}
	if _, err := chain.Authenticate(request()); !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("no credentials: %v", err)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	roles := auth.Roles{
		{Subject: "root@example.com", Role: auth.Admin},
		{Subject: "gcp@example.com", Role: auth.ControllerRole, Platforms: []string{"gcp"}, Controllers: []string{"gcp-nodepool-controller"}},
		{Subject: "@example.com", Role: auth.Editor},
	}
	if err := roles.Validate(); err != nil {
		t.Fatal(err)
	}
	believed := auth.Header(roles, func(*http.Request) bool { return true })
	for _, test := range []struct {
		email   string
		want    auth.Identity
		refusal string
	}{
		{"Root@example.com", auth.Identity{Name: "root@example.com", Role: auth.Admin}, ""},
		{"user@example.com", auth.Identity{Name: "user@example.com", Role: auth.Editor}, ""},
		{"gcp@example.com", auth.Identity{
			Name: "gcp@example.com", Role: auth.ControllerRole, Platforms: []string{"gcp"}, Controllers: []string{"gcp-nodepool-controller"},
		}, ""},
		{"user@sub.example.com", auth.Identity{}, "no role"},
		{"user@notexample.com", auth.Identity{}, "no role"},
		{"root@example.com.evil.org", auth.Identity{}, "no role"},
	} {
		got, err := believed.Authenticate(request("X-User-Email: " + test.email))
		t.Run(test.email, func(t *testing.T) { expect(t, got, err, test.want, test.refusal) })
	}
	for _, bad := range []auth.Grant{
		{Subject: "root", Role: auth.Admin}, {Subject: "", Role: auth.Admin}, {Subject: "@", Role: auth.Admin}, {Subject: "group:", Role: auth.Admin},
		{Subject: "*", Role: "owner"}, {Subject: "*", Role: auth.Editor, Platforms: []string{"gcp"}},
	} {
		if err := (auth.Roles{bad}).Validate(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestTokensOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, oldHash := auth.NewToken()
	current, hash := auth.NewToken()
	write("tokens:\n- {name: gcp, role: controller, platforms: [gcp], controllers: [gcp-nodepool-controller], sha256: " + hash + "}\n" +
		"- {name: Old@Example.com, role: editor, sha256: " + oldHash + ", expires: 2020-01-01T00:00:00Z}\n")
	tokens, err := auth.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokens.Authenticate(request("Authorization: Bearer " + current))
	expect(t, got, err, auth.Identity{Name: "gcp", Role: auth.ControllerRole, Platforms: []string{"gcp"}, Controllers: []string{"gcp-nodepool-controller"}}, "")
	got, err = tokens.Authenticate(request("Authorization: Bearer " + old))
	expect(t, got, err, auth.Identity{}, "expired")
	// The hash is no token: who reads the file cannot come in with it.
	got, err = tokens.Authenticate(request("Authorization: Bearer npt_" + hash))
	expect(t, got, err, auth.Identity{}, "not known")

	for reason, text := range map[string]string{
		"no YAML":         "tokens: [",
		"an unknown key":  "tokens:\n- {name: x, role: viewer, sha256: " + hash + ", admin: true}",
		"the token":       "tokens:\n- {name: x, role: viewer, sha256: " + current + "}",
		"no role":         "tokens:\n- {name: x, sha256: " + hash + "}",
		"no name":         "tokens:\n- {role: viewer, sha256: " + hash + "}",
		"a name of lines": "tokens:\n- {name: \"a\\nb\", role: viewer, sha256: " + hash + "}",
		"twice":           "tokens:\n- {name: x, role: viewer, sha256: " + hash + "}\n- {name: y, role: admin, sha256: " + strings.ToUpper(hash) + "}",
		"no address":      "tokens:\n- {name: x@y, role: viewer, sha256: " + hash + "}",
	} {
		if _, err := auth.ParseTokens([]byte(text)); err == nil {
			t.Errorf("%s is taken", reason)
		} else if strings.Contains(err.Error(), current) {
			t.Errorf("%s: the error tells the token: %v", reason, err)
		}
	}
	write("tokens: []")
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenTokens(path); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a file that everyone can write: %v", err)
	}
}

func TestCheckListen(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "localhost:8080": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.0.2.1:8080": false, "8080": false,
	} {
		if err := auth.CheckListen(t.Context(), address); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// provider is an identity provider.
type provider struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	down bool
	// fetched counts how often the keys were read.
	fetched atomic.Int32
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.down:
			http.Error(w, "down", http.StatusBadGateway)
		case r.URL.Path == "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL, "token_endpoint": p.URL})
		default:
			p.fetched.Add(1)
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) token(t *testing.T, key any, algorithm jose.SignatureAlgorithm, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{
		"iss": p.URL, "aud": "nodepools", "sub": "123", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"email": "user@example.com", "email_verified": true, "groups": []string{"platform"},
	}
	for name, value := range change {
		claims[name] = value
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	oidc, err := auth.NewOIDC(auth.OIDCOptions{Issuer: p.URL, Audience: "nodepools", Roles: auth.Roles{
		{Subject: "sub:service:gcp", Role: auth.ControllerRole, Platforms: []string{"gcp"}},
		{Subject: "group:admins", Role: auth.Admin},
		{Subject: "*", Role: auth.Editor},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.down = true
	if _, err := oidc.Authenticate(request("Authorization: Bearer a.b.c")); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("while the provider is down: %v", err)
	}
	p.down = false
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	editor := auth.Identity{Name: "user@example.com", Role: auth.Editor}
	// A failed discovery is not tried again at once.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got, err := oidc.Authenticate(request("Authorization: Bearer " + p.token(t, p.key, jose.ES256, nil)))
		if errors.Is(err, auth.ErrUnavailable) && time.Now().Before(deadline) {
			continue
		}
		expect(t, got, err, editor, "")
		break
	}
	for _, test := range []struct {
		reason  string
		key     any
		alg     jose.SignatureAlgorithm
		change  map[string]any
		want    auth.Identity
		refusal string
	}{
		{"a member of a group", p.key, jose.ES256, map[string]any{"groups": []string{"x", "admins"}}, auth.Identity{Name: "user@example.com", Role: auth.Admin}, ""},
		{"a service", p.key, jose.ES256, map[string]any{"sub": "service:gcp", "email": nil}, auth.Identity{
			Name: "sub:service:gcp", Role: auth.ControllerRole, Platforms: []string{"gcp"},
		}, ""},
		{"verified, as text", p.key, jose.ES256, map[string]any{"email_verified": "true"}, editor, ""},
		{"an address that nobody verified", p.key, jose.ES256, map[string]any{"email_verified": false}, auth.Identity{}, "verified email"},
		{"an address that nobody verified, of a group: not owner of what is the address's", p.key, jose.ES256,
			map[string]any{"email_verified": false, "groups": "admins", "sub": "victim@example.com"}, auth.Identity{Name: "sub:victim@example.com", Role: auth.Admin}, ""},
		{"another key", stranger, jose.ES256, nil, auth.Identity{}, "not one of"},
		{"a shared secret", []byte(strings.Repeat("s", 32)), jose.HS256, nil, auth.Identity{}, "not one of"},
		{"another audience", p.key, jose.ES256, map[string]any{"aud": "other"}, auth.Identity{}, "not one of"},
		{"another issuer", p.key, jose.ES256, map[string]any{"iss": "https://example.com"}, auth.Identity{}, "not one of"},
		{"an old one", p.key, jose.ES256, map[string]any{"exp": 1000}, auth.Identity{}, "expired"},
		{"an odd address", p.key, jose.ES256, map[string]any{"email": "a b@example.com"}, auth.Identity{}, "email"},
	} {
		got, err := oidc.Authenticate(request("Authorization: Bearer " + p.token(t, test.key, test.alg, test.change)))
		t.Run(test.reason, func(t *testing.T) { expect(t, got, err, test.want, test.refusal) })
	}
	// "none" as the algorithm.
	unsigned := "eyJhbGciOiJub25lIn0." + strings.Split(p.token(t, p.key, jose.ES256, nil), ".")[1] + "."
	got, err := oidc.Authenticate(request("Authorization: Bearer " + unsigned))
	expect(t, got, err, auth.Identity{}, "not one of")
}

// TestForgedTokensDoNotReachTheProvider: tokens that no known key has signed make few requests to the provider, and keep nobody out whose
// token is good.
func TestForgedTokensDoNotReachTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	oidc, err := auth.NewOIDC(auth.OIDCOptions{Issuer: p.URL, Audience: "nodepools", Roles: auth.Everyone(auth.Editor)})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, forged := p.token(t, p.key, jose.ES256, nil), p.token(t, stranger, jose.ES256, nil)
	for range 50 {
		if got, err := oidc.Authenticate(request("Authorization: Bearer " + good)); err != nil || got.Name != "user@example.com" {
			t.Fatalf("a good token: %v, %v", got, err)
		}
		if _, err := oidc.Authenticate(request("Authorization: Bearer " + forged)); err == nil {
			t.Fatal("a forged token is believed")
		}
	}
	if fetched := p.fetched.Load(); fetched > 10 {
		t.Errorf("50 forged tokens read the keys %d times", fetched)
	}
}
