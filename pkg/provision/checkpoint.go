package provision

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/blang/semver"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
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
type ofOperation struct {
	auto.PulumiCommand

	mu     sync.Mutex
	state  string // of the stack that was selected
	killed bool
}

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
