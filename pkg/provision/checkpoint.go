package provision

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// checkpoint is what the state says of a stack before an operation. Secrets in it are encrypted.
type checkpoint struct {
	// text is the whole document, as the CLI wrote it.
	text string
	apitype.DeploymentV3
}

func readCheckpoint(text string) (*checkpoint, error) {
	var document struct {
		Deployment apitype.DeploymentV3 `json:"deployment"`
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return nil, errors.Wrap(err, "read the state of the stack")
	}
	return &checkpoint{text: text, DeploymentV3: document.Deployment}, nil
}

// pending are the operations of a kind that had begun and not ended when the last run did, one for each resource.
func (c *checkpoint) pending(kind apitype.OperationType) []apitype.ResourceV3 {
	var found []apitype.ResourceV3
	for _, operation := range c.PendingOperations {
		known := slices.ContainsFunc(found, func(r apitype.ResourceV3) bool { return r.URN == operation.Resource.URN })
		if operation.Type == kind && !known {
			found = append(found, operation.Resource)
		}
	}
	return found
}

// has tells whether a resource has that id.
func (c *checkpoint) has(urn, id string) bool {
	return slices.ContainsFunc(c.Resources, func(r apitype.ResourceV3) bool { return string(r.URN) == urn && string(r.ID) == id })
}

// ofOperation is the CLI for one operation on a stack. It answers what the Automation API asks after an operation, and what nobody
// looks at: each question would start the CLI once more. To select a stack it reads the stack's state, which tells as well whether
// there is one: every other command is told the stack, so that a selection would change nothing but a file in the user's home.
//
// Where states are files, it reads the file itself, which spares the start of a process and the key that is derived from the passphrase.
type ofOperation struct {
	auto.PulumiCommand
	// local reads the state of the stack that is selected, where that can be done without the CLI; nil otherwise.
	local func() (text string, exists, known bool)

	mu     sync.Mutex
	state  string // of the stack that was selected
	killed bool
}

// noSuchStack is how the CLI says so.
const noSuchStack = "error: no stack named so was found"

// Run implements auto.PulumiCommand.
func (c *ofOperation) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	is := func(command ...string) bool { return len(args) >= 2 && slices.Equal(args[:2], command) }
	switch {
	case is("stack", "history"):
		return "[]", "", 0, nil
	case is("stack", "output"):
		return "{}", "", 0, nil
	case is("stack", "select"):
		if c.local != nil {
			text, exists, known := c.local()
			switch {
			case known && !exists:
				return "", noSuchStack, 255, errors.New(noSuchStack)
			case known:
				c.mu.Lock()
				defer c.mu.Unlock()
				c.state = text
				return text, "", 0, nil
			}
		}
		args = append([]string{"stack", "export"}, args[2:]...)
		out, errs, code, err := c.PulumiCommand.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state = out
		return out, errs, code, err
	}
	out, errs, code, err := c.PulumiCommand.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
	if code < 0 { // it was ended by a signal, and could write nothing down
		c.mu.Lock()
		defer c.mu.Unlock()
		c.killed = true
	}
	return out, errs, code, err
}

// wasKilled tells whether a command was killed.
func (c *ofOperation) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// Version implements auto.PulumiCommand.
func (c *ofOperation) Version() semver.Version { return c.PulumiCommand.Version() }

// checkpoint is the state of the stack that was selected.
func (c *ofOperation) checkpoint() (*checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return readCheckpoint(c.state)
}

// localCheckpoint reads the state of a stack from the file that Pulumi's file backend has written, as `pulumi stack export` would tell it.
// It is not known where anything about the file is unusual, or where the last run left something half done that may have to be written
// back: then the CLI is asked.
func (s *State) localCheckpoint(identity stackidentity.Identity) (text string, exists, known bool) {
	if s.files == "" || identity.Organization != fileOrganization {
		return "", false, false
	}
	// Version 1 is the layout with a folder a project. https://github.com/pulumi/pulumi/blob/master/pkg/backend/diy/meta.go
	meta, err := os.ReadFile(filepath.Join(s.files, filepath.FromSlash(metaFile)))
	if err != nil || strings.TrimSpace(string(meta)) != "version: 1" {
		return "", false, false
	}
	file := stackFile(s.files, identity)
	stored, err := readStored(file)
	if errors.Is(err, fs.ErrNotExist) {
		// A compressed state, or a copy of a state that is missing, is for the CLI to judge.
		for _, extension := range []string{".gz", ".zst", ".bak"} {
			if _, err := os.Lstat(file + extension); !os.IsNotExist(err) {
				return "", false, false
			}
		}
		return "", false, true
	}
	if err != nil || stored.Version != apitype.DeploymentSchemaVersionCurrent || len(stored.Features) > 0 {
		return "", false, false
	}
	deployment := stored.deployment()
	if len(deployment) == 0 {
		deployment = json.RawMessage("{}")
	}
	exported, err := json.Marshal(apitype.UntypedDeployment{Version: stored.Version, Deployment: deployment})
	if err != nil {
		return "", false, false
	}
	if state, err := readCheckpoint(string(exported)); err != nil || len(state.PendingOperations) > 0 {
		return "", false, false
	}
	return string(exported), true, true
}

// hasOutputs tells whether a stack has been provisioned.
func (e *Engine) hasOutputs(ctx context.Context, identity stackidentity.Identity) (bool, error) {
	outputs, err := e.PublicOutputs(ctx, identity)
	if KindOf(err) == NotFound {
		return false, nil
	}
	return len(outputs) > 0, err
}
