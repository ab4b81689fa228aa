package endtoend

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/internal/s3emulator"
	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
)

// httpsOnly are the rules of a firewall.
const httpsOnly = `inboundRules: [{protocol: tcp, portRange: "443", cidrs: [0.0.0.0/0], label: https}]`

// civoStackInput is a stack input that is one manifest.
func civoStackInput(kind, metadata, spec string) string {
	return fmt.Sprintf("STACK_INPUT_YAML=target:\n  apiVersion: civo.project-planton.org/v1\n  kind: %s\n  metadata: %s\n  spec: %s\n",
		kind, metadata, spec)
}

// civoProgram is the folder of a program of Civo with a stack of its own.
func (s *shell) civoProgram(kind, metadata, spec, stack string, environ ...string) *folder {
	s.t.Helper()
	f := s.folder("iac/pulumi/civo/"+strings.ToLower(kind), append(append([]string{}, environ...), civoStackInput(kind, metadata, spec))...)
	f.pulumi("stack", "init", stack, "--secrets-provider", vaultemulator.SecretsProvider)
	return f
}

// backends are the kinds of self-managed backends that can be had on one machine. Each returns the address, what its client needs
// in the environment, and a function that tells everything it holds.
var backends = map[string]func(s *shell) (address string, environ []string, held func() map[string][]byte){
	"file": func(s *shell) (string, []string, func() map[string][]byte) {
		return s.env["PULUMI_BACKEND_URL"], nil, func() map[string][]byte { return filesOf(s.t, filepath.Join(s.dir, "state")) }
	},
	"file with options": func(s *shell) (string, []string, func() map[string][]byte) {
		return s.env["PULUMI_BACKEND_URL"] + "?no_tmp_dir=true", nil,
			func() map[string][]byte { return filesOf(s.t, filepath.Join(s.dir, "state")) }
	},
	"s3": func(s *shell) (string, []string, func() map[string][]byte) {
		store := &s3emulator.Store{}
		environment := s3emulator.Environment(serve(s.t, store))
		var environ []string
		for name, value := range environment {
			environ = append(environ, name+"="+value)
		}
		return environment["PULUMI_BACKEND_URL"], environ, store.Files
	},
}

func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A network, a firewall in it, a cluster in both and a pool of that: four stacks that find one another by name, with the Pulumi CLI
// alone, on each kind of backend.
func TestReferencesOnEachBackend(t *testing.T) {
	t.Parallel()
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			address, environ, held := backend(s)
			environ = append(environ, "PULUMI_BACKEND_URL="+address)
			program := func(kind, name, spec string) *folder {
				return s.civoProgram(kind, "{name: "+name+", org: acme, env: prod}", spec, "acme.prod."+name, environ...)
			}
			network := program("CivoVpc", "net", "{networkName: net, region: fra1}")
			firewall := program("CivoFirewall", "fw", "{name: fw, region: fra1, "+httpsOnly+", networkId: {valueFrom: {name: net}}}")
			cluster := program("CivoKubernetesCluster", "main", "{clusterName: main, region: fra1, kubernetesVersion: 1.29.0+k3s1, "+
				"network: {valueFrom: {name: net}}, firewall: {valueFrom: {name: fw}}, defaultNodePool: {size: g4s.kube.medium, nodeCount: 1}}")
			pool := program("CivoKubernetesNodePool", "app", "{nodePoolName: app, region: fra1, cluster: {valueFrom: {name: main}}, "+
				"size: g4s.kube.medium, nodeCount: 2}")

			for _, f := range []*folder{network, firewall, cluster, pool} {
				f.pulumi("up", "--yes", "--skip-preview")
				f.pulumi("preview", "--expect-no-changes")
			}
			made := s.clusterNamed("main")
			s.secret(made.Kubeconfig)
			if network := s.networksNamed("net"); len(network) != 1 || made.NetworkID != network[0].ID {
				t.Errorf("the cluster stands in network %s, want the one of %+v", made.NetworkID, network)
			}
			if got := strings.TrimSpace(firewall.pulumi("stack", "output", "firewall_id")); got != made.FirewallID {
				t.Errorf("the cluster stands behind firewall %s, want %s", made.FirewallID, got)
			}
			if len(made.Pools) != 2 {
				t.Errorf("the cluster has %d pools, want its own and the one that refers to it", len(made.Pools))
			}
			// The stack of the pool holds all outputs of the cluster's stack, also its kubeconfig.
			s.checkHeld(held(), ".pulumi/stacks/civokubernetesnodepool/acme.prod.app.json")
			for _, f := range []*folder{pool, cluster, firewall, network} {
				f.pulumi("destroy", "--yes", "--skip-preview")
			}
			s.checkHeld(held(), ".pulumi/history/civokubernetescluster/acme.prod.main/")
		})
	}
}

// checkHeld fails the test when something that a backend holds shows a secret, or when it holds nothing under the path.
func (w *world) checkHeld(held map[string][]byte, path string) {
	w.t.Helper()
	found := false
	for name, content := range held {
		w.checkText(name, string(content))
		found = found || strings.HasPrefix(name, path)
	}
	if !found {
		w.t.Errorf("the backend holds nothing under %s", path)
	}
}

// An output that is secret where it is made is secret where it is referred to: in the state, in the outputs and in what is shown.
func TestSecretOutputsStaySecretAcrossStacks(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	id := s.civoNetwork("net")
	// No output that a field takes by itself is secret. This network's owner has made it one.
	owner, err := auto.UpsertStackInlineSource(t.Context(), "organization/civovpc/net", "civovpc", func(ctx *pulumi.Context) error {
		ctx.Export("network_id", pulumi.ToSecret(pulumi.String(id)))
		return nil
	}, auto.Pulumi(s.oneRead()), auto.EnvVars(s.env), auto.SecretsProvider(vaultemulator.SecretsProvider))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.secret(id)

	firewall := s.civoProgram("CivoFirewall", "{name: fw}", "{name: fw, region: lon1, "+httpsOnly+", networkId: {valueFrom: {name: net}}}", "fw")
	firewall.pulumi("preview")
	firewall.pulumi("up", "--yes", "--skip-preview")
	firewall.pulumi("refresh", "--yes", "--skip-preview")
	if got := strings.TrimSpace(firewall.pulumi("stack", "output", "network_id")); got != "[secret]" {
		t.Errorf("the output of what refers to a secret is shown as %q", got)
	}
	// What is shown on demand is the id, and that must not be taken for a leak.
	s.mu.Lock()
	s.secrets = s.secrets[:len(s.secrets)-1]
	s.mu.Unlock()
	if got := strings.TrimSpace(firewall.pulumi("stack", "output", "network_id", "--show-secrets")); got != id {
		t.Errorf("the firewall stands in network %s, want %s", got, id)
	}
	s.secret(id)

	checkpoint := s.checkpoint("civofirewall", "fw")
	for _, urn := range []string{"pulumi:pulumi:StackReference::", "civo:index/firewall:Firewall::", "pulumi:pulumi:Stack::"} {
		outputs, found := checkpoint.outputs(urn)
		if !found {
			t.Errorf("the state has no %s", urn)
		}
		if strings.Contains(outputs, id) || !strings.Contains(outputs, "ciphertext") {
			t.Errorf("the state of %s does not keep the id secret: %s", urn, outputs)
		}
	}
	s.checkHeld(filesOf(t, filepath.Join(s.dir, "state")), ".pulumi/history/civofirewall/fw/")
	firewall.pulumi("destroy", "--yes", "--skip-preview")
}

// checkpoint is the state of a stack, as it stands in the backend.
type checkpoint struct {
	Checkpoint struct {
		Latest struct {
			Resources []struct {
				URN     string          `json:"urn"`
				ID      string          `json:"id"`
				Outputs json.RawMessage `json:"outputs"`
			} `json:"resources"`
		} `json:"latest"`
	} `json:"checkpoint"`
}

func (w *world) checkpoint(project, stack string) checkpoint {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "state", ".pulumi", "stacks", project, stack+".json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var read checkpoint
	if err := json.Unmarshal(text, &read); err != nil {
		w.t.Fatal(err)
	}
	return read
}

// outputs are those of the first resource whose URN has the type.
func (c checkpoint) outputs(resourceType string) (string, bool) {
	for _, resource := range c.Checkpoint.Latest.Resources {
		if strings.Contains(resource.URN, resourceType) {
			return string(resource.Outputs), true
		}
	}
	return "", false
}

// Labels name the stack of a manifest, and the stack of what it refers to where labels name that one.
func TestLabelsThatNameStacks(t *testing.T) {
	t.Parallel()
	const fqdn = "organization/networks/shared"
	s := newShell(t)
	network := s.folder("iac/pulumi/civo/civovpc", civoStackInput("CivoVpc", `{name: net, org: acme, labels: {"pulumi.project-planton.org/stack.fqdn": `+fqdn+`}}`,
		"{networkName: net, region: fra1}"))
	// The name of a program's project stands in its file.
	if err := os.WriteFile(filepath.Join(network.dir, "Pulumi.yaml"), []byte("name: networks\nruntime: go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	network.pulumi("stack", "init", fqdn)
	network.pulumi("up", "--yes", "--skip-preview")

	const spec = "{name: fw, region: fra1, " + httpsOnly + ", networkId: {valueFrom: {name: net}}}"
	unnamed := s.civoProgram("CivoFirewall", "{name: other, org: acme}", spec, "acme._.other")
	stdout, stderr, err := unnamed.try("preview")
	for _, part := range []string{"organization/civovpc/acme._.net", "pulumi.project-planton.org/stack.fqdn.civovpc.net"} {
		if err == nil || !strings.Contains(stdout+stderr, part) {
			t.Errorf("a reference by the rule to a stack of another name: %v, want an error with %s\n%s%s", err, part, stdout, stderr)
		}
	}

	firewall := s.civoProgram("CivoFirewall", `{name: fw, org: acme, labels: {
      "pulumi.project-planton.org/stack.name": edge,
      "pulumi.project-planton.org/stack.fqdn.civovpc.net": `+fqdn+`}}`, spec, "edge")
	firewall.pulumi("up", "--yes", "--skip-preview")
	if got, want := strings.TrimSpace(firewall.pulumi("stack", "output", "network_id")), s.networksNamed("net")[0].ID; got != want {
		t.Errorf("the firewall stands in network %s, want %s", got, want)
	}
	firewall.pulumi("destroy", "--yes", "--skip-preview")
	network.pulumi("destroy", "--yes", "--skip-preview")
}

// What cannot be resolved is told before anything is made, in words that name both ends and what to do.
func TestReferencesThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	networkID := s.civoNetwork("net")
	refuseIn := func(reason string, f *folder, args []string, parts []string) {
		t.Helper()
		stdout, stderr, err := f.try(args...)
		for _, part := range parts {
			if err == nil || !strings.Contains(stdout+stderr, part) {
				t.Errorf("%s: %s: %v, want an error with %q\n%s%s", reason, args[0], err, part, stdout, stderr)
			}
		}
	}
	// An up begins with a preview, which is where it is refused.
	refuse := func(reason string, f *folder, parts ...string) {
		t.Helper()
		refuseIn(reason, f, []string{"up", "--yes"}, parts)
	}
	firewall := func(name, from string) *folder {
		return s.civoProgram("CivoFirewall", "{name: "+name+"}", "{name: "+name+", region: lon1, "+httpsOnly+", networkId: {valueFrom: "+from+"}}", name)
	}

	one := firewall("one", "{name: net, env: prod}")
	for _, args := range [][]string{{"preview"}, {"up", "--yes"}, {"up", "--yes", "--skip-preview"}} {
		refuseIn("no stack", one, args, []string{
			`CivoFirewall "one"`, "spec.network_id", "network_id", `CivoVpc "net"`, "organization/civovpc/_.prod.net", "cannot be read", "first",
		})
	}

	s.civoProgram("CivoVpc", "{name: empty}", "{networkName: empty, region: lon1}", "empty")
	refuse("a stack that was never brought up", firewall("two", "{name: empty}"),
		`CivoFirewall "two"`, "spec.network_id", "network_id", `CivoVpc "empty"`, "organization/civovpc/empty", "no such output", "first")

	refuse("no output of the kind", firewall("three", "{name: net, fieldPath: status.outputs.nonsense}"), "nonsense", "network_id")

	other, err := auto.UpsertStackInlineSource(t.Context(), "organization/civovpc/list", "civovpc", func(ctx *pulumi.Context) error {
		ctx.Export("network_id", pulumi.StringArray{pulumi.String(networkID)})
		return nil
	}, auto.Pulumi(s.oneRead()), auto.EnvVars(s.env), auto.SecretsProvider(vaultemulator.SecretsProvider))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse("a list", firewall("four", "{name: list}"),
		`CivoFirewall "four"`, "spec.network_id", `CivoVpc "list"`, "organization/civovpc/list", "not a string")

	refuse("itself", firewall("five", "{kind: CivoFirewall, name: five, fieldPath: status.outputs.network_id}"),
		`CivoFirewall "five"`, "spec.network_id", "organization/civofirewall/five", "itself")

	// Neither of two that refer to one another can be the first. Each is told of the other.
	a := firewall("a", "{kind: CivoFirewall, name: b, fieldPath: status.outputs.network_id}")
	refuse("a cycle whose other end does not exist", a, `CivoFirewall "a"`, `CivoFirewall "b"`, "in turn", "give one of the two a value")
	b := firewall("b", "{kind: CivoFirewall, name: a, fieldPath: status.outputs.network_id}")
	refuse("a cycle, the one end", a, `CivoFirewall "a"`, `CivoFirewall "b"`, "in turn", "give one of the two a value")
	refuse("a cycle, the other end", b, `CivoFirewall "b"`, `CivoFirewall "a"`, "in turn", "give one of the two a value")

	for _, request := range s.civo.Requests() {
		if request.Method == http.MethodPost && request.Path != "/v2/networks" {
			t.Errorf("%s %s was sent, though nothing could be resolved", request.Method, request.Path)
		}
	}
}

// The commands of the page about stacks' names, as they stand there, with the manifests that stand there.
func TestCommandsOfTheStackNamingPage(t *testing.T) {
	t.Parallel()
	const page = "docs/stack-naming.md"
	s := newShell(t)
	dir := t.TempDir()
	for _, program := range []string{"iac/pulumi/civo/civovpc", "iac/pulumi/civo/civofirewall"} {
		f := s.folder(program)
		if err := os.Remove(filepath.Join(f.dir, "stack-input.json")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, program)), 0o700); err != nil {
			t.Fatal(err)
		}
		link(t, f.dir, filepath.Join(dir, program))
	}
	text, err := os.ReadFile(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"net.yaml", "fw.yaml"} {
		_, block, _ := strings.Cut(string(text), "in `"+name+"`,\n\n```yaml\n")
		block, _, found := strings.Cut(block, "```")
		if !found {
			t.Fatalf("%s does not show %s", page, name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &folder{shell: s, dir: dir}
	// The built program of the folder that stands after -C.
	f.run(t, `pulumi() { `+programEnvironment+`="`+s.programs+`/${2##*/}" command pulumi "$@"; }
`+readmeCommands(t, page))
	if made := emulator.Count(s.civo.Requests(), "POST", "/v2/firewalls"); made != 1 {
		t.Errorf("%d firewalls were made, want 1", made)
	}
	if left := s.networksNamed("prod"); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}
