package endtoend

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

const repository = "../.."

// built are the programs and the plugins, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "planton-programs-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"build", "-o", dir + "/", "./iac/pulumi/civo/...", "./iac/pulumi/digitalocean/...", "./examples/programs/...",
			"./cmd/pulumi-resource-civo", "./cmd/pulumi-resource-digitalocean"},
	} {
		build := exec.Command("go", args...)
		build.Dir = repository
		if output, err := build.CombinedOutput(); err != nil {
			return "", &exec.Error{Name: "go " + strings.Join(args, " ") + "\n" + string(output), Err: err}
		}
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
	for _, secret := range []string{civoToken, digitaloceanToken} {
		if strings.Contains(stdout.String()+stderr.String(), secret) {
			f.t.Errorf("pulumi %s shows a token", strings.Join(args, " "))
		}
	}
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

// Every program's folder passes `pulumi preview` with the stack-input.json that is committed in it.
func TestProgramsPreviewTheirStackInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.doksCluster("main") // the cluster that the pool's stack input may name
	for _, kind := range kinds.All() {
		path := "iac/pulumi/" + kind.Provider + "/" + strings.ToLower(kind.Name)
		f := s.folder(path, "CIVO_REGION=LON1")
		f.pulumi("stack", "init", "preview")
		if out := f.pulumi("preview"); !strings.Contains(out, "create") {
			t.Errorf("%s: %s", path, out)
		}
	}
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

// The example program builds both clouds with the modules' components.
func TestExampleProgram(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	f := s.folder("examples/programs/clusters")
	f.pulumi("stack", "init", "example")
	f.pulumi("up", "--yes")
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
	f.pulumi("destroy", "--yes")
	if left := len(s.civo.Clusters()) + len(s.digitalocean.Clusters()); left != 0 {
		t.Errorf("%d clusters are left after destroy", left)
	}
}
