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

// clearLocks takes the locks of manifests' stacks away whose holders are dead. It tells whether there were any and none is left; and
// else, if time alone may show that they are dead, when to look again. A backend that does not tell who holds locks has said so in the
// failure of the operation that was locked out. The caller has the lease of the object, so no worker of the service that lives works on these
// stacks.
func (r *Reconciler) clearLocks(ctx context.Context, all []*manifest.Manifest, failure error) (cleared bool, again time.Duration, err error) {
	for _, m := range all {
		identity, err := stackidentity.For(m.Kind, metadataOf(m))
		if err != nil {
			return false, 0, err
		}
		locks, known, err := r.options.Provisioner.Locks(identity)
		if err != nil {
			return false, 0, err
		}
		if locked := (&provision.Error{}); !known && errors.As(failure, &locked) && locked.Stack == identity {
			locks = locked.Locks
		}
		if len(locks) == 0 {
			continue
		}
		for _, lock := range locks {
			if dead, again, err := r.dead(ctx, lock); err != nil || !dead {
				return false, again, err
			}
		}
		if _, err := r.options.Provisioner.Unlock(ctx, identity, true); err != nil {
			return false, 0, err
		}
		r.options.Log.Warn("took the lock of a dead worker away", "stack", identity.String(), "lock", locks[0].String())
		cleared = true
	}
	return cleared, 0, nil
}

// dead tells whether the holder of a lock is: a process of this machine that has ended, or one of a machine that was a worker's and
// gave no sign of life for long. A machine that is silent, and not for long enough yet, is to be looked at again. A machine that never was a
// worker's may be that of a person, of whom nothing is known.
func (r *Reconciler) dead(ctx context.Context, lock provision.Lock) (dead bool, again time.Duration, err error) {
	if lock.Holder != provision.Elsewhere {
		return lock.Holder == provision.Ended, 0, nil
	}
	_, expires, err := r.options.Objects.Lease(ctx, store.Key{Kind: store.Worker, ID: lock.Host})
	if errors.Is(err, store.ErrNotFound) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	switch silent := time.Since(expires); {
	case silent <= 0:
		return false, 0, nil
	case silent <= r.options.LeaseTTL:
		return false, r.options.LeaseTTL - silent + time.Millisecond, nil
	}
	return true, 0, nil
}
