package credentials

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

const address = "https://cloudstack.example.com/client/api"

// directory is a directory with credentials.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	write(t, directory, files)
	return directory
}

func write(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func complete(key string) map[string]string {
	return map[string]string{"api-url": address, "api-key": key, "secret-key": "secret-of-" + key}
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		files   map[string]string
		address string
		want    cloudstack.Credentials
		wrong   string // part of the error
	}{
		"complete": {files: complete("a"), want: cloudstack.Credentials{URL: address, APIKey: "a", SecretKey: "secret-of-a"}},
		"line breaks at the end, as editors leave them": {
			files: map[string]string{"api-url": address + "\n", "api-key": "a\r\n", "secret-key": " b\n"},
			want:  cloudstack.Credentials{URL: address, APIKey: "a", SecretKey: "b"},
		},
		"the option has the address":    {files: map[string]string{"api-key": "a", "secret-key": "b"}, address: address, want: cloudstack.Credentials{URL: address, APIKey: "a", SecretKey: "b"}},
		"the option counts":             {files: complete("a"), address: "https://other/api", want: cloudstack.Credentials{URL: "https://other/api", APIKey: "a", SecretKey: "secret-of-a"}},
		"nothing":                       {wrong: "api-url"},
		"no address":                    {files: map[string]string{"api-key": "hush", "secret-key": "hush"}, wrong: "there is no file"},
		"no key":                        {files: map[string]string{"api-url": address, "secret-key": "hush"}, wrong: "needs the key api-key"},
		"no secret key":                 {files: map[string]string{"api-url": address, "api-key": "hush"}, wrong: "needs the key secret-key"},
		"an empty file":                 {files: map[string]string{"api-url": address, "api-key": "hush", "secret-key": " \n"}, wrong: "is empty"},
		"two lines":                     {files: map[string]string{"api-url": address, "api-key": "hush\nhush", "secret-key": "hush"}, wrong: "line breaks"},
		"no text":                       {files: map[string]string{"api-url": address, "api-key": "hush\x00", "secret-key": "hush"}, wrong: "control characters"},
		"a file of something different": {files: map[string]string{"api-url": address, "api-key": strings.Repeat("hush", 2000), "secret-key": "hush"}, wrong: "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(directory(t, test.files), test.address)
			if test.wrong == "" {
				if err != nil || got != test.want {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wrong) || got != (cloudstack.Credentials{}) {
				t.Fatalf("%+v, %v, want an error with %q", got, err, test.wrong)
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the error has what is in the file: %v", err)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nowhere"), ""); err == nil {
		t.Error("no directory, and no error")
	}
}

// client notes the credentials that it is given, and takes those of CloudStack only.
type client struct {
	got     []cloudstack.Credentials
	bundles []string
}

// SetCABundle notes what is trusted, and takes what looks like a certificate only.
func (c *client) SetCABundle(bundle []byte) error {
	if !bytes.HasPrefix(bundle, []byte("certificate ")) {
		return errors.New("no certificate")
	}
	c.bundles = append(c.bundles, string(bundle))
	return nil
}

func (c *client) SetCredentials(credentials cloudstack.Credentials) error {
	if !strings.HasPrefix(credentials.URL, "http") {
		return errors.New("no URL")
	}
	c.got = append(c.got, credentials)
	return nil
}

func (c *client) last() string {
	if len(c.got) == 0 {
		return ""
	}
	return c.got[len(c.got)-1].APIKey
}

// watcher is a watcher of a directory, with what it logs.
func watcher(c Client, directory string, changed func()) (*Watcher, context.Context, *bytes.Buffer) {
	var logged bytes.Buffer
	logger := funcr.New(func(prefix, args string) { logged.WriteString(prefix + " " + args + "\n") }, funcr.Options{})
	o := options.Defaults()
	o.CredentialsDirectory, o.CredentialsPeriod = directory, time.Millisecond
	return NewWatcher(c, o, changed), log.IntoContext(context.Background(), logger), &logged
}

func TestChangesAreUsed(t *testing.T) {
	d, c, changes := directory(t, complete("one")), &client{}, 0
	w, ctx, _ := watcher(c, d, func() { changes++ })
	if err := w.Load(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.look(ctx)
	}
	if len(c.got) != 1 || c.last() != "one" {
		t.Fatalf("the client was told %d times, lastly %s", len(c.got), c.last())
	}
	write(t, d, complete("two"))
	w.look(ctx)
	if c.last() != "one" {
		t.Error("one look at a change is enough: the files may be half written")
	}
	w.look(ctx)
	if c.last() != "two" || changes != 2 {
		t.Errorf("%s after the change, %d changes told", c.last(), changes)
	}
}

// A Secret that is written key by key is for a while a mix of two, of which nobody knows the secret key.
func TestMixesAreNotUsed(t *testing.T) {
	d, c := directory(t, complete("one")), &client{}
	w, ctx, _ := watcher(c, d, nil)
	if err := w.Load(ctx); err != nil {
		t.Fatal(err)
	}
	write(t, d, map[string]string{"api-key": "two"})
	w.look(ctx)
	write(t, d, map[string]string{"secret-key": "secret-of-two"})
	w.look(ctx)
	w.look(ctx)
	for _, got := range c.got {
		if got.SecretKey != "secret-of-"+got.APIKey {
			t.Errorf("a mix was used: %s with %s", got.APIKey, got.SecretKey)
		}
	}
	if c.last() != "two" {
		t.Error("the change was not used")
	}
}

// What cannot be used leaves what was used before, and is told once without what is in it.
func TestWhatIsBrokenIsNotUsed(t *testing.T) {
	for name, broken := range map[string]map[string]string{
		"half written": {"api-url": address, "api-key": "hush-new", "secret-key": ""},
		"no address":   {"api-url": "hush", "api-key": "hush-new", "secret-key": "hush"},
		"no text":      {"api-url": address, "api-key": "hush-new\nhush", "secret-key": "hush"},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := directory(t, complete("one")), &client{}
			w, ctx, logged := watcher(c, d, nil)
			if err := w.Load(ctx); err != nil {
				t.Fatal(err)
			}
			if testutil.ToFloat64(valid) != 1 {
				t.Error("the metric says that they cannot be used")
			}
			refused := testutil.ToFloat64(reloads.WithLabelValues("refused"))
			write(t, d, broken)
			for range 5 {
				w.look(ctx)
			}
			if c.last() != "one" {
				t.Errorf("%s is used", c.last())
			}
			if testutil.ToFloat64(valid) != 0 || testutil.ToFloat64(reloads.WithLabelValues("refused")) != refused+1 {
				t.Error("the metrics do not say so, or more than once")
			}
			if strings.Count(logged.String(), "cannot be used, those from before stay") != 1 {
				t.Errorf("not logged once: %s", logged)
			}
			if strings.Contains(logged.String(), "hush") {
				t.Errorf("the log has what is in the files: %s", logged)
			}
			write(t, d, complete("three"))
			w.look(ctx)
			w.look(ctx)
			if c.last() != "three" || testutil.ToFloat64(valid) != 1 {
				t.Error("what was mended is not used")
			}
		})
	}
}

// The controller starts without a Secret, and goes on when there is one.
func TestStartsWithoutCredentials(t *testing.T) {
	d, c := t.TempDir(), &client{}
	w, ctx, logged := watcher(c, d, nil)
	if err := w.Load(ctx); err == nil {
		t.Fatal("no error without credentials")
	}
	if !strings.Contains(logged.String(), "there are none from before") {
		t.Errorf("the log does not say so: %s", logged)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	write(t, d, complete("late"))
	for range 1000 {
		if testutil.ToFloat64(valid) == 1 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c.last() != "late" {
		t.Error("the credentials that came later are not used")
	}
	if w.NeedLeaderElection() {
		t.Error("only the leader looks: the next one would begin with old credentials")
	}
}

// kubelet exchanges all files of a volume at once, by a link to a folder.
func TestVolumesOfSecrets(t *testing.T) {
	d, c := t.TempDir(), &client{}
	for version, key := range map[string]string{"..1": "one", "..2": "two"} {
		if err := os.Mkdir(filepath.Join(d, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d, version), complete(key))
	}
	link := func(version string) {
		t.Helper()
		if err := os.Symlink(version, filepath.Join(d, "..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(d, "..new"), filepath.Join(d, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("..1")
	for name := range complete("") {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(d, name)); err != nil {
			t.Fatal(err)
		}
	}
	w, ctx, _ := watcher(c, d, nil)
	if err := w.Load(ctx); err != nil {
		t.Fatal(err)
	}
	link("..2")
	w.look(ctx)
	w.look(ctx)
	if c.last() != "two" {
		t.Error("the new version of the volume is not used")
	}
}

func TestUnencryptedIsSaid(t *testing.T) {
	files := complete("one")
	files["api-url"] = "http://10.0.0.1:8080/client/api"
	w, ctx, logged := watcher(&client{}, directory(t, files), nil)
	if err := w.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logged.String(), "not encrypted") {
		t.Errorf("the log does not say so: %s", logged)
	}
}

// A certificate authority is exchanged as credentials are: without a restart, and never by half.
func TestChangesOfTheBundleAreUsed(t *testing.T) {
	d, c, changes := directory(t, complete("one")), &client{}, 0
	w, ctx, logged := watcher(c, d, func() { changes++ })
	w.bundleFile = filepath.Join(d, "ca.crt")
	write(t, d, map[string]string{"ca.crt": "certificate a"})
	if err := w.Load(ctx); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		reason, content string
		looks           int
		want            []string
		valid           float64
	}{
		{"nothing has changed", "certificate a", 3, []string{"certificate a"}, 1},
		{"the file may be half written", "certificate b", 1, []string{"certificate a"}, 1},
		{"it has not changed since", "certificate b", 1, []string{"certificate a", "certificate b"}, 1},
		{"it has no certificate", "hush", 5, []string{"certificate a", "certificate b"}, 0},
		{"it is too long", strings.Repeat("certificate ", maxBundle/8), 3, []string{"certificate a", "certificate b"}, 0},
		{"it is as before", "certificate b", 2, []string{"certificate a", "certificate b"}, 1},
	} {
		write(t, d, map[string]string{"ca.crt": step.content})
		for range step.looks {
			w.look(ctx)
		}
		if !slices.Equal(c.bundles, step.want) || testutil.ToFloat64(bundleValid) != step.valid {
			t.Errorf("%s: %.40q were trusted, and the metric is %v", step.reason, c.bundles, testutil.ToFloat64(bundleValid))
		}
	}
	if err := os.Remove(w.bundleFile); err != nil {
		t.Fatal(err)
	}
	w.look(ctx)
	w.look(ctx)
	if len(c.bundles) != 2 || testutil.ToFloat64(bundleValid) != 0 {
		t.Error("a file that is gone takes away what was trusted, or the metric does not tell of it")
	}
	if n := strings.Count(logged.String(), "certificates to trust cannot be used, those from before stay"); n != 3 || strings.Contains(logged.String(), "hush") {
		t.Errorf("logged %d times, not once for each of 3 reasons, or with what is in the file: %s", n, logged)
	}
	if changes != 2 || len(c.got) != 1 {
		t.Errorf("%d changes told, of the credentials and of the bundle; the credentials were set %d times", changes, len(c.got))
	}
}
