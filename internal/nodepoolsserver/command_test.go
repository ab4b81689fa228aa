package nodepoolsserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusals: what is wrong is told before anything is made, with the exit code of wrong usage.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"every network without authentication":     {[]string{"--listen", ":8080"}, "--auth is not given"},
		"another machine without authentication":   {[]string{"--listen", "192.0.2.1:8080"}, "--auth is not given"},
		"a word too much":                          {[]string{"serve"}, "serve"},
		"an unknown flag":                          {[]string{"--prot", "1"}, "unknown flag"},
		"an unknown cloud":                         {[]string{"--cloud", "moon"}, "must be emulated or real"},
		"a platform that is provisioned elsewhere": {[]string{"--provision", "gcp"}, "register themselves"},
		"half a certificate":                       {[]string{"--tls-cert", "x"}, "go together"},
		"nowhere to serve":                         {[]string{"--listen", ""}, "must be given"},
		"a rate below nothing":                     {[]string{"--unknown-rate", "-1"}, "must not be negative"},
		"an audit log that is kept for a moment":   {[]string{"--keep-audit", "1s"}, "at least 1h"},
		"a log of no form":                         {[]string{"--log-format", "xml"}, "must be text or json"},
		"no file that says who may do what":        {[]string{"--auth", "/nonexistent"}, "--auth"},
		"a token without a name":                   {[]string{"token"}, "name"},
		"a token of no role":                       {[]string{"token", "--name", "x", "--role", "king"}, "must be viewer"},
		"a controller's bounds for a viewer":       {[]string{"token", "--name", "x", "--role", "viewer", "--platforms", "gcp"}, "controller alone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			getenv := func(name string) string {
				if name == "PLANTON_STATE_DIR" {
					return dir
				}
				return ""
			}
			var out, log bytes.Buffer
			if code := Run(t.Context(), test.args, getenv, &out, &log); code == 0 || !strings.Contains(log.String(), test.want) {
				t.Errorf("it ended with %d and said %s", code, &log)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("something was made")
			}
		})
	}
}

// TestVersion: which version runs is told by the command, and by the process to who scrapes it.
func TestVersion(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer
	code := Run(t.Context(), []string{"--version"}, func(string) string { return "" }, &out, &log)
	name, _ := readBuild()
	if code != 0 || name == "" || !strings.HasPrefix(out.String(), "nodepools-server "+name+" (go") || log.Len() != 0 {
		t.Errorf("it ended with %d and said %q, %q", code, &out, &log)
	}
}

// TestNobodyCouldBeKnown: a file by which nobody can be known serves nobody, and is a mistake.
func TestNobodyCouldBeKnown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"empty":                             {"roles: []", "nobody could be known"},
		"an unknown key":                    {"role: admin", "not found"},
		"a role that there is not":          {"roles: [{subject: '*', role: king}]", "must be viewer"},
		"certificates that nobody verifies": {"trustedPeers: {certificateNames: [x]}", "--tls-client-ca"},
		"tokens that are not there":         {"tokensFile: nonexistent.yaml", "nonexistent.yaml"},
		"a provider without an audience":    {"oidc: [{issuer: https://login.example.com}]", "audience"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "auth.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := config{authFile: file}
			if _, _, err := c.authenticator(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestSealingKey(t *testing.T) {
	t.Parallel()
	nothing := func(string) string { return "" }
	file := filepath.Join(t.TempDir(), "state", "key")
	if key, err := sealingKey(nothing, file, false); err != nil || key != nil {
		t.Errorf("where none may be made there is %x, %v", key, err)
	}
	made, err := sealingKey(nothing, file, true)
	if err != nil || len(made) != keySize {
		t.Fatalf("a key of %d bytes was made, %v", len(made), err)
	}
	again, err := sealingKey(nothing, file, true)
	if err != nil || !bytes.Equal(again, made) {
		t.Errorf("the second time the key is another one, %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sealingKey(nothing, file, true); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	wrong := func(string) string { return "c2hvcnQ=" }
	if _, err := sealingKey(wrong, file, true); err == nil || !strings.Contains(err.Error(), keyVariable) || strings.Contains(err.Error(), "c2hvcnQ=") {
		t.Errorf("a key that is too short: %v", err)
	}
}
