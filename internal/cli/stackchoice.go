package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// stackFlags choose stacks of the backend: that of KIND/NAME, the one that --stack names, or those of manifests.
type stackFlags struct {
	resource  resourceFlags
	manifests manifestFlags
}

func (f *stackFlags) bind(cmd *cobra.Command) {
	f.resource.bind(cmd)
	cmd.Flags().StringArrayVarP(&f.manifests.files, "manifest", "f", nil, "the stacks of manifests, instead of KIND/NAME: a file, a folder or -")
}

// chosenStack is a stack that flags and arguments name, and whether the backend knows it.
type chosenStack struct {
	stackidentity.Identity
	exists bool
}

// choose finds the stacks. Resource is KIND/NAME, or "" where flags alone choose.
func (f *stackFlags) choose(ctx context.Context, streams Streams, engine *provision.Engine, resource string) ([]chosenStack, error) {
	ways := 0
	for _, given := range []bool{resource != "", f.resource.stack != "", len(f.manifests.files) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, usageError("name the stack by KIND/NAME, such as civokubernetesclusters/prod, or with --stack, or with -f: one of them")
	}
	if len(f.manifests.files) > 0 {
		return f.ofManifests(ctx, streams, engine)
	}
	stacks, err := engine.AllStacks(ctx)
	if err != nil {
		return nil, err
	}
	if f.resource.stack != "" {
		identity, err := stackidentity.Parse(f.resource.stack)
		if err != nil {
			return nil, usageError("--stack: " + err.Error())
		}
		return []chosenStack{{identity, known(stacks, identity)}}, nil
	}
	kind, name, err := parseResource(resource)
	if err != nil {
		return nil, err
	}
	chosen, err := f.resource.among(stacks, kind, name)
	return []chosenStack{chosen}, err
}

func (f *stackFlags) ofManifests(ctx context.Context, streams Streams, engine *provision.Engine) ([]chosenStack, error) {
	manifests, err := f.manifests.load(streams, nil)
	if err != nil {
		return nil, err
	}
	members, err := provision.Order(manifests)
	if err != nil {
		return nil, err
	}
	stacks, err := engine.AllStacks(ctx)
	if err != nil {
		return nil, err
	}
	var chosen []chosenStack
	for _, member := range members {
		chosen = append(chosen, chosenStack{member.Identity, known(stacks, member.Identity)})
	}
	return chosen, nil
}

// among finds the stack of a resource. Where org or env is not given, a resource of that name is found in any.
func (f *resourceFlags) among(stacks []provision.StackSummary, kind kinds.Kind, name string) (chosenStack, error) {
	identity, err := stackidentity.For(kind, &shared.CloudResourceMetadata{Name: name, Org: f.org, Env: f.env})
	if err != nil {
		return chosenStack{}, usageError(err.Error())
	}
	if known(stacks, identity) {
		return chosenStack{identity, true}, nil
	}
	var found []stackidentity.Identity
	var names []string
	for _, stack := range stacks {
		if stack.Identity.Project == identity.Project && f.fits(stack.Identity.Stack, identity) {
			found, names = append(found, stack.Identity), append(names, stack.Identity.Stack)
		}
	}
	switch len(found) {
	case 0:
		return chosenStack{identity, false}, nil
	case 1:
		return chosenStack{found[0], true}, nil
	default:
		return chosenStack{}, usageError(fmt.Sprintf("there are several: %s (org.env.name); choose with --org and --env", strings.Join(names, ", ")))
	}
}

func known(stacks []provision.StackSummary, identity stackidentity.Identity) bool {
	return slices.ContainsFunc(stacks, func(stack provision.StackSummary) bool { return stack.Identity == identity })
}

// noSuchStack is the error about a stack that the backend does not have.
func noSuchStack(stack stackidentity.Identity, operation string) error {
	return &provision.Error{
		Kind: provision.NotFound, Stack: stack, Operation: operation, Message: "there is no such stack; planton stacks lists those that there are",
	}
}
