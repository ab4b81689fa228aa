package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/doctor"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
)

const token = "dop_v1_4f7c2a9e0b6d8135f7c2a9e0b6d81354f7c2a9e0b6d81354f7c2a9e0b6d81354"

// machine is a machine that everything is right with, and what a test changes about it.
type machine struct {
	directory   string
	environment map[string]string
	plugins     provision.Choice
	emulated    bool
}

func (m *machine) path(names ...string) string {
	return filepath.Join(append([]string{m.directory}, names...)...)
}

func (m *machine) write(t *testing.T, mode os.FileMode, content string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(names...)), 0o700); err != nil {
		t.Fatal(err)
	}
	// A program that is forked meanwhile would hold the file open for writing, and what is written to cannot be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(m.path(names...), []byte(content), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// newMachine makes a machine with a Go and a Pulumi CLI that only say their versions, and clouds that accept one token.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the tools are shell scripts")
	}
	m := &machine{directory: t.TempDir(), plugins: provision.Automatic}
	m.write(t, 0o755, "#!/bin/sh\necho go1.26.6\n", "bin", "go")
	m.write(t, 0o755, `#!/bin/sh
case $1:$PULUMI_BACKEND_URL in
version:*) echo v3.200.0 ;;
*) echo "error: could not open $PULUMI_BACKEND_URL: no such bucket" >&2; exit 1 ;;
esac
`, "bin", "pulumi")
	serve := func(handler http.Handler, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	m.environment = map[string]string{
		"PATH": m.path("bin"), "HOME": m.directory, credentials.EnvironmentFile: m.path("credentials"),
		"CIVO_TOKEN": token, "DIGITALOCEAN_TOKEN": token,
	}
	civoCloud, err := civo.New(emulator.Options{Token: token})
	m.environment["CIVO_API_URL"] = serve(civoCloud, err)
	digitalOceanCloud, err := digitalocean.New(emulator.Options{Token: token})
	m.environment["DIGITALOCEAN_API_URL"] = serve(digitalOceanCloud, err)
	return m
}

func (m *machine) examine() []doctor.Check {
	getenv := func(name string) string { return m.environment[name] }
	return doctor.Examine(context.Background(), doctor.Options{
		Getenv: getenv, StateDirectory: m.path("state"), Plugins: m.plugins, Emulated: m.emulated,
		Native:      map[string]string{kinds.Civo: "2.4.8", kinds.DigitalOcean: "4.57.0"},
		Credentials: credentials.NewResolver(credentials.Options{Getenv: getenv}),
		Pulumi:      pulumicli.Options{Directory: m.directory, CacheDirectory: m.path("cache")},
		Timeout:     5 * time.Second,
	})
}

// healthy is what is found on a machine that everything is right with. DIR and the addresses are put in.
var healthy = map[string]string{
	"go":                       "ok: go1.26.6 at DIR/bin/go",
	"pulumi":                   "ok: 3.200.0 at DIR/bin/pulumi (PATH)",
	"plugin/civo":              "ok: native, in this process, version 2.4.8 (the official one is no longer maintained)",
	"plugin/digitalocean":      "ok: native, in this process, version 4.57.0 (the official one is not installed)",
	"state":                    "ok: file://DIR/state/backend",
	"passphrase":               "ok: the first apply makes one up and keeps it in DIR/state/passphrase",
	"credentials/civo":         "ok: from CIVO_TOKEN; Civo accepts it",
	"credentials/digitalocean": "ok: from DIGITALOCEAN_TOKEN; DigitalOcean accepts it",
	"api/civo":                 "ok: CIVO answers",
	"api/digitalocean":         "ok: DIGITALOCEAN answers",
}

func TestExamine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason    string
		spoil     func(t *testing.T, m *machine)
		want      map[string]string // what differs from the healthy machine; "" for no such check
		fix       string            // a part of what to do about the first that differs
		unhealthy bool
	}{
		{reason: "everything is right", spoil: func(*testing.T, *machine) {}},
		{
			reason: "there is nothing on the machine", unhealthy: true,
			spoil: func(t *testing.T, m *machine) {
				for _, name := range []string{"PATH", "CIVO_TOKEN", "DIGITALOCEAN_TOKEN"} {
					delete(m.environment, name)
				}
			},
			want: map[string]string{
				"go":                       "note: there is no Go on PATH; it is not needed where there is a Pulumi CLI",
				"pulumi":                   "missing: no Pulumi CLI 3.183.0 or newer: there is none on PATH; there is none in DIR/cache",
				"credentials/civo":         "missing: there is no API token for Civo",
				"credentials/digitalocean": "missing: there is no API token for DigitalOcean",
			},
			fix: "set CIVO_TOKEN, or pass --civo-provider-config FILE with an apiToken in it, or put one into the credentials file DIR/credentials",
		},
		{
			reason: "an account at one cloud is enough",
			spoil:  func(_ *testing.T, m *machine) { delete(m.environment, "DIGITALOCEAN_TOKEN") },
			want:   map[string]string{"credentials/digitalocean": "note: there is no API token for DigitalOcean"},
			fix:    "set DIGITALOCEAN_TOKEN",
		},
		{
			reason: "the Pulumi CLI is too old", unhealthy: true,
			spoil: func(t *testing.T, m *machine) { m.write(t, 0o755, "#!/bin/sh\necho v3.100.0\n", "bin", "pulumi") },
			want: map[string]string{"pulumi": "missing: no Pulumi CLI 3.183.0 or newer: DIR/bin/pulumi: its version 3.100.0 is older than 3.183.0; " +
				"there is none in DIR/cache"},
			fix: "install the Pulumi CLI",
		},
		{
			reason: "a token that was revoked", unhealthy: true,
			spoil: func(_ *testing.T, m *machine) {
				m.environment["CIVO_TOKEN"], m.environment["DIGITALOCEAN_TOKEN"] = token+"0", token+"0"
			},
			want: map[string]string{
				"credentials/civo":         "missing: from CIVO_TOKEN; Civo does not accept it",
				"credentials/digitalocean": "missing: from DIGITALOCEAN_TOKEN; DigitalOcean does not accept it",
			},
			fix: "it may have expired or been revoked",
		},
		{
			reason: "a token that may not do everything",
			spoil:  func(t *testing.T, m *machine) { m.answer(t, "DIGITALOCEAN_API_URL", http.StatusForbidden) },
			want:   map[string]string{"credentials/digitalocean": "note: from DIGITALOCEAN_TOKEN; DigitalOcean knows it, but it may not read /v2/account"},
			fix:    "look whether it may manage",
		},
		{
			reason: "another program answers", unhealthy: true,
			spoil: func(t *testing.T, m *machine) { m.answer(t, "CIVO_API_URL", http.StatusNotFound) },
			want: map[string]string{
				"api/civo":         "missing: CIVO answers 404 Not Found",
				"credentials/civo": "note: from CIVO_TOKEN; whether Civo accepts it is not known",
			},
			fix: "is it the API of Civo?",
		},
		{
			reason: "nobody answers", unhealthy: true,
			spoil: func(t *testing.T, m *machine) { m.environment["CIVO_API_URL"] = "http://" + unused(t) },
			want: map[string]string{
				"api/civo":         "missing: CIVO: dial tcp CIVO_HOST: connect: connection refused",
				"credentials/civo": "note: from CIVO_TOKEN; whether Civo accepts it is not known",
			},
			fix: "look whether the network",
		},
		{
			reason: "nobody answers for a cloud that is not used",
			spoil: func(t *testing.T, m *machine) {
				m.environment["CIVO_API_URL"] = "http://" + unused(t)
				delete(m.environment, "CIVO_TOKEN")
			},
			want: map[string]string{
				"api/civo":         "note: CIVO: dial tcp CIVO_HOST: connect: connection refused",
				"credentials/civo": "note: there is no API token for Civo",
			},
			fix: "look whether the network",
		},
		{
			reason: "the credentials file is everybody's", unhealthy: true,
			spoil: func(t *testing.T, m *machine) {
				delete(m.environment, "CIVO_TOKEN")
				m.write(t, 0o644, "profiles: {default: {civo: {apiToken: "+token+"}}}", "credentials")
			},
			want: map[string]string{"credentials/civo": "missing: the credentials file DIR/credentials is not used, because others can read it " +
				"(its mode is 0644): chmod 600 DIR/credentials"},
			fix: "mend it as it says",
		},
		{
			reason: "a profile of the credentials file",
			spoil: func(t *testing.T, m *machine) {
				delete(m.environment, "CIVO_TOKEN")
				m.write(t, 0o600, "profiles: {default: {civo: {apiToken: "+token+"}}}", "credentials")
			},
			want: map[string]string{"credentials/civo": "ok: from profile default of DIR/credentials; Civo accepts it"},
		},
		{
			reason: "the state directory is a file", unhealthy: true,
			spoil: func(t *testing.T, m *machine) { m.write(t, 0o600, "", "state") },
			want: map[string]string{
				"state":      "missing: file://DIR/state/backend: stat DIR/state/backend: not a directory",
				"passphrase": "missing: open DIR/state/passphrase: not a directory",
			},
			fix: "make the folder writable",
		},
		{
			reason: "a backend that does not answer, whose password is not told", unhealthy: true,
			spoil: func(_ *testing.T, m *machine) {
				m.environment["PULUMI_BACKEND_URL"] = "postgres://me:" + token + "@127.0.0.1:1/db"
			},
			want: map[string]string{"state": "missing: postgres://me:xxxxx@127.0.0.1:1/db does not answer as it should: could not open postgres://me:xxxxx@127.0.0.1:1/db: no such bucket"},
			fix:  "correct PULUMI_BACKEND_URL",
		},
		{
			reason: "the passphrase of stacks that exist is gone", unhealthy: true,
			spoil: func(t *testing.T, m *machine) {
				m.write(t, 0o600, "{}", "state", "backend", ".pulumi", "stacks", "civovpc", "main.json")
			},
			want: map[string]string{"passphrase": "missing: there are stacks, but the passphrase of their secrets is gone: DIR/state/passphrase"},
			fix:  "put the file back from a copy",
		},
		{
			reason: "the lock of a process of another machine",
			spoil: func(t *testing.T, m *machine) {
				m.write(t, 0o600, `{"pid":7,"username":"me","hostname":"elsewhere","timestamp":"2026-01-02T03:04:05Z"}`,
					"state", "backend", ".pulumi", "locks", "organization", "civovpc", "main", "1.json")
			},
			want: map[string]string{"lock": "note: organization/civovpc/main is locked by process 7 of me on elsewhere, since 2026-01-02T03:04:05Z"},
			fix:  "planton unlock --stack organization/civovpc/main --force",
		},
		{
			reason: "the lock of a process that has ended",
			spoil: func(t *testing.T, m *machine) {
				host, err := os.Hostname()
				if err != nil {
					t.Fatal(err)
				}
				m.write(t, 0o600, `{"pid":2147483646,"username":"me","hostname":"`+host+`","timestamp":"2026-01-02T03:04:05Z"}`,
					"state", "backend", ".pulumi", "locks", "organization", "civovpc", "main", "1.json")
			},
			want: map[string]string{"lock": "note: organization/civovpc/main is locked by process 2147483646 of me ON_HOST, which has ended, since 2026-01-02T03:04:05Z"},
			fix:  "so does: planton unlock --stack organization/civovpc/main",
		},
		{
			reason: "the folder of the states is another one", unhealthy: true,
			spoil: func(t *testing.T, m *machine) {
				m.write(t, 0o600, "first", "state", "backend.name")
				m.write(t, 0o600, "second", "state", "backend", ".planton-name")
			},
			want: map[string]string{"state": "missing: the folder DIR/state/backend is not the one that stacks were kept in: that was moved away, or its disk is not mounted"},
			fix:  "put it back in its place",
		},
		{
			reason: "the passphrase is everybody's",
			spoil:  func(t *testing.T, m *machine) { m.write(t, 0o644, token, "state", "passphrase") },
			want:   map[string]string{"passphrase": "note: DIR/state/passphrase can be read by others (its mode is 0644)"},
			fix:    "chmod 600 DIR/state/passphrase",
		},
		{
			reason: "the passphrase is empty", unhealthy: true,
			spoil: func(t *testing.T, m *machine) { m.write(t, 0o600, "\n", "state", "passphrase") },
			want:  map[string]string{"passphrase": "missing: DIR/state/passphrase is empty"},
			fix:   "put the passphrase back",
		},
		{
			reason: "the passphrase file that the environment names is not there", unhealthy: true,
			spoil: func(_ *testing.T, m *machine) { m.environment["PULUMI_CONFIG_PASSPHRASE_FILE"] = m.path("nowhere") },
			want:  map[string]string{"passphrase": "missing: open DIR/nowhere: no such file or directory"},
			fix:   "correct PULUMI_CONFIG_PASSPHRASE_FILE",
		},
		{
			reason: "official plugins that were asked for and are not installed",
			spoil:  func(_ *testing.T, m *machine) { m.plugins = provision.Official },
			want: map[string]string{
				"plugin/civo":         "note: official (as asked for), which is not installed in DIR/state/pulumi: Pulumi downloads it when it is needed",
				"plugin/digitalocean": "note: official (as asked for), which is not installed in DIR/state/pulumi: Pulumi downloads it when it is needed",
			},
			fix: "--plugins native",
		},
		{
			reason: "an official plugin that is installed",
			spoil: func(t *testing.T, m *machine) {
				m.write(t, 0o755, "", "state", "pulumi", "plugins", "resource-digitalocean-v4.57.0", "pulumi-resource-digitalocean")
			},
			want: map[string]string{"plugin/digitalocean": "ok: official, version 4.57.0 in DIR/state/pulumi (4.57.0 is installed)"},
		},
		{
			reason: "emulated clouds need no credentials, and reach nothing",
			spoil:  func(_ *testing.T, m *machine) { m.emulated = true },
			want: map[string]string{
				"credentials/civo": "", "credentials/digitalocean": "", "api/civo": "", "api/digitalocean": "",
				"loopback": "ok: the emulated clouds can listen on 127.0.0.1",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			test.spoil(t, m)
			before := files(t, m.directory)
			checks := m.examine()
			if after := files(t, m.directory); after != before {
				t.Errorf("files were made or changed:\n%s\nbefore:\n%s", after, before)
			}
			if doctor.Healthy(checks) == test.unhealthy {
				t.Errorf("healthy: %t", doctor.Healthy(checks))
			}
			got := map[string]string{}
			fixes := ""
			for _, check := range checks {
				got[check.Name] = fmt.Sprintf("%s: %s", check.Status, check.Message)
				if check.Status != doctor.OK && check.Fix == "" && check.Name != "credentials/civo" {
					t.Errorf("%s: it is not said what to do", check.Name)
				}
				fixes += check.Fix + "\n"
			}
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			place := strings.NewReplacer("DIR", m.directory, "ON_HOST", "on "+host,
				"CIVO_TOKEN", "CIVO_TOKEN", "DIGITALOCEAN_TOKEN", "DIGITALOCEAN_TOKEN",
				"CIVO_HOST", strings.TrimPrefix(m.environment["CIVO_API_URL"], "http://"),
				"DIGITALOCEAN", m.environment["DIGITALOCEAN_API_URL"], "CIVO", m.environment["CIVO_API_URL"])
			want := map[string]string{}
			for name, text := range healthy {
				want[name] = place.Replace(text)
			}
			for name, text := range test.want {
				if want[name] = place.Replace(text); text == "" {
					delete(want, name)
				}
			}
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%s:\n got %s\nwant %s", name, got[name], want[name])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d checks, want %d", len(got), len(want))
			}
			if !strings.Contains(fixes, strings.ReplaceAll(test.fix, "DIR", m.directory)) {
				t.Errorf("what to do:\n%s\nwant %s", fixes, test.fix)
			}
			if encoded, _ := json.Marshal(checks); strings.Contains(string(encoded), token[10:]) {
				t.Errorf("the token is told: %s", encoded)
			}
		})
	}
}

// answer has a cloud answer each request with a status, and with the token that it was sent.
func (m *machine) answer(t *testing.T, variable string, status int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(r.Header.Get("Authorization")))
	}))
	t.Cleanup(server.Close)
	m.environment[variable] = server.URL
}

// unused is an address that nobody listens on.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// files lists what is under a folder, with sizes and modes.
func files(t *testing.T, folder string) string {
	t.Helper()
	list := ""
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			list += fmt.Sprintln(path, info.Mode(), info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
