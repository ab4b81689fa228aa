package reconcile

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Beat says again and again, until the context ends, that the workers of this machine live. Locks name the machine of the process that
// took them, and a lock of a machine without a sign of life is one that nobody will give back.
func (r *Reconciler) Beat(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return errors.Wrap(err, "tell the name of this machine")
	}
	key := store.Key{Kind: store.Worker, ID: host}
	for {
		// Every process of the machine is the same holder: each keeps the lease for all.
		if _, _, err := r.options.Objects.Acquire(ctx, key, host, r.options.LeaseTTL); err != nil && ctx.Err() == nil {
			r.options.Log.Warn("tell that this worker lives", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.options.LeaseTTL / 3):
		}
	}
}

// clearLocks takes the locks of manifests' stacks away whose holders are dead, and tells whether there were any and none is left. The
// caller has the lease of the object, so no worker of the service that lives works on these stacks.
func (r *Reconciler) clearLocks(ctx context.Context, all []*manifest.Manifest) (cleared bool, err error) {
	for _, m := range all {
		identity, err := stackidentity.For(m.Kind, metadataOf(m))
		if err != nil {
			return false, err
		}
		locks, known, err := r.options.Provisioner.Locks(identity)
		if err != nil || !known {
			return false, err
		}
		if len(locks) == 0 {
			continue
		}
		for _, lock := range locks {
			if dead, err := r.dead(ctx, lock); err != nil || !dead {
				return false, err
			}
		}
		if _, err := r.options.Provisioner.Unlock(ctx, identity, true); err != nil {
			return false, err
		}
		r.options.Log.Warn("took the lock of a dead worker away", "stack", identity.String(), "lock", locks[0].String())
		cleared = true
	}
	return cleared, nil
}

// dead tells whether the holder of a lock is: a process of this machine that has ended, or one of a machine that was a worker's and
// gave no sign of life for long. A machine that never was a worker's may be that of a person, of whom nothing is known.
func (r *Reconciler) dead(ctx context.Context, lock provision.Lock) (bool, error) {
	if lock.Holder != provision.Elsewhere {
		return lock.Holder == provision.Ended, nil
	}
	_, expires, err := r.options.Objects.Lease(ctx, store.Key{Kind: store.Worker, ID: lock.Host})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return time.Since(expires) > r.options.LeaseTTL, nil
}
