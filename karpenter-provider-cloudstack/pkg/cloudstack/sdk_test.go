package cloudstack_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

const (
	apiKey    = "marked-api-key"
	secretKey = "marked-secret-key"
)

// clientOf makes a client that waits for nothing.
func clientOf(t *testing.T, address string, change ...func(*cloudstack.Options)) *cloudstack.Client {
	t.Helper()
	options := cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: address, APIKey: apiKey, SecretKey: secretKey},
		Rate:        10000, Burst: 10000, Backoff: time.Millisecond, JobPoll: time.Millisecond, JobPollMax: time.Millisecond,
	}
	for _, one := range change {
		one(&options)
	}
	client, err := cloudstack.New(options)
	require.NoError(t, err)
	return client
}

// emulated serves a small data centre.
func emulated(t *testing.T, options fake.Options) (*fake.CloudStack, string) {
	t.Helper()
	options.APIKey, options.SecretKey = apiKey, secretKey
	c := fake.Default(options)
	address, stop, err := c.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(stop)
	return c, address
}

func order(name string) cloudstack.Deployment {
	zone := fake.IDOf("zone", fake.ZoneA)
	return cloudstack.Deployment{
		Name: name, ZoneID: zone, ServiceOfferingID: fake.IDOf("offering", fake.OfferingSmall),
		TemplateID: fake.IDOf("template", fake.TemplateAMD64), NetworkIDs: []string{fake.IDOf("network", zone+"/"+fake.NetworkA)},
	}
}

// What only reads is asked again, what does something is not, but where CloudStack says that it did nothing.
func TestRetries(t *testing.T) {
	t.Parallel()
	list := func(ctx context.Context, client *cloudstack.Client) error {
		_, err := client.ListZones(ctx)
		return err
	}
	deploy := func(ctx context.Context, client *cloudstack.Client) error {
		_, _, err := client.DeployVirtualMachine(ctx, order("node"))
		return err
	}
	for name, test := range map[string]struct {
		fault   fake.Fault
		command string
		call    func(context.Context, *cloudstack.Client) error
		want    int
		fails   func(error) bool
	}{
		"a dropped list is asked again":       {fake.Fault{Drop: true, Times: 2}, "listZones", list, 3, nil},
		"a list without an answer too":        {fake.Fault{LoseAnswer: true, Times: 1}, "listZones", list, 2, nil},
		"and one of an internal error":        {fake.Fault{Code: 530, Times: 1}, "listZones", list, 2, nil},
		"but not for ever":                    {fake.Fault{Drop: true}, "listZones", list, 4, cloudstack.IsUnknownResult},
		"wrong credentials stay wrong":        {fake.Fault{Code: 401}, "listZones", list, 1, cloudstack.IsUnauthorized},
		"a dropped deployment is not":         {fake.Fault{Drop: true, Times: 1}, "deployVirtualMachine", deploy, 1, cloudstack.IsUnknownResult},
		"nor one without an answer":           {fake.Fault{LoseAnswer: true, Times: 1}, "deployVirtualMachine", deploy, 1, cloudstack.IsUnknownResult},
		"nor one of an internal error":        {fake.Fault{Code: 530, Times: 1}, "deployVirtualMachine", deploy, 1, func(err error) bool { return !cloudstack.IsUnknownResult(err) }},
		"a throttled deployment did nothing":  {fake.Fault{Code: 429, Times: 2}, "deployVirtualMachine", deploy, 3, nil},
		"a throttled one is not for ever":     {fake.Fault{Code: 429}, "deployVirtualMachine", deploy, 4, cloudstack.IsThrottled},
		"what does not fit is told unchanged": {fake.Fault{Code: 431, Text: "no"}, "deployVirtualMachine", deploy, 1, cloudstack.IsBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, address := emulated(t, fake.Options{})
			test.fault.Command = test.command
			c.Fail(test.fault)
			err := test.call(t.Context(), clientOf(t, address))
			if test.fails == nil {
				require.NoError(t, err)
			} else {
				require.True(t, test.fails(err), "%v", err)
			}
			require.Equal(t, test.want, c.Counts()[test.command])
		})
	}
}

// Neither the keys nor the signature are part of an error, whatever answers.
func TestErrorsHaveNoCredentials(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"nothing":              func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"the request itself":   func(w http.ResponseWriter, r *http.Request) { _ = r.Write(w) },
		"the request, refused": func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.String(), http.StatusBadGateway) },
		"no JSON":              func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"other JSON":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":{"zone":"b"}}`)) },
		"half of the JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"a":`))
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere?"+r.URL.RawQuery, http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			client := clientOf(t, server.URL)
			_, err := client.ListZones(t.Context())
			require.Error(t, err)
			_, _, errDeploy := client.DeployVirtualMachine(t.Context(), order("node"))
			require.Error(t, errDeploy)
			require.True(t, cloudstack.IsUnknownResult(errDeploy), "%v", errDeploy)
			for _, text := range []string{err.Error(), errDeploy.Error(), fmt.Sprintf("%+v %+v", err, errDeploy)} {
				require.NotContains(t, text, apiKey)
				require.NotContains(t, text, secretKey)
				require.NotContains(t, strings.ToLower(text), "signature=")
			}
		})
	}
}

// A request that is not made, because its turn comes after its context ends, is an error and not an empty answer.
func TestRate(t *testing.T) {
	t.Parallel()
	c, address := emulated(t, fake.Options{})
	client := clientOf(t, address, func(o *cloudstack.Options) { o.Rate, o.Burst = 0.001, 1 })
	_, err := client.ListZones(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = client.ListVirtualMachines(ctx, cloudstack.Scope{}, cloudstack.MachineQuery{})
	require.Error(t, err)
	require.False(t, cloudstack.IsUnknownResult(err), "the request was not made: %v", err)
	require.Zero(t, c.Counts()["listVirtualMachines"])
	client.SetRate(1000, 10)
	_, err = client.ListVirtualMachines(ctx, cloudstack.Scope{}, cloudstack.MachineQuery{})
	require.NoError(t, err)
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	_, address := emulated(t, fake.Options{RequestLatency: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	go func() {
		<-began
		cancel()
	}()
	close(began)
	_, err := clientOf(t, address).ListZones(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	_, address := emulated(t, fake.Options{})
	client := clientOf(t, address, func(o *cloudstack.Options) { o.Credentials = cloudstack.Credentials{} })
	_, err := client.ListZones(t.Context())
	require.True(t, cloudstack.IsUnauthorized(err), "%v", err)
	for _, bad := range []cloudstack.Credentials{
		{URL: "cloudstack.example.com", APIKey: "a", SecretKey: "b"}, {URL: "ftp://x", APIKey: "a", SecretKey: "b"},
		{URL: address, APIKey: "a"}, {URL: address, SecretKey: "b"},
	} {
		require.Error(t, client.SetCredentials(bad))
	}
	require.NoError(t, client.SetCredentials(cloudstack.Credentials{URL: address, APIKey: apiKey, SecretKey: secretKey}))
	_, err = client.ListZones(t.Context())
	require.NoError(t, err)
}

// A certificate is verified unless that is switched off.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := fake.Default(fake.Options{APIKey: apiKey, SecretKey: secretKey})
	server := httptest.NewTLSServer(c)
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	address := server.URL + "/client/api"
	ask := func(change func(*cloudstack.Options)) error {
		_, err := clientOf(t, address, change).ListZones(t.Context())
		return err
	}
	var unknown x509.UnknownAuthorityError
	require.True(t, errors.As(ask(func(*cloudstack.Options) {}), &unknown))
	require.NoError(t, ask(func(o *cloudstack.Options) { o.SkipVerify = true }))
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, ask(func(o *cloudstack.Options) { o.CABundle = bundle }))
	_, err := cloudstack.New(cloudstack.Options{CABundle: []byte("none")})
	require.ErrorContains(t, err, "no certificate")
}

// A certificate authority is exchanged while the client is in use: the next request counts with the new one, also where a connection of the
// old one is still open.
func TestSetCABundle(t *testing.T) {
	t.Parallel()
	c := fake.Default(fake.Options{APIKey: apiKey, SecretKey: secretKey})
	server := httptest.NewUnstartedServer(c)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other := anotherAuthority(t)
	client := clientOf(t, server.URL+"/client/api", func(o *cloudstack.Options) { o.CABundle, o.Attempts = other, 1 })
	ask := func() error {
		_, err := client.ListZones(t.Context())
		return err
	}
	var unknown x509.UnknownAuthorityError
	require.True(t, errors.As(ask(), &unknown), "the API has no certificate of that authority")
	require.NoError(t, client.SetCABundle(own))
	require.NoError(t, ask())
	require.ErrorContains(t, client.SetCABundle([]byte("none")), "no certificate")
	require.NoError(t, ask(), "what cannot be read takes nothing away")
	require.NoError(t, client.SetCABundle(other))
	require.True(t, errors.As(ask(), &unknown), "the connection from before is used")
}

// anotherAuthority is a certificate authority, in PEM, that has signed nothing.
func anotherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestProxy(t *testing.T) {
	t.Parallel()
	c := fake.Default(fake.Options{APIKey: apiKey, SecretKey: secretKey})
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through.Add(1)
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	client := clientOf(t, "http://cloudstack.invalid/client/api", func(o *cloudstack.Options) { o.Proxy = proxy.URL })
	_, err := client.ListZones(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, through.Load())
	_, err = cloudstack.New(cloudstack.Options{Proxy: "nowhere"})
	require.Error(t, err)
}

// All who wait for a job share its looks, and whoever gives up does not end those of the others.
func TestJobsAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	c, address := emulated(t, fake.Options{JobLatency: fake.Between(200*time.Millisecond, 200*time.Millisecond)})
	client := clientOf(t, address, func(o *cloudstack.Options) { o.JobPoll, o.JobPollMax = 20*time.Millisecond, 20*time.Millisecond })
	_, job, err := client.DeployVirtualMachine(t.Context(), order("node"))
	require.NoError(t, err)
	impatient, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- client.WaitForJob(impatient, job) }()
	var others sync.WaitGroup
	for range 50 {
		others.Go(func() {
			if err := client.WaitForJob(t.Context(), job); err != nil {
				t.Errorf("a job that succeeds: %v", err)
			}
		})
	}
	giveUp()
	require.ErrorIs(t, <-first, context.Canceled)
	others.Wait()
	require.LessOrEqual(t, c.Counts()["queryAsyncJobResult"], 30, "fifty who wait each ask")
}

// A tilde is signed as the server does it, in requests of both methods.
func TestTilde(t *testing.T) {
	t.Parallel()
	_, address := emulated(t, fake.Options{})
	client := clientOf(t, address)
	_, err := client.ListVirtualMachines(t.Context(), cloudstack.Scope{}, cloudstack.MachineQuery{TagKey: "a~b", TagValue: "~ c*"})
	require.NoError(t, err)
	with := order("node")
	with.DisplayName = "the ~ node"
	_, job, err := client.DeployVirtualMachine(t.Context(), with)
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(t.Context(), job))
}

// A list whose length changes while its pages are read is read again: an element that goes would hide another one.
func TestListsThatChange(t *testing.T) {
	t.Parallel()
	page := func(count int, names ...string) string {
		for i := range names {
			names[i] = `{"id":"` + names[i] + `","name":"` + names[i] + `"}`
		}
		return fmt.Sprintf(`{"listzonesresponse":{"count":%d,"zone":[%s]}}`, count, strings.Join(names, ","))
	}
	for name, test := range map[string]struct {
		pages []string
		want  string
		fails string
	}{
		"one page":                {pages: []string{page(2, "a", "b")}, want: "a b"},
		"two":                     {pages: []string{page(3, "a", "b"), page(3, "c")}, want: "a b c"},
		"none":                    {pages: []string{page(0)}, want: ""},
		"one went":                {pages: []string{page(4, "a", "b"), page(3, "d"), page(3, "b", "c"), page(3, "d")}, want: "b c d"},
		"one came":                {pages: []string{page(3, "a", "b"), page(4, "b", "c"), page(4, "x", "a"), page(4, "b", "c")}, want: "x a b c"},
		"less is shown than told": {pages: []string{page(3, "a", "b"), page(3)}, fails: "counts 3"},
		"one comes each time": {
			pages: []string{page(3, "a", "b"), page(4, "b", "c"), page(4, "x", "a"), page(5, "a", "b"), page(5, "c")}, want: "x a b c",
		},
		"one goes each time": {
			pages: []string{
				page(9, "a", "b"), page(8, "d", "e"), page(8, "f", "g"), page(8, "h", "i"), page(8, "b", "c"), page(7, "e", "f"), page(7, "g", "h"), page(7, "i"),
				page(7, "c", "d"), page(6, "f", "g"), page(6, "h", "i"), page(6, "d", "e"), page(5, "g", "h"), page(5, "i"),
				page(5, "e", "f"), page(4, "h", "i"),
			},
			fails: "faster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(test.pages[asked.Add(1)-1]))
			}))
			t.Cleanup(server.Close)
			zones, err := clientOf(t, server.URL).ListZones(t.Context())
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, zone := range zones {
				names = append(names, zone.Name)
			}
			require.Equal(t, test.want, strings.Join(names, " "))
			require.EqualValues(t, len(test.pages), asked.Load())
		})
	}
}

func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(error) bool{
		"not found": cloudstack.IsNotFound, "capacity": cloudstack.IsInsufficientCapacity, "limit": cloudstack.IsLimit, "address": cloudstack.IsNoAddress,
		"name": cloudstack.IsNameTaken, "unauthorized": cloudstack.IsUnauthorized, "throttled": cloudstack.IsThrottled, "bad": cloudstack.IsBadRequest,
		"unknown": cloudstack.IsUnknownResult,
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{&cloudstack.Error{Code: 431, Text: "Invalid parameter id value=x due to incorrect long value format, or entity does not exist"}, "bad not found"},
		{&cloudstack.Error{Code: 431, ExceptionCode: 4350, Text: "The vm with hostName x already exists in the network domain: cs1"}, "bad name"},
		{&cloudstack.Error{Code: 431, Text: "Unable to parse"}, "bad"},
		{&cloudstack.Error{Code: 533, Text: "Unable to create a deployment for VM"}, "capacity"},
		{&cloudstack.Error{Code: 533, Text: "Insufficient address capacity"}, "address capacity"},
		{&cloudstack.Error{Code: 535, Text: "Maximum amount of resources of Type = 'cpu' for Account has been exceeded"}, "capacity limit"},
		{&cloudstack.Error{Code: 532, Text: "limit"}, "limit"},
		{&cloudstack.Error{Code: 534}, "capacity"},
		{&cloudstack.Error{Code: 401}, "unauthorized"},
		{&cloudstack.Error{Code: 531}, "unauthorized"},
		{&cloudstack.Error{Code: 429}, "throttled"},
		{&cloudstack.Error{Code: 530}, ""},
		{&cloudstack.TransportError{Command: "x"}, "unknown"},
		{errors.New("other"), ""},
		{nil, ""},
	} {
		var got []string
		for _, name := range []string{"address", "bad", "capacity", "limit", "name", "not found", "throttled", "unauthorized", "unknown"} {
			if kinds[name](test.err) || test.err != nil && kinds[name](errors.Wrap(test.err, "wrapped")) {
				got = append(got, name)
			}
		}
		require.Equal(t, test.want, strings.Join(got, " "), "%#v", test.err)
	}
}

func TestDiskOfferings(t *testing.T) {
	t.Parallel()
	_, address := emulated(t, fake.Options{})
	offerings, err := clientOf(t, address).ListDiskOfferings(t.Context(), cloudstack.Scope{})
	require.NoError(t, err)
	sizes := map[string]int64{}
	for _, offering := range offerings {
		sizes[offering.Name] = offering.Disksize
	}
	require.Equal(t, map[string]int64{fake.DiskOfferingSmall: 20, fake.DiskOfferingCustom: 0}, sizes)
}
