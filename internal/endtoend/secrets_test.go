package endtoend

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
	civocloud "github.com/plantonhq/project-planton/pkg/emulator/civo"
	digitaloceancloud "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// secretForms are the ways in which a secret could be written: as it is, as a part of a URL, and as a part of something in base64,
// wherever it stands in that.
func secretForms(secret string) []string {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			encoded := encoding.EncodeToString(append(make([]byte, shift), secret...))
			// The characters at both ends also depend on what stands beside the secret.
			forms = append(forms, encoded[(shift*8+5)/6:len(encoded)-1])
		}
	}
	return forms
}

// secretsOf are the secrets in a kubeconfig: the whole of it, and each of its credentials.
func secretsOf(t *testing.T, kubeconfig string) []string {
	t.Helper()
	secrets := []string{kubeconfig}
	for _, line := range strings.Split(kubeconfig, "\n") {
		if _, token, ok := strings.Cut(line, "token: "); ok {
			secrets = append(secrets, token)
		}
		if _, encoded, ok := strings.Cut(line, "client-key-data: "); ok {
			key, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, string(key), strings.Split(string(key), "\n")[1])
		}
	}
	if len(secrets) < 2 {
		t.Fatalf("a kubeconfig without credentials proves nothing:\n%s", kubeconfig)
	}
	return secrets
}

// watchArguments collects the arguments of all processes that descend from this one, until stop is called.
func watchArguments(t *testing.T) (stop func() string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Logf("the arguments of processes are not looked at: %v", err)
		return func() string { return "" }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var seen sync.Map
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			collectArguments(&seen)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() string {
		cancel()
		<-done
		var all strings.Builder
		seen.Range(func(arguments, _ any) bool {
			fmt.Fprintln(&all, strings.ReplaceAll(arguments.(string), "\x00", " "))
			return true
		})
		return all.String()
	}
}

func collectArguments(seen *sync.Map) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		// "pid (name) state parent ...": the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			delete(parents, pid)
		}
	}
	for pid := range parents {
		for at := parents[pid]; at > 1; at = parents[at] {
			if at == os.Getpid() {
				arguments, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				seen.Store(string(arguments), true)
				break
			}
		}
	}
}

// indiscreet is a cloud that, when it is told to, refuses a change in words that repeat the token of the request: in the body, in
// headers, and encoded.
type indiscreet struct {
	refusing atomic.Bool
	refused  atomic.Int32
	mu       sync.Mutex
	log      bytes.Buffer
}

func (c *indiscreet) options(token string) emulator.Options {
	return emulator.Options{
		Token: token,
		// What cloud-emulator --log-requests writes.
		OnRequest: func(request emulator.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = json.NewEncoder(&c.log).Encode(request)
		},
		Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet || !c.refusing.Load() {
				next.ServeHTTP(w, r)
				return
			}
			c.refused.Add(1)
			given := r.Header.Get("Authorization")
			words := fmt.Sprintf("no: Authorization: %s; token=%s; %s", given, url.QueryEscape(token), base64.StdEncoding.EncodeToString([]byte(token)))
			for _, header := range []string{"X-Request-Id", "Www-Authenticate", "Location"} {
				w.Header().Set(header, token)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(map[string]string{
				"code": "parameter_invalid", "reason": words, "details": token, "id": "unprocessable_entity", "message": words, "request_id": token,
			})
		},
	}
}

// The whole life of a cluster, with everything logged that can be, and nothing written down that lets somebody else in.
func TestNothingWritesSecretsDown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cloud, program, kind, apiVersion, token, spec string
		// serve makes the cloud, and tells the kubeconfigs of its clusters.
		serve func(t *testing.T, options emulator.Options) (handler http.Handler, kubeconfigs func(ask func(path string) string) []string)
	}{
		{
			cloud: "civo", program: "iac/pulumi/civo/civokubernetescluster", kind: "CivoKubernetesCluster",
			apiVersion: "civo.project-planton.org/v1", token: "marked+civo/token=51c7e0",
			spec: "{clusterName: main, region: lon1, kubernetesVersion: 1.29.0+k3s1, network: {value: NETWORK}, defaultNodePool: {size: g4s.kube.medium, nodeCount: 2}}",
			serve: func(t *testing.T, options emulator.Options) (http.Handler, func(func(string) string) []string) {
				cloud, faults, err := fault.New(civocloud.New, options, fault.Plan{})
				if err != nil {
					t.Fatal(err)
				}
				return faults.Handler(), func(func(string) string) []string {
					var kubeconfigs []string
					for _, cluster := range cloud.Clusters() {
						kubeconfigs = append(kubeconfigs, cluster.Kubeconfig)
					}
					return kubeconfigs
				}
			},
		},
		{
			cloud: "digitalocean", program: "iac/pulumi/digitalocean/digitaloceankubernetescluster", kind: "DigitalOceanKubernetesCluster",
			apiVersion: "digital-ocean.project-planton.org/v1", token: "marked+digitalocean/token=9d02b4",
			spec: "{clusterName: main, region: nyc1, kubernetesVersion: 1.31.1-do.4, vpc: {value: NETWORK}, defaultNodePool: {size: s-2vcpu-4gb, nodeCount: 2}}",
			serve: func(t *testing.T, options emulator.Options) (http.Handler, func(func(string) string) []string) {
				cloud, faults, err := fault.New(digitaloceancloud.New, options, fault.Plan{})
				if err != nil {
					t.Fatal(err)
				}
				return faults.Handler(), func(ask func(string) string) []string {
					var kubeconfigs []string
					for _, cluster := range cloud.Clusters() {
						kubeconfigs = append(kubeconfigs, ask("/v2/kubernetes/clusters/"+cluster.ID+"/kubeconfig"))
					}
					return kubeconfigs
				}
			},
		},
	} {
		t.Run(tt.cloud, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			cloud := &indiscreet{}
			handler, kubeconfigs := tt.serve(t, cloud.options(tt.token))
			address := serve(t, handler)
			ask := func(method, path, body string) string {
				request, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+tt.token)
				request.Header.Set("Content-Type", "application/json")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				text, err := io.ReadAll(response.Body)
				if err != nil || response.StatusCode >= 300 {
					t.Fatalf("%s %s: %d %s, %v", method, path, response.StatusCode, text, err)
				}
				return string(text)
			}
			var network struct {
				ID  string
				VPC struct{ ID string }
			}
			made := ""
			if tt.cloud == "civo" {
				made = ask("POST", "/v2/networks", `{"label": "net", "region": "LON1"}`)
			} else {
				made = ask("POST", "/v2/vpcs", `{"name": "net", "region": "nyc1", "ip_range": "10.10.0.0/16"}`)
			}
			if err := json.Unmarshal([]byte(made), &network); err != nil {
				t.Fatal(err)
			}

			spec := strings.Replace(tt.spec, "NETWORK", network.ID+network.VPC.ID, 1)
			f := s.folder(tt.program, "CIVO_TOKEN=", "DIGITALOCEAN_TOKEN=")
			if err := os.Remove(filepath.Join(f.dir, "stack-input.json")); err != nil {
				t.Fatal(err)
			}
			grpcLog := filepath.Join(t.TempDir(), "grpc.json")
			input := filepath.Join(t.TempDir(), "input.yaml")
			give := func(spec string) {
				text := fmt.Sprintf("target:\n  apiVersion: %s\n  kind: %s\n  metadata: {name: main}\n  spec: %s\n"+
					"provider_config: {apiToken: %q, apiEndpoint: %q}\n", tt.apiVersion, tt.kind, spec, tt.token, address)
				if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				f.run(t, "pulumi config set --secret planton-cloud:stack-input < "+input)
			}
			f.pulumi("stack", "init", "main")
			give(spec)

			stop := watchArguments(t)
			said := map[string]string{}
			run := func(what string, wantErr bool, args ...string) {
				stdout, stderr, err := f.try(append(args, "--debug")...)
				if (err != nil) != wantErr {
					t.Fatalf("%s: %v\n%s\n%s", what, err, stdout, stderr)
				}
				said[what] = stdout + stderr
			}
			run("create", false, "up", "--yes")
			var secrets []string
			for _, kubeconfig := range kubeconfigs(func(path string) string { return ask("GET", path, "") }) {
				secrets = append(secrets, secretsOf(t, kubeconfig)...)
			}
			if len(secrets) == 0 {
				t.Fatal("there is no cluster")
			}
			secrets = append(secrets, tt.token)

			give(strings.Replace(spec, "nodeCount: 2", "nodeCount: 3", 1))
			cloud.refusing.Store(true)
			run("failing update", true, "up", "--yes")
			cloud.refusing.Store(false)
			if cloud.refused.Load() == 0 || !strings.Contains(said["failing update"], "no: Authorization") {
				t.Errorf("the update did not fail in the cloud's words:\n%s", said["failing update"])
			}
			run("refresh", false, "refresh", "--yes")
			f.environ = append(f.environ, "PULUMI_DEBUG_GRPC="+grpcLog)
			run("update", false, "up", "--yes", "--logtostderr", "-v=11")
			engineLogs := said["update"]
			delete(said, "update")
			run("destroy", false, "destroy", "--yes")
			arguments := stop()

			for what, text := range said {
				checkForms(t, "the output of "+what, text, secrets)
			}
			for name, content := range filesOf(t, s.dir) {
				checkForms(t, name, string(content), secrets)
			}
			for name, content := range filesOf(t, f.dir) {
				checkForms(t, name, string(content), secrets)
			}
			// What cannot be kept out: asked for -v=9 or more, the engine logs every property of its calls, and with PULUMI_DEBUG_GRPC
			// the calls themselves, with secrets in clear. Both are for debugging the engine, and neither is asked for by anything here.
			// Should the engine learn to hide them, these logs belong among those that are checked above.
			calls, err := os.ReadFile(grpcLog)
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"-v=11": engineLogs, "PULUMI_DEBUG_GRPC": string(calls)} {
				if !strings.Contains(text, tt.token) {
					t.Errorf("the engine's log by %s hides secrets now: check it as the others are", what)
				}
			}
			checkForms(t, "the arguments of a process", arguments, secrets)
			if arguments != "" && !strings.Contains(arguments, "pulumi-resource-"+tt.cloud) {
				t.Errorf("the plugin was not among the processes:\n%s", arguments)
			}
			checkForms(t, "the emulator's log", cloud.log.String(), secrets)
			requests := ask("GET", fault.AdminPath+"requests", "")
			checkForms(t, "the emulator's list of requests", requests, secrets)
			if !strings.Contains(requests, "POST") || !strings.Contains(cloud.log.String(), "POST") {
				t.Errorf("the emulator has logged nothing: %s", requests)
			}
		})
	}
}

// checkForms fails the test when a text holds one of the secrets, in any form.
func checkForms(t *testing.T, what, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		for _, form := range secretForms(secret) {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s holds a secret that begins with %.8q, as %.12q, after %q", what, secret, form, text[max(0, at-200):at])
				break
			}
		}
	}
}
