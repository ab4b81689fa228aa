package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

func dial(t *testing.T, address string, security credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func as(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, append([]string{"x-user-email", "user@example.com"}, pairs...)...)
}

func TestGRPCOnTheSamePort(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.MaxBody = 4096 })
	b.cluster()
	connection := dial(t, strings.TrimPrefix(b.http.URL, "http://"), insecure.NewCredentials())
	pools, events := nodepoolsv1.NewNodePoolServiceClient(connection), nodepoolsv1.NewEventServiceClient(connection)
	count := int32(3)
	create := &nodepoolsv1.CreateNodePoolRequest{Nodepool: &nodepoolsv1.NodePool{Name: "one", ClusterId: guideCluster, Spec: &nodepoolsv1.NodePoolSpec{
		Platform: &nodepoolsv1.Platform{Type: "gcp", Gcp: &nodepoolsv1.GcpNodePool{MachineType: "n1-standard-4"}}, NodeCount: &count,
	}}}
	ctx := as(t.Context())

	stream, err := events.WatchEvents(ctx, &nodepoolsv1.WatchEventsRequest{Since: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetType() != "cluster.created" {
		t.Fatalf("first event %v, %v", event, err)
	}
	pool, err := pools.CreateNodePool(as(t.Context(), "idempotency-key", "1"), create)
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetNodepool().GetId() != pool.GetId() {
		t.Errorf("second event %v, %v", event, err)
	}
	if again, err := pools.CreateNodePool(as(t.Context(), "idempotency-key", "1"), create); err != nil || again.GetId() != pool.GetId() {
		t.Errorf("sent again: %v, %v", again, err)
	}
	// What REST shows is the same object.
	if got := b.do("GET", "/api/v1/nodepools/"+pool.GetId(), ""); got.at(t, "resource_version") != pool.GetResourceVersion() {
		t.Errorf("over REST: %s", got.body)
	}
	for _, test := range []struct {
		reason string
		call   func() error
		code   codes.Code
		want   string
	}{
		{"nobody", func() error {
			_, err := pools.GetNodePool(t.Context(), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
			return err
		}, codes.Unauthenticated, ""},
		{"a watch of nobody", func() error {
			stream, err := events.WatchEvents(t.Context(), &nodepoolsv1.WatchEventsRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}, codes.Unauthenticated, ""},
		{"two users", func() error {
			_, err := pools.GetNodePool(as(ctx), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
			return err
		}, codes.Unauthenticated, ""},
		{"another version", func() error {
			_, err := pools.UpdateNodePool(as(t.Context(), "if-match", `"1"`), &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: create.GetNodepool()})
			return err
		}, codes.FailedPrecondition, service.ReasonPreconditionFailed},
		{"a name that is taken", func() error { _, err := pools.CreateNodePool(ctx, create); return err }, codes.Aborted, service.ReasonConflict},
		{"a message that is too large", func() error {
			_, err := pools.GetNodePool(ctx, &nodepoolsv1.GetNodePoolRequest{Id: strings.Repeat("x", 8192)})
			return err
		}, codes.ResourceExhausted, ""},
	} {
		err := test.call()
		if status.Code(err) != test.code || service.Reason(err) != test.want {
			t.Errorf("%s: %v, reason %q", test.reason, err, service.Reason(err))
		}
	}
	// The end of the service ends the watch.
	b.server.EndStreams()
	if _, err := stream.Recv(); err == nil {
		t.Error("the watch goes on after the end")
	}
}

// certificate makes a certificate for a name, signed by a parent or by itself.
func certificate(t *testing.T, name string, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA: parent == nil, BasicConstraintsValid: true,
	}
	signer, signerKey := template, any(key)
	if parent != nil {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), signerKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}

func TestProxyIsBelievedByItsCertificate(t *testing.T) {
	t.Parallel()
	authority := certificate(t, "authority", nil)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	roles := auth.Everyone(auth.Editor)
	b := newBench(t, func(o *server.Options) {
		o.Authenticator = auth.Chain(auth.Header(roles, auth.CertificatePeer("proxy.example.com")))
	})
	secure := b.server.HTTPServer()
	secure.TLSConfig = &tls.Config{
		Certificates: []tls.Certificate{certificate(t, "127.0.0.1", &authority)}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = secure.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = secure.Close() })
	for name, want := range map[string]codes.Code{"proxy.example.com": codes.OK, "other.example.com": codes.Unauthenticated, "": codes.Unauthenticated} {
		config := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
		if name != "" {
			config.Certificates = []tls.Certificate{certificate(t, name, &authority)}
		}
		// REST over HTTP/2 and gRPC, on the one port.
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+"/api/v1/nodepools", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(auth.UserHeader, "user@example.com")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		client.CloseIdleConnections()
		if response.ProtoMajor != 2 || (response.StatusCode == http.StatusOK) != (want == codes.OK) {
			t.Errorf("%q: %s %d", name, response.Proto, response.StatusCode)
		}
		connection := dial(t, listener.Addr().String(), credentials.NewTLS(config))
		_, err = nodepoolsv1.NewNodePoolServiceClient(connection).ListNodePools(as(t.Context()), &nodepoolsv1.ListNodePoolsRequest{})
		if status.Code(err) != want {
			t.Errorf("%q over gRPC: %v", name, err)
		}
	}
}
