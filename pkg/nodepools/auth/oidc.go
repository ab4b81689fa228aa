package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/pkg/errors"
	"golang.org/x/time/rate"
)

// OIDCOptions say whose tokens are believed.
type OIDCOptions struct {
	// Issuer is the URL of the identity provider; its discovery document stands under it.
	Issuer string
	// Audience must be among the token's: the client ID that this service has at the provider.
	Audience string
	// GroupsClaim is the claim that holds the groups, for grants to groups. Empty is "groups".
	GroupsClaim string
	// Roles gives roles to who comes.
	Roles Roles
	// Client makes the requests to the provider; nil is http.DefaultClient with a timeout of ten seconds.
	Client *http.Client
}

// OIDC believes ID tokens of an OpenID Connect provider, in the header Authorization: Bearer.
type OIDC struct {
	options OIDCOptions

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	tried    time.Time
	failed   error
}

// discoverAgain is how long after a failed discovery the next one is tried.
const discoverAgain = 2 * time.Second

// signatures are the algorithms that tokens may be signed with: never a shared secret, never none.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// NewOIDC returns an authenticator of a provider's tokens. The provider is asked when the first token comes, so that the service starts
// without it.
func NewOIDC(options OIDCOptions) (*OIDC, error) {
	if options.Issuer == "" || options.Audience == "" {
		return nil, errors.New("OIDC needs an issuer and an audience")
	}
	if err := options.Roles.Validate(); err != nil {
		return nil, err
	}
	if options.Client == nil {
		options.Client = &http.Client{Timeout: 10 * time.Second}
	}
	bounded := *options.Client
	bounded.Transport = &boundedTransport{next: bounded.Transport, limit: rate.NewLimiter(1, 5)}
	options.Client = &bounded
	if options.GroupsClaim == "" {
		options.GroupsClaim = "groups"
	}
	return &OIDC{options: options}, nil
}

// boundedTransport asks the provider seldom. A token that no known key has signed makes the library fetch the keys anew, and anybody can
// send such tokens.
type boundedTransport struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip is that of an http.RoundTripper.
func (b *boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !b.limit.Allow() {
		return nil, errors.New("the identity provider was asked often enough")
	}
	if b.next == nil {
		return http.DefaultTransport.RoundTrip(request)
	}
	return b.next.RoundTrip(request)
}

func (o *OIDC) discovered() (*oidc.IDTokenVerifier, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.verifier != nil {
		return o.verifier, nil
	}
	if o.failed != nil && time.Since(o.tried) < discoverAgain {
		return nil, o.failed
	}
	o.tried = time.Now()
	// The verifier keeps the context for fetching keys later, so it is not that of a request.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.options.Client), o.options.Issuer)
	if err != nil {
		o.failed = errors.Wrap(ErrUnavailable, "the identity provider did not answer")
		return nil, o.failed
	}
	o.verifier = provider.Verifier(&oidc.Config{ClientID: o.options.Audience, SupportedSigningAlgs: signatures})
	return o.verifier, nil
}

// Authenticate believes a token of the provider. Who has a verified email address is known by it, anybody else by the subject after
// "sub:".
func (o *OIDC) Authenticate(request *http.Request) (Identity, error) {
	token, err := bearer(request)
	if err != nil {
		return Identity{}, err
	}
	if strings.Count(token, ".") != 2 {
		return Identity{}, ErrNoCredentials
	}
	verifier, err := o.discovered()
	if err != nil {
		return Identity{}, err
	}
	verified, err := verifier.Verify(request.Context(), token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return Identity{}, refuse("the token has expired")
	case err != nil && strings.Contains(err.Error(), "fetching keys"):
		// The library has no type for it.
		return Identity{}, errors.Wrap(ErrUnavailable, "the identity provider's keys could not be read")
	case err != nil:
		return Identity{}, refuse("the token is not one of the identity provider for this service")
	}
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
	}
	var all map[string]any
	if verified.Claims(&claims) != nil || verified.Claims(&all) != nil {
		return Identity{}, refuse("the token's claims cannot be read")
	}
	who := subject{claim: verified.Subject, groups: texts(all[o.options.GroupsClaim])}
	// Some providers write the boolean as text.
	if claims.Email != "" && (claims.Verified == true || claims.Verified == "true") {
		if who.email, err = ParseEmail(claims.Email); err != nil {
			return Identity{}, refuse("the token's email is not an email address")
		}
	}
	if who.email == "" && !slices.ContainsFunc(o.options.Roles, func(grant Grant) bool { return grant.Subject != "*" && who.named(grant.Subject) }) {
		return Identity{}, refuse("the token has no verified email address, and no role is given to its subject")
	}
	return o.options.Roles.identity(who)
}

func texts(claim any) []string {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		var result []string
		for _, element := range claim {
			if text, ok := element.(string); ok {
				result = append(result, text)
			}
		}
		return result
	}
	return nil
}
