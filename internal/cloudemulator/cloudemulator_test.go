package cloudemulator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/civo/civogo"
	"github.com/digitalocean/godo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// buffer is written by the command while a test reads it.
type buffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// start runs the command with -o json until the test ends or stop is called.
func start(t *testing.T, args ...string) (urls map[string]string, stderr *buffer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := &buffer{}, &buffer{}
	command := Command()
	command.SetArgs(append([]string{"-o", "json", "--civo", "127.0.0.1:0", "--digitalocean", "127.0.0.1:0"}, args...))
	command.SetOut(stdout)
	command.SetErr(stderr)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the command ended with %v", err)
		}
	})
	t.Cleanup(stop)

	var addresses []address
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if json.Unmarshal([]byte(stdout.String()), &addresses) == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no addresses after 10 s: stdout %q, stderr %q", stdout, stderr)
		}
	}
	urls = map[string]string{}
	for _, address := range addresses {
		for name, value := range address.Environment {
			if value != address.URL {
				t.Errorf("%s=%s, want %s", name, value, address.URL)
			}
			urls[name] = value
		}
	}
	return urls, stderr, stop
}

func civoClient(t *testing.T, url, token string) *civogo.Client {
	t.Helper()
	client, err := civogo.NewClientWithURL(token, url, "LON1")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func digitalOceanClient(t *testing.T, url, token string) *godo.Client {
	t.Helper()
	client := godo.NewFromToken(token)
	if err := godo.SetBaseURL(url)(client); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestServesBothCloudsAndKeepsTheirObjects(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("the-right-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--state-dir", folder, "--token-file", tokenFile, "--time-scale", "0", "--log-requests"}

	urls, stderr, stop := start(t, args...)
	if _, err := civoClient(t, urls["CIVO_API_URL"], "the-wrong-token").ListRegions(); !errors.Is(err, civogo.DatabaseAccountNotFoundError) {
		t.Errorf("civo with the wrong token: %v", err)
	}
	network, err := civoClient(t, urls["CIVO_API_URL"], "the-right-token").NewNetwork("kept")
	if err != nil {
		t.Fatal(err)
	}
	if _, response, _ := digitalOceanClient(t, urls["DIGITALOCEAN_API_URL"], "the-wrong-token").VPCs.List(t.Context(), nil); response == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("digitalocean with the wrong token: %v", response)
	}
	vpc, _, err := digitalOceanClient(t, urls["DIGITALOCEAN_API_URL"], "the-right-token").VPCs.Create(t.Context(), &godo.VPCCreateRequest{Name: "kept", RegionSlug: "nyc3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"path":"/v2/networks"`, `"path":"/v2/vpcs"`, `"status":401`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the requests printed lack %s:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr.String(), "the-right-token") {
		t.Errorf("the token is among the requests printed:\n%s", stderr)
	}

	// A second emulator in the same folder is refused while the first one runs.
	second := Command()
	second.SetArgs([]string{"--state-dir", folder, "--civo", "127.0.0.1:0", "--digitalocean", ""})
	second.SetOut(&buffer{})
	second.SetErr(&buffer{})
	if err := second.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("a second emulator: got %v, want an error that names the folder", err)
	}

	stop()
	urls, _, _ = start(t, args...)
	if _, err := civoClient(t, urls["CIVO_API_URL"], "the-right-token").GetNetwork(network.ID); err != nil {
		t.Errorf("the network after a restart: %v", err)
	}
	if _, _, err := digitalOceanClient(t, urls["DIGITALOCEAN_API_URL"], "the-right-token").VPCs.Get(t.Context(), vpc.ID); err != nil {
		t.Errorf("the VPC after a restart: %v", err)
	}
}

func TestServesOneCloudAlone(t *testing.T) {
	t.Parallel()
	urls, _, _ := start(t, "--digitalocean", "")
	if len(urls) != 1 || urls["CIVO_API_URL"] == "" {
		t.Errorf("addresses: %v", urls)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it prints, and ends at once
	stdout, stderr := &buffer{}, &buffer{}
	command := Command()
	command.SetArgs([]string{"--civo", "127.0.0.1:0", "--digitalocean", "127.0.0.1:0"})
	command.SetOut(stdout)
	command.SetErr(stderr)
	if err := command.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# civo listens on http://127.0.0.1:", "export CIVO_API_URL=http://127.0.0.1:", "export DIGITALOCEAN_API_URL=http://127.0.0.1:"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
	if !strings.Contains(stderr.String(), "Ctrl+C") {
		t.Errorf("stderr: %s", stderr)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "civo.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"an address that others can reach", []string{"--civo", "0.0.0.0:0"}, "loopback"},
		{"an address that is none", []string{"--civo", "here"}, "here"},
		{"nothing to serve", []string{"--civo", "", "--digitalocean", ""}, "nothing to serve"},
		{"a time scale below 0", []string{"--civo", "127.0.0.1:0", "--time-scale", "-1"}, "time scale"},
		{"an output that is none", []string{"-o", "yaml"}, "yaml"},
		{"a token file that is not there", []string{"--token-file", filepath.Join(broken, "nope")}, "token"},
		{"a token file that is empty", []string{"--token-file", empty}, "empty"},
		{"a state that cannot be read", []string{"--civo", "127.0.0.1:0", "--state-dir", broken}, "civo.json"},
		{"a fault plan that is not there", []string{"--faults", filepath.Join(broken, "nope")}, "fault plan"},
		{"a fault plan that is none", []string{"--faults", filepath.Join(broken, "civo.json")}, "civo.json"},
		{"a token as an argument", []string{"the-token"}, "unknown command"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			command := Command()
			command.SetArgs(append([]string{"--digitalocean", "127.0.0.1:0"}, test.args...))
			command.SetOut(&buffer{})
			command.SetErr(&buffer{})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := command.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestTokenFromTheEnvironment(t *testing.T) {
	t.Setenv(tokenVariable, "the-right-token")
	urls, _, _ := start(t, "--digitalocean", "")
	if _, err := civoClient(t, urls["CIVO_API_URL"], "the-wrong-token").ListRegions(); err == nil {
		t.Error("the wrong token was accepted")
	}
	if _, err := civoClient(t, urls["CIVO_API_URL"], "the-right-token").ListRegions(); err != nil {
		t.Error(err)
	}
}

// faultsOfThePage is the example of a fault plan in docs/cloud-emulator.md.
func faultsOfThePage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cloud-emulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n# faults.yaml\n")
	plan, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page has no fault plan")
	}
	path := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// admin sends a request to the admin route of a cloud.
func admin(t *testing.T, method, url string, body io.Reader) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// The example of the page does what the page says, on both clouds, and the admin route too.
func TestFaultsOfThePage(t *testing.T) {
	t.Parallel()
	plan := faultsOfThePage(t)
	urls, _, _ := start(t, "--time-scale", "0", "--faults", plan)
	ctx, base := t.Context(), urls["DIGITALOCEAN_API_URL"]
	// Without the retries that godo has when it is made from a token: they would hide what happens.
	plain, err := godo.New(&http.Client{}, godo.SetBaseURL(base), godo.SetRequestHeaders(map[string]string{"Authorization": "Bearer any-token"}))
	if err != nil {
		t.Fatal(err)
	}

	create := &godo.KubernetesClusterCreateRequest{
		Name: "one", RegionSlug: "fra1", VersionSlug: "latest",
		NodePools: []*godo.KubernetesNodePoolCreateRequest{{Name: "default", Size: "s-2vcpu-4gb", Count: 1}},
	}
	if _, _, err := plain.Kubernetes.Create(ctx, create); err == nil {
		t.Error("the answer to the first create was not lost")
	}
	clusters, _, err := plain.Kubernetes.List(ctx, nil)
	if err != nil || len(clusters) != 1 {
		t.Fatalf("clusters %v: %v", clusters, err)
	}
	var statuses []int
	for range 4 {
		_, response, _ := plain.Kubernetes.Get(ctx, clusters[0].ID)
		statuses = append(statuses, response.StatusCode)
		if wait := response.Header.Get("Retry-After"); (response.StatusCode == http.StatusTooManyRequests) != (wait == "1") {
			t.Errorf("%d with Retry-After %q", response.StatusCode, wait)
		}
	}
	if !slices.Equal(statuses, []int{200, 429, 429, 200}) {
		t.Errorf("the reads were answered %v", statuses)
	}

	civoURL := urls["CIVO_API_URL"]
	network, err := civoClient(t, civoURL, "any-token").NewNetwork("unseen")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := civoClient(t, civoURL, "any-token").GetNetwork(network.ID); !errors.Is(err, civogo.DatabaseNetworkNotFoundError) {
		t.Errorf("the new network: %v", err)
	}

	if status, text := admin(t, http.MethodGet, base+"/_emulator/faults", nil); status != http.StatusOK || !strings.Contains(text, `"strikes":[{"fault":0,"kind":"lost_answer"`) {
		t.Errorf("GET: %d %s", status, text)
	}
	if status, _ := admin(t, http.MethodDelete, civoURL+"/_emulator/faults", nil); status != http.StatusNoContent {
		t.Errorf("DELETE: %d", status)
	}
	if _, err := civoClient(t, civoURL, "any-token").GetNetwork(network.ID); err != nil {
		t.Errorf("the network after the plan was lifted: %v", err)
	}
	text, err := os.Open(plan)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = text.Close() }()
	if status, answer := admin(t, http.MethodPut, civoURL+"/_emulator/faults", text); status != http.StatusOK || !strings.Contains(answer, `"seed":7`) {
		t.Errorf("PUT: %d %s", status, answer)
	}
	_, answer := admin(t, http.MethodGet, base+"/_emulator/requests?method=POST&path=/v2/kubernetes/clusters", nil)
	var creates []emulator.Request
	if err := json.Unmarshal([]byte(answer), &creates); err != nil || len(creates) != 1 || !slices.Equal(creates[0].Faults, []string{"lost_answer"}) {
		t.Errorf("creates: %s (%v)", answer, err)
	}
}
