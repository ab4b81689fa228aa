package bootstraptoken

import (
	"context"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func token(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "bootstrap-token-abcdef", CreationTimestamp: metav1.Time{Time: now.Add(-10 * time.Minute)},
			Labels: map[string]string{bootstrap.LabelToken: "true", bootstrap.LabelTokenNodeClaimUID: "u1"},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{bootstrap.TokenExpirationKey: []byte(now.Add(50 * time.Minute).Format(time.RFC3339))},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func claim(registered bool) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u1"}, Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{}}}
	if registered {
		c.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	} else {
		c.StatusConditions().SetUnknown(karpv1.ConditionTypeRegistered)
	}
	return c
}

func TestTokens(t *testing.T) {
	for name, test := range map[string]struct {
		secret *corev1.Secret
		claim  *karpv1.NodeClaim
		reason string
	}{
		"machine on its way":            {secret: token(), claim: claim(false)},
		"machine has joined":            {secret: token(), claim: claim(true), reason: reasonRegistered},
		"NodeClaim is gone":             {secret: token(), reason: reasonOrphaned},
		"another of that name":          {secret: token(func(s *corev1.Secret) { s.Labels[bootstrap.LabelTokenNodeClaimUID] = "u2" }), claim: claim(false), reason: reasonOrphaned},
		"made just now":                 {secret: token(func(s *corev1.Secret) { s.CreationTimestamp.Time = now.Add(-time.Minute) })},
		"its time is over":              {secret: token(func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Add(-time.Second).Format(time.RFC3339)) }), claim: claim(false), reason: reasonExpired},
		"its time cannot be read":       {secret: token(func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }), claim: claim(false), reason: reasonExpired},
		"someone else's":                {secret: token(func(s *corev1.Secret) { delete(s.Labels, bootstrap.LabelToken) }), claim: claim(true)},
		"in another namespace":          {secret: token(func(s *corev1.Secret) { s.Namespace = "default" }), claim: claim(true)},
		"a Secret of another type":      {secret: token(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), claim: claim(true)},
		"orphaned, and its time passed": {secret: token(func(s *corev1.Secret) { s.Data = nil }), reason: reasonExpired},
	} {
		builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(test.secret)
		if test.claim != nil {
			builder = builder.WithObjects(test.claim)
		}
		c := builder.Build()
		var before float64
		if test.reason != "" {
			before = testutil.ToFloat64(deleted.WithLabelValues(test.reason))
		}
		result, err := NewController(clocktesting.NewFakePassiveClock(now), c, c).Reconcile(context.Background())
		if err != nil || result.RequeueAfter != period {
			t.Errorf("%s: again after %s (%v)", name, result.RequeueAfter, err)
		}
		err = c.Get(context.Background(), client.ObjectKeyFromObject(test.secret), &corev1.Secret{})
		if gone := apierrors.IsNotFound(err); gone != (test.reason != "") {
			t.Errorf("%s: gone: %v", name, gone)
		}
		if test.reason != "" && testutil.ToFloat64(deleted.WithLabelValues(test.reason)) != before+1 {
			t.Errorf("%s: not deleted as %s", name, test.reason)
		}
	}
}

// TestFailuresDeleteNothing: NodeClaims that cannot be listed are not gone.
func TestFailuresDeleteNothing(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(token()).Build()
	broken := interceptor.NewClient(c, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		},
	})
	for name, controller := range map[string]*Controller{
		"NodeClaims": NewController(clocktesting.NewFakePassiveClock(now), broken, c),
		"Secrets":    NewController(clocktesting.NewFakePassiveClock(now), c, broken),
	} {
		if _, err := controller.Reconcile(context.Background()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(token()), &corev1.Secret{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoRightsNoTokens(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))
		},
	})
	if result, err := NewController(clocktesting.NewFakePassiveClock(now), c, c).Reconcile(context.Background()); err != nil || result.RequeueAfter != period {
		t.Errorf("again after %s: %v", result.RequeueAfter, err)
	}
}

// TestTokenThatWasMadeToLast: what was written between the list and the deletion is not deleted.
func TestTokenThatWasMadeToLast(t *testing.T) {
	ctx := context.Background()
	old := token(func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Add(-time.Second).Format(time.RFC3339)) })
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(old).Build()
	racing := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if err := c.List(ctx, l, o...); err != nil {
				return err
			}
			if _, ok := l.(*corev1.SecretList); !ok {
				return nil
			}
			s := &corev1.Secret{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(old), s); err != nil {
				return err
			}
			s.Data["expiration"] = []byte(now.Add(time.Hour).Format(time.RFC3339))
			return c.Update(ctx, s)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			// The fake server knows no preconditions.
			applied := (&client.DeleteOptions{}).ApplyOptions(options)
			current := &corev1.Secret{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), current); err != nil {
				return err
			}
			if p := applied.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != current.ResourceVersion {
				return apierrors.NewConflict(corev1.Resource("secrets"), o.GetName(), errors.New("changed"))
			}
			return c.Delete(ctx, o, options...)
		},
	})
	if _, err := NewController(clocktesting.NewFakePassiveClock(now), racing, racing).Reconcile(ctx); err != nil {
		t.Errorf("a race is an error: %v", err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(old), &corev1.Secret{}); err != nil {
		t.Errorf("the token was deleted: %v", err)
	}
}
