package stackidentity_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

func cluster(t interface{ Fatal(...any) }) kinds.Kind {
	kind, ok := kinds.ByName("CivoKubernetesCluster")
	if !ok {
		t.Fatal("no such kind")
	}
	return kind
}

func TestFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		metadata *shared.CloudResourceMetadata
		want     string
		wantErr  string
	}{
		"name": {
			reason:   "With neither org nor env the stack is the name.",
			metadata: &shared.CloudResourceMetadata{Name: "prod"},
			want:     "organization/civokubernetescluster/prod",
		},
		"all": {
			reason:   "Org, env and name are joined by dots.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Org: "acme", Env: "prod"},
			want:     "organization/civokubernetescluster/acme.prod.main",
		},
		"no env": {
			reason:   "A missing part is marked, so that acme._.x and _.acme.x differ.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Org: "acme"},
			want:     "organization/civokubernetescluster/acme._.main",
		},
		"no org": {
			reason:   "A missing part is marked.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Env: "acme"},
			want:     "organization/civokubernetescluster/_.acme.main",
		},
		"cleaned": {
			reason:   "A name that had to be changed carries its hash.",
			metadata: &shared.CloudResourceMetadata{Name: "Main Cluster"},
			want:     "organization/civokubernetescluster/main-cluster-2e0b12",
		},
		"fqdn": {
			reason: "The label names the stack in full.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Labels: map[string]string{
				"pulumi.project-planton.org/stack.fqdn": "acme/clusters/prod.main",
			}},
			want: "acme/clusters/prod.main",
		},
		"parts": {
			reason: "Labels override part by part.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Org: "o", Env: "e", Labels: map[string]string{
				"pulumi.project-planton.org/organization": "acme",
				"pulumi.project-planton.org/project":      "clusters",
				"pulumi.project-planton.org/stack.name":   "prod",
			}},
			want: "acme/clusters/prod",
		},
		"bad fqdn": {
			reason:   "A malformed label is named.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Labels: map[string]string{"pulumi.project-planton.org/stack.fqdn": "a/b"}},
			wantErr:  "pulumi.project-planton.org/stack.fqdn",
		},
		"bad part": {
			reason:   "What Pulumi would refuse is refused before.",
			metadata: &shared.CloudResourceMetadata{Name: "main", Labels: map[string]string{"pulumi.project-planton.org/stack.name": "a b"}},
			wantErr:  "a b",
		},
		"no name": {
			reason:   "Without a name there is no stack.",
			metadata: nil,
			wantErr:  "metadata.name",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := stackidentity.For(cluster(t), tc.metadata)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s\nerror %v, want one that names %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("%s\ngot %s, %v; want %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestForReference(t *testing.T) {
	t.Parallel()
	from := &shared.CloudResourceMetadata{Name: "pool", Org: "acme", Env: "prod"}
	for env, want := range map[string]string{
		"":     "organization/civokubernetescluster/acme.prod.main",
		"test": "organization/civokubernetescluster/acme.test.main",
	} {
		if got, err := stackidentity.ForReference(cluster(t), env, "main", from); err != nil || got.String() != want {
			t.Errorf("env %q: %s, %v; want %s", env, got, err, want)
		}
	}
}

// Two resources never share a stack, and Pulumi accepts every stack's name.
func TestIdentitiesAreDistinct(t *testing.T) {
	t.Parallel()
	accepted := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	text := rapid.StringMatching(`([A-Za-z0-9][A-Za-z0-9 ._-]{0,60})?`)
	rapid.Check(t, func(t *rapid.T) {
		one := &shared.CloudResourceMetadata{Org: text.Draw(t, "org"), Env: text.Draw(t, "env"), Name: "x" + text.Draw(t, "name")}
		two := &shared.CloudResourceMetadata{Org: text.Draw(t, "org2"), Env: text.Draw(t, "env2"), Name: "x" + text.Draw(t, "name2")}
		a, err := stackidentity.For(cluster(t), one)
		if err != nil {
			t.Fatal(err)
		}
		b, err := stackidentity.For(cluster(t), two)
		if err != nil {
			t.Fatal(err)
		}
		if !accepted.MatchString(a.Stack) {
			t.Fatalf("Pulumi would refuse %q", a.Stack)
		}
		same := one.GetOrg() == two.GetOrg() && one.GetEnv() == two.GetEnv() && one.GetName() == two.GetName()
		if same != (a == b) {
			t.Fatalf("%v and %v: stacks %s and %s", one, two, a, b)
		}
	})
}
