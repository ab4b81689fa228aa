package provision

import (
	"context"
	"fmt"
	"strings"
	"sync"

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

// Set is several manifests that are provisioned together: in the order of their references, one after the other, with the outputs
// of one handed on to those that refer to it. A reference to a resource outside of the set is an output of that resource's stack.
//
// A manifest that names no region takes that of the resource it refers to (a firewall that of its network, a node pool that of its
// cluster), and otherwise the default region of the provider config.
type Set struct {
	engine  *Engine
	configs ProviderConfigs
	members []Member // in the order in which they are provisioned
	byKey   map[foreignkey.Key]int

	created map[string]string // see Created

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
}

// NewSet puts manifests in order, as Order does.
func (e *Engine) NewSet(manifests []*manifest.Manifest, configs ProviderConfigs) (*Set, error) {
	members, err := Order(manifests)
	if err != nil {
		return nil, err
	}
	set := &Set{
		engine: e, configs: configs, members: members,
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
	targets := make([]proto.Message, len(manifests))
	byStack := map[stackidentity.Identity]*manifest.Manifest{}
	var problems []manifest.Problem
	for i, m := range manifests {
		targets[i] = m.Target
		identity, err := stackidentity.For(m.Kind, kinds.Metadata(m.Target))
		if err != nil {
			problems = append(problems, m.Problem("metadata.labels", manifest.RuleStack, err.Error()))
		} else if other, ok := byStack[identity]; ok {
			problems = append(problems, m.Problem("metadata", manifest.RuleStack,
				fmt.Sprintf("its stack %s is that of %s at %s already", identity, other, other.Source)))
		}
		byStack[identity] = m
		references, err := foreignkey.Of(m.Target)
		if err != nil {
			path, message, _ := strings.Cut(err.Error(), ": ")
			problems = append(problems, m.Problem(path, manifest.RuleReference, message))
		}
		members[i] = Member{Manifest: m, Identity: identity, key: foreignkey.KeyOf(m.Target), references: references}
	}
	if len(problems) > 0 {
		return nil, &manifest.Error{Problems: problems}
	}
	graph, err := foreignkey.Order(targets)
	if err != nil {
		return nil, err
	}
	ordered := make([]Member, 0, len(members))
	for _, index := range graph.Order {
		ordered = append(ordered, members[index])
	}
	return ordered, nil
}

// Created tells how creations ended that a run began and never ended, for a set of one manifest: see Stack.Created.
func (s *Set) Created(ids map[string]string) { s.created = ids }

// Members are the manifests of the set in the order in which they are provisioned.
func (s *Set) Members() []Member { return s.members }

// Up provisions every manifest, and stops at the first that fails. The results are those of the manifests that were begun.
func (s *Set) Up(ctx context.Context) ([]*Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.each(ctx, s.members, s.up)
}

// Preview tells what Up would do. What depends on an output that does not exist yet is not known.
func (s *Set) Preview(ctx context.Context) ([]*Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.each(ctx, s.members, s.preview)
}

// Refresh makes the states of the manifests' stacks what the cloud is.
func (s *Set) Refresh(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, s.members, alone(s.engine.Refresh))
}

// PreviewDestroy tells what Destroy would do.
func (s *Set) PreviewDestroy(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, s.reversed(), leavingTogether(s.engine.PreviewDestroy))
}

// Destroy deletes the resources of every manifest, in the reverse order, and stops at the first that fails.
func (s *Set) Destroy(ctx context.Context) ([]*Result, error) {
	return s.each(ctx, s.reversed(), leavingTogether(s.engine.Destroy))
}

func (s *Set) reversed() []Member {
	reversed := make([]Member, len(s.members))
	for i, member := range s.members {
		reversed[len(s.members)-1-i] = member
	}
	return reversed
}

// alone is an operation that needs to know nothing of the set.
func alone(operation func(context.Context, Stack) (*Result, error)) func(context.Context, Member, Stack) (*Result, error) {
	return func(ctx context.Context, _ Member, stack Stack) (*Result, error) { return operation(ctx, stack) }
}

// leavingTogether is a destroy of a member that knows what goes with the members before it.
func leavingTogether(
	destroy func(context.Context, Stack) (*Result, error),
) func(context.Context, Member, Stack) (*Result, error) {
	gone := leaving{}
	return func(ctx context.Context, _ Member, stack Stack) (*Result, error) {
		stack.leaving = gone
		return destroy(ctx, stack)
	}
}

func (s *Set) each(
	ctx context.Context, members []Member, operation func(context.Context, Member, Stack) (*Result, error),
) ([]*Result, error) {
	results := make([]*Result, 0, len(members))
	for _, member := range members {
		stack, err := s.stack(ctx, member)
		if err != nil {
			return results, errors.Wrap(err, member.Manifest.String())
		}
		result, err := operation(ctx, member, stack)
		if result != nil {
			results = append(results, result)
		}
		if err != nil {
			return results, err
		}
		if result.Outputs != nil {
			s.know(member.key, result.Outputs)
		}
	}
	return results, nil
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
	for _, member := range s.members {
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
	outputs, err = s.engine.Outputs(ctx, identity)
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
	return Stack{Identity: member.Identity, StackInput: input, Resolver: s.resolver(ctx, member), Created: s.created}, nil
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
	for _, member := range s.members {
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
