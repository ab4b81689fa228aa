package crds_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

// properties are what the definition of the CloudStackNodeClass says.
func properties(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, one := range crds.All() {
		if one.Spec.Group == csv1.Group {
			return *one.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
	}
	t.Fatal("there is no definition of the CloudStackNodeClass")
	return apiextensionsv1.JSONSchemaProps{}
}

// check has the API server look at an object as if it was created, and returns what it finds wrong.
func check(t *testing.T, c client.Client, object map[string]any) []metav1.StatusCause {
	t.Helper()
	err := c.Create(t.Context(), &unstructured.Unstructured{Object: object}, client.DryRunAll)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &status) || !apierrors.IsInvalid(err):
		t.Fatal(err)
	}
	// One without a field says no more than that rules were left out because of the others.
	return slices.DeleteFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "<nil>" })
}

// read adds the fields of a text. Numbers are of the types that the API server has them of.
func read(t *testing.T, text string, into map[string]any) {
	t.Helper()
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := json.Unmarshal(content, &into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// classOf is a CloudStackNodeClass with these fields beside, or in place of, those that it needs.
func classOf(t *testing.T, fields string) map[string]any {
	t.Helper()
	spec := map[string]any{}
	read(t, "zones: [a]\nserviceOfferingSelectorTerms: [{name: small}]\ntemplateSelectorTerms: [{name: ubuntu}]\n", spec)
	read(t, fields, spec)
	for name, value := range spec {
		if value == nil {
			delete(spec, name)
		}
	}
	return map[string]any{"apiVersion": "karpenter.k8s.cloudstack/v1", "kind": "CloudStackNodeClass", "metadata": map[string]any{"name": "x"}, "spec": spec}
}

var element = regexp.MustCompile(`\[[^]]*\]`)

// rules are those of a field and of all below it, by the path of their field and what they say.
func rules(of apiextensionsv1.JSONSchemaProps, path string, into map[string][]apiextensionsv1.ValidationRule) {
	into[path] = append(into[path], of.XValidations...)
	for name, property := range of.Properties {
		rules(property, strings.TrimPrefix(path+"."+name, "."), into)
	}
	if of.Items != nil {
		rules(*of.Items.Schema, path, into)
	}
}

// TestRefusals: whatever contradicts itself is refused when it is written, in words that say what to do. Each rule of the definition has a
// case that breaks it, and only it.
func TestRefusals(t *testing.T) {
	c := suite.Client(t)
	all := map[string][]apiextensionsv1.ValidationRule{}
	rules(properties(t), "", all)
	broken := map[string]bool{}
	for _, test := range []struct{ reason, fields, path, says string }{
		{"no zone", `zones: `, "spec", "name a zone: set zones"},
		{"zones that are none", `zones: []`, "spec", "name a zone: set zones"},
		{"zones twice", `zone: b`, "spec", "set zones or zone, not both"},
		{"user data twice", `{userData: x, userDataSecretRef: {name: x}}`, "spec", "set userData or userDataSecretRef, not both"},
		{"an account anywhere", `account: x`, "spec", "an account needs the domainID that it is in"},
		{"an account of a project", `{account: x, domainID: d, projectID: 11111111-2222-3333-4444-555555555555}`, "spec", "set projectID or account, not both"},
		{"a size by details", `details: {cpuNumber: "4"}`, "spec.details", "use customOffering"},
		{"whose a machine is", `tags: {karpenter.sh/nodepool: x}`, "spec.tags", "cannot be set"},
		{"whose a machine is, by our own key", `tags: {karpenter.k8s.cloudstack/x: a}`, "spec.tags", "cannot be set"},
		{"an empty tag", `tags: {a: ""}`, "spec.tags", "no empty value"},
		{"a network of no kind", `networkSelectorTerms: [{}]`, "spec.networkSelectorTerms", "a term needs a field"},
		{"an id of a network and more", `networkSelectorTerms: [{id: a, type: L2}]`, "spec.networkSelectorTerms", "an id goes alone"},
		{"a further network of no kind", `additionalNetworkSelectorTerms: [{}]`, "spec.additionalNetworkSelectorTerms", "a term needs a field"},
		{"an offering of no kind", `serviceOfferingSelectorTerms: [{}]`, "spec.serviceOfferingSelectorTerms", "a term needs a field"},
		{"an id of an offering and more", `serviceOfferingSelectorTerms: [{id: a, gpu: true}]`, "spec.serviceOfferingSelectorTerms", "an id goes alone"},
		{"a range that is none", `serviceOfferingSelectorTerms: [{cpu: {min: 4, max: 2}}]`, "spec.serviceOfferingSelectorTerms.cpu", "min is greater than max"},
		{"a template of no kind", `templateSelectorTerms: [{architecture: arm64}]`, "spec.templateSelectorTerms", "a term needs id, name, nameRegex or tags"},
		{"an id of a template and more", `templateSelectorTerms: [{id: a, architecture: arm64}]`, "spec.templateSelectorTerms", "an id goes alone"},
		{"a security group of no kind", `securityGroupSelectorTerms: [{}]`, "spec.securityGroupSelectorTerms", "a term needs a field"},
		{"an id of a security group and more", `securityGroupSelectorTerms: [{id: a, name: b}]`, "spec.securityGroupSelectorTerms", "an id goes alone"},
		{"a join to nowhere", `bootstrap: {mode: K3s, tokenSecretRef: {name: x}}`, "spec.bootstrap", "the endpoint of the cluster is needed"},
		{"a join without a token", `bootstrap: {mode: Kubeadm, endpoint: "a:6443", mintToken: false}`, "spec.bootstrap", "a token is needed"},
		{"a token of kubeadm for others", `bootstrap: {mode: RKE2, endpoint: "https://a:9345", mintToken: true}`, "spec.bootstrap", "mintToken makes bootstrap tokens of kubeadm"},
		{"two tokens", `bootstrap: {mode: Kubeadm, endpoint: "a:6443", mintToken: true, tokenSecretRef: {name: x}}`, "spec.bootstrap", "set tokenSecretRef or mintToken, not both"},
		{"two tokens in the mode by default", `bootstrap: {mintToken: true, tokenSecretRef: {name: x}}`, "spec.bootstrap", "set tokenSecretRef or mintToken, not both"},
		{"what cannot be kept", `kubelet: {kubeReserved: {pods: "1"}}`, "spec.kubelet.kubeReserved", "cpu, memory, ephemeral-storage and pid can be kept"},
		{"what the system cannot keep", `kubelet: {systemReserved: {nvidia.com/gpu: "1"}}`, "spec.kubelet.systemReserved", "cpu, memory, ephemeral-storage and pid can be kept"},
		{"a signal that is none", `kubelet: {evictionHard: {disk.available: 1Gi}}`, "spec.kubelet.evictionHard", "this is no signal of the kubelet"},
		{"groups without a mode", `affinity: {groupIDs: [a]}`, "spec.affinity", "groupIDs go with mode Group"},
		{"a mode without groups", `affinity: {mode: Group}`, "spec.affinity", "groupIDs go with mode Group"},

		// What the schema refuses by itself.
		{"no offering", `serviceOfferingSelectorTerms: []`, "spec.serviceOfferingSelectorTerms", "should have at least 1 items"},
		{"no template", `templateSelectorTerms: `, "spec.templateSelectorTerms", "Required value"},
		{"a project by name", `projectID: team`, "spec.projectID", "should match"},
		{"a mode that there is not", `bootstrap: {mode: Talos}`, "spec.bootstrap.mode", "Kubeadm"},
		{"a disk of nothing", `rootDisk: {sizeGiB: 0}`, "spec.rootDisk.sizeGiB", "greater than or equal to 1"},
		{"a data disk of no offering", `dataDisks: [{sizeGiB: 1}]`, "spec.dataDisks.diskOfferingID", "Required value"},
		{"a capacity type that there is not", `capacityTypeRules: [{selector: {name: a}, capacityType: cheap}]`, "spec.capacityTypeRules.capacityType", "spot"},
		{"a size without CPUs", `customOffering: {cpus: [0], memoryMiBPerCPU: [1024]}`, "spec.customOffering.cpus", "greater than or equal to 1"},
	} {
		problems := check(t, c, classOf(t, test.fields))
		if len(problems) != 1 || element.ReplaceAllString(problems[0].Field, "") != test.path || !strings.Contains(problems[0].Message, test.says) {
			t.Errorf("%s: %v", test.reason, problems)
			continue
		}
		for _, rule := range all[test.path] {
			if strings.Contains(problems[0].Message, rule.Message) {
				broken[rule.Rule] = true
			}
		}
	}
	count := 0
	for path, of := range all {
		for _, rule := range of {
			if count++; !broken[rule.Rule] {
				t.Errorf("%s: no case breaks the rule %s", path, rule.Rule)
			}
		}
	}
	if count < 20 {
		t.Errorf("the definition has %d rules", count)
	}
}

func TestAccepted(t *testing.T) {
	c := suite.Client(t)
	for _, fields := range []string{
		"{}", "{zones: null, zone: a}", "{account: x, domainID: d}", "bootstrap: {}", "bootstrap: {mintToken: true}", "affinity: {}",
		"networkSelectorTerms: [{tags: {role: nodes}, type: Shared, vpcID: x}]", "serviceOfferingSelectorTerms: [{cpu: {min: 2, max: 2}}]",
		"bootstrap: {mode: K3s, endpoint: 'https://a:6443', tokenSecretRef: {name: x}}", "kubelet: {evictionHard: {memory.available: 5%}}",
		"tags: {team: a}", "details: {rootDiskController: scsi}", "affinity: {mode: Group, groupIDs: [a]}",
	} {
		if problems := check(t, c, classOf(t, fields)); len(problems) > 0 {
			t.Errorf("%s: %v", fields, problems)
		}
	}
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range slices.Values(strings.Split(string(content), "\n---\n")) {
			one := map[string]any{}
			read(t, document, one)
			if one["kind"] != "CloudStackNodeClass" {
				continue
			}
			seen++
			if problems := check(t, c, one); len(problems) > 0 {
				t.Errorf("%s: %v", file, problems)
			}
		}
	}
	if seen < 4 {
		t.Errorf("%d examples were checked", seen)
	}
}
