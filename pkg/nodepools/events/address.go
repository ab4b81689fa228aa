package events

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// addressError says that an address is none that events are sent to.
type addressError struct {
	address string
}

// Error tells the reason, and not the address: names inside of the operator's network are none of the webhook's owner's business.
func (*addressError) Error() string { return "the host has an address that is not public" }

// CheckURL says what is wrong with the URL of a webhook, as far as it can be told without looking its host up. The addresses of the
// host are checked at each connection.
func CheckURL(text string, options WebhookOptions) error {
	target, err := url.Parse(text)
	switch {
	case err != nil || target.Host == "" || target.Hostname() == "":
		return errors.New("must be a URL with a host, such as https://example.com/events")
	case target.Scheme != "https" && (target.Scheme != "http" || !options.AllowHTTP):
		return errors.New("must begin with https://")
	case target.User != nil:
		return errors.New("must not hold a user or password")
	case target.Fragment != "":
		return errors.New("must not have a fragment")
	}
	if address, err := netip.ParseAddr(target.Hostname()); err == nil && !options.AllowPrivate && !public(address) {
		return errors.New("must be of a public address")
	}
	return nil
}

// newClient returns a client that connects to public addresses only, follows no redirects, and knows no proxies.
func newClient(options WebhookOptions) *http.Client {
	dialer := &net.Dialer{Timeout: options.Timeout}
	if !options.AllowPrivate {
		// The address is the one that is connected to, whatever a name stood for before.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			end, err := netip.ParseAddrPort(address)
			if err != nil || !public(end.Addr()) {
				return &addressError{address: address}
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    options.Timeout,
			ResponseHeaderTimeout:  options.Timeout,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           16,
			IdleConnTimeout:        30 * time.Second,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// notPublic are the networks of the IANA special-purpose registries that are not reached over the internet, beside those that netip
// knows. https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry
var notPublic = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	result := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		result[i] = netip.MustParsePrefix(text)
	}
	return result
}

// public says whether an address is reached over the internet.
func public(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	for _, prefix := range notPublic {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}
