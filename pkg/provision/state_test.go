package provision

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func getenv(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestStateDirectory(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		env    map[string]string
		want   string
	}{
		"Chosen": {reason: "what is chosen comes first", env: map[string]string{"PLANTON_STATE_DIR": "/state", "XDG_STATE_HOME": "/xdg"}, want: "/state"},
		"XDG":    {reason: "then the desktop's", env: map[string]string{"XDG_STATE_HOME": "/xdg", "HOME": "/home/me"}, want: "/xdg/planton"},
		"Home":   {reason: "then the home directory; a relative XDG folder is to be ignored", env: map[string]string{"XDG_STATE_HOME": "xdg", "HOME": "/home/me"}, want: "/home/me/.local/state/planton"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := StateDirectory(getenv(tc.env))
			if err != nil || filepath.ToSlash(got) != tc.want {
				t.Errorf("%s: got %q, error %v; want %q", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestOpenState(t *testing.T) {
	t.Parallel()
	const directory = "DIRECTORY" // of each case, one of its own
	cases := map[string]struct {
		reason string
		env    map[string]string
		before func(directory string) error
		want   State
	}{
		"Files": {
			reason: "files under the directory, with a home and a passphrase there",
			want:   State{BackendURL: "file://" + directory + "/backend?metadata=skip", Home: directory + "/pulumi", PassphraseFile: directory + "/passphrase"},
		},
		"Home": {
			reason: "a home that is chosen is used",
			env:    map[string]string{"PULUMI_HOME": "/pulumi"},
			want:   State{BackendURL: "file://" + directory + "/backend?metadata=skip", Home: "/pulumi", PassphraseFile: directory + "/passphrase"},
		},
		"Bucket": {
			reason: "a backend that is chosen gets the user's own home, where the login is, and a passphrase",
			env:    map[string]string{"PULUMI_BACKEND_URL": "s3://states"},
			want:   State{BackendURL: "s3://states", PassphraseFile: directory + "/passphrase"},
		},
		"Cloud": {
			reason: "Pulumi Cloud keeps the keys itself",
			env:    map[string]string{"PULUMI_BACKEND_URL": "https://api.pulumi.com"},
			want:   State{BackendURL: "https://api.pulumi.com"},
		},
		"Passphrase": {
			reason: "a passphrase that is given is used",
			env:    map[string]string{"PULUMI_BACKEND_URL": "s3://states", "PULUMI_CONFIG_PASSPHRASE": "x"},
			want:   State{BackendURL: "s3://states"},
		},
		"PassphraseFile": {
			reason: "a passphrase file that is given is used",
			env:    map[string]string{"PULUMI_BACKEND_URL": "s3://states", "PULUMI_CONFIG_PASSPHRASE_FILE": "/x"},
			want:   State{BackendURL: "s3://states"},
		},
		"SecretsProvider": {
			reason: "a secrets provider needs no passphrase",
			env:    map[string]string{"PULUMI_BACKEND_URL": "s3://states", "PLANTON_SECRETS_PROVIDER": "awskms://alias/x"},
			want:   State{BackendURL: "s3://states", SecretsProvider: "awskms://alias/x"},
		},
		"SecretsProviderLater": {
			reason: "stacks that were made before a secrets provider was chosen still need the passphrase",
			env:    map[string]string{"PULUMI_BACKEND_URL": "s3://states", "PLANTON_SECRETS_PROVIDER": "awskms://alias/x"},
			before: func(directory string) error {
				return os.WriteFile(filepath.Join(directory, "passphrase"), []byte("x"), 0o600)
			},
			want: State{BackendURL: "s3://states", SecretsProvider: "awskms://alias/x", PassphraseFile: directory + "/passphrase"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := t.TempDir()
			for _, field := range []*string{&tc.want.BackendURL, &tc.want.Home, &tc.want.PassphraseFile} {
				*field = strings.Replace(*field, directory, at, 1)
			}
			if tc.before != nil {
				if err := tc.before(at); err != nil {
					t.Fatal(err)
				}
			}
			got, err := OpenState(at, getenv(tc.env))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			// How the backend's files are written does not make it another backend.
			tc.want.Creates = createsOf(at, strings.TrimSuffix(tc.want.BackendURL, "?metadata=skip"))
			tc.want.marks, tc.want.backups = filepath.Join(at, "running"), filepath.Join(at, "backups")
			if tc.env[environmentBackend] == "" {
				tc.want.files = filepath.Join(at, "backend")
			}
			if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(State{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passphrase")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := makePassphrase(file); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	first, err := os.ReadFile(file)
	if err != nil || len(strings.TrimSpace(string(first))) < 32 {
		t.Fatalf("got passphrase %q, error %v", first, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, error %v; want 0600", info.Mode(), err)
	}
	if err := makePassphrase(file); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(file); string(again) != string(first) {
		t.Error("the passphrase was made anew: what it has encrypted is lost")
	}

	empty := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makePassphrase(empty); err == nil {
		t.Error("an empty passphrase file was taken, or overwritten")
	}
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	installed := t.TempDir()
	native := t.TempDir()
	for _, folder := range []string{
		filepath.Join(installed, "plugins", "resource-digitalocean-v4.57.0"), filepath.Join(installed, "plugins", "resource-civo-v2.4.8"),
		filepath.Join(native, "plugins", "resource-digitalocean-v4.57.0"),
	} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(native, "plugins", "resource-digitalocean-v4.57.0", NativeMarker), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		reason   string
		home     string
		choice   Choice
		provider string
		want     Choice
	}{
		{"as asked for", home, Native, "digitalocean", Native},
		{"as asked for", installed, Native, "digitalocean", Native},
		{"as asked for", home, Official, "civo", Official},
		{"the official one for DigitalOcean where it is installed", installed, Automatic, "digitalocean", Official},
		{"the native one where it is not", home, Automatic, "digitalocean", Native},
		{"a native one that is installed under the official's name is none", native, Automatic, "digitalocean", Native},
		{"the native one for Civo, always", installed, Automatic, "civo", Native},
	}
	for _, tc := range cases {
		engine := &Engine{options: Options{
			State: &State{Home: tc.home}, Plugins: tc.choice,
			Native: map[string]NativePlugin{"civo": nil, "digitalocean": nil},
		}}
		got, err := engine.Plugin(tc.provider)
		if err != nil || got.Choice != tc.want || got.Reason == "" {
			t.Errorf("%s (%s, %s): got %v, error %v; want %s", tc.reason, tc.choice, tc.provider, got, err, tc.want)
		}
	}
	if _, err := (&Engine{options: Options{State: &State{}, Plugins: Native}}).Plugin("civo"); err == nil {
		t.Error("a native plugin that does not exist gave no error")
	}
	if _, err := ParseChoice("best"); err == nil {
		t.Error("an unknown choice gave no error")
	}
}

// A process that is killed while Pulumi writes leaves a file of attributes empty, and the stack could not be read.
func TestDropEmptyAttributes(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	files := map[string]string{
		".pulumi/meta.yaml.attrs":                    "",
		".pulumi/stacks/civovpc/acme.net.json":       "{}",
		".pulumi/stacks/civovpc/acme.net.json.attrs": "",
		".pulumi/stacks/civovpc/acme.old.json.attrs": `{"user.content_type":"text/plain"}`,
	}
	for name, text := range files {
		path := filepath.Join(directory, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&State{BackendURL: fileURL(directory) + "?metadata=skip"}).dropEmptyAttributes(); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		_, err := os.Stat(filepath.Join(directory, filepath.FromSlash(name)))
		if want := strings.HasSuffix(name, ".attrs") && text == ""; os.IsNotExist(err) != want {
			t.Errorf("%s: %v; want it removed: %v", name, err, want)
		}
	}
	for _, elsewhere := range []string{"s3://states", "https://api.pulumi.com", "file://" + filepath.Join(directory, "none")} {
		if err := (&State{BackendURL: elsewhere}).dropEmptyAttributes(); err != nil {
			t.Errorf("%s: %v", elsewhere, err)
		}
	}
}

// Every operation on a stack begins with it: here one that comes no further.
func TestOperationsDropEmptyAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder := filepath.Join(w.directory, "state", "backend", ".pulumi", "stacks", "civovpc")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "main.json.attrs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, operation := range map[string]func(context.Context, Stack) (*Result, error){
		"up": w.Up, "preview": w.Preview, "refresh": w.Refresh, "destroy": w.Destroy,
	} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := operation(ctx, stackOf(t, vpc(t, "main", "main", "fra1"), testToken)); err == nil {
			t.Errorf("%s: no error with a context that has ended", name)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: the empty file of attributes: %v, want it removed", name, err)
		}
	}
}
