package provision

import (
	"context"
	"encoding/json"
	"sort"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Output is one output of a stack.
type Output struct {
	// Value is the value, as JSON has it; nil when it is not known, or a secret that was not asked for.
	Value any
	// Secret tells that the value must not be shown.
	Secret bool
	// Known is false for an output that only an up can tell, and for a secret that was not asked for.
	Known bool
}

// Outputs are the outputs of a stack by their names.
type Outputs map[string]Output

// Names are the names of the outputs in alphabetical order.
func (o Outputs) Names() []string {
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

const (
	// secretMark is what the engine shows in the place of a secret.
	secretMark = "[secret]"
	// unknownMark is what the engine writes in the place of a string that it does not know yet; other types have marks of their own.
	// https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/plugin/rpc.go
	unknownMark = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
	// signatureKey marks an object in the engine's events that stands for something else, such as a secret.
	signatureKey = "4dabf18193072939515e22adb298388d"
)

// outputsOf are the outputs in an event of the engine, which hides secrets.
func outputsOf(values map[string]any) Outputs {
	outputs := Outputs{}
	for name, value := range values {
		outputs[name] = outputOf(value)
	}
	return outputs
}

func outputOf(value any) Output {
	encoded, err := json.Marshal(value)
	if err != nil {
		return Output{}
	}
	text := string(encoded)
	if strings.Contains(text, secretMark) || strings.Contains(text, signatureKey) {
		return Output{Secret: true}
	}
	if strings.Contains(text, unknownMark) || text == `"output<string>"` {
		return Output{}
	}
	return Output{Value: value, Known: true}
}

// pathStep is a step of a property path: a name, or an index in brackets.
var pathStep = pattern(`\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.\[\]]+)`)

// scalarAt is the value at a property path where it is a single one that may be shown, nil otherwise.
func scalarAt(values map[string]any, path string) any {
	var at any = values
	for _, step := range pathStep().FindAllStringSubmatch(path, -1) {
		switch container := at.(type) {
		case map[string]any:
			name := step[3]
			if step[2] != "" {
				name = step[2]
			}
			at = container[name]
		case []any:
			index, err := strconv.Atoi(step[1])
			if err != nil || index >= len(container) {
				return nil
			}
			at = container[index]
		default:
			return nil
		}
	}
	switch value := at.(type) {
	case string:
		if !outputOf(value).Known {
			return nil
		}
		return value
	case bool, float64, int:
		return value
	default:
		return nil
	}
}

// readOutputs is what reading outputs is called in errors.
const readOutputs = "read the outputs of"

// PublicOutputs reads the outputs of a stack without the values of secrets, for which no key is needed. The error is of kind NotFound when
// there is no such stack.
func (e *Engine) PublicOutputs(ctx context.Context, identity stackidentity.Identity) (Outputs, error) {
	text, exists, known := e.options.State.localCheckpoint(identity)
	switch {
	case known && !exists:
		return nil, noStack(readOutputs, identity, nil)
	case !known:
		exported, err := e.exportState(ctx, readOutputs, identity)
		if err != nil {
			return nil, err
		}
		text = string(exported)
	}
	state, err := readCheckpoint(text)
	if err != nil {
		return nil, err
	}
	for _, resource := range state.Resources {
		if string(resource.Type) == stackType {
			return outputsOf(resource.Outputs), nil
		}
	}
	return Outputs{}, nil
}

// Outputs reads the outputs of a stack, secrets included. The error is of kind NotFound when there is no such stack.
func (e *Engine) Outputs(ctx context.Context, identity stackidentity.Identity) (Outputs, error) {
	outputs, err := e.PublicOutputs(ctx, identity)
	if err != nil || !outputs.hideSecrets() {
		return outputs, err
	}
	out, err := e.pulumi(ctx, "stack", "output", "--json", "--show-secrets", "--stack", identity.String())
	switch {
	case err != nil && isMissing(err):
		return nil, noStack(readOutputs, identity, err)
	case err != nil:
		return nil, e.failure(ctx, readOutputs, identity, err, nil, nil)
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(out), &values); err != nil {
		return nil, e.failure(ctx, readOutputs, identity, errors.New("the Pulumi CLI wrote no JSON"), nil, nil)
	}
	for name, output := range outputs {
		value, told := values[name]
		if !output.Secret || !told {
			continue
		}
		outputs[name] = Output{Value: value, Secret: true, Known: true}
		if text, ok := value.(string); ok {
			e.secrets.add(text)
		}
	}
	return outputs, nil
}

// hideSecrets tells whether there is a secret whose value was not read.
func (o Outputs) hideSecrets() bool {
	for _, output := range o {
		if output.Secret && !output.Known {
			return true
		}
	}
	return false
}

// Stacks are the names of all stacks of a project, such as "acme.prod.main" of "civokubernetescluster".
func (e *Engine) Stacks(ctx context.Context, project string) ([]string, error) {
	stacks, err := e.AllStacks(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, stack := range stacks {
		if stack.Identity.Project == project {
			names = append(names, stack.Identity.Stack)
		}
	}
	return names, nil
}

// missingStack is how the CLI says that there is no such stack.
var missingStack = pattern(`no stack named.*found|could not find stack|stack .* not found`)

// isMissing tells whether an error of the Automation API says that there is no such stack.
func isMissing(err error) bool {
	return auto.IsSelectStack404Error(err) || missingStack().MatchString(err.Error())
}

// noStack is the error of an operation on a stack that does not exist.
func noStack(operation string, identity stackidentity.Identity, cause error) error {
	return &Error{Kind: NotFound, Stack: identity, Operation: operation, Message: "there is no such stack", cause: cause}
}
