package provision

import (
	"context"

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
	args := []string{"stack", "init", "--stack", identity.String(), "--no-select"}
	if provider := e.options.State.SecretsProvider; provider != "" {
		args = append(args, "--secrets-provider", provider)
	}
	if _, err := e.pulumi(ctx, args...); err != nil {
		return e.failure(ctx, operation, identity, err, nil, nil)
	}
	return nil
}
