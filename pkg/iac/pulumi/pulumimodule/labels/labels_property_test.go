package labels

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// TestNodesGetLabelsThatTheRuleTakes: whatever the metadata says, and whatever labels the rules let a user give, the merged labels keep the
// rules themselves, the user's stand, and merging them again changes nothing.
func TestNodesGetLabelsThatTheRuleTakes(t *testing.T) {
	t.Parallel()
	keeps := func(labels map[string]string) bool {
		return validationtest.Keeps(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{Labels: labels}, "labels")
	}
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._ -]{0,100}`))
	keys := rapid.OneOf(rapid.SampledFrom([]string{Resource, ResourceName, ResourceKind, ResourceID, Organization, Environment}),
		rapid.StringMatching(`([a-z]{1,5}\.[a-z]{1,3}/)?[A-Za-z0-9]{1,5}`))
	rapid.Check(t, func(r *rapid.T) {
		base := ForResource("CivoKubernetesCluster", &shared.CloudResourceMetadata{
			Name: texts.Draw(r, "name"), Id: texts.Draw(r, "id"), Org: texts.Draw(r, "org"), Env: texts.Draw(r, "env"),
		})
		if !keeps(base) {
			r.Fatalf("%v break the rules", base)
		}
		user := rapid.MapOfN(keys, rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?`), 0, 4).Draw(r, "user")
		if !keeps(user) {
			r.Fatalf("%v break the rules, so the generator is wrong", user)
		}
		merged := Merge(base, user)
		if !keeps(merged) {
			r.Fatalf("%v break the rules", merged)
		}
		for key, value := range user {
			if merged[key] != value {
				r.Fatalf("%s = %q, want the user's %q", key, merged[key], value)
			}
		}
		if !maps.Equal(Merge(merged, user), merged) || !maps.Equal(Merge(base, merged), merged) || !maps.Equal(Merge(merged, merged), merged) {
			r.Fatalf("%v and %v give %v, and again something else", base, user, merged)
		}
	})
}

// TestValueAgreesWithTheRule: a value stays as it is exactly when the rule for label values takes it.
func TestValueAgreesWithTheRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._ -]{0,70}`), rapid.StringMatching(`[a-z]{60,66}`)).Draw(r, "text")
		kept := validationtest.Keeps(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{Labels: map[string]string{"k": text}}, "labels")
		if kept != (Value(text) == text) {
			r.Fatalf("the value %q: the rule says %t, and it becomes %q", text, kept, Value(text))
		}
	})
}
