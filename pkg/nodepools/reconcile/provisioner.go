package reconcile

import (
	"context"
	"fmt"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Provisioner makes what manifests say, and takes it away. The manifests are those of one object. Errors are those of package
// provision.
type Provisioner interface {
	// Up makes the cloud what the manifests say.
	Up(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error)
	// Preview tells what Up would do.
	Preview(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error)
	// Refresh makes the states what the cloud is.
	Refresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error)
	// PreviewRefresh tells how the cloud differs from the states.
	PreviewRefresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error)
	// Destroy takes everything away.
	Destroy(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error)
	// Locks are the locks on a stack; known is false where the backend does not tell.
	Locks(identity stackidentity.Identity) (locks []provision.Lock, known bool, err error)
	// Unlock takes the locks of a stack away, with force also those of processes of other machines.
	Unlock(ctx context.Context, identity stackidentity.Identity, force bool) ([]provision.Lock, error)
}

// NewProvisioner provisions with the engine. At most parallel operations run side by side; more wait, and progress is told that they do.
func NewProvisioner(engine *provision.Engine, configs provision.ProviderConfigs, parallel int, progress *Progress) Provisioner {
	return &stacks{Engine: engine, configs: configs, slots: make(chan struct{}, parallel), progress: progress}
}

// stacks is the Provisioner on the real engine.
type stacks struct {
	*provision.Engine
	configs  provision.ProviderConfigs
	slots    chan struct{} // an operation of the engine needs a core and some 110 MiB
	progress *Progress
}

// do does an operation when one more may run. What it waits for is told of changes alone: who only looks may do so while another one works
// on the same stacks.
func (s *stacks) do(
	ctx context.Context, all []*manifest.Manifest, changes bool, do func(*provision.Set, context.Context) ([]*provision.Result, error),
) ([]*provision.Result, error) {
	if err := s.take(ctx, all, changes); err != nil {
		return nil, err
	}
	defer func() { <-s.slots }()
	set, err := s.NewSet(all, s.configs)
	if err != nil {
		return nil, err
	}
	set.Parallel(1)
	return do(set, ctx)
}

// take waits until one more operation may run.
func (s *stacks) take(ctx context.Context, all []*manifest.Manifest, changes bool) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	if changes {
		s.progress.say(all, fmt.Sprintf("waits: %d others are worked on, and no more may be at a time", cap(s.slots)))
	}
	select {
	case s.slots <- struct{}{}:
		if changes {
			s.progress.say(all, engineStarts)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Up is that of the Provisioner.
func (s *stacks) Up(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return s.do(ctx, all, true, (*provision.Set).Up)
}

// Preview is that of the Provisioner.
func (s *stacks) Preview(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return s.do(ctx, all, false, (*provision.Set).Preview)
}

// Refresh is that of the Provisioner.
func (s *stacks) Refresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return s.do(ctx, all, true, (*provision.Set).Refresh)
}

// PreviewRefresh is that of the Provisioner.
func (s *stacks) PreviewRefresh(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return s.do(ctx, all, false, (*provision.Set).PreviewRefresh)
}

// Destroy is that of the Provisioner.
func (s *stacks) Destroy(ctx context.Context, all []*manifest.Manifest) ([]*provision.Result, error) {
	return s.do(ctx, all, true, (*provision.Set).Destroy)
}

// metadataOf is the metadata of a manifest.
func metadataOf(m *manifest.Manifest) *shared.CloudResourceMetadata { return kinds.Metadata(m.Target) }
