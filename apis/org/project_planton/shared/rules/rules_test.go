package rules_test

import (
	"net/netip"
	"testing"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	kubernetes "k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// The rules for labels and taints say what Kubernetes itself says, and the rule for networks what Go's net/netip says. The
// boundaries stand in the tables of the kinds; here are the values that nobody thought of.

// keyText generates text that is nearly a key: pieces of keys, and characters that do not belong in one.
var keyText = rapid.Custom(func(t *rapid.T) string {
	piece := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9]{1,3}`),
		rapid.StringMatching(`[A-Z_. -]{1,2}`),
		rapid.SampledFrom([]string{"/", "a/", "a.b/", ".", "-", "é", "", "\n"}),
		rapid.StringMatching(`[a-z]{60,65}`),
		rapid.StringMatching(`([a-z]{62}[.]){4}`),
	)
	text := ""
	for _, p := range rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces") {
		text += p
	}
	return text
})

func TestKeysAndValuesAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, value := keyText.Draw(t, "key"), keyText.Draw(t, "value")
		spec := &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{Labels: map[string]string{key: value}}
		agree(t, "kubernetes_key", key, broken(t, spec, "kubernetes_key"), kubernetes.IsQualifiedName(key))
		agree(t, "kubernetes_value", value, broken(t, spec, "kubernetes_value"), kubernetes.IsValidLabelValue(value))
	})
}

func TestNamesAreDNSLabels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := keyText.Filter(func(s string) bool { return s != "" }).Draw(t, "name") // "" is required's business
		spec := &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{NodePoolName: name}
		agree(t, "dns_label", name, broken(t, spec, "dns_label"), kubernetes.IsDNS1123Label(name))
	})
}

func TestNetworksAreThoseOfNetip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{1,3}[.][0-9]{1,2}[.]0[.]0/[0-9]{1,2}`),
			rapid.StringMatching(`10[.]0[.][0-9]{1,3}[.][0-9]{1,3}(/(8|16|24|3[0-9]|024|))?`),
			rapid.StringMatching(`[0-9a-f:.]{1,20}/[0-9]{1,3}`),
		).Draw(t, "network")
		var complaints []string
		switch prefix, err := netip.ParsePrefix(text); {
		case err != nil:
			complaints = append(complaints, err.Error())
		case !prefix.Addr().Is4():
			complaints = append(complaints, "not IPv4")
		case prefix != prefix.Masked():
			complaints = append(complaints, "host bits")
		}
		spec := &civovpcv1.CivoVpcSpec{IpRangeCidr: text}
		agree(t, "ipv4_network", text, broken(t, spec, "ipv4_network"), complaints)
	})
}

// agree fails when a rule and the authority on its subject do not say the same of a value.
func agree(t *rapid.T, rule, value string, broken bool, complaints []string) {
	if broken != (len(complaints) > 0) {
		t.Fatalf("%q: %s broken: %v; the authority complains: %q", value, rule, broken, complaints)
	}
}

// broken tells whether a message breaks a rule, whatever others it breaks.
func broken(t *rapid.T, m proto.Message, rule string) bool {
	err := validation.Validate(m)
	if err == nil {
		return false
	}
	var invalid *validation.Error
	if !errors.As(err, &invalid) {
		t.Fatalf("the rules could not be evaluated: %v", err)
	}
	for _, v := range invalid.Violations {
		if v.RuleID == rule {
			return true
		}
	}
	return false
}
