package emulatedcloud

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestClouds(t *testing.T) {
	t.Parallel()
	options := Options{Directory: filepath.Join(t.TempDir(), "clouds")}
	clouds, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	config := clouds.ProviderConfigs().Civo
	if got := status(t, config.GetApiEndpoint(), config.GetApiToken()); got != http.StatusOK {
		t.Errorf("with the token: got status %d, want 200", got)
	}
	if got := status(t, config.GetApiEndpoint(), "another-token"); got == http.StatusOK {
		t.Error("the cloud accepts any token")
	}

	var locked *LockedError
	if _, err := Start(t.Context(), options); !errors.As(err, &locked) || locked.Process != os.Getpid() {
		t.Errorf("a second one: got error %v, want a LockedError with this process", err)
	}

	if err := clouds.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if diff := cmp.Diff(config, again.ProviderConfigs().Civo, protocmp.Transform()); diff != "" {
		t.Errorf("the next run has other settings, so every stack would change: -was +is:\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(options.Directory, "settings.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the settings have mode %v, error %v; want 0600", info.Mode(), err)
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "settings.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Directory: directory}); err == nil {
		t.Fatal("broken settings gave no error")
	}
	// The failed start gave the lock back.
	if err := os.Remove(filepath.Join(directory, "settings.json")); err != nil {
		t.Fatal(err)
	}
	clouds, err := Start(t.Context(), Options{Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	if err := clouds.Close(); err != nil {
		t.Error(err)
	}
}

// status asks the emulated Civo for its regions.
func status(t *testing.T, endpoint, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint+"/v2/regions", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}
