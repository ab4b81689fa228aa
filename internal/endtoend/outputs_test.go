package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

// secretSentinel is what the Pulumi CLI shows in the place of a secret output.
const secretSentinel = "[secret]"

// oneRead is the Pulumi CLI for one stack. After each update the Automation API asks twice for the outputs, hidden and shown, and for the last
// operation in the history. Both are in files of the backend, which are read here: the start of a process for each costs more than many a test.
// Where an output is a secret, the CLI is asked for the state once.
type oneRead struct {
	*pulumicli.CLI
	// backend is the folder of a backend in files.
	backend string
	shown   string
}

// Run implements auto.PulumiCommand.
func (c *oneRead) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	is := func(command ...string) bool { return len(args) >= 2 && slices.Equal(args[:2], command) }
	if !is("stack", "output") && !is("stack", "history") {
		return c.CLI.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
	}
	stack := args[slices.Index(args, "--stack")+1]
	folder := strings.TrimPrefix(stack, "organization/") // the layout of the file backend is a folder a project
	if is("stack", "history") {
		text, err := c.lastOperation(folder)
		return text, "", 0, err
	}
	if slices.Contains(args, "--show-secrets") {
		return c.shown, "", 0, nil
	}
	var stored struct {
		Checkpoint struct {
			Latest apitype.DeploymentV3 `json:"latest"`
		} `json:"checkpoint"`
	}
	err := readJSON(filepath.Join(c.backend, ".pulumi", "stacks", filepath.FromSlash(folder)+".json"), &stored)
	if err != nil {
		return "", "", 1, err
	}
	hidden, shown, err := outputsIn(stored.Checkpoint.Latest)
	if errors.Is(err, errEncrypted) {
		var exported struct {
			Deployment apitype.DeploymentV3 `json:"deployment"`
		}
		text, errs, code, err := c.CLI.Run(ctx, workdir, stdin, nil, nil, environment, "stack", "export", "--show-secrets", "--stack", stack)
		if err != nil {
			return text, errs, code, err
		}
		if err := json.Unmarshal([]byte(text), &exported); err != nil {
			return "", "", 1, errors.Wrap(err, "read the state")
		}
		hidden, shown, err = outputsIn(exported.Deployment)
		c.shown = shown
		return hidden, errs, code, err
	}
	c.shown = shown
	return hidden, "", 0, err
}

// lastOperation is what the history tells of what the last operation changed, as the Automation API reads it.
func (c *oneRead) lastOperation(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(c.backend, ".pulumi", "history", filepath.FromSlash(folder), "*.history.json"))
	if err != nil || len(files) == 0 {
		return "[]", err
	}
	var last struct {
		ResourceChanges map[string]int `json:"resourceChanges,omitempty"`
	}
	if err := readJSON(slices.Max(files), &last); err != nil { // their names end in the time
		return "", err
	}
	text, err := json.Marshal([]any{last})
	return string(text), err
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.Wrapf(json.Unmarshal(text, into), "read %s", file)
}

// outputsIn are the outputs in a state, as the CLI shows them without and with secrets. The error is errEncrypted where there are secrets that
// the state has encrypted.
func outputsIn(deployment apitype.DeploymentV3) (hidden, shown string, err error) {
	outputs := map[string]any{}
	for _, r := range deployment.Resources {
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

var errEncrypted = errors.New("the secret was not decrypted")

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
				return nil, errEncrypted
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
