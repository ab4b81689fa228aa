package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// resourceFlags choose among resources of one kind and name.
type resourceFlags struct {
	org, env string
	stack    string
}

func (f *resourceFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.org, "org", "", "metadata.org of the resource")
	cmd.Flags().StringVar(&f.env, "env", "", "metadata.env of the resource")
	cmd.Flags().StringVar(&f.stack, "stack", "", "organization/project/stack, for a resource whose labels name its stack")
}

// parseResource reads KIND/NAME.
func parseResource(text string) (kinds.Kind, string, error) {
	kindName, name, ok := strings.Cut(text, "/")
	if !ok || name == "" {
		return kinds.Kind{}, "", usageError(fmt.Sprintf("%q is not KIND/NAME, such as civokubernetesclusters/prod", text))
	}
	kind, err := parseKind(kindName)
	return kind, name, err
}

// parseKind reads KIND: its name in any case, in the plural, or its short name.
func parseKind(text string) (kinds.Kind, error) {
	kind, known := kinds.ByName(text)
	if !known {
		var names []string
		for _, kind := range kinds.All() {
			names = append(names, kind.Name)
		}
		return kind, usageError(fmt.Sprintf("there is no kind %q; it is one of %s", text, strings.Join(names, ", ")))
	}
	return kind, nil
}

// foundStack is the stack of a resource, and its outputs.
type foundStack struct {
	identity stackidentity.Identity
	outputs  provision.Outputs
}

// fits tells whether a stack is one of a resource, in whatever organization or environment is not asked for.
func (f *resourceFlags) fits(stack string, identity stackidentity.Identity) bool {
	org, env, name := stackidentity.Split(stack)
	wantOrg, wantEnv, wantName := stackidentity.Split(identity.Stack)
	return name == wantName && (f.org == "" || org == wantOrg) && (f.env == "" || env == wantEnv)
}

// find reads the outputs of the resource's stack, with read. Where org or env is not given, a resource of that name is found in any.
func (f *resourceFlags) find(
	ctx context.Context, engine *provision.Engine, kind kinds.Kind, name string,
	read func(context.Context, stackidentity.Identity) (provision.Outputs, error),
) (foundStack, error) {
	identity, err := stackidentity.For(kind, &shared.CloudResourceMetadata{Name: name, Org: f.org, Env: f.env})
	if err != nil {
		return foundStack{}, usageError(err.Error())
	}
	if f.stack != "" {
		if identity, err = stackidentity.Parse(f.stack); err != nil {
			return foundStack{}, usageError("--stack: " + err.Error())
		}
	}
	outputs, err := read(ctx, identity)
	if provision.KindOf(err) != provision.NotFound {
		return foundStack{identity, outputs}, err
	}
	if f.stack != "" {
		return foundStack{}, errors.Wrapf(err, "there is no %s %s: apply its manifest first", kind, name)
	}
	stacks, listErr := engine.Stacks(ctx, identity.Project)
	if listErr != nil {
		return foundStack{}, listErr
	}
	var found []string
	for _, stack := range stacks {
		if f.fits(stack, identity) {
			found = append(found, stack)
		}
	}
	switch len(found) {
	case 0:
		return foundStack{}, errors.Wrapf(err, "there is no %s %s: apply its manifest first", kind, name)
	case 1:
		identity.Stack = found[0]
		outputs, err := read(ctx, identity)
		return foundStack{identity, outputs}, err
	default:
		return foundStack{}, usageError(fmt.Sprintf("there are several: %s (org.env.name); choose with --org and --env", strings.Join(found, ", ")))
	}
}
