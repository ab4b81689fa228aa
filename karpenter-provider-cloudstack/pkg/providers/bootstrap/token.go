package bootstrap

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// What is known of the Secrets of bootstrap tokens.
const (
	// TokenNamespace is where bootstrap tokens are: Kubernetes looks nowhere else.
	TokenNamespace = metav1.NamespaceSystem
	// TokenTTL is how long a token is good.
	TokenTTL = time.Hour
	// LabelToken is "true" on the Secrets of tokens that were made here.
	LabelToken = csv1.Group + "/bootstrap-token"
	// LabelTokenNodeClaimUID is the UID of the NodeClaim that a token was made for.
	LabelTokenNodeClaimUID = csv1.Group + "/nodeclaim-uid"
	// AnnotationTokenNodeClaim is the name of that NodeClaim.
	AnnotationTokenNodeClaim = csv1.Group + "/nodeclaim"
	// TokenExpirationKey is the key of the Secret with the time, in RFC 3339, from which the token is no longer good.
	TokenExpirationKey = "expiration"
)

// Keys and values of the Secret of a bootstrap token.
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#bootstrap-token-secret-format
const (
	tokenIDKey     = "token-id"
	tokenSecretKey = "token-secret"
	tokenGroups    = "system:bootstrappers:kubeadm:default-node-token"
)

const (
	sampleToken  = "abcdef.0123456789abcdef" // that of the documentation of kubeadm
	alphabet     = "0123456789abcdefghijklmnopqrstuvwxyz"
	idLength     = 6
	secretLength = 16
	// idAttempts is how many ids are tried where another NodeClaim has the first: one in two thousand million.
	idAttempts = 5
)

// minter makes bootstrap tokens, one for a NodeClaim.
type minter struct {
	reader client.Reader
	writer client.Writer
	clock  clock.PassiveClock
}

// mint returns the token of a NodeClaim, which is made unless it is there. One that is good for less than half its time is made to last.
func (m *minter) mint(ctx context.Context, nodeClaim *karpv1.NodeClaim) (string, error) {
	for attempt := range idAttempts {
		id := tokenID(nodeClaim, attempt)
		secret := &corev1.Secret{}
		name := types.NamespacedName{Namespace: TokenNamespace, Name: "bootstrap-token-" + id}
		err := m.reader.Get(ctx, name, secret)
		if apierrors.IsNotFound(err) {
			secret = m.secret(nodeClaim, id)
			err = m.writer.Create(ctx, secret)
			if apierrors.IsAlreadyExists(err) { // another attempt for this NodeClaim was quicker
				err = m.reader.Get(ctx, name, secret)
			}
		}
		switch {
		case apierrors.IsForbidden(err):
			return "", failure("TokenForbidden",
				"bootstrap.mintToken needs the right to get, create and patch Secrets in the namespace %s", TokenNamespace)
		case err != nil:
			return "", transient(err, "the bootstrap token of the NodeClaim %s could not be made", nodeClaim.Name)
		case secret.Labels[LabelTokenNodeClaimUID] != string(nodeClaim.UID):
			continue
		}
		token := string(secret.Data[tokenIDKey]) + "." + string(secret.Data[tokenSecretKey])
		if !bootstrapTokens.MatchString(token) {
			return "", failure("TokenInvalid", "the Secret %s is no bootstrap token, though it is labelled as one: delete it", name)
		}
		if m.clock.Now().Add(TokenTTL / 2).After(TokenExpiration(secret)) {
			stored := secret.DeepCopy()
			secret.Data[TokenExpirationKey] = m.expiration()
			if err := m.writer.Patch(ctx, secret, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})); err != nil {
				return "", transient(err, "the bootstrap token of the NodeClaim %s could not be made to last", nodeClaim.Name)
			}
		}
		return token, nil
	}
	return "", failure("TokenTaken", "no id is free for the bootstrap token of the NodeClaim %s", nodeClaim.Name)
}

func (m *minter) expiration() []byte {
	return []byte(m.clock.Now().Add(TokenTTL).UTC().Format(time.RFC3339))
}

func (m *minter) secret(nodeClaim *karpv1.NodeClaim, id string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: TokenNamespace, Name: "bootstrap-token-" + id,
			Labels:      map[string]string{LabelToken: "true", LabelTokenNodeClaimUID: string(nodeClaim.UID)},
			Annotations: map[string]string{AnnotationTokenNodeClaim: nodeClaim.Name},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			tokenIDKey: []byte(id), tokenSecretKey: []byte(randomText(secretLength)), TokenExpirationKey: m.expiration(),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"auth-extra-groups": []byte(tokenGroups),
			"description":       []byte(fmt.Sprintf("Karpenter, for the NodeClaim %s", nodeClaim.Name)),
		},
	}
	if nodeClaim.UID != "" {
		// The API server deletes the token with the NodeClaim, even where this controller is gone.
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: nodeClaim.Name, UID: nodeClaim.UID, BlockOwnerDeletion: lo.ToPtr(false),
		}}
	}
	return secret
}

// TokenExpiration is when a token is no longer good; the zero time where its Secret does not say.
func TokenExpiration(secret *corev1.Secret) time.Time {
	at, err := time.Parse(time.RFC3339, string(secret.Data[TokenExpirationKey]))
	if err != nil {
		return time.Time{}
	}
	return at
}

// tokenID is the public half of a token: the same for the same NodeClaim, so that a second attempt finds the token of the first.
func tokenID(nodeClaim *karpv1.NodeClaim, attempt int) string {
	sum := sha256.Sum256([]byte(string(nodeClaim.UID) + "/" + nodeClaim.Name + "/" + strconv.Itoa(attempt)))
	number := binary.BigEndian.Uint64(sum[:])
	id := make([]byte, idLength)
	for i := range id {
		id[i] = alphabet[number%uint64(len(alphabet))]
		number /= uint64(len(alphabet))
	}
	return string(id)
}

func randomText(length int) string {
	text := make([]byte, length)
	for i := range text {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		text[i] = alphabet[n.Int64()]
	}
	return string(text)
}
