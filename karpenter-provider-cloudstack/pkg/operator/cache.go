package operator

import (
	"context"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// slim has the cache keep less of what a cluster has thousands of: core holds each object in the cache and once more in its state, and copies
// it whenever it looks at it. Core makes the cache and offers no option for this, so that its informers are told, before they start.
func slim(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpv1.NodeClaim{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			continue // core says what is missing, and goes on
		}
		if err != nil {
			return errors.Wrapf(err, "the cache of %T", kind)
		}
		shared, ok := informer.(toolscache.SharedInformer)
		if !ok {
			return errors.Errorf("the cache of %T is a %T", kind, informer)
		}
		if err := shared.SetTransform(strip); err != nil {
			return errors.Wrapf(err, "the cache of %T", kind)
		}
	}
	return nil
}

// strip takes away what neither core nor the provider reads: who wrote which field, and the images of a node. Both write patches of what they
// change, so what is left out here stays as it is in the API server.
func strip(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return cache.TransformStripManagedFields()(object)
}
