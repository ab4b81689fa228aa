package provision

import (
	"context"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Init makes the stack of a resource, without anything in it, and tells whether there was none.
func (e *Engine) Init(ctx context.Context, identity stackidentity.Identity) (made bool, err error) {
	if err := e.options.State.mend(); err != nil {
		return false, err
	}
	if _, err := e.ExportState(ctx, identity); KindOf(err) != NotFound {
		return false, err
	}
	if err := e.options.State.checkRoom(); err != nil {
		return false, err
	}
	return true, e.makeStack(ctx, "make", identity)
}

// makeStack makes a stack that does not exist.
func (e *Engine) makeStack(ctx context.Context, operation string, identity stackidentity.Identity) error {
	w, err := e.open(ctx, identity, nil, e.options.CLI, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = w.close() }()
	if _, err := auto.NewStack(ctx, identity.String(), w.Workspace); err != nil {
		return e.failure(ctx, operation, identity, err, nil, nil)
	}
	return nil
}
