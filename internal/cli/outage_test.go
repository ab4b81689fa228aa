package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// TestOutageWhileRefreshing refreshes a resource of every kind while no read of its cloud succeeds: nothing is believed to be gone.
func TestOutageWhileRefreshing(t *testing.T) {
	t.Parallel()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	directory := t.TempDir()
	environment := withEngine(cli, map[string]string{
		provision.EnvironmentStateDirectory: filepath.Join(directory, "state"),
		"CIVO_TOKEN":                        "token", "DIGITALOCEAN_TOKEN": "token", "HOME": directory,
	})
	civoCloud, civoFaults, err := fault.New(civo.New, emulator.Options{Token: "token"}, fault.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	doCloud, doFaults, err := fault.New(digitalocean.New, emulator.Options{Token: "token"}, fault.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	for variable, listen := range map[string]func() (*emulator.Server, error){
		"CIVO_API_URL":         func() (*emulator.Server, error) { return emulator.Listen("127.0.0.1:0", civoCloud) },
		"DIGITALOCEAN_API_URL": func() (*emulator.Server, error) { return emulator.Listen("127.0.0.1:0", doCloud) },
	} {
		server, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		environment[variable] = server.URL()
	}
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Run(t.Context(), Streams{
			In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(name string) string { return environment[name] },
		}, append(args, "--plugins", "native"))
		return code, out.String(), errs.String()
	}

	all := filepath.Join(directory, "all.yaml")
	set := civoSet + "\n---\n" + digitalOceanSet
	if err := os.WriteFile(all, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run("apply", "-f", all, "--yes"); code != ExitOK {
		t.Fatal(stderr)
	}
	before := resourcesIn(t, filepath.Join(directory, "state"))
	if len(before) != 7 {
		t.Fatalf("there are %d stacks, want one of each kind", len(before))
	}

	// A refresh waits, for as long as it may repeat its requests: the kinds wait together.
	for _, outage := range []struct{ civo, digitalOcean fault.Kind }{
		{fault.ServerError, fault.Reset}, {fault.Truncate, fault.RevokeToken},
	} {
		for faults, kind := range map[*fault.Injector]fault.Kind{civoFaults: outage.civo, doFaults: outage.digitalOcean} {
			if err := faults.Set(fault.Plan{Faults: []fault.Fault{{Kind: kind, Route: "GET /v2/**"}}}); err != nil {
				t.Fatal(err)
			}
		}
		var refreshes sync.WaitGroup
		for i, text := range strings.Split(set, "\n---\n") {
			file := filepath.Join(directory, strconv.Itoa(i)+".yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			refreshes.Go(func() {
				if code, stdout, _ := run("refresh", "-f", file); code == ExitOK {
					t.Errorf("%v: the refresh says that all is well:\n%s\n%s", outage, stdout, text)
				}
			})
		}
		refreshes.Wait()
		if len(civoFaults.Strikes()) == 0 || len(doFaults.Strikes()) == 0 {
			t.Errorf("%v: not both clouds were struck: %v, %v", outage, civoFaults.Strikes(), doFaults.Strikes())
		}
		if diff := cmp.Diff(before, resourcesIn(t, filepath.Join(directory, "state"))); diff != "" {
			t.Errorf("%v changed the state (-before +after):\n%s", outage, diff)
		}
	}

	if err := civoFaults.Lift(); err != nil {
		t.Fatal(err)
	}
	if err := doFaults.Lift(); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := run("apply", "-f", all, "--yes", "-o", "json"); code != ExitOK || strings.Contains(stdout, `"changed":true`) {
		t.Errorf("the next apply: exit code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}

// resourcesIn are the resources with something behind them in all state files of a folder: their ids, inputs and outputs, as they are
// written.
func resourcesIn(t *testing.T, directory string) map[string][]any {
	t.Helper()
	found := map[string][]any{}
	files, err := filepath.Glob(filepath.Join(directory, "backend", ".pulumi", "stacks", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var state struct {
			Checkpoint struct {
				Latest struct {
					Resources []struct {
						URN, ID         string
						Inputs, Outputs any
					}
				}
			}
		}
		if err := json.Unmarshal(content, &state); err != nil {
			t.Fatal(err)
		}
		for _, r := range state.Checkpoint.Latest.Resources {
			// Secrets are encrypted anew each time.
			r.Inputs, r.Outputs = withoutSecrets(r.Inputs), withoutSecrets(r.Outputs)
			if r.ID != "" && !strings.Contains(r.URN, "::pulumi:") {
				found[file] = append(found[file], r)
			}
		}
	}
	return found
}

// withoutSecrets is a value with a word in the place of each secret.
func withoutSecrets(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if _, secret := value["ciphertext"]; secret {
			return "secret"
		}
		for name := range value {
			value[name] = withoutSecrets(value[name])
		}
	case []any:
		for i := range value {
			value[i] = withoutSecrets(value[i])
		}
	}
	return value
}
