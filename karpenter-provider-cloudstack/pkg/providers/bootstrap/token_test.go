package bootstrap

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

func claim(uid string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-x7k2p", UID: types.UID(uid)}}
}

func tokens(t *testing.T, c client.Client) []corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	if err := c.List(context.Background(), list, client.InNamespace("kube-system"), client.MatchingLabels{LabelToken: "true"}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestMint(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(now)
	c := suite.Client(t)
	m := &minter{reader: c, writer: c, clock: clk}
	first, err := m.mint(ctx, claim("a"))
	if err != nil || !bootstrapTokens.MatchString(first) {
		t.Fatalf("%q: %v", first, err)
	}
	made := tokens(t, c)
	if len(made) != 1 {
		t.Fatalf("%d Secrets", len(made))
	}
	s := made[0]
	id, rest, _ := strings.Cut(first, ".")
	for key, want := range map[string]string{
		"token-id": id, "token-secret": rest, "expiration": "2030-01-02T04:04:05Z", "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token", "description": "Karpenter, for the NodeClaim general-x7k2p",
	} {
		if got := string(s.Data[key]); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
	if s.Name != "bootstrap-token-"+id || s.Type != "bootstrap.kubernetes.io/token" || s.Labels[LabelTokenNodeClaimUID] != "a" || s.Annotations[AnnotationTokenNodeClaim] != "general-x7k2p" {
		t.Errorf("the Secret is %s of type %s, labels %v, annotations %v", s.Name, s.Type, s.Labels, s.Annotations)
	}
	if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "a" || s.OwnerReferences[0].Kind != "NodeClaim" {
		t.Errorf("the Secret outlives its NodeClaim: %v", s.OwnerReferences)
	}

	// A second attempt, such as after a restart, has the same token; another NodeClaim has another.
	if again, err := (&minter{reader: c, writer: c, clock: clk}).mint(ctx, claim("a")); err != nil || again != first {
		t.Errorf("a second attempt has another token (%v)", err)
	}
	if other, err := m.mint(ctx, claim("b")); err != nil || other == first || len(tokens(t, c)) != 2 {
		t.Errorf("another NodeClaim has the same token, or none (%v)", err)
	}

	// One that is about to end is made to last.
	clk.SetTime(now.Add(45 * time.Minute))
	if again, err := m.mint(ctx, claim("a")); err != nil || again != first {
		t.Errorf("%v", err)
	}
	kept, _ := lo.Find(tokens(t, c), func(s corev1.Secret) bool { return s.Labels[LabelTokenNodeClaimUID] == "a" })
	if got := string(kept.Data["expiration"]); got != "2030-01-02T04:49:05Z" {
		t.Errorf("it ends at %s", got)
	}
}

func TestMintLeavesOthersAlone(t *testing.T) {
	ctx := context.Background()
	taken := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + tokenID(claim("a"), 0)},
		Data:       map[string][]byte{"token-id": []byte(tokenID(claim("a"), 0)), "token-secret": []byte("0123456789abcdef")},
	}
	c := suite.Client(t)
	suite.Create(t, c, taken)
	token, err := (&minter{reader: c, writer: c, clock: clocktesting.NewFakePassiveClock(time.Now())}).mint(ctx, claim("a"))
	if err != nil || strings.HasPrefix(token, tokenID(claim("a"), 0)) {
		t.Errorf("someone else's token was taken (%v)", err)
	}
	got := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(taken), got); err != nil || len(got.Data) != 2 {
		t.Errorf("someone else's token was changed: %v, %v", got.Data, err)
	}
}

func TestMintWithTwoAtOnce(t *testing.T) {
	ctx := context.Background()
	clk := clocktesting.NewFakePassiveClock(time.Now())
	var other string
	once := false
	c := interceptor.NewClient(suite.Client(t), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if !once { // another is quicker
				once = true
				var err error
				if other, err = (&minter{reader: c, writer: c, clock: clk}).mint(ctx, claim("a")); err != nil {
					return err
				}
			}
			return c.Create(ctx, o, options...)
		},
	})
	token, err := (&minter{reader: c, writer: c, clock: clk}).mint(ctx, claim("a"))
	if err != nil || token != other {
		t.Errorf("two attempts at once have two tokens (%v)", err)
	}
}

func TestMintThatFails(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]struct {
		err       error
		reason    string
		transient bool
	}{
		"no rights": {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("no")), "TokenForbidden", false},
		"an outage": {errors.New("connection refused"), "APIServerUnavailable", true},
	} {
		c := interceptor.NewClient(suite.Client(t), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err },
		})
		_, err := (&minter{reader: c, writer: c, clock: clocktesting.NewFakePassiveClock(time.Now())}).mint(ctx, claim("a"))
		var e *Error
		if !errors.As(err, &e) || e.Reason != test.reason || e.Transient != test.transient {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyRenderMints(t *testing.T) {
	ctx := context.Background()
	ca, _ := newCA(t)
	n := nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", MintToken: lo.ToPtr(true), CABundle: ca})
	c := suite.Client(t)
	p := NewProvider(c, c, clocktesting.NewFakePassiveClock(time.Now()), Options{})
	if err := p.Check(ctx, n); err != nil || len(tokens(t, c)) != 0 {
		t.Errorf("Check made %d tokens (%v)", len(tokens(t, c)), err)
	}
	text := render(t, p, request(n))
	made := tokens(t, c)
	if len(made) != 1 || !strings.Contains(text, string(made[0].Data["token-secret"])) {
		t.Errorf("%d tokens, and the user data has none of them:\n%s", len(made), text)
	}
}
