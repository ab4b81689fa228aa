// Package emulator holds what HTTP emulators of cloud APIs share: where they listen, what they remember of the requests
// they answered, how their objects age, where their objects are kept, and the kubeconfigs that they hand out.
//
// The clouds themselves stand in the packages below it, one a cloud. Each is an [http.Handler] made from [Options]:
//
//	cloud, err := civo.New(emulator.Options{TimeScale: 0})
//	server, err := emulator.Listen("127.0.0.1:0", cloud)
//	defer server.Close()
//	// point a client of the cloud at server.URL()
//
// An emulated cloud differs from the real one in that nothing is built: no machine runs, and the address in a kubeconfig
// answers nothing. What a client of the API sees is the same: shapes, error codes, states and the order they come in.
package emulator

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net/http"
	"strings"

	"github.com/pkg/errors"
)

// Options of an emulated cloud, the same for every cloud.
type Options struct {
	// Token is the API token that is accepted. Any token but the empty one is accepted when it is "".
	Token string

	// TimeScale says how long things take: 1 as long as in the real cloud (a cluster about two minutes), 0.01 a
	// hundredth of that, 0 no time at all. It may not be negative.
	TimeScale float64

	// StateFile is where the cloud's objects are kept: JSON, readable by the owner alone (it holds the keys of the
	// emulated clusters), written in one step before a change is answered. The objects live in memory only when it is "".
	// A file is for one emulated cloud at a time.
	StateFile string

	// OnRequest, when set, sees every request after it was answered. It is called from several goroutines.
	OnRequest func(Request)

	// Intercept, when set, is called in place of the cloud's handler, which it gets as next: it may delay, refuse, answer
	// itself, have effects on objects ([WithEffects]), or drop the connection, by [DropConnection] or by a panic with
	// [http.ErrAbortHandler]. What it answers is recorded as any answer is.
	Intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Validate tells whether the options can be served.
func (o Options) Validate() error {
	if o.TimeScale < 0 || math.IsNaN(o.TimeScale) || math.IsInf(o.TimeScale, 0) {
		return errors.Errorf("time scale %v: want a number that is not negative", o.TimeScale)
	}
	return nil
}

// Accepts tells whether a client that presents token is let in.
func (o Options) Accepts(token string) bool {
	if token == "" {
		return false
	}
	if o.Token == "" {
		return true
	}
	// Hashed first, so that the comparison's time tells nothing, not even a length.
	want, got := sha256.Sum256([]byte(o.Token)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// BearerToken is the token of the request's Authorization header, "" when there is none. The scheme's case is of no
// matter (RFC 9110, section 11.1): civogo writes "bearer", godo "Bearer".
func BearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
