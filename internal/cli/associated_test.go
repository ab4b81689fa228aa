package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// TestDestroyNamesWhatKubernetesMade has load balancers and volumes in a cluster that is destroyed, and a stranger in its network.
func TestDestroyNamesWhatKubernetesMade(t *testing.T) {
	t.Parallel()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	directory := t.TempDir()
	cloud, err := digitalocean.New(emulator.Options{Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	environment := map[string]string{
		pulumicli.Environment: cli.Path, provision.EnvironmentStateDirectory: filepath.Join(directory, "state"),
		"DIGITALOCEAN_TOKEN": "token", "DIGITALOCEAN_API_URL": server.URL(), "HOME": directory,
	}
	manifests := filepath.Join(directory, "set.yaml")
	network, rest, _ := strings.Cut(digitalOceanSet, "\n---\n")
	clusterText, _, _ := strings.Cut(rest, "\n---\n")
	write := func(extra string) {
		t.Helper()
		if err := os.WriteFile(manifests, []byte(network+"\n---\n"+clusterText+extra), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(answer string, args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Run(t.Context(), Streams{
			In: strings.NewReader(answer), Out: &out, Err: &errs, InTerminal: true,
			Getenv: func(name string) string { return environment[name] },
		}, append(args, "-f", manifests, "--plugins", "native"))
		return code, out.String(), errs.String()
	}

	write("\n")
	if code, _, stderr := run("", "apply", "--yes"); code != ExitOK {
		t.Fatal(stderr)
	}
	cluster := cloud.Clusters()[0]
	balancer, err := cloud.AddLoadBalancer(cluster.ID, "ingress")
	if err != nil {
		t.Fatal(err)
	}
	volume, err := cloud.AddVolume(cluster.ID, "pvc-1")
	if err != nil {
		t.Fatal(err)
	}

	// Kept, which is the default; the load balancer will keep the network.
	code, _, stderr := run("n\n", "destroy")
	if code != ExitCanceled || len(cloud.Clusters()) != 1 {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	before, _, _ := strings.Cut(stderr, "Destroy this? [y/N]")
	for _, want := range []string{
		"load balancer ingress (" + balancer + ") was made by Kubernetes and will be kept",
		"volume pvc-1 (" + volume + ") was made by Kubernetes and will be kept",
		"load balancer ingress (" + balancer + ") stands in the network, which is not deleted before it is gone",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("before the question there is no %q in:\n%s", want, before)
		}
	}
	if strings.Contains(before, "kubernetes cluster acme") {
		t.Errorf("the cluster goes before its network, and is named as a stranger in it:\n%s", before)
	}

	// Destroyed, by the spec's choice.
	write("\n  destroyAllAssociatedResources: true\n")
	if code, _, stderr := run("", "apply", "--yes"); code != ExitOK {
		t.Fatal(stderr)
	}
	code, stdout, stderr := run("", "destroy", "--yes", "-o", "json")
	if code != ExitOK || len(cloud.LoadBalancers())+len(cloud.Volumes())+len(cloud.Clusters()) != 0 {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	var document struct {
		Manifests []struct {
			Kind       string
			Associated []provision.Associated `json:"associatedResources"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil {
		t.Fatal(err)
	}
	want := []provision.Associated{
		{Kind: "load balancer", ID: balancer, Name: "ingress", Outcome: provision.Destroyed},
		{Kind: "volume", ID: volume, Name: "pvc-1", Outcome: provision.Destroyed},
	}
	if diff := cmp.Diff(want, document.Manifests[0].Associated); diff != "" {
		t.Errorf("%s: -want +got:\n%s", document.Manifests[0].Kind, diff)
	}
	if len(document.Manifests) != 2 || len(document.Manifests[1].Associated) != 0 {
		t.Errorf("the network has strangers in it: %+v", document.Manifests)
	}
	if !strings.Contains(stderr, "was made by Kubernetes and is destroyed too") {
		t.Errorf("nothing is named while it goes:\n%s", stderr)
	}
}
