// Package reference resolves the fields of a manifest that may refer to another resource.
//
// A literal is the value itself. A reference is, in a standalone program, an output of the stack of the other resource,
// read through a Pulumi stack reference; the package stackidentity tells which stack that is. A caller that provisions
// several manifests, such as the CLI, passes a Resolver that knows the outputs better, also those that a preview cannot
// know yet.
package reference

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Resolver answers a reference with an output, which may be unknown in a preview. It returns false when the reference is
// none of its own; the stack of the other resource is then read.
type Resolver func(foreignkey.Reference) (pulumi.StringOutput, bool, error)

type resolverKey struct{}

// WithResolver returns a context whose references are put to the resolver first.
func WithResolver(ctx *pulumi.Context, resolver Resolver) *pulumi.Context {
	return ctx.WithValue(resolverKey{}, resolver)
}

// Option changes how String registers a stack reference.
type Option func(*options)

type options struct {
	prefix   string
	resource []pulumi.ResourceOption
}

// Prefix is put before the name of the stack reference. It is for components: a program may have several whose references
// stand in the same field.
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// ResourceOptions adds options of the stack reference, such as pulumi.Parent.
func ResourceOptions(opts ...pulumi.ResourceOption) Option {
	return func(o *options) { o.resource = append(o.resource, opts...) }
}

// String returns the value of the field at the path, such as "spec.network", of the manifest. The field is a
// StringValueOrRef that holds a literal or a reference; one that holds neither is an error.
//
// The stack that a reference points at must exist and have the output, in a preview too: the error names the field, the
// stack and the output, and says what to do.
func String(ctx *pulumi.Context, target proto.Message, fieldPath string, opts ...Option) (pulumi.StringOutput, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	value, err := valueAt(target, fieldPath)
	if err != nil {
		return pulumi.StringOutput{}, err
	}
	switch value.GetLiteralOrRef().(type) {
	case *foreignkeyv1.StringValueOrRef_Value:
		return pulumi.String(value.GetValue()).ToStringOutput(), nil
	case *foreignkeyv1.StringValueOrRef_ValueFrom:
	default:
		return pulumi.StringOutput{}, errors.Errorf("%s: neither a value nor a reference is given", fieldPath)
	}

	references, err := foreignkey.Of(target)
	if err != nil {
		return pulumi.StringOutput{}, err
	}
	for _, reference := range references {
		if reference.FieldPath != fieldPath {
			continue
		}
		if resolver, ok := ctx.Value(resolverKey{}).(Resolver); ok {
			output, answered, err := resolver(reference)
			if err != nil {
				return pulumi.StringOutput{}, errors.Wrapf(err, "%s: resolve %s", fieldPath, reference)
			}
			if answered {
				return output, nil
			}
		}
		return fromStack(ctx, target, reference, o)
	}
	return pulumi.StringOutput{}, errors.Errorf("%s: the reference is not among those of the manifest", fieldPath)
}

// fromStack reads an output of the stack of the resource that is referred to.
func fromStack(
	ctx *pulumi.Context, target proto.Message, reference foreignkey.Reference, o options,
) (pulumi.StringOutput, error) {
	identity, err := stackidentity.ForReference(reference.Kind, reference.Env, reference.Name, kinds.Metadata(target))
	if err != nil {
		return pulumi.StringOutput{}, errors.Wrapf(err, "%s: tell the stack of %s", reference.FieldPath, reference)
	}
	// Self-managed backends know one organization only. Pulumi Cloud knows many, and a resource stands in the same one as
	// those it refers to, unless a label names another.
	identity = identity.In(ctx.Organization())
	stack := identity.String()
	from := "the manifest"
	if kind, ok := kinds.Of(target); ok {
		from = fmt.Sprintf("%s %q", kind.Name, kinds.Metadata(target).GetName())
	}
	to := fmt.Sprintf("%s %q", reference.Kind.Name, reference.Name)
	if stack == ctx.Organization()+"/"+ctx.Project()+"/"+ctx.Stack() {
		return pulumi.StringOutput{}, errors.Errorf("%s: %s refers to output %s of %s, whose stack %s is the one that is being "+
			"deployed: a resource cannot refer to itself (give the field a value)", from, reference.FieldPath, reference.OutputKey, to, stack)
	}

	// A stack reference to a stack that does not exist ends the deployment on the spot, in words that do not tell which
	// field is wrong. So it is looked at first.
	var stackOutputs struct {
		Outputs map[string]any `pulumi:"outputs"`
	}
	args := struct {
		Name string `pulumi:"name"`
	}{Name: stack}
	// The raw form of the call takes answers that hold secrets, such as the kubeconfig among a cluster's outputs.
	if _, err := ctx.InvokePackageRaw("pulumi:pulumi:readStackOutputs", &args, &stackOutputs, ""); err != nil {
		return pulumi.StringOutput{}, errors.Wrapf(err, "%s: %s refers to output %s of %s, but its stack %s cannot be read (deploy "+
			"%s first, with an up of that stack; or correct the reference's env and name; or, where labels give that stack another name, "+
			"name it with the label %s; %s)", from, reference.FieldPath, reference.OutputKey, to, stack, to,
			stackidentity.LabelForReference(reference.Kind, reference.Env, reference.Name), cycleHint(from, to))
	}
	switch text, isText := stackOutputs.Outputs[reference.OutputKey].(string); {
	case stackOutputs.Outputs[reference.OutputKey] == nil || isText && text == "":
		return pulumi.StringOutput{}, errors.Errorf("%s: %s refers to output %s of %s, but its stack %s has no such output (deploy %s "+
			"first, with an up of that stack; %s)", from, reference.FieldPath, reference.OutputKey, to, stack, to, cycleHint(from, to))
	case !isText:
		return pulumi.StringOutput{}, errors.Errorf("%s: %s refers to output %s of %s (stack %s), which is not a string",
			from, reference.FieldPath, reference.OutputKey, to, stack)
	}

	// The field names the stack reference, not the stack: a field that points at another stack tomorrow is still the same
	// reference, and two fields that point at the same stack are two.
	stackReference, err := pulumi.NewStackReference(ctx, o.prefix+reference.FieldPath,
		&pulumi.StackReferenceArgs{Name: pulumi.String(stack)}, o.resource...)
	if err != nil {
		return pulumi.StringOutput{}, errors.Wrapf(err, "%s: refer to stack %s", reference.FieldPath, stack)
	}
	return stackReference.GetStringOutput(pulumi.String(reference.OutputKey)), nil
}

// cycleHint says how to get out of a cycle. A program sees its own manifest only, and in a cycle no stack can be the first.
func cycleHint(from, to string) string {
	return fmt.Sprintf("should %s refer to %s in turn, no order serves: give one of the two a value", to, from)
}

// valueAt returns the StringValueOrRef at a path of field names that are joined by dots.
func valueAt(target proto.Message, fieldPath string) (*foreignkeyv1.StringValueOrRef, error) {
	message := target.ProtoReflect()
	for _, name := range strings.Split(fieldPath, ".") {
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil || field.Message() == nil || field.IsList() || field.IsMap() {
			return nil, errors.Errorf("%s: %s has no such field", fieldPath, target.ProtoReflect().Descriptor().Name())
		}
		message = message.Get(field).Message()
	}
	value, ok := message.Interface().(*foreignkeyv1.StringValueOrRef)
	if !ok {
		return nil, errors.Errorf("%s: the field of %s takes no reference", fieldPath, target.ProtoReflect().Descriptor().Name())
	}
	return value, nil
}

// Given returns what stands in a field whose value a component is given as an output: a literal that satisfies the rules
// of the field and that nothing reads.
func Given() *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{
		LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: "00000000-0000-0000-0000-000000000000"},
	}
}
