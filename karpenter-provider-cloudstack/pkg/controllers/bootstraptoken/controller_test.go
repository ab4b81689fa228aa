package bootstraptoken

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
)

// now is when the test runs: the API server says when a token was made.
var now = time.Now().UTC().Truncate(time.Second)

// later is so much later that a token is older than the grace.
func later() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(now.Add(2 * grace))
}

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

func token(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "bootstrap-token-abcdef",
			Labels: map[string]string{bootstrap.LabelToken: "true", bootstrap.LabelTokenNodeClaimUID: "u1"},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{bootstrap.TokenExpirationKey: []byte(now.Add(time.Hour).Format(time.RFC3339))},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func claim(registered bool) *karpv1.NodeClaim {
	// The time of creation is that of its conditions, which the API server wants to have one.
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: metav1.Time{Time: now}}, Spec: karpv1.NodeClaimSpec{
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
		NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
	}}
	if registered {
		c.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	} else {
		c.StatusConditions().SetUnknown(karpv1.ConditionTypeRegistered)
	}
	return c
}

func TestTokens(t *testing.T) {
	over := later().Now().Add(-time.Second)
	for name, test := range map[string]struct {
		// secret is of the NodeClaim, unless it has the UID of another.
		secret *corev1.Secret
		claim  *karpv1.NodeClaim
		// age is how old the Secret is; 0 stands for older than the grace.
		age    time.Duration
		reason string
	}{
		"machine on its way":            {secret: token(), claim: claim(false)},
		"machine has joined":            {secret: token(), claim: claim(true), reason: reasonRegistered},
		"NodeClaim is gone":             {secret: token(), reason: reasonOrphaned},
		"another of that name":          {secret: token(func(s *corev1.Secret) { s.Labels[bootstrap.LabelTokenNodeClaimUID] = "u2" }), claim: claim(false), reason: reasonOrphaned},
		"made just now":                 {secret: token(), age: time.Minute},
		"its time is over":              {secret: token(func(s *corev1.Secret) { s.Data["expiration"] = []byte(over.Format(time.RFC3339)) }), claim: claim(false), reason: reasonExpired},
		"its time cannot be read":       {secret: token(func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }), claim: claim(false), reason: reasonExpired},
		"someone else's":                {secret: token(func(s *corev1.Secret) { delete(s.Labels, bootstrap.LabelToken) }), claim: claim(true)},
		"in another namespace":          {secret: token(func(s *corev1.Secret) { s.Namespace = "default" }), claim: claim(true)},
		"a Secret of another type":      {secret: token(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), claim: claim(true)},
		"orphaned, and its time passed": {secret: token(func(s *corev1.Secret) { s.Data = nil }), reason: reasonExpired},
	} {
		c := suite.Client(t)
		if test.claim != nil {
			suite.Create(t, c, test.claim)
			if test.secret.Labels[bootstrap.LabelTokenNodeClaimUID] == "u1" {
				test.secret.Labels[bootstrap.LabelTokenNodeClaimUID] = string(test.claim.UID)
			}
		}
		suite.Create(t, c, test.secret)
		clk := later()
		if test.age > 0 {
			clk.SetTime(test.secret.CreationTimestamp.Add(test.age))
		}
		var before float64
		if test.reason != "" {
			before = testutil.ToFloat64(deleted.WithLabelValues(test.reason))
		}
		result, err := NewController(clk, c, c).Reconcile(context.Background())
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
	c := suite.Client(t)
	suite.Create(t, c, token())
	broken := interceptor.NewClient(c, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		},
	})
	for name, controller := range map[string]*Controller{
		"NodeClaims": NewController(later(), broken, c),
		"Secrets":    NewController(later(), c, broken),
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
	c := interceptor.NewClient(suite.Client(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))
		},
	})
	if result, err := NewController(later(), c, c).Reconcile(context.Background()); err != nil || result.RequeueAfter != period {
		t.Errorf("again after %s: %v", result.RequeueAfter, err)
	}
}

// TestTokenThatWasMadeToLast: what was written between the list and the deletion is not deleted.
func TestTokenThatWasMadeToLast(t *testing.T) {
	ctx := context.Background()
	old := token(func(s *corev1.Secret) {
		s.Data["expiration"] = []byte(later().Now().Add(-time.Second).Format(time.RFC3339))
	})
	c := suite.Client(t)
	suite.Create(t, c, old)
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
			s.Data["expiration"] = []byte(later().Now().Add(time.Hour).Format(time.RFC3339))
			return c.Update(ctx, s)
		},
	})
	if _, err := NewController(later(), racing, racing).Reconcile(ctx); err != nil {
		t.Errorf("a race is an error: %v", err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(old), &corev1.Secret{}); err != nil {
		t.Errorf("the token was deleted: %v", err)
	}
}
