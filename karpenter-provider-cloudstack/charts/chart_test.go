package charts_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/yaml"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

const (
	chart     = "karpenter-cloudstack"
	namespace = "karpenter"
	account   = "release-karpenter-cloudstack" // the service account and most other objects
)

var update = flag.Bool("update", false, "copy the definitions into the chart")

// The least values, and all that can be switched on.
var (
	least      = filepath.Join(chart, "ci", "test-values.yaml")
	everything = filepath.Join(chart, "ci", "everything-values.yaml")
)

// helm runs Helm. Without one, the test is skipped: $HELM names it, or tools/tool has built it.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		where, err := exec.CommandContext(t.Context(), "sh", "../tools/tool", "--where", "helm").Output()
		if err != nil {
			t.Skipf("there is no Helm, so the chart is not rendered: set HELM to its path, or build it with `tools/tool helm` (%v)", err)
		}
		program = strings.TrimSpace(string(where))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir()
	// A Helm that was built from source believes in a Kubernetes of old.
	command := exec.CommandContext(ctx, program, append(args, "--kube-version", "1.35.0")...)
	// Neither plugins nor repositories of whoever runs the test.
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+os.DevNull)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

// types are the types of what the chart has.
var types = map[string]func() client.Object{
	"apps/v1/Deployment":                              func() client.Object { return &appsv1.Deployment{} },
	"v1/Service":                                      func() client.Object { return &corev1.Service{} },
	"v1/ServiceAccount":                               func() client.Object { return &corev1.ServiceAccount{} },
	"v1/Secret":                                       func() client.Object { return &corev1.Secret{} },
	"policy/v1/PodDisruptionBudget":                   func() client.Object { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":              func() client.Object { return &networkingv1.NetworkPolicy{} },
	"rbac.authorization.k8s.io/v1/Role":               func() client.Object { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1/RoleBinding":        func() client.Object { return &rbacv1.RoleBinding{} },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() client.Object { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() client.Object { return &rbacv1.ClusterRoleBinding{} },
	// The types of the Prometheus operator are no dependency.
	"monitoring.coreos.com/v1/ServiceMonitor": func() client.Object { return &unstructured.Unstructured{} },
}

// render renders the chart, and reads each object into its type. A field that the type does not have is an error.
func render(t *testing.T, values string, args ...string) []client.Object {
	t.Helper()
	out, errs, err := helm(t, append([]string{"template", "release", chart, "--namespace", namespace, "-f", values}, args...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, errs)
	}
	var objects []client.Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if kind.Kind == "" { // comments only
			continue
		}
		makes, ok := types[kind.APIVersion+"/"+kind.Kind]
		if !ok {
			t.Fatalf("the chart has a %s/%s, which the test does not know", kind.APIVersion, kind.Kind)
		}
		object := makes()
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %v:\n%s", kind.Kind, err, document)
		}
		objects = append(objects, object)
	}
}

// of are the objects of a type.
func of[T client.Object](objects []client.Object) []T {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// only is the one object of a type.
func only[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	found := of[T](objects)
	if len(found) != 1 {
		t.Fatalf("there are %d of %T", len(found), *new(T))
	}
	return found[0]
}

// Copies of definitions differ from their sources when one was changed, or core upgraded.
func TestDefinitions(t *testing.T) {
	sources := map[string][]byte{
		"karpenter.k8s.cloudstack_cloudstacknodeclasses.yaml": crds.CloudStackNodeClassYAML,
		"karpenter.sh_nodepools.yaml":                         apis.NodePoolCRD,
		"karpenter.sh_nodeclaims.yaml":                        apis.NodeClaimCRD,
		"karpenter.sh_nodeoverlays.yaml":                      apis.NodeOverlayCRD,
		"autoscaling.x-k8s.io_capacitybuffers.yaml":           apis.CapacityBufferCRD,
	}
	directory := filepath.Join(chart, "crds")
	for name, source := range sources {
		path := filepath.Join(directory, name)
		if *update {
			if err := os.WriteFile(path, source, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		copied, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(copied, source) {
			t.Errorf("%s differs from its source (%v): go test ./charts -update", path, err)
			continue
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(copied, &definition); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil || len(files) != len(sources) {
		t.Errorf("%d files, %d sources, %v", len(files), len(sources), err)
	}
}

func TestLint(t *testing.T) {
	for _, values := range []string{least, everything} {
		out, errs, err := helm(t, "lint", "--strict", chart, "-f", values)
		if err != nil {
			t.Errorf("%s: %v\n%s%s", values, err, out, errs)
		}
	}
}

// What holds for all objects, with the least values and with everything.
func TestObjects(t *testing.T) {
	for values, want := range map[string]map[string]int{
		least:      {"*v1.Deployment": 1, "*v1.Service": 1, "*v1.ServiceAccount": 1, "*v1.Secret": 0, "*v1.PodDisruptionBudget": 1, "*v1.NetworkPolicy": 0, "*unstructured.Unstructured": 0},
		everything: {"*v1.Deployment": 1, "*v1.Service": 1, "*v1.ServiceAccount": 1, "*v1.Secret": 1, "*v1.PodDisruptionBudget": 1, "*v1.NetworkPolicy": 1, "*unstructured.Unstructured": 1},
	} {
		t.Run(filepath.Base(values), func(t *testing.T) {
			objects := render(t, values)
			got, seen := map[string]int{}, map[string]bool{}
			for _, object := range objects {
				kind := fmt.Sprintf("%T", object)
				got[kind]++
				id := kind + " " + object.GetNamespace() + "/" + object.GetName()
				if seen[id] {
					t.Errorf("there are two %s", id)
				}
				seen[id] = true
				if object.GetLabels()["app.kubernetes.io/instance"] != "release" || object.GetLabels()["helm.sh/chart"] == "" {
					t.Errorf("%s has the labels %v", id, object.GetLabels())
				}
				switch object.(type) {
				case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
					if object.GetNamespace() != "" {
						t.Errorf("%s has a namespace", id)
					}
				case *rbacv1.Role, *rbacv1.RoleBinding:
				default:
					if object.GetNamespace() != namespace {
						t.Errorf("%s is not in the namespace of the release", id)
					}
				}
			}
			for kind, count := range want {
				if got[kind] != count {
					t.Errorf("%d of %s, want %d", got[kind], kind, count)
				}
			}
			pod := labels.Set(only[*appsv1.Deployment](t, objects).Spec.Template.Labels)
			for name, selector := range map[string]map[string]string{
				"the Deployment":          only[*appsv1.Deployment](t, objects).Spec.Selector.MatchLabels,
				"the Service":             only[*corev1.Service](t, objects).Spec.Selector,
				"the PodDisruptionBudget": only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels,
			} {
				if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
					t.Errorf("%s does not select the pods: %v", name, selector)
				}
			}
		})
	}
}

func TestDeployment(t *testing.T) {
	deployment := only[*appsv1.Deployment](t, render(t, least))
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	security := container.SecurityContext
	probe := func(p *corev1.Probe, path string) bool {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != path {
			return false
		}
		for _, port := range container.Ports {
			if port.Name == p.HTTPGet.Port.StrVal {
				return port.ContainerPort == 8081
			}
		}
		return false
	}
	mounted := func(name string) corev1.VolumeMount {
		i := slices.IndexFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == name })
		if i < 0 {
			return corev1.VolumeMount{}
		}
		return container.VolumeMounts[i]
	}
	volume := pod.Volumes[0].Secret
	for name, is := range map[string]bool{
		"there are two replicas":                        *deployment.Spec.Replicas == 2,
		"one at a time is replaced":                     deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal == 1,
		"liveness asks the port of the probes":          probe(container.LivenessProbe, "/healthz"),
		"readiness asks the port of the probes":         probe(container.ReadinessProbe, "/readyz"),
		"metrics have their port":                       container.Ports[0].Name == "http-metrics" && container.Ports[0].ContainerPort == 8080,
		"it is not root":                                *security.RunAsNonRoot && *security.RunAsUser == 65532,
		"it gets no more rights":                        !*security.AllowPrivilegeEscalation && security.Privileged == nil,
		"it has no capabilities":                        slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(security.Capabilities.Add) == 0,
		"it cannot write":                               *security.ReadOnlyRootFilesystem,
		"its system calls are filtered":                 security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"it is not on the network of the host":          !pod.HostNetwork,
		"it is of the system":                           pod.PriorityClassName == "system-cluster-critical",
		"replicas are spread over zones and hosts":      len(pod.TopologySpreadConstraints) == 2,
		"the spread is of these pods":                   pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app.kubernetes.io/instance"] == "release",
		"credentials are mounted where they are read":   mounted("credentials").MountPath == "/etc/cloudstack" && mounted("credentials").ReadOnly,
		"a change of them arrives":                      mounted("credentials").SubPath == "",
		"they are those of the Secret that exists":      volume != nil && volume.SecretName == "cloudstack-credentials",
		"without it the controller starts, and says so": *volume.Optional,
		"others in the pod cannot read them":            *volume.DefaultMode == 0o440,
		"the group that may is the pod's":               *pod.SecurityContext.FSGroup == 65532,
		"the image is that of the version":              strings.HasPrefix(container.Image, "karpenter-provider-cloudstack:") && !strings.HasSuffix(container.Image, ":"),
		"there is no bundle unless it is asked for":     mounted("ca-bundle").Name == "",
		"it does not run on nodes that it makes":        pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key == "karpenter.sh/nodepool",
		"it has the token of its account":               *pod.AutomountServiceAccountToken && pod.ServiceAccountName == account,
	} {
		if !is {
			t.Errorf("not so: %s", name)
		}
	}
	// Everything and what differs.
	deployment = only[*appsv1.Deployment](t, render(t, everything))
	container = deployment.Spec.Template.Spec.Containers[0]
	if *deployment.Spec.Replicas != 3 || mounted("ca-bundle").MountPath != "/etc/cloudstack-ca" || mounted("scratch").MountPath != "/scratch" {
		t.Errorf("values do not arrive: %+v", container.VolumeMounts)
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	deployment = only[*appsv1.Deployment](t, render(t, least, "--set", "image.repository=example.com/karpenter,image.tag=v9,image.digest="+digest))
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "example.com/karpenter@"+digest {
		t.Errorf("the image is %s", image)
	}
	deployment = only[*appsv1.Deployment](t, render(t, least, "--set", "hostNetwork=true"))
	if policy := deployment.Spec.Template.Spec.DNSPolicy; policy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("on the network of the host, the DNS policy is %s", policy)
	}
}

// Whatever is read again while the controller runs is mounted as a folder. The kubelet brings a file that is mounted by itself (subPath) up to
// date only when the pod is made anew.
func TestMountsAreBroughtUpToDate(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		extra  []string
		want   int
	}{
		"credentials":                    {values: least, want: 1},
		"and a bundle from a ConfigMap":  {values: everything, want: 2},
		"and a bundle from a Secret":     {values: least, extra: []string{"--set", "cloudstack.caBundle.secret=ca"}, want: 2},
		"with a key of another name too": {values: least, extra: []string{"--set", "cloudstack.caBundle.secret=ca,cloudstack.caBundle.key=bundle.pem"}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			pod := only[*appsv1.Deployment](t, render(t, test.values, test.extra...)).Spec.Template.Spec
			changing := map[string]bool{}
			for _, volume := range pod.Volumes {
				if volume.Secret != nil && len(volume.Secret.Items) == 0 || volume.ConfigMap != nil && len(volume.ConfigMap.Items) == 0 {
					changing[volume.Name] = true
				}
			}
			folders := map[string]bool{}
			for _, container := range pod.Containers {
				for _, mount := range container.VolumeMounts {
					if changing[mount.Name] && (mount.SubPath != "" || mount.SubPathExpr != "") {
						t.Errorf("%s is mounted as a file at %s: it would stay as it is for the life of the pod", mount.Name, mount.MountPath)
					}
					if changing[mount.Name] {
						folders[mount.MountPath] = true
					}
				}
				for _, variable := range container.Env {
					if file := variable.Value; variable.Name == "CLOUDSTACK_CA_BUNDLE_FILE" && !folders[filepath.Dir(file)] {
						t.Errorf("the controller reads %s, and the folders are %v", file, folders)
					}
					if variable.Name == "CLOUDSTACK_CREDENTIALS_DIR" && !folders[variable.Value] {
						t.Errorf("the controller reads %s, and the folders are %v", variable.Value, folders)
					}
					// A variable is never brought up to date at all.
					if from := variable.ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
						t.Errorf("%s comes from a Secret or a ConfigMap, and would stay as it is", variable.Name)
					}
				}
				if len(container.EnvFrom) > 0 {
					t.Errorf("variables come from %v, and would stay as they are", container.EnvFrom)
				}
			}
			if len(folders) != test.want {
				t.Errorf("%d folders are mounted, want %d: %v", len(folders), test.want, folders)
			}
		})
	}
}

// What the chart makes of its values is what the controller takes: each variable is known, and has a value that its rule allows.
func TestEnvironment(t *testing.T) {
	known := map[string]bool{}
	fs := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("core", flag.ContinueOnError)}
	(&coreoptions.Options{}).AddFlags(fs)
	fs.VisitAll(func(f *flag.Flag) { known[strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))] = true })
	for _, one := range options.References() {
		known[one.Environment] = true
	}
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, values := range []string{least, everything} {
		t.Run(filepath.Base(values), func(t *testing.T) {
			container := only[*appsv1.Deployment](t, render(t, values)).Spec.Template.Spec.Containers[0]
			for _, variable := range container.Env {
				if !known[variable.Name] {
					t.Errorf("nobody reads %s", variable.Name)
				}
				set[variable.Name] = true
				value := variable.Value
				switch {
				case variable.Name == "CLOUDSTACK_CA_BUNDLE_FILE":
					if value != "/etc/cloudstack-ca/ca.crt" {
						t.Errorf("the bundle is %s", value)
					}
					value = bundle
				case variable.ValueFrom != nil && variable.ValueFrom.FieldRef != nil:
					value = namespace
				case variable.ValueFrom != nil:
					value = "1000"
				}
				t.Setenv(variable.Name, value)
			}
			if err := options.Check(nil); err != nil {
				t.Errorf("the controller does not take these: %v", err)
			}
		})
	}
	if t.Failed() || len(set) == 0 {
		return
	}
	for _, one := range options.References() {
		// How often the directory is looked at is for tests.
		if !set[one.Environment] && one.Environment != "CLOUDSTACK_CREDENTIALS_PERIOD" && one.Environment != "REGION" {
			t.Errorf("no value sets %s", one.Environment)
		}
	}
}

// Defaults are in one place for the program and in another for the chart, and are the same.
func TestDefaultsAreThoseOfTheController(t *testing.T) {
	container := only[*appsv1.Deployment](t, render(t, least)).Spec.Template.Spec.Containers[0]
	fs := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("core", flag.ContinueOnError)}
	(&coreoptions.Options{}).AddFlags(fs)
	defaults := map[string]string{}
	fs.VisitAll(func(f *flag.Flag) { defaults[strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))] = f.DefValue })
	for _, one := range options.References() {
		defaults[one.Environment] = one.Default
	}
	own := map[string]bool{"CLUSTER_NAME": true, "IGNORE_DRA_REQUESTS": true} // that of flags that are functions is not told
	for _, variable := range container.Env {
		if variable.ValueFrom != nil || own[variable.Name] {
			continue
		}
		if got, want := variable.Value, defaults[variable.Name]; got != want {
			if d, err := time.ParseDuration(got); err == nil {
				if e, err := time.ParseDuration(want); err == nil && d == e {
					continue
				}
			}
			if sorted(got) != sorted(want) {
				t.Errorf("%s is %q by default, for the controller %q", variable.Name, got, want)
			}
		}
	}
}

// sorted is a list without its order.
func sorted(list string) string {
	parts := strings.Split(list, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// right is what somebody may do: a verb on a resource, in a namespace ("" for all), with one name ("" for all).
type right struct{ namespace, group, resource, verb, name string }

// rights are all that the service account may do.
func rights(t *testing.T, objects []client.Object) map[right]bool {
	t.Helper()
	all := map[right]bool{}
	grant := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							all[right{namespace, group, resource, verb, name}] = true
						}
					}
				}
			}
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("a rule for %v", rule.NonResourceURLs)
			}
		}
	}
	ours := func(subjects []rbacv1.Subject) bool {
		return len(subjects) == 1 && subjects[0] == rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: namespace}
	}
	for _, binding := range of[*rbacv1.ClusterRoleBinding](objects) {
		for _, role := range of[*rbacv1.ClusterRole](objects) {
			if ours(binding.Subjects) && binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == role.Name {
				grant("", role.Rules)
			}
		}
	}
	for _, binding := range of[*rbacv1.RoleBinding](objects) {
		for _, role := range of[*rbacv1.Role](objects) {
			if ours(binding.Subjects) && binding.RoleRef.Kind == "Role" && binding.RoleRef.Name == role.Name && binding.Namespace == role.Namespace {
				grant(role.Namespace, role.Rules)
			}
		}
	}
	return all
}

const (
	read  = "get list watch"
	core  = "karpenter.sh"
	our   = "karpenter.k8s.cloudstack"
	store = "storage.k8s.io"
)

// needed is what the controller does by default. Each line has its reason in the code of core or of the provider.
var needed = []struct{ group, resources, verbs string }{
	{core, "nodepools nodeclaims", read},
	{core, "nodeclaims", "create delete patch"},
	{core, "nodepools", "patch"},
	{core, "nodepools/status nodeclaims/status", "patch"},
	{core, "nodepools/finalizers nodeclaims/finalizers", "update"},
	{our, "cloudstacknodeclasses", read + " patch"},
	{our, "cloudstacknodeclasses/status", "patch"},
	{"", "pods nodes namespaces persistentvolumes persistentvolumeclaims", read},
	{"", "nodes", "patch delete"},
	{"", "pods", "delete"},
	{"", "pods/eviction", "create"},
	{"", "events", "create patch"},
	{store, "storageclasses csinodes volumeattachments", read},
	{"apps", "daemonsets", read},
	{"policy", "poddisruptionbudgets", read},
}

// gated is what more is needed with everything switched on.
var gated = []struct{ group, resources, verbs string }{
	{core, "nodeoverlays", read},
	{core, "nodeoverlays/status", "patch"},
	{"autoscaling.x-k8s.io", "capacitybuffers", read},
	{"autoscaling.x-k8s.io", "capacitybuffers/status", "patch"},
	{"", "podtemplates replicationcontrollers", read},
	{"apps", "deployments replicasets statefulsets", read},
	{"resource.k8s.io", "resourceclaims resourceslices deviceclasses", read},
}

func TestRights(t *testing.T) {
	lease := func(verb, name string) right { return right{namespace, "coordination.k8s.io", "leases", verb, name} }
	secret := func(namespace, verb, name string) right { return right{namespace, "", "secrets", verb, name} }
	for values, tables := range map[string]struct {
		wide  [][]struct{ group, resources, verbs string }
		local []right
	}{
		least: {wide: [][]struct{ group, resources, verbs string }{needed}},
		everything: {
			wide: [][]struct{ group, resources, verbs string }{needed, gated},
			local: []right{
				secret(namespace, "get", "k3s-token"), secret("machines", "get", "user-data"), secret("machines", "get", "join-token"),
				secret("kube-system", "create", ""), secret("kube-system", "get", ""), secret("kube-system", "list", ""),
				secret("kube-system", "patch", ""), secret("kube-system", "delete", ""),
			},
		},
	} {
		t.Run(filepath.Base(values), func(t *testing.T) {
			want := map[right]bool{lease("create", ""): true}
			for _, verb := range []string{"get", "update", "patch"} {
				want[lease(verb, "karpenter-leader-election")] = true
			}
			for _, one := range tables.local {
				want[one] = true
			}
			for _, table := range tables.wide {
				for _, line := range table {
					for _, resource := range strings.Fields(line.resources) {
						for _, verb := range strings.Fields(line.verbs) {
							want[right{"", line.group, resource, verb, ""}] = true
						}
					}
				}
			}
			got := rights(t, render(t, values))
			for one := range want {
				if !got[one] {
					t.Errorf("it may not %s %s of %q in %q", one.verb, one.resource, one.group, one.namespace)
				}
			}
			for one := range got {
				if !want[one] {
					t.Errorf("it may %s %s of %q in %q (%q), and need not", one.verb, one.resource, one.group, one.namespace, one.name)
				}
			}
		})
	}
	without := render(t, everything, "--set", "rbac.create=false")
	if n := len(of[*rbacv1.Role](without)) + len(of[*rbacv1.ClusterRole](without)) + len(of[*rbacv1.RoleBinding](without)); n != 0 {
		t.Errorf("without rbac.create there are %d objects", n)
	}
	if n := len(of[*rbacv1.ClusterRole](render(t, least, "--set", "rbac.aggregate=false"))); n != 2 {
		t.Errorf("without rbac.aggregate there are %d cluster roles", n)
	}
}

func TestNetworkPolicy(t *testing.T) {
	policy := only[*networkingv1.NetworkPolicy](t, render(t, everything))
	var ports []int32
	for _, rule := range policy.Spec.Egress {
		for _, port := range rule.Ports {
			ports = append(ports, port.Port.IntVal)
		}
	}
	for name, is := range map[string]bool{
		"the probes come in from everywhere":  policy.Spec.Ingress[0].Ports[0].Port.IntVal == 8081 && len(policy.Spec.Ingress[0].From) == 0,
		"the metrics are for those named":     policy.Spec.Ingress[1].Ports[0].Port.IntVal == 8080 && len(policy.Spec.Ingress[1].From) == 1,
		"DNS, API server and CloudStack stay": slices.Contains(ports, 53) && slices.Contains(ports, 443) && slices.Contains(ports, 6443) && slices.Contains(ports, 8443),
		"both directions are restricted":      len(policy.Spec.PolicyTypes) == 2,
	} {
		if !is {
			t.Errorf("not so: %s", name)
		}
	}
	policy = only[*networkingv1.NetworkPolicy](t, render(t, least, "--set", "networkPolicy.enabled=true"))
	if len(policy.Spec.PolicyTypes) != 1 || len(policy.Spec.Egress) != 0 {
		t.Errorf("egress is restricted, and nobody asked: %+v", policy.Spec)
	}
}

func TestSecret(t *testing.T) {
	secret := only[*corev1.Secret](t, render(t, everything))
	for key, want := range map[string]string{
		options.FileAPIURL: "https://cloudstack.example.com/client/api", options.FileAPIKey: "an-api-key", options.FileSecretKey: "a-secret-key",
	} {
		if secret.StringData[key] != want {
			t.Errorf("%s is %q", key, secret.StringData[key])
		}
	}
	volume := only[*appsv1.Deployment](t, render(t, everything)).Spec.Template.Spec.Volumes[0]
	if volume.Secret.SecretName != secret.Name {
		t.Errorf("the pod has %s, the chart makes %s", volume.Secret.SecretName, secret.Name)
	}
}

// Values that are wrong are refused, with words that say what to change.
func TestRefusals(t *testing.T) {
	credentials := "cloudstack.credentials.existingSecret=a,"
	for name, test := range map[string]struct{ values, want string }{
		"no name of the cluster":               {credentials, "clusterName"},
		"a name that CloudStack tags cannot":   {credentials + "clusterName=a/b", "clusterName"},
		"no credentials":                       {"clusterName=a", "existingSecret"},
		"keys without an address":              {"clusterName=a,cloudstack.credentials.apiKey=a,cloudstack.credentials.secretKey=b", "cloudstack.apiURL"},
		"credentials twice":                    {credentials + "clusterName=a,cloudstack.credentials.apiKey=b", "not both"},
		"a value that there is not":            {credentials + "clusterName=a,replica=2", "replica"},
		"one further down":                     {credentials + "clusterName=a,settings.featureGates.nodeRepairs=true", "nodeRepairs"},
		"a gate that is text":                  {credentials + "clusterName=a,settings.featureGates.nodeRepair=yes", "nodeRepair"},
		"a level of logs that there is not":    {credentials + "clusterName=a,settings.logLevel=loud", "logLevel"},
		"an address that is none":              {credentials + "clusterName=a,cloudstack.apiURL=cloudstack.example.com", "apiURL"},
		"an address with a password":           {credentials + "clusterName=a,cloudstack.apiURL=https://u:p@cloudstack.example.com", "apiURL"},
		"a duration without a unit":            {credentials + "clusterName=a,settings.gc.grace=5", "grace"},
		"no deletions at all":                  {credentials + "clusterName=a,settings.gc.maxDeletions=0", "maxDeletions"},
		"a provider id that nothing parses":    {credentials + "clusterName=a,settings.providerIDFormat=mycloud", "providerIDFormat"},
		"user data longer than CloudStack's":   {credentials + "clusterName=a,settings.userDataMaxBytes=2000000", "userDataMaxBytes"},
		"a digest that is a tag":               {credentials + "clusterName=a,image.digest=v1", "digest"},
		"a bundle that nothing is held to":     {credentials + "clusterName=a,cloudstack.caBundle.secret=a,cloudstack.verifySSL=false", "leave one of them out"},
		"two bundles":                          {credentials + "clusterName=a,cloudstack.caBundle.secret=a,cloudstack.caBundle.configMap=b", "not both"},
		"an account that nobody makes":         {credentials + "clusterName=a,serviceAccount.create=false", "serviceAccount.name"},
		"rights to no Secret in particular":    {credentials + "clusterName=a,secrets[0].names={}", "names"},
		"a budget that lets nobody be evicted": {credentials + "clusterName=a,podDisruptionBudget.maxUnavailable=0", "maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, err := helm(t, "template", "release", chart, "--set", test.values)
			if err == nil {
				t.Fatalf("it is rendered:\n%.500s", out)
			}
			if !strings.Contains(errs, test.want) {
				t.Errorf("%s\nwant %q in it", errs, test.want)
			}
		})
	}
}

// The notes say what is missing for what was chosen.
func TestNotes(t *testing.T) {
	// Notes are shown by an installation, which needs a cluster. Here they are the text of an object.
	copied := filepath.Join(t.TempDir(), chart)
	if err := os.CopyFS(copied, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(copied, "templates", "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	object := `{{ define "notes" }}` + string(text) + `{{ end }}notes: {{ include "notes" . | quote }}`
	if err := os.WriteFile(filepath.Join(copied, "templates", "notes.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	notes := func(values string, args ...string) string {
		t.Helper()
		out, errs, err := helm(t, append([]string{"template", "release", copied, "--namespace", namespace, "-f", values, "--show-only", "templates/notes.yaml"}, args...)...)
		if err != nil {
			t.Fatal(errs)
		}
		var read struct {
			Notes string `json:"notes"`
		}
		if err := yaml.Unmarshal([]byte(out), &read); err != nil {
			t.Fatal(err)
		}
		return read.Notes
	}
	if n := notes(least); !strings.Contains(n, "bootstrapTokens.enabled=true") || !strings.Contains(n, "/cloudstackz") || strings.Contains(n, "NOT verified") {
		t.Error(n)
	}
	if n := notes(least, "--set", "cloudstack.verifySSL=false,replicas=1"); !strings.Contains(n, "NOT verified") || !strings.Contains(n, "There is one replica") {
		t.Error(n)
	}
	if n := notes(everything); strings.Contains(n, "a-secret-key") || strings.Contains(n, "bootstrapTokens.enabled=true") {
		t.Error(n)
	}
}

// Each value of values.yaml has a place in the schema, which otherwise would refuse it when somebody sets it.
func TestSchemaHasAllValues(t *testing.T) {
	var values, schema map[string]any
	for path, into := range map[string]*map[string]any{"values.yaml": &values, "values.schema.json": &schema} {
		content, err := os.ReadFile(filepath.Join(chart, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, into); err != nil {
			t.Fatal(err)
		}
	}
	var walk func(path string, values, schema map[string]any)
	walk = func(path string, values, schema map[string]any) {
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			return // a map of the user's own
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s takes any key", path)
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			property, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("the schema has no %s.%s", path, key)
				continue
			}
			if below, ok := values[key].(map[string]any); ok {
				walk(path+"."+key, below, property)
			}
		}
		for key := range properties {
			if _, ok := values[key]; !ok && key != "global" {
				t.Errorf("values.yaml has no %s.%s", path, key)
			}
		}
	}
	walk("", values, schema)
}
