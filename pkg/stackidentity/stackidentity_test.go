package stackidentity_test

import (
	"regexp"
	"strconv"
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
			want:     "organization/civokubernetescluster/main-cluster-fyfrf6bgszcqoc6e",
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
	tests := map[string]struct {
		reason  string
		env     string
		labels  map[string]string
		want    string
		wantErr string
	}{
		"rule": {
			reason: "Org and env are those of the referring manifest.",
			want:   "organization/civokubernetescluster/acme.prod.main",
		},
		"env": {
			reason: "The reference's env counts.", env: "test",
			want: "organization/civokubernetescluster/acme.test.main",
		},
		"own labels": {
			reason: "Labels that name the stack of the referring manifest say nothing of another.",
			labels: map[string]string{"pulumi.project-planton.org/stack.fqdn": "o/p/s", "pulumi.project-planton.org/project": "p"},
			want:   "organization/civokubernetescluster/acme.prod.main",
		},
		"label": {
			reason: "A label names the stack of what is referred to.",
			labels: map[string]string{"pulumi.project-planton.org/stack.fqdn.civokubernetescluster.main": "o/clusters/shared"},
			want:   "o/clusters/shared",
		},
		"label with env": {
			reason: "The label of a reference with an env has the env.", env: "test",
			labels: map[string]string{
				"pulumi.project-planton.org/stack.fqdn.civokubernetescluster.main":      "o/clusters/shared",
				"pulumi.project-planton.org/stack.fqdn.civokubernetescluster.test.main": "o/clusters/test",
			},
			want: "o/clusters/test",
		},
		"label of another": {
			reason: "The label of another resource is not this one's.",
			labels: map[string]string{"pulumi.project-planton.org/stack.fqdn.civovpc.main": "o/clusters/shared"},
			want:   "organization/civokubernetescluster/acme.prod.main",
		},
		"bad label": {
			reason:  "A malformed label is named.",
			labels:  map[string]string{"pulumi.project-planton.org/stack.fqdn.civokubernetescluster.main": "clusters/shared"},
			wantErr: "pulumi.project-planton.org/stack.fqdn.civokubernetescluster.main",
		},
		"bad part": {
			reason:  "What Pulumi would refuse is refused before.",
			labels:  map[string]string{"pulumi.project-planton.org/stack.fqdn.civokubernetescluster.main": "o/p/a b"},
			wantErr: "a b",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &shared.CloudResourceMetadata{Name: "pool", Org: "acme", Env: "prod", Labels: tc.labels}
			got, err := stackidentity.ForReference(cluster(t), tc.env, "main", from)
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

func TestIn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, own, backend, want string }{
		{"The rule's organization is where the program runs.", "organization", "acme-inc", "acme-inc/p/s"},
		{"One that a label names stays.", "other-inc", "acme-inc", "other-inc/p/s"},
		{"Where none is known, nothing changes.", "organization", "", "organization/p/s"},
	} {
		identity := stackidentity.Identity{Organization: tc.own, Project: "p", Stack: "s"}
		if got := identity.In(tc.backend).String(); got != tc.want {
			t.Errorf("%s\ngot %s, want %s", tc.reason, got, tc.want)
		}
	}
}

// Two resources never share a stack, and Pulumi accepts every stack's name.
func TestIdentitiesAreDistinct(t *testing.T) {
	t.Parallel()
	accepted := regexp.MustCompile(`^[a-z0-9_.-]{1,100}$`)
	text := rapid.OneOf(
		rapid.StringMatching(`([A-Za-z0-9][A-Za-z0-9 ._-]{0,60})?`),
		// Alike up to where they are cut, or but for what is replaced.
		rapid.StringMatching(`the-same-beginning-of-all-of-them[ab]{1,3}`), rapid.StringMatching(`the[ ._-]same[ ._-][Nn]ame`),
	)
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
		// What is shown of a stack finds it again.
		org, env, name := stackidentity.Split(a.Stack)
		shown, err := stackidentity.For(cluster(t), &shared.CloudResourceMetadata{Org: org, Env: env, Name: name})
		if err != nil || shown != a {
			t.Fatalf("the stack %s, named by its parts, is %s (%v)", a, shown, err)
		}
	})
}

// So many long names would share some five stacks if these had 32 bits of their hashes, and a thousand with 24.
func TestManyLongNamesAreDistinct(t *testing.T) {
	t.Parallel()
	const names = 200_000
	beginning := strings.Repeat("long", 10)
	seen := make(map[string]int, names)
	for i := range names {
		identity, err := stackidentity.For(cluster(t), &shared.CloudResourceMetadata{Name: beginning + strconv.Itoa(i)})
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[identity.Stack]; ok {
			t.Fatalf("%d and %d: %s", before, i, identity.Stack)
		}
		seen[identity.Stack] = i
	}
}

// Names that need no hash are those of the stacks that exist under them.
func TestPlainNamesStandAsTheyAre(t *testing.T) {
	t.Parallel()
	part := rapid.StringMatching(`[a-z0-9-]{1,32}`)
	rapid.Check(t, func(t *rapid.T) {
		org, env, name := part.Draw(t, "org"), part.Draw(t, "env"), part.Draw(t, "name")
		got, err := stackidentity.For(cluster(t), &shared.CloudResourceMetadata{Org: org, Env: env, Name: name})
		if want := org + "." + env + "." + name; err != nil || got.Stack != want {
			t.Fatalf("got %s, %v; want %s", got.Stack, err, want)
		}
	})
}
