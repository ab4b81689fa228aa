package nativeprovider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereAPluginRemembersCreates(t *testing.T) {
	t.Parallel()
	home, asked := t.TempDir(), t.TempDir()
	login := filepath.Join(home, "credentials.json")
	if err := os.WriteFile(login, []byte(`{"current":"https://api.pulumi.com","accessTokens":{"https://api.pulumi.com":"pul-secret"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	place := func(environment map[string]string) (string, string) {
		t.Helper()
		directory, scope, err := defaultJournal(func(name string) string { return environment[name] })
		if err != nil {
			t.Fatal(err)
		}
		return directory, scope
	}
	directory, loggedIn := place(map[string]string{"PULUMI_HOME": home})
	if want := filepath.Join(home, "planton", "creates"); directory != want {
		t.Errorf("%s, want %s", directory, want)
	}
	if directory, _ := place(map[string]string{"PULUMI_HOME": home, EnvironmentJournal: asked}); directory != asked {
		t.Errorf("%s, want %s, which was asked for", directory, asked)
	}

	// Two backends have scopes of their own, and a backend has the same one each time.
	_, other := place(map[string]string{"PULUMI_HOME": home, "PULUMI_BACKEND_URL": "postgres://user:hunter2@host/states"})
	_, again := place(map[string]string{"PULUMI_HOME": home})
	if loggedIn == other || loggedIn != again {
		t.Errorf("scopes %q, %q and %q", loggedIn, other, again)
	}
	if strings.Contains(other, "hunter2") || strings.Contains(loggedIn, "pul-secret") {
		t.Error("a scope has a secret in it")
	}
	if _, scope := place(map[string]string{"PULUMI_HOME": t.TempDir()}); scope == loggedIn {
		t.Error("no login has the scope of one")
	}
}
