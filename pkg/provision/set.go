package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Set is several manifests that are provisioned together: in the order of their references, independent ones side by side, with the
// outputs of one handed on to those that refer to it. A reference to a resource outside of the set is an output of that resource's stack.
//
// A manifest that names no region takes that of the resource it refers to (a firewall that of its network, a node pool that of its
// cluster), and otherwise the default region of the provider config.
//
// An operation on a set has a result for each manifest, in the order of Members (Destroy and PreviewDestroy in the reverse one), whose
// Status tells what became of it. One that fails stops only those that have to come after it. When the context ends nothing more is
// begun, and what was begun is waited for. The error is that of the first manifest that failed, by the order of the results; of several,
// a *SetError.
type Set struct {
	engine   *Engine
	configs  ProviderConfigs
	members  []Member // in the order in which they are provisioned
	byKey    map[foreignkey.Key]int
	chosen   map[int]bool // see Only; nil for all
	parallel int          // see Parallel

	created     map[string]string // see Created
	lockTimeout time.Duration     // see LockTimeout

	mu      sync.Mutex
	outputs map[foreignkey.Key]Outputs // what is known of the outputs of resources, in the set and outside
}

// Member is one manifest of a set.
type Member struct {
	// Manifest is what was declared.
	Manifest *manifest.Manifest
	// Identity is the stack of the resource.
	Identity stackidentity.Identity

	key        foreignkey.Key
	references []foreignkey.Reference
	needs      []int // the members that have to come before it
}

// NewSet puts manifests in order, as Order does.
func (e *Engine) NewSet(manifests []*manifest.Manifest, configs ProviderConfigs) (*Set, error) {
	members, err := Order(manifests)
	if err != nil {
		return nil, err
	}
	set := &Set{
		engine: e, configs: configs, members: members, parallel: DefaultParallel(),
		byKey: map[foreignkey.Key]int{}, outputs: map[foreignkey.Key]Outputs{},
	}
	for i, member := range members {
		set.byKey[member.key] = i
	}
	return set, nil
}

// Order puts manifests in the order in which they can be provisioned. The error is a *foreignkey.CycleError when there is none, or a
// *manifest.Error whose problems tell the places of references that name no output, and of manifests that share a stack.
func Order(manifests []*manifest.Manifest) ([]Member, error) {
	members := make([]Member, len(manifests))
	checker := NewChecker()
	for i, m := range manifests {
		identity, references := checker.add(m)
		members[i] = Member{Manifest: m, Identity: identity, key: foreignkey.KeyOf(m.Target), references: references}
	}
	graph, err := checker.graph()
	if err != nil {
		return nil, err
	}
	ordered := make([]Member, 0, len(members))
	places := make([]int, len(members))
	for place, index := range graph.Order {
		places[index] = place
		member := members[index]
		for _, needed := range graph.Needs[index] {
			member.needs = append(member.needs, places[needed])
		}
		ordered = append(ordered, member)
	}
	return ordered, nil
}

// Created tells how creations ended that a run began and never ended, for a set of one manifest: see Stack.Created.
func (s *Set) Created(ids map[string]string) { s.created = ids }

// LockTimeout makes operations wait so long for a stack that somebody else works on, see Stack.LockTimeout.
func (s *Set) LockTimeout(timeout time.Duration) { s.lockTimeout = timeout }

// Parallel makes at most n operations run side by side; without it, DefaultParallel do.
func (s *Set) Parallel(n int) { s.parallel = n }

// Only restricts operations to some manifests of the set, see Needed and Dependent. The others still tell what they are, such as their
// regions and stacks.
func (s *Set) Only(manifests []*manifest.Manifest) {
	s.chosen = map[int]bool{}
	for i, member := range s.members {
		if slices.Contains(manifests, member.Manifest) {
			s.chosen[i] = true
		}
	}
}

// Needed are the manifests and all that they need among the members, in the order of the members.
func Needed(members []Member, manifests []*manifest.Manifest) []*manifest.Manifest {
	needs, _ := arrows(members)
	return closure(members, manifests, needs)
}

// Dependent are the manifests and all members that need them, in the order of the members.
func Dependent(members []Member, manifests []*manifest.Manifest) []*manifest.Manifest {
	_, neededBy := arrows(members)
	return closure(members, manifests, neededBy)
}

// arrows tell what each member needs, and what needs it.
func arrows(members []Member) (needs, neededBy [][]int) {
	needs = make([][]int, len(members))
	for i, member := range members {
		needs[i] = member.needs
	}
	return needs, reversed(needs)
}

// closure are the manifests and all members that the arrows lead to from them.
func closure(members []Member, manifests []*manifest.Manifest, arrows [][]int) []*manifest.Manifest {
	found := make([]bool, len(members))
	var visit func(int)
	visit = func(i int) {
		if found[i] {
			return
		}
		found[i] = true
		for _, next := range arrows[i] {
			visit(next)
		}
	}
	for i, member := range members {
		if slices.Contains(manifests, member.Manifest) {
			visit(i)
		}
	}
	var all []*manifest.Manifest
	for i, member := range members {
		if found[i] {
			all = append(all, member.Manifest)
		}
	}
	return all
}

// Members are the manifests of the set in the order in which they are provisioned.
func (s *Set) Members() []Member { return s.members }

// selected are the members that operations work on.
func (s *Set) selected() []int {
	var selected []int
	for i := range s.members {
		if s.chosen == nil || s.chosen[i] {
			selected = append(selected, i)
		}
	}
	return selected
}

// Up provisions every manifest.
func (s *Set) Up(ctx context.Context) ([]*Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.each(ctx, "update", forwards, s.up)
}

// Preview tells what Up would do. What depends on an output that does not exist yet is not known.
func (s *Set) Preview(ctx context.Context) ([]*Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.each(ctx, "preview", forwards, s.preview)
}

// Refresh makes the states of the manifests' stacks what the cloud is.
func (s *Set) Refresh(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, "refresh", forwards, alone(s.engine.Refresh))
}

// ImportPlan is what a module has of resources, as far as an import is concerned.
type ImportPlan struct {
	// Missing are the resources that the stack does not have, by the names that they have in the module: they need an id.
	Missing []string
	// Present are the ids of those that it has, by name.
	Present map[string]string
}

// PlanImport tells what there is to import for a set of one manifest.
func (s *Set) PlanImport(ctx context.Context) (*ImportPlan, error) {
	results, err := s.Preview(ctx)
	if err != nil {
		return nil, err
	}
	plan := &ImportPlan{Present: map[string]string{}}
	for _, result := range results {
		for _, change := range result.Resources {
			if change.Op == OpCreate {
				plan.Missing = append(plan.Missing, change.Resource)
			}
		}
	}
	resources, err := s.engine.StateResources(ctx, s.members[0].Identity)
	if err != nil && KindOf(err) != NotFound {
		return nil, err
	}
	for _, r := range resources {
		if !r.Replaced {
			plan.Present[r.Resource] = r.ID
		}
	}
	return plan, nil
}

// Import takes objects over for a set of one manifest, see Engine.Import.
func (s *Set) Import(ctx context.Context, ids map[string]string) ([]*Result, error) {
	return s.each(ctx, "update", forwards, func(ctx context.Context, _ Member, stack Stack) (*Result, error) {
		return s.engine.Import(ctx, stack, ids)
	})
}

// PreviewRefresh tells what Refresh would do: how the cloud differs from the states.
func (s *Set) PreviewRefresh(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, "refresh", forwards, alone(s.engine.PreviewRefresh))
}

// PreviewDestroy tells what Destroy would do.
func (s *Set) PreviewDestroy(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, "preview the destruction of", backwards, leavingTogether(s.engine.PreviewDestroy))
}

// Destroy deletes the resources of every manifest, what depends on others first.
func (s *Set) Destroy(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, "destroy", backwards, leavingTogether(s.engine.Destroy))
}

// direction is the order in which an operation takes the members.
type direction bool

const (
	forwards  direction = false
	backwards direction = true
)

// plan are the members of an operation in the order of its results, and for each place in it the places that have to come before.
func (s *Set) plan(way direction) (order []int, needs [][]int) {
	arrows, neededBy := arrows(s.members)
	order = s.selected()
	if way == backwards {
		slices.Reverse(order)
		arrows = neededBy
	}
	places := map[int]int{}
	for place, i := range order {
		places[i] = place
	}
	needs = make([][]int, len(order))
	for place, i := range order {
		for _, needed := range arrows[i] {
			if before, ok := places[needed]; ok {
				needs[place] = append(needs[place], before)
			}
		}
	}
	return order, needs
}

// onMember is an operation on the stack of a member.
type onMember func(context.Context, Member, Stack) (*Result, error)

// alone is an operation that needs to know nothing of the set.
func alone(operation func(context.Context, Stack) (*Result, error)) onMember {
	return func(ctx context.Context, _ Member, stack Stack) (*Result, error) { return operation(ctx, stack) }
}

// leavingTogether is a destroy of a member that knows what goes with the members before it.
func leavingTogether(destroy func(context.Context, Stack) (*Result, error)) onMember {
	gone := &leaving{}
	return func(ctx context.Context, _ Member, stack Stack) (*Result, error) {
		stack.leaving = gone
		return destroy(ctx, stack)
	}
}

// each does an operation on the stack of each member.
func (s *Set) each(ctx context.Context, name string, way direction, operation onMember) ([]*Result, error) {
	order, needs := s.plan(way)
	plugins := &sharedPlugins{}
	defer plugins.stop()
	results := make([]*Result, len(order))
	tasks := schedule(ctx, needs, s.parallel, func(place int) Status {
		member := s.members[order[place]]
		result := s.one(ctx, member, plugins, operation)
		results[place] = result
		switch {
		case result.Err == nil:
			if result.Outputs != nil {
				s.know(member.key, result.Outputs)
			}
			return StatusSucceeded
		case ctx.Err() != nil:
			return StatusCanceled
		default:
			return StatusFailed
		}
	})
	for place, task := range tasks {
		if results[place] == nil {
			identity := s.members[order[place]].Identity
			results[place] = &Result{Stack: identity, Changes: map[Op]int{}}
			if task.status == StatusCanceled {
				results[place].Err = &Error{
					Kind: Canceled, Stack: identity, Operation: name, cause: ctx.Err(),
					Message: "canceled before it was begun; the same command goes on from there",
				}
			}
		}
		results[place].Status = task.status
		for _, failed := range task.because {
			results[place].Because = append(results[place].Because, s.members[order[failed]].Identity)
		}
		if task.status == StatusSkipped {
			s.engine.emit(Event{
				Kind: EventStackSkipped, Time: time.Now(), Stack: results[place].Stack, Op: Op(name), Because: results[place].Because,
			})
		}
	}
	return results, setError(results)
}

// one does an operation on the stack of one member. There is always a result.
func (s *Set) one(ctx context.Context, member Member, plugins *sharedPlugins, operation onMember) *Result {
	var result *Result
	stack, err := s.stack(ctx, member)
	if err != nil {
		err = errors.Wrapf(err, "%s: %s", member.Manifest.Source, member.Manifest)
	} else {
		stack.plugins = plugins
		result, err = operation(ctx, member, stack)
	}
	if result == nil {
		result = &Result{Stack: member.Identity, Changes: map[Op]int{}}
	}
	result.Err = err
	return result
}

// SetError is the error of an operation on a set in which several manifests failed.
type SetError struct {
	// Errors are those of the manifests, in the order of the results. There are at least two.
	Errors []error
}

// Error tells all errors, a line or more each.
func (e *SetError) Error() string {
	lines := make([]string, len(e.Errors))
	for i, err := range e.Errors {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap is the first error, whose kind is that of the whole.
func (e *SetError) Unwrap() error { return e.Errors[0] }

// setError is the error of an operation on a set: what failed, else what was canceled when it had begun, else what was not begun because
// of that.
func setError(results []*Result) error {
	var failed, canceled []error
	for _, result := range results {
		switch {
		case result.Err == nil:
		case result.Status == StatusCanceled:
			canceled = append(canceled, result.Err)
		default:
			failed = append(failed, result.Err)
		}
	}
	switch {
	case len(failed) > 1:
		return &SetError{Errors: failed}
	case len(failed) == 1:
		return failed[0]
	case len(canceled) > 0:
		return canceled[0]
	default:
		return nil
	}
}

// know keeps the outputs of a resource for those that refer to it.
func (s *Set) know(key foreignkey.Key, outputs Outputs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outputs[key] = outputs
}

// CheckReferences looks whether the outputs exist that manifests refer to outside of the set. The error is a *manifest.Error that
// tells all that do not, with their places, and what to do.
func (s *Set) CheckReferences(ctx context.Context) error {
	var problems []manifest.Problem
	for _, i := range s.selected() {
		member := s.members[i]
		for _, ref := range member.references {
			if _, inSet := s.byKey[ref.KeyOf(member.Manifest.Target)]; inSet {
				continue
			}
			_, err := s.value(ctx, member, ref)
			var missing *missingOutput
			if errors.As(err, &missing) {
				problems = append(problems, member.Manifest.Problem(ref.FieldPath, manifest.RuleReference, missing.Error()))
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	if len(problems) > 0 {
		return &manifest.Error{Problems: problems}
	}
	return nil
}

// missingOutput is the error of a reference to something that does not exist.
type missingOutput struct {
	reference foreignkey.Reference
	key       foreignkey.Key
	stack     stackidentity.Identity
	noStack   bool
}

func (e *missingOutput) Error() string {
	if e.noStack {
		return fmt.Sprintf("there is no %s: its stack %s does not exist; add its manifest with another -f, or provision it first with "+
			"planton apply -f FILE, or correct the name or env of the reference", e.key, e.stack)
	}
	return fmt.Sprintf("the stack %s of %s has no output %s; bring it up to date with planton apply -f FILE",
		e.stack, e.key, e.reference.OutputKey)
}

// identityOf is the stack of the resource that a reference points at: a member's own, or what the naming rule says.
func (s *Set) identityOf(member Member, ref foreignkey.Reference) (stackidentity.Identity, error) {
	if i, ok := s.byKey[ref.KeyOf(member.Manifest.Target)]; ok {
		return s.members[i].Identity, nil
	}
	identity, err := stackidentity.ForReference(ref.Kind, ref.Env, ref.Name, kinds.Metadata(member.Manifest.Target))
	// A resource stands in the same organization of the backend as those it refers to, unless a label names another one.
	return identity.In(member.Identity.Organization), err
}

// value is the output that a reference means.
func (s *Set) value(ctx context.Context, member Member, ref foreignkey.Reference) (Output, error) {
	outputs, err := s.outputsFor(ctx, member, ref)
	if err != nil {
		return Output{}, err
	}
	output, ok := outputs[ref.OutputKey]
	if !ok || output.Known && (output.Value == nil || output.Value == "") {
		identity, err := s.identityOf(member, ref)
		if err != nil {
			return Output{}, err
		}
		return Output{}, &missingOutput{reference: ref, key: ref.KeyOf(member.Manifest.Target), stack: identity}
	}
	return output, nil
}

// outputsFor are the outputs of the resource that a reference points at: those that an operation has just told, else those of its
// stack.
func (s *Set) outputsFor(ctx context.Context, member Member, ref foreignkey.Reference) (Outputs, error) {
	key := ref.KeyOf(member.Manifest.Target)
	s.mu.Lock()
	outputs, ok := s.outputs[key]
	s.mu.Unlock()
	if ok {
		return outputs, nil
	}
	identity, err := s.identityOf(member, ref)
	if err != nil {
		return nil, err
	}
	outputs, err = s.engine.PublicOutputs(ctx, identity)
	if KindOf(err) == NotFound {
		return nil, &missingOutput{reference: ref, key: key, stack: identity, noStack: true}
	}
	if err != nil {
		return nil, err
	}
	s.know(key, outputs)
	return outputs, nil
}

// stack is what the engine is given for a member.
func (s *Set) stack(ctx context.Context, member Member) (Stack, error) {
	target, err := s.withRegion(ctx, member)
	if err != nil {
		return Stack{}, err
	}
	input, err := NewStackInput(target, s.configs)
	if err != nil {
		return Stack{}, err
	}
	return Stack{
		Identity: member.Identity, StackInput: input, Resolver: s.resolver(ctx, member), Created: s.created, LockTimeout: s.lockTimeout,
	}, nil
}

// resolver answers the references of a member. The module sees the same values whether they are handed on or read from a stack.
func (s *Set) resolver(ctx context.Context, member Member) reference.Resolver {
	return func(ref foreignkey.Reference) (pulumi.StringOutput, bool, error) {
		output, err := s.value(ctx, member, ref)
		var missing *missingOutput
		if errors.As(err, &missing) {
			// A reference to nothing was found before the operation began, where it matters. What is left is a resource that is
			// refreshed or destroyed after what it refers to has gone: it needs no value for that.
			return unknownString(), true, nil
		}
		if err != nil {
			return pulumi.StringOutput{}, false, err
		}
		if output.Secret && !output.Known {
			if output, err = s.secret(ctx, member, ref); err != nil {
				return pulumi.StringOutput{}, false, err
			}
		}
		if !output.Known {
			return unknownString(), true, nil
		}
		text, ok := output.Value.(string)
		if !ok {
			return pulumi.StringOutput{}, false, errors.Errorf("output %s of %s is no text", ref.OutputKey, ref.KeyOf(member.Manifest.Target))
		}
		if output.Secret {
			secret, _ := pulumi.ToSecret(pulumi.String(text).ToStringOutput()).(pulumi.StringOutput)
			return secret, true, nil
		}
		return pulumi.String(text).ToStringOutput(), true, nil
	}
}

// secret reads an output that the engine's events do not tell, because it is a secret. In a preview there may be none yet.
func (s *Set) secret(ctx context.Context, member Member, ref foreignkey.Reference) (Output, error) {
	identity, err := s.identityOf(member, ref)
	if err != nil {
		return Output{}, err
	}
	outputs, err := s.engine.Outputs(ctx, identity)
	if KindOf(err) == NotFound {
		return Output{Secret: true}, nil
	}
	return outputs[ref.OutputKey], err
}

// unknownString is a value that only an up can tell.
func unknownString() pulumi.StringOutput {
	unknown, _ := pulumi.UnsafeUnknownOutput(nil).ApplyT(func(any) string { return "" }).(pulumi.StringOutput)
	return unknown
}

// regionField is the field of a spec that names the region.
const regionField = "region"

// check finds what is wrong with the set before anything is begun.
func (s *Set) check(ctx context.Context) error {
	if err := s.CheckReferences(ctx); err != nil {
		return err
	}
	return s.checkRegions(ctx)
}

// checkRegions names the manifests of Civo that neither name a region nor can be told one. The error is a *manifest.Error.
func (s *Set) checkRegions(ctx context.Context) error {
	if s.configs.Civo.GetDefaultRegion() != 0 {
		return nil
	}
	var problems []manifest.Problem
	for _, i := range s.selected() {
		member := s.members[i]
		if member.Manifest.Kind.Provider != kinds.Civo {
			continue
		}
		target, err := s.withRegion(ctx, member)
		if err != nil {
			return err
		}
		spec := kinds.Spec(target).ProtoReflect()
		if field := spec.Descriptor().Fields().ByName(regionField); field == nil || spec.Has(field) {
			continue
		}
		problems = append(problems, member.Manifest.Problem("spec.region", manifest.RuleRegion,
			"there is none, and what the resource belongs to does not tell it: give the region here, or a defaultRegion in the "+
				"provider config, or set CIVO_REGION"))
	}
	if len(problems) > 0 {
		return &manifest.Error{Problems: problems}
	}
	return nil
}

// withRegion is the manifest of a member, with the region of the resource that it refers to where it names none.
func (s *Set) withRegion(ctx context.Context, member Member) (proto.Message, error) {
	target := member.Manifest.Target
	spec := kinds.Spec(target)
	field := spec.ProtoReflect().Descriptor().Fields().ByName(regionField)
	if field == nil || field.Enum() == nil || spec.ProtoReflect().Has(field) {
		return target, nil
	}
	for _, ref := range member.references {
		name, err := s.regionOf(ctx, member, ref)
		if err != nil {
			return nil, err
		}
		value := field.Enum().Values().ByName(protoreflect.Name(strings.ToLower(name)))
		if name == "" || value == nil {
			continue
		}
		target = proto.Clone(target)
		kinds.Spec(target).ProtoReflect().Set(field, protoreflect.ValueOfEnum(value.Number()))
		return target, nil
	}
	return target, nil
}

// regionOf is the region of the resource that a reference points at: that of its manifest, else of its stack; "" when neither tells.
func (s *Set) regionOf(ctx context.Context, member Member, ref foreignkey.Reference) (string, error) {
	if i, ok := s.byKey[ref.KeyOf(member.Manifest.Target)]; ok {
		spec := kinds.Spec(s.members[i].Manifest.Target).ProtoReflect()
		field := spec.Descriptor().Fields().ByName(regionField)
		switch {
		case field == nil || !spec.Has(field):
			return "", nil
		case field.Enum() != nil:
			if value := field.Enum().Values().ByNumber(spec.Get(field).Enum()); value != nil {
				return string(value.Name()), nil
			}
			return "", nil
		default:
			return spec.Get(field).String(), nil
		}
	}
	outputs, err := s.outputsFor(ctx, member, ref)
	var missing *missingOutput
	if errors.As(err, &missing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	region, _ := outputs[regionField].Value.(string)
	return region, nil
}
