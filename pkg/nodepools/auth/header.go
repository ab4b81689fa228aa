package auth

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/pkg/errors"
)

// UserHeader is the header by which a proven peer says whose request it passes on.
const UserHeader = "X-User-Email"

// Peer says whether the other end of a connection is proven to be one whose UserHeader can be believed.
type Peer func(request *http.Request) bool

// UnixPeer proves peers that come through a unix socket: the permissions of its file say who can.
func UnixPeer(request *http.Request) bool {
	local, ok := request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// CertificatePeer proves peers whose verified client certificate has one of the names (DNS or URI) as a subject alternative name.
// The server must ask for client certificates and verify them.
func CertificatePeer(names ...string) Peer {
	return func(request *http.Request) bool {
		if request.TLS == nil || len(request.TLS.VerifiedChains) == 0 || len(request.TLS.VerifiedChains[0]) == 0 {
			return false
		}
		leaf := request.TLS.VerifiedChains[0][0]
		if slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(names, name) }) {
			return true
		}
		for _, uri := range leaf.URIs {
			if slices.Contains(names, uri.String()) {
				return true
			}
		}
		return false
	}
}

// LoopbackPeer proves peers on the same machine. It is for development alone: whoever has an account on the machine is believed. A
// web page must not be able to use a browser for it, so the request's host must be a loopback name, which one that another name was made
// to resolve to is not.
func LoopbackPeer(request *http.Request) bool {
	remote, err := netip.ParseAddrPort(request.RemoteAddr)
	return err == nil && remote.Addr().Unmap().IsLoopback() && loopbackHost(request.Host)
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// CheckListen refuses an address beyond loopback for a service that believes everyone who reaches it. The address is host:port.
func CheckListen(ctx context.Context, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return errors.Wrapf(err, "address %q", address)
	}
	if host == "" {
		return errors.Errorf("address %q is every network of this machine; without authentication only a loopback address such as 127.0.0.1 is served", address)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return errors.Wrapf(err, "look up %q", host)
	}
	for _, ip := range found {
		if !ip.Unmap().IsLoopback() {
			return errors.Errorf("address %q is reachable from other machines; without authentication only a loopback address such as 127.0.0.1 is served", address)
		}
	}
	return nil
}

// Header returns an authenticator that believes the UserHeader of peers that any of the functions proves. The header of anybody else
// is refused, not passed over: who sends it means it.
func Header(roles Roles, peers ...Peer) Authenticator {
	return &header{roles: roles, peers: peers}
}

type header struct {
	roles Roles
	peers []Peer
}

// Authenticate believes the header of a proven peer.
func (h *header) Authenticate(request *http.Request) (Identity, error) {
	lines := request.Header.Values(UserHeader)
	switch len(lines) {
	case 0:
		return Identity{}, ErrNoCredentials
	case 1:
	default:
		return Identity{}, refuse("the header " + UserHeader + " must be given once")
	}
	if !slices.ContainsFunc(h.peers, func(peer Peer) bool { return peer(request) }) {
		return Identity{}, refuse("the header " + UserHeader + " is not believed from here; use Authorization: Bearer with a token")
	}
	email, err := ParseEmail(lines[0])
	if err != nil {
		return Identity{}, refuse("the header " + UserHeader + " holds no email address such as user@example.com")
	}
	return h.roles.identity(subject{email: email})
}
