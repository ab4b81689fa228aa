package prism

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/pkg/errors"
)

// ToolsVariable says where prism stands: node_modules/.bin in the folder that tools/npm prints. Without it nothing goes through prism; the
// Makefile sets it where there is npm.
const ToolsVariable = "NODEPOOLS_OPENAPI_TOOLS"

var (
	// document is what the tests of this binary are held against; nil before Main.
	document []byte
	// started is what shared started.
	started *Proxy
	shared  = sync.OnceValues(func() (*Proxy, error) {
		tools := os.Getenv(ToolsVariable)
		if tools == "" {
			return nil, nil
		}
		if document == nil {
			return nil, errors.New("TestMain does not call prism.Main")
		}
		var err error
		started, err = Start(tools, document)
		return started, err
	})
)

// Main runs the tests of a package, and ends the prism that they started. It tells what went through it, and fails where all tests ran and
// that is less than they are known to ask. Call it from TestMain, with the OpenAPI document.
func Main(run func() int, openapi []byte, least int) int {
	document = openapi
	code, passed := run(), 0
	if started != nil {
		started.Stop()
		_, _ = fmt.Fprint(os.Stdout, started.Report())
		passed = started.Passed()
	}
	all := true // of the tests, not some that were chosen
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		all = all && flag.Lookup(name).Value.String() == ""
	}
	if all && code == 0 && os.Getenv(ToolsVariable) != "" && passed < least {
		_, _ = fmt.Fprintf(os.Stdout, "only %d requests went through the proxy, of at least %d\n", passed, least)
		code = 1
	}
	return code
}

// Shared is the prism of this test binary, started when it is first asked for; nil where ToolsVariable does not say where it stands.
func Shared(t testing.TB) *Proxy {
	t.Helper()
	proxy, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return proxy
}

// Through has the requests of a client go through the prism of this test binary, where there is one, and fails the test by what does not
// fit; nil where there is none.
func Through(t testing.TB, client *http.Client) *Transport {
	t.Helper()
	proxy := Shared(t)
	if proxy == nil {
		return nil
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	transport := proxy.Transport(next, func(r *http.Request, text string) { t.Errorf("%s %s: %s", r.Method, r.URL, text) })
	client.Transport = transport
	return transport
}
