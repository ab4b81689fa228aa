package store_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// TestLostAnswerOfCommit loses the server's answer to a commit, or the commit itself: nobody is told that nothing was written when
// it was.
func TestLostAnswerOfCommit(t *testing.T) {
	for name, reaches := range map[string]bool{"the server commits": true, "the server gets no commit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			proxy := newProxy(t, postgrestest.Database(t))
			db := open(t, proxy.address, store.Options{})
			write(t, db, func(tx store.Tx) error { return put(tx, pool("before"), nil) })
			proxy.reaches = reaches
			proxy.armed.Store(true)
			err := db.Write(ctx, func(tx store.Tx) error { return put(tx, pool("one"), nil) })
			if !errors.Is(err, store.ErrUnknown) {
				t.Errorf("the writer was told %v", err)
			}
			if _, err := db.Get(ctx, pool("one")); reaches != (err == nil) {
				t.Errorf("it is read with %v", err)
			}
			write(t, db, func(tx store.Tx) error { return put(tx, pool("after"), nil) })
		})
	}
}

// proxy stands between a client and PostgreSQL, and when it is armed cuts the connection of the next commit: that is sent together with
// the notification of it, by whose channel it is known, as its statement was sent before.
type proxy struct {
	address string
	reaches bool // the commit, to the server
	armed   atomic.Bool
}

func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	server, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	socket := filepath.Join(server.Query().Get("host"), ".s.PGSQL.5432")
	server.Host, server.RawQuery = listener.Addr().String(), "sslmode=disable"
	p := &proxy{address: server.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, socket)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn, socket string) {
	defer func() { _ = client.Close() }()
	backend, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = backend.Close() }()
	var cut atomic.Bool
	go func() {
		defer func() { _ = client.Close() }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := backend.Read(buffer)
			if err != nil || cut.Load() { // the server has answered, so it has committed
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("nodepools_revision")) && p.armed.CompareAndSwap(true, false) {
			if !p.reaches {
				return
			}
			cut.Store(true)
			_, _ = backend.Write(buffer[:n])
			_, _ = io.Copy(io.Discard, client) // until the other direction has closed it
			return
		}
		if _, err := backend.Write(buffer[:n]); err != nil {
			return
		}
	}
}
