package module

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// TestVersionsAreNormal: whichever way a version is written that the rule takes, the module writes it as Civo answers it: the rule takes
// that too, and writing it again changes nothing.
func TestVersionsAreNormal(t *testing.T) {
	t.Parallel()
	kept := func(version string) bool {
		return validationtest.Keeps(t, &civokubernetesclusterv1.CivoKubernetesClusterSpec{KubernetesVersion: version}, "kubernetes_version")
	}
	rapid.Check(t, func(r *rapid.T) {
		release := rapid.StringMatching(`[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}`).Draw(r, "release")
		version := rapid.SampledFrom([]string{"", "v"}).Draw(r, "v") + release + rapid.SampledFrom([]string{"-", "+"}).Draw(r, "sign") + "k3s1"
		if rapid.Bool().Draw(r, "talos") {
			version = "talos-v" + release
		}
		if !kept(version) {
			r.Fatalf("the rule does not take %q", version)
		}
		normal := kubernetesVersion(version)
		if !kept(normal) || kubernetesVersion(normal) != normal || strings.Contains(normal, "+") || strings.HasPrefix(normal, "v") {
			r.Fatalf("%q becomes %q, and that %q", version, normal, kubernetesVersion(normal))
		}
		if !strings.HasPrefix(version, "talos-") && normal != release+"-k3s1" {
			r.Fatalf("%q becomes %q", version, normal)
		}
	})
}
