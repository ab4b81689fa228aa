package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

// secretSentinel is what the Pulumi CLI shows in the place of a secret output.
const secretSentinel = "[secret]"

// oneRead is the Pulumi CLI for one stack. After each update the Automation API asks twice for the outputs, hidden and shown; both are
// in the stack's state, which is read once.
type oneRead struct {
	*pulumicli.CLI
	shown string
}

// Run implements auto.PulumiCommand.
func (c *oneRead) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	if len(args) < 2 || !slices.Equal(args[:2], []string{"stack", "output"}) {
		return c.CLI.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
	}
	if slices.Contains(args, "--show-secrets") {
		return c.shown, "", 0, nil
	}
	stack := args[slices.Index(args, "--stack")+1]
	text, errs, code, err := c.CLI.Run(ctx, workdir, stdin, nil, nil, environment, "stack", "export", "--show-secrets", "--stack", stack)
	if err != nil {
		return text, errs, code, err
	}
	hidden, shown, err := outputsIn(text)
	c.shown = shown
	return hidden, errs, code, err
}

// outputsIn are the outputs in a state, as the CLI shows them without and with secrets.
func outputsIn(state string) (hidden, shown string, err error) {
	var document struct {
		Deployment apitype.DeploymentV3 `json:"deployment"`
	}
	if err := json.Unmarshal([]byte(state), &document); err != nil {
		return "", "", errors.Wrap(err, "read the state")
	}
	outputs := map[string]any{}
	for _, r := range document.Deployment.Resources {
		if r.Type == resource.RootStackType {
			outputs = r.Outputs
		}
	}
	texts := [2]string{}
	for i, show := range []bool{false, true} {
		revealed := map[string]any{}
		for name, value := range outputs {
			if revealed[name], err = reveal(value, show); err != nil {
				return "", "", errors.Wrapf(err, "output %s", name)
			}
		}
		var text bytes.Buffer
		if err := json.NewEncoder(&text).Encode(revealed); err != nil {
			return "", "", err
		}
		texts[i] = text.String()
	}
	return texts[0], texts[1], nil
}

// reveal is a value of a state with its secrets shown or hidden.
func reveal(value any, show bool) (any, error) {
	switch value := value.(type) {
	case []any:
		all := make([]any, len(value))
		for i := range value {
			var err error
			if all[i], err = reveal(value[i], show); err != nil {
				return nil, err
			}
		}
		return all, nil
	case map[string]any:
		if value[resource.SigKey] == resource.SecretSig {
			text, plain := value["plaintext"].(string)
			if !plain {
				return nil, errors.New("the secret was not decrypted")
			}
			if !show {
				return secretSentinel, nil
			}
			var secret any
			err := json.Unmarshal([]byte(text), &secret)
			return secret, err
		}
		all := map[string]any{}
		for name := range value {
			var err error
			if all[name], err = reveal(value[name], show); err != nil {
				return nil, err
			}
		}
		return all, nil
	default:
		return value, nil
	}
}
