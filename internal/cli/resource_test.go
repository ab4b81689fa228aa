package cli

import (
	"testing"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// TestAmong: what is not said of a resource, its org or its env, is looked for; what is said must be so.
func TestAmong(t *testing.T) {
	t.Parallel()
	var stacks []provision.StackSummary
	for _, name := range []string{"acme.dev.shop", "acme.prod.shop", "other.dev.shop", "acme.dev.alone", "plain", "_.prod.plain", "_.dev.mine"} {
		stacks = append(stacks, provision.StackSummary{Identity: stackidentity.Identity{
			Organization: "organization", Project: "civovpc", Stack: name,
		}})
	}
	stacks = append(stacks, provision.StackSummary{Identity: stackidentity.Identity{
		Organization: "organization", Project: "civofirewall", Stack: "acme.test.alone",
	}})
	kind, _ := kinds.ByName("CivoVpc")
	for _, test := range []struct {
		reason, org, env, name string
		want                   string // "" for several
		exists                 bool
	}{
		{reason: "only one of the name, wherever it is", name: "alone", want: "acme.dev.alone", exists: true},
		{reason: "the one without org and env is meant by the bare name", name: "plain", want: "plain", exists: true},
		{reason: "the env alone chooses", env: "prod", name: "shop", want: "acme.prod.shop", exists: true},
		{reason: "the org alone chooses", org: "other", name: "shop", want: "other.dev.shop", exists: true},
		{reason: "an env without an org is a resource's full place", env: "prod", name: "plain", want: "_.prod.plain", exists: true},
		{reason: "the env leaves two", env: "dev", name: "shop"},
		{reason: "nothing leaves three", name: "shop"},
		{reason: "no such env: not the one of another", env: "test", name: "alone", want: "_.test.alone"},
		{reason: "no such org: not the one without", org: "acme", name: "mine", want: "acme._.mine"},
		{reason: "no such name", env: "dev", name: "none", want: "_.dev.none"},
	} {
		flags := resourceFlags{org: test.org, env: test.env}
		got, err := flags.among(stacks, kind, test.name)
		if (err != nil) != (test.want == "") || got.Stack != test.want || got.exists != test.exists {
			t.Errorf("%s: got %q, %v, %v", test.reason, got.Stack, got.exists, err)
		}
	}
}
