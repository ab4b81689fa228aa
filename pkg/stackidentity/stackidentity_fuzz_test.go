package stackidentity_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

var labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)

// FuzzMetadata: whatever the metadata says, the stack has a name that Pulumi takes or an error tells which label or part is wrong; a
// stack's name in full, given as a label, names the same stack; and the labels of nodes are ones that Kubernetes takes.
func FuzzMetadata(f *testing.F) {
	f.Add("prod", "", "", "", "", "", "")
	f.Add("Main cluster", "acme", "prod", "", "", "", "")
	f.Add("main", "acme", "", "acme/clusters/prod.main", "", "", "")
	f.Add("main", "", "prod", "a/b", "", "", "")
	f.Add("main", "", "", "", "acme", "clusters", "prod main")
	f.Add("main", "Ümläut & co", "...", "//", "", "", "a\n")
	f.Add(strings.Repeat("n", 253), strings.Repeat("o", 64), strings.Repeat("-", 70), "", "", "", "")
	f.Fuzz(func(t *testing.T, name, org, env, fqdn, organization, project, stack string) {
		text := func(s string) string { return strings.ToValidUTF8(s, "") }
		metadata := &shared.CloudResourceMetadata{Name: text(name), Org: text(org), Env: text(env), Labels: map[string]string{}}
		for label, value := range map[string]string{
			stackidentity.LabelStackFQDN: fqdn, stackidentity.LabelOrganization: organization,
			stackidentity.LabelProject: project, stackidentity.LabelStackName: stack,
		} {
			if value != "" {
				metadata.Labels[label] = text(value)
			}
		}
		kind, _ := kinds.ByName("CivoKubernetesCluster")

		for key, value := range labels.ForResource(kind.Name, metadata) {
			if value == "" || !labelValue.MatchString(value) {
				t.Errorf("the label %s has the value %q", key, value)
			}
		}

		identity, err := stackidentity.For(kind, metadata)
		again, againErr := stackidentity.For(kind, metadata)
		if identity != again || (err == nil) != (againErr == nil) {
			t.Fatalf("%v, %v and then %v, %v", identity, err, again, againErr)
		}
		if err != nil {
			if metadata.Name != "" && len(metadata.Labels) == 0 {
				t.Errorf("the name %q alone gives no stack: %v", metadata.Name, err)
			}
			named := metadata.Name == "" && strings.Contains(err.Error(), "metadata.name")
			for label := range metadata.Labels {
				named = named || strings.Contains(err.Error(), label) || strings.Contains(err.Error(), "must be 1 to 100")
			}
			if !named {
				t.Errorf("the error names no place: %v", err)
			}
			return
		}
		parts := strings.Split(identity.String(), "/")
		if len(parts) != 3 {
			t.Fatalf("the stack %q has %d parts", identity, len(parts))
		}
		for _, part := range parts {
			if !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`).MatchString(part) {
				t.Errorf("Pulumi would refuse %q of the stack %s", part, identity)
			}
		}
		full, err := stackidentity.For(kind, &shared.CloudResourceMetadata{
			Name: "another", Labels: map[string]string{stackidentity.LabelStackFQDN: identity.String()},
		})
		if err != nil || full != identity {
			t.Errorf("the stack %s, named in full, is %s (%v)", identity, full, err)
		}
	})
}
