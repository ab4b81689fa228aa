package endtoend

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

const repository = "../.."

// programsDirectory holds what built has built; TestMain removes it.
var programsDirectory string

// built are the programs and the plugins, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "planton-programs-")
	if err != nil {
		return "", err
	}
	programsDirectory = dir
	build := exec.Command("go", "build", "-o", dir+"/", "./iac/pulumi/civo/...", "./iac/pulumi/digitalocean/...", "./examples/programs/...",
		"./cmd/pulumi-resource-civo", "./cmd/pulumi-resource-digitalocean")
	build.Dir = repository
	if output, err := build.CombinedOutput(); err != nil {
		return "", errors.Wrapf(err, "build the programs: %s", output)
	}
	return dir, nil
})

// shell is what a user of the Pulumi CLI has: the CLI, a home with the plugins installed, a backend, and the clouds' environment.
type shell struct {
	*world
	programs string
	environ  []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	w := newWorld(t)
	programs, err := built()
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{world: w, programs: programs}
	home := w.env["PULUMI_HOME"]
	if pluginsUnderTest() != official {
		for cloud, version := range map[string]string{kinds.Civo: "v2.4.8", kinds.DigitalOcean: "v4.57.0"} {
			dir := filepath.Join(home, "plugins", "resource-"+cloud+"-"+version)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			link(t, filepath.Join(programs, "pulumi-resource-"+cloud), filepath.Join(dir, "pulumi-resource-"+cloud))
		}
	}
	s.environ = append(os.Environ(),
		"PATH="+w.env["PATH"],
		"PULUMI_HOME="+home,
		"PULUMI_BACKEND_URL="+w.env["PULUMI_BACKEND_URL"],
		"PULUMI_CONFIG_PASSPHRASE="+w.env["PULUMI_CONFIG_PASSPHRASE"],
		"PULUMI_SKIP_UPDATE_CHECK=true",
		"CIVO_TOKEN="+civoToken, "CIVO_API_URL="+w.civoURL,
		"DIGITALOCEAN_TOKEN="+digitaloceanToken, "DIGITALOCEAN_API_URL="+w.doURL,
	)
	for name, value := range w.vault {
		s.environ = append(s.environ, name+"="+value)
	}
	return s
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// folder is a copy of a program's folder, in which the Pulumi CLI runs.
type folder struct {
	*shell
	dir     string
	program string
	environ []string
}

// folder copies the folder of a program, without its Go files: the built program stands for them.
func (s *shell) folder(path string, environ ...string) *folder {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), filepath.Base(path))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"Pulumi.yaml", "stack-input.json"} {
		text, err := os.ReadFile(filepath.Join(repository, path, name))
		if os.IsNotExist(err) && name == "stack-input.json" {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return &folder{shell: s, dir: dir, program: filepath.Join(s.programs, filepath.Base(path)), environ: environ}
}

// try runs the Pulumi CLI in the folder, and returns its output and its log.
func (f *folder) try(args ...string) (string, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, f.cli.Path, append(args, "--non-interactive")...)
	command.Dir = f.dir
	command.Env = append(append(append([]string{}, f.shell.environ...), programEnvironment+"="+f.program), f.environ...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	f.checkText("pulumi "+strings.Join(args, " "), stdout.String()+stderr.String())
	return stdout.String(), stderr.String(), err
}

func (f *folder) pulumi(args ...string) string {
	f.t.Helper()
	stdout, stderr, err := f.try(args...)
	if err != nil {
		f.t.Fatalf("pulumi %s in %s: %v\n%s\n%s", strings.Join(args, " "), filepath.Base(f.dir), err, stdout, stderr)
	}
	return stdout
}

// withKeysElsewhere has a key management service keep the keys of stacks. With a passphrase, each command that follows takes half a second of
// CPU time to make a key of that.
const withKeysElsewhere = `pulumi() {
	if [ "$1 $2" = "stack init" ]; then set -- "$@" --secrets-provider ` + vaultemulator.SecretsProvider + `; fi
	command pulumi "$@"
}
`

// The commands of each program's README, as they stand there, with the stack-input.json that is committed beside it. Only the id
// of what must exist before is filled in, where the README says to edit the file, and the keys of those stacks are kept elsewhere.
func TestReadmesOfThePrograms(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var network struct{ ID string }
	s.call(kinds.Civo, "POST", "/v2/networks", map[string]any{"label": "net", "region": "FRA1"}, &network)
	var firewall, civoCluster struct{ ID string }
	s.call(kinds.Civo, "POST", "/v2/firewalls", map[string]any{"name": "fw", "region": "FRA1", "network_id": network.ID, "create_rules": true}, &firewall)
	s.call(kinds.Civo, "POST", "/v2/kubernetes/clusters", map[string]any{
		"name": "beside", "region": "FRA1", "network_id": network.ID, "instance_firewall": firewall.ID, "kubernetes_version": "1.30.5-k3s1",
		"pools": []map[string]any{{"id": "default", "count": 1, "size": "g4s.kube.medium"}},
	}, &civoCluster)
	var vpc struct{ VPC struct{ ID string } }
	s.call(kinds.DigitalOcean, "POST", "/v2/vpcs", map[string]any{"name": "net", "region": "nyc1", "ip_range": "10.10.0.0/16"}, &vpc)
	for path, id := range map[string]string{
		"iac/pulumi/civo/civovpc":                                "",
		"iac/pulumi/civo/civofirewall":                           network.ID,
		"iac/pulumi/civo/civokubernetescluster":                  network.ID,
		"iac/pulumi/civo/civokubernetesnodepool":                 civoCluster.ID,
		"iac/pulumi/digitalocean/digitaloceanvpc":                "",
		"iac/pulumi/digitalocean/digitaloceankubernetescluster":  vpc.VPC.ID,
		"iac/pulumi/digitalocean/digitaloceankubernetesnodepool": s.doksCluster("beside"),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := s.folder(path)
			script := readmeCommands(t, path)
			if id != "" {
				f.fillIn(id)
				script = withKeysElsewhere + script
			}
			f.run(t, script)
		})
	}
	if left := len(s.civo.Clusters()) + len(s.digitalocean.Clusters()); left != 2 {
		t.Errorf("%d clusters are left after the READMEs' destroy, want the two beside", left)
	}
}

// fillIn puts an id in the place of the one in the stack input.
func (f *folder) fillIn(id string) {
	f.t.Helper()
	path := filepath.Join(f.dir, "stack-input.json")
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`"value": "[0-9a-f-]{36}"`)
	if len(placeholder.FindAll(text, -1)) != 1 {
		f.t.Fatalf("%s has not exactly one id to fill in", path)
	}
	if err := os.WriteFile(path, placeholder.ReplaceAll(text, []byte(`"value": "`+id+`"`)), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// readmeCommands are the commands of the first console block of a page, or of the README of a folder, as a shell script. What only a person can do is
// left out: to go to the folder, to log in, to give a token, to edit the file; and kubectl, because an emulated cluster runs nothing.
func readmeCommands(t *testing.T, path string) string {
	t.Helper()
	if !strings.HasSuffix(path, ".md") {
		path += "/README.md"
	}
	text, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var script []string
	for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		switch word, _, _ := strings.Cut(command, " "); word {
		case "pulumi":
			// A login would go to the home of the person who runs the tests, whatever HOME says: PULUMI_BACKEND_URL stands for it.
			if !strings.HasPrefix(command, "pulumi login ") {
				script = append(script, command)
			}
		case "cd", "export", "$EDITOR", "kubectl":
		default:
			t.Errorf("%s: this test does not know what to do with %q", path, command)
		}
	}
	if len(script) < 4 {
		t.Fatalf("%s has only these commands: %q", path, script)
	}
	return strings.Join(script, "\n")
}

// run runs a script in the folder as its user would, who answers every question with yes.
func (f *folder) run(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-e", "-x", "-o", "pipefail", "-c", script)
	command.Dir = f.dir
	command.Env = append(append(append([]string{}, f.shell.environ...), f.environ...), programEnvironment+"="+f.program,
		"HOME="+t.TempDir(), "PULUMI_SKIP_CONFIRMATIONS=true",
		"PATH="+filepath.Dir(f.cli.Path)+string(os.PathListSeparator)+f.env["PATH"])
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(f.dir), err, output)
	}
	f.checkText("the output of the README's commands", string(output))
}

// The programs with the Pulumi CLI alone: each folder a stack, references between them by the naming rule.
func TestProgramsWithThePulumiCLI(t *testing.T) {
	t.Parallel()
	s := newShell(t)

	cluster := s.folder("iac/pulumi/civo/civokubernetescluster", `STACK_INPUT_YAML=
target:
  apiVersion: civo.project-planton.org/v1
  kind: CivoKubernetesCluster
  metadata: {name: main, org: acme, env: prod}
  spec:
    clusterName: prod-main
    region: fra1
    kubernetesVersion: 1.29.0+k3s1
    network: {valueFrom: {name: net}}
    defaultNodePool: {size: g4s.kube.medium, nodeCount: 2}
`)
	cluster.pulumi("stack", "init", "acme.prod.main")
	if stdout, stderr, err := cluster.try("preview"); err == nil || !strings.Contains(stdout+stderr, "organization/civovpc/acme.prod.net") {
		t.Errorf("a reference to a stack that does not exist: %v\n%s\n%s", err, stdout, stderr)
	}

	network := s.folder("iac/pulumi/civo/civovpc", `STACK_INPUT_YAML=
target:
  api_version: civo.project-planton.org/v1
  kind: CivoVpc
  metadata: {name: net, org: acme, env: prod}
  spec: {network_name: net, region: fra1}
`)
	network.pulumi("stack", "init", "acme.prod.net")
	network.pulumi("up", "--yes")

	cluster.pulumi("up", "--yes")
	if got := s.clusterNamed("prod-main"); got.NetworkID != s.networksNamed("net")[0].ID || got.Region != "FRA1" {
		t.Errorf("the cluster stands in network %s of %s", got.NetworkID, got.Region)
	}
	encoded := strings.TrimSpace(cluster.pulumi("stack", "output", "kubeconfig_b64", "--show-secrets"))
	kubeconfig, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientcmd.Load(kubeconfig); err != nil {
		t.Errorf("the kubeconfig cannot be read: %v", err)
	}
	if masked := cluster.pulumi("stack", "output"); strings.Contains(masked, encoded) {
		t.Error("pulumi stack output shows the kubeconfig")
	}
	cluster.pulumi("preview", "--expect-no-changes")
	cluster.pulumi("refresh", "--yes")
	cluster.pulumi("destroy", "--yes")
	network.pulumi("destroy", "--yes")
	if left := s.civo.Clusters(); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}

// The example program builds both clouds with the modules' components, by the commands of its README.
func TestExampleProgram(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	const path = "examples/programs/clusters"
	f := s.folder(path)
	const last = "pulumi destroy"
	making, ended := strings.CutSuffix(readmeCommands(t, path), "\n"+last)
	if !ended {
		t.Fatalf("the commands of its README do not end with %q", last)
	}
	f.run(t, withKeysElsewhere+making)
	if got := len(s.civo.Clusters()); got != 1 {
		t.Errorf("%d clusters on Civo, want 1", got)
	}
	if got := len(s.digitalocean.Clusters()); got != 1 {
		t.Errorf("%d clusters on DigitalOcean, want 1", got)
	}
	for _, cluster := range s.civo.Clusters() {
		if len(cluster.Pools) != 3 {
			t.Errorf("the Civo cluster has %d pools, want the default one and two", len(cluster.Pools))
		}
	}
	for _, cluster := range s.digitalocean.Clusters() {
		if len(cluster.NodePools) != 3 {
			t.Errorf("the DigitalOcean cluster has %d pools, want the default one and two", len(cluster.NodePools))
		}
	}
	f.pulumi("preview", "--expect-no-changes")
	f.run(t, last)
	if left := len(s.civo.Clusters()) + len(s.digitalocean.Clusters()); left != 0 {
		t.Errorf("%d clusters are left after destroy", left)
	}
}
