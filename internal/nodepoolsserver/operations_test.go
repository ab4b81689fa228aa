//go:build unix

package nodepoolsserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/internal/openapi/prism"
)

// serveHere runs a server without workers in this process, and returns its URL and what ends it. Its code must be 0 then.
func serveHere(t *testing.T, getenv func(string) string, arguments ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said, ended := &log{}, make(chan int, 1)
	go func() {
		ended <- Run(ctx, append([]string{"--workers", "0", "--listen", "127.0.0.1:0"}, arguments...), getenv, said, said)
	}()
	once := sync.Once{}
	stop = func() {
		once.Do(func() {
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("the server ended with %d: %s", code, said)
			}
		})
	}
	t.Cleanup(stop)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if found := servingOn.FindStringSubmatch(said.String()); found != nil {
			return found[1], stop
		}
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("the server ended with %d: %s", code, said)
		default:
		}
	}
	t.Fatalf("the server does not serve: %s", said)
	return "", stop
}

// inFolder is an environment whose state is in a folder of the test.
func inFolder(t *testing.T) func(string) string {
	t.Helper()
	dir := t.TempDir()
	return func(name string) string { return map[string]string{"PLANTON_STATE_DIR": dir}[name] }
}

// TestAddressIsTaken: a server that cannot listen ends, and says so; it does not stay as a process that serves nobody.
func TestAddressIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	socket := filepath.Join(t.TempDir(), "s")
	other, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"--listen", listener.Addr().String()}, "--listen"},
		{[]string{"--listen", "", "--unix-socket", socket}, "another process serves there"},
	} {
		var out, log bytes.Buffer
		if code := Run(t.Context(), append(test.arguments, "--workers", "0"), inFolder(t), &out, &log); code != exitFailed || !strings.Contains(log.String(), test.want) {
			t.Errorf("%v: it ended with %d, and said %s", test.arguments, code, &log)
		}
	}
}

// writePair writes a certificate for 127.0.0.1 and its key, and returns the certificate.
func writePair(t *testing.T, certFile, keyFile string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct {
		name, kind string
		content    []byte
	}{{keyFile, "PRIVATE KEY", private}, {certFile, "CERTIFICATE", raw}} {
		if err := os.WriteFile(file.name, pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.content}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Renewed at another moment, however coarse the clock of the file system is.
	at := time.Now().Add(time.Duration(serial) * time.Second)
	if err := os.Chtimes(certFile, at, at); err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// TestCertificateIsRenewed: a certificate that is replaced is served to who comes next, with no restart; half a one is not.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	trusted := x509.NewCertPool()
	trusted.AddCert(writePair(t, cert, key, 1))
	url, _ := serveHere(t, inFolder(t), "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("it serves on %s", url)
	}
	serial := func() int64 {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true}}
		prism.Through(t, client)
		ctx := prism.Direct(t.Context(), "certificates: a proxy would see them, and not the client")
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%d over TLS %x", answer.StatusCode, answer.TLS.Version)
		}
		return answer.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d", got)
	}
	trusted.AddCert(writePair(t, cert, key, 2))
	if got := serial(); got != 2 {
		t.Errorf("after it was renewed: certificate %d", got)
	}
	if err := os.WriteFile(cert, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("while it is written: certificate %d", got)
	}
}

// TestTracesAreSent: spans go where the standard variable of OpenTelemetry says, the last of them when the server ends.
func TestTracesAreSent(t *testing.T) {
	var mutex sync.Mutex
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mutex.Lock()
		defer mutex.Unlock()
		if r.URL.Path == "/v1/traces" {
			got = append(got, body...)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("PLANTON_STATE_DIR", t.TempDir())
	url, stop := serveHere(t, os.Getenv)
	call(t, "GET", url+"/api/v1/nodepools", "")
	stop()
	mutex.Lock()
	defer mutex.Unlock()
	if !bytes.Contains(got, []byte("GET /api/v1/nodepools")) {
		t.Errorf("the collector got %q", got)
	}
}

// TestNotStuck ends the process neither for what takes long nor for a database that is away, which fails transactions after half a minute.
func TestNotStuck(t *testing.T) {
	for stuck, want := range map[time.Duration]bool{0: true, time.Minute: true, 5 * time.Minute: true, 5*time.Minute + time.Second: false} {
		if err := notStuck(stuck); (err == nil) != want {
			t.Errorf("stuck for %s: %v", stuck, err)
		}
	}
}
