package auth

import (
	"net/http"

	"github.com/pkg/errors"
)

// ErrNoCredentials says that a request carries nothing that an authenticator looks at: another one may know who it is.
var ErrNoCredentials = errors.New("the request carries no credentials")

// ErrUnavailable says that it cannot be told now whether credentials are good, because an issuer does not answer. Trying again later
// may help.
var ErrUnavailable = errors.New("the credentials cannot be checked now")

// Refused is the error of credentials that are not believed. Its text is for the client and holds no secret.
type Refused struct {
	// Reason says why, and what to do.
	Reason string
}

// Error is the reason.
func (e *Refused) Error() string { return e.Reason }

func refuse(reason string) error { return errors.WithStack(&Refused{Reason: reason}) }

// Authenticator tells who makes a request.
type Authenticator interface {
	// Authenticate returns who makes the request. The error is ErrNoCredentials when the request carries none that this authenticator
	// looks at, a *Refused when it does and they are not believed, ErrUnavailable when that cannot be told now. gRPC over HTTP
	// carries its metadata as headers, so the same authenticators serve both.
	Authenticate(request *http.Request) (Identity, error)
}

// Chain asks authenticators one after the other. The first that finds credentials of its kind decides: what one refuses, no other is
// asked about.
func Chain(authenticators ...Authenticator) Authenticator { return chain(authenticators) }

type chain []Authenticator

// The headers that credentials are in. Each authenticator refuses several lines of its own: which of them counts would depend on who
// reads them.
var credentialHeaders = []string{"Authorization", UserHeader}

// Authenticate asks one after the other.
func (c chain) Authenticate(request *http.Request) (Identity, error) {
	found := 0
	for _, header := range credentialHeaders {
		if len(request.Header.Values(header)) > 0 {
			found++
		}
	}
	if found > 1 {
		return Identity{}, refuse("give either the header Authorization or " + UserHeader + ", not both")
	}
	for _, authenticator := range c {
		identity, err := authenticator.Authenticate(request)
		if errors.Is(err, ErrNoCredentials) {
			continue
		}
		return identity, err
	}
	if found > 0 {
		return Identity{}, refuse("no credentials of this kind are accepted here")
	}
	return Identity{}, ErrNoCredentials
}
