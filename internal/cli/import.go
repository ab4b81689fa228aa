package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type importOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
	ids       []string
}

func newImport(streams Streams) *cobra.Command {
	options := &importOptions{}
	cmd := &cobra.Command{
		Use:   "import -f FILE --id ID",
		Short: "Take an object over that exists already, as what a manifest declares",
		Long: "Take an object over that exists already, such as a cluster that was made by hand, as what a manifest declares. It is recorded\n" +
			"as it is, and nothing in the cloud is changed or made. Then what the next apply would change of it is shown: nothing, where the\n" +
			"manifest says of the object what it is.\n\n" +
			"ID is the cloud's. A manifest with several resources needs the id of each, as RESOURCE=ID; without them the error names them. The\n" +
			"id of a node pool is CLUSTER-ID:POOL for Civo, and the pool's own for DigitalOcean.",
		Example: "  planton import -f cluster.yaml --id 69a23478-a89e-41d2-97b1-6f4c341cee70\n" +
			"  planton import -f cluster.yaml --id cluster=69a23478-a89e-41d2-97b1-6f4c341cee70 --id node_pool-web=69a23478:web",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	cmd.Flags().StringArrayVar(&options.ids, "id", nil, "the cloud's id of the object, or RESOURCE=ID (repeatable)")
	return cmd
}

func (o *importOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	if len(o.ids) == 0 {
		return usageError("no id is given: pass --id ID, the cloud's id of the object")
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	if len(manifests) != 1 {
		return usageError(fmt.Sprintf("--id is about the resources of one manifest, and there are %d; give that one alone with -f", len(manifests)))
	}
	s, err := openSession(ctx, streams, o.cloud, manifests)
	if err != nil {
		return err
	}
	defer s.close()
	set, err := s.engine.NewSet(manifests, s.configs)
	if err != nil {
		return err
	}
	plan, err := set.PlanImport(ctx)
	if err != nil {
		return err
	}
	ids, err := importIDs(plan, o.ids)
	if err != nil {
		return err
	}
	if err := ownedByOthers(ctx, s.engine, set.Members()[0], ids); err != nil {
		return err
	}
	if _, err := set.Import(ctx, ids); err != nil {
		return err
	}
	results, err := set.Preview(ctx)
	view := resultView{operation: imported, set: set, results: results, err: err}
	if err := renderResults(streams, o.output, view); err != nil {
		return err
	}
	if view.changed() {
		_, _ = fmt.Fprintln(streams.Err, "hint: it was taken over as it is; the next apply would make the changes above: adapt the manifest to keep "+
			"the object as it is")
	}
	return nil
}

// importIDs reads what --id says: an id for each resource that the stack does not have, and for no other.
func importIDs(plan *provision.ImportPlan, given []string) (map[string]string, error) {
	ids := map[string]string{}
	for _, text := range given {
		name, id, named := strings.Cut(text, "=")
		if !named {
			if id = text; len(plan.Missing) > 1 || len(given) > 1 {
				return nil, usageError("the manifest has several resources: say which one is meant, as " + eachID(plan.Missing))
			}
			if len(plan.Missing) == 0 {
				return nil, present(plan, "", id)
			}
			name = plan.Missing[0]
		}
		_, there := plan.Present[name]
		switch _, twice := ids[name]; {
		case id == "" || twice:
			return nil, usageError("--id " + text + " is not ID or RESOURCE=ID, once for each resource")
		case there:
			return nil, present(plan, name, id)
		case !slices.Contains(plan.Missing, name):
			return nil, usageError(fmt.Sprintf("--id %s: the manifest has no resource %s that is missing; there is %s", text, name, eachID(plan.Missing)))
		}
		ids[name] = id
	}
	if len(ids) < len(plan.Missing) {
		return nil, usageError("an apply would create what has no id: give all of " + eachID(plan.Missing) +
			", or take those out of the manifest that do not exist")
	}
	return ids, nil
}

func eachID(names []string) string {
	flags := make([]string, len(names))
	for i, name := range names {
		flags[i] = "--id " + name + "=ID"
	}
	return strings.Join(flags, " ")
}

// present is the error about a resource that the stack has already.
func present(plan *provision.ImportPlan, name, id string) error {
	var have []string
	for resource, its := range plan.Present {
		if name == "" || resource == name {
			have = append(have, resource+" "+its)
		}
	}
	slices.Sort(have)
	return &provision.Error{
		Kind: provision.Refused, Operation: "import " + id, Message: "the stack has it already: " + strings.Join(have, ", "),
	}
}

// ownedByOthers refuses an object that another stack of this backend has: two would change and delete it.
func ownedByOthers(ctx context.Context, engine *provision.Engine, member provision.Member, ids map[string]string) error {
	stacks, err := engine.AllStacks(ctx)
	if err != nil {
		return err
	}
	for _, stack := range stacks {
		if stack.Identity == member.Identity || stack.Identity.Project != member.Identity.Project || stack.Damage != "" {
			continue
		}
		resources, err := engine.StateResources(ctx, stack.Identity)
		if provision.KindOf(err) == provision.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		for _, r := range resources {
			for _, id := range ids {
				if r.ID == id && id != "" {
					return &provision.Error{
						Kind: provision.Refused, Stack: member.Identity, Operation: "import into",
						Message: fmt.Sprintf("%s belongs to the stack %s already (%s): two stacks would change and delete it", id, stack.Identity, r.Resource),
					}
				}
			}
		}
	}
	return nil
}
