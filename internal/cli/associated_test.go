package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// plantonOn serves a cloud, whose token is "token", and runs planton on the manifests of a file with native plugins and the cloud's
// credentials, PREFIX_TOKEN and PREFIX_API_URL. The answer is what is typed.
func plantonOn(t *testing.T, cloud http.Handler, prefix string) (
	manifests string, run func(answer string, args ...string) (code int, stdout, stderr string),
) {
	t.Helper()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	directory := t.TempDir()
	environment := withEngine(cli, map[string]string{
		provision.EnvironmentStateDirectory: filepath.Join(directory, "state"),
		prefix + "_TOKEN":                   "token", prefix + "_API_URL": server.URL(), "HOME": directory,
	})
	manifests = filepath.Join(directory, "set.yaml")
	return manifests, func(answer string, args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Run(t.Context(), Streams{
			In: strings.NewReader(answer), Out: &out, Err: &errs, InTerminal: true,
			Getenv: func(name string) string { return environment[name] },
		}, append(args, "-f", manifests, "--plugins", "native"))
		return code, out.String(), errs.String()
	}
}

// TestDestroyNamesWhatKubernetesMade has load balancers and volumes in a cluster that is destroyed, and a stranger in its network.
func TestDestroyNamesWhatKubernetesMade(t *testing.T) {
	t.Parallel()
	cloud, err := digitalocean.New(emulator.Options{Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	manifests, run := plantonOn(t, cloud, "DIGITALOCEAN")
	network, rest, _ := strings.Cut(digitalOceanSet, "\n---\n")
	clusterText, _, _ := strings.Cut(rest, "\n---\n")
	write := func(extra string) {
		t.Helper()
		if err := os.WriteFile(manifests, []byte(network+"\n---\n"+clusterText+extra), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err := json.Unmarshal([]byte(lastLine(stdout)), &document); err != nil {
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

// TestDestroyNamesWhatKubernetesMadeOnCivo has a load balancer and a volume in a cluster that is destroyed, which Civo keeps, and a cloud
// that cannot list one of them any more when the destroy begins.
func TestDestroyNamesWhatKubernetesMadeOnCivo(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	cloud, err := civo.New(emulator.Options{Token: "token", Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if failing.Load() && r.URL.Path == "/v2/loadbalancers" {
			emulator.WriteGatewayError(w, http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	manifests, run := plantonOn(t, cloud, "CIVO")
	var network string
	for _, n := range cloud.Networks() {
		if n.Region == "FRA1" {
			network = n.ID
		}
	}
	if err := os.WriteFile(manifests, []byte(`apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: main}
spec:
  clusterName: acme
  region: fra1
  kubernetesVersion: 1.29.0+k3s1
  network: {value: `+network+`}
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
`), 0o600); err != nil {
		t.Fatal(err)
	}
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

	code, _, stderr := run("n\n", "destroy")
	if code != ExitCanceled || len(cloud.Clusters()) != 1 {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	before, _, _ := strings.Cut(stderr, "Destroy this? [y/N]")
	for _, want := range []string{
		"load balancer ingress (" + balancer + ") was made by Kubernetes and will be kept; to be rid of it too, delete its Service",
		"volume pvc-1 (" + volume + ") was made by Kubernetes and will be kept",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("before the question there is no %q in:\n%s", want, before)
		}
	}
	if strings.Contains(before, "destroyAllAssociatedResources") {
		t.Errorf("a field is named that the kind does not have:\n%s", before)
	}

	failing.Store(true)
	code, stdout, stderr := run("", "destroy", "--yes", "-o", "json")
	if code != ExitOK || len(cloud.Clusters()) != 0 || len(cloud.LoadBalancers()) != 1 || len(cloud.Volumes()) != 1 {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	var document struct {
		Manifests []struct {
			Associated []provision.Associated `json:"associatedResources"`
		}
	}
	if err := json.Unmarshal([]byte(lastLine(stdout)), &document); err != nil {
		t.Fatal(err)
	}
	want := []provision.Associated{{Kind: "volume", ID: volume, Name: "pvc-1", Outcome: provision.Kept}}
	if len(document.Manifests) != 1 || !cmp.Equal(want, document.Manifests[0].Associated) {
		t.Errorf("got %+v, want %+v", document.Manifests, want)
	}
	for _, want := range []string{
		"cannot tell what else is there: list the load balancers in FRA1: 503",
		"volume pvc-1 (" + volume + ") was made by Kubernetes and is kept",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("there is no %q in:\n%s", want, stderr)
		}
	}
}
