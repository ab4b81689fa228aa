package labels

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
)

// validValue is what Kubernetes takes as the value of a label.
var validValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)

func TestForResource(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		metadata *shared.CloudResourceMetadata
		want     map[string]string
	}{
		"all": {
			reason:   "everything that the metadata says has a label",
			metadata: &shared.CloudResourceMetadata{Name: "main", Id: "ciknp-1", Org: "acme", Env: "dev"},
			want: map[string]string{
				"planton-resource": "true", "planton-resource-name": "main", "planton-resource-kind": "CivoVpc",
				"planton-resource-id": "ciknp-1", "planton-organization": "acme", "planton-environment": "dev",
			},
		},
		"name only": {
			reason:   "what is absent has no label",
			metadata: &shared.CloudResourceMetadata{Name: "main"},
			want: map[string]string{
				"planton-resource": "true", "planton-resource-name": "main", "planton-resource-kind": "CivoVpc",
			},
		},
		"nil": {
			reason: "no metadata is no reason to fail",
			want:   map[string]string{"planton-resource": "true", "planton-resource-kind": "CivoVpc"},
		},
		"not valid": {
			reason:   "values that Kubernetes would refuse are made valid",
			metadata: &shared.CloudResourceMetadata{Name: "My pool, no. 1", Org: "Ümläut & co", Env: "..."},
			want: map[string]string{
				"planton-resource": "true", "planton-resource-name": "My-pool-no.-1", "planton-resource-kind": "CivoVpc",
				"planton-organization": "ml-ut-co",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, ForResource("CivoVpc", tt.metadata)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestValueIsCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("a", 64):                 strings.Repeat("a", 63),
		strings.Repeat("a", 61) + "-.-b":        strings.Repeat("a", 61),
		"--" + strings.Repeat("a", 63) + "b c.": strings.Repeat("a", 63),
	} {
		if got := Value(text); got != want {
			t.Errorf("Value(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestValueLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._ -]{0,100}`)).Draw(r, "text")
		value := Value(text)
		if !validValue.MatchString(value) {
			r.Fatalf("Value(%q) = %q is no label value", text, value)
		}
		if again := Value(value); again != value {
			r.Fatalf("Value(%q) = %q, but Value of that is %q", text, value, again)
		}
		if validValue.MatchString(text) && value != text {
			r.Fatalf("Value(%q) = %q changes a valid value", text, value)
		}
	})
}

func TestMergeLaws(t *testing.T) {
	t.Parallel()
	labels := rapid.MapOf(rapid.SampledFrom(strings.Split("abcdef", "")), rapid.String())
	rapid.Check(t, func(r *rapid.T) {
		base, user := labels.Draw(r, "base"), labels.Draw(r, "user")
		baseBefore, userBefore := maps.Clone(base), maps.Clone(user)
		merged := Merge(base, user)
		for key, value := range user {
			if merged[key] != value {
				r.Fatalf("%s = %q, want the user's %q", key, merged[key], value)
			}
		}
		for key, value := range base {
			if _, given := user[key]; !given && merged[key] != value {
				r.Fatalf("%s = %q, want %q", key, merged[key], value)
			}
		}
		for key := range merged {
			_, inBase := base[key]
			_, inUser := user[key]
			if !inBase && !inUser {
				r.Fatalf("%s comes from nowhere", key)
			}
		}
		if !maps.Equal(base, baseBefore) || !maps.Equal(user, userBefore) {
			r.Fatal("an argument was changed")
		}
	})
}
