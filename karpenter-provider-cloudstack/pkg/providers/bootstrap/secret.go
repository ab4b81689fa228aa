package bootstrap

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// secret reads a key of a Secret. Errors name the field, the Secret and the key, and nothing of what is in it.
func (p *DefaultProvider) secret(ctx context.Context, field, defaultKey string, reference csv1.SecretKeyReference) (string, error) {
	name := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	if name.Namespace == "" {
		name.Namespace = p.options.Namespace
	}
	key := reference.Key
	if key == "" {
		key = defaultKey
	}
	secret := &corev1.Secret{}
	switch err := p.reader.Get(ctx, name, secret); {
	case apierrors.IsNotFound(err):
		return "", failure("SecretNotFound", "%s names the Secret %s, which does not exist: create it with the key %s", field, name, key)
	case apierrors.IsForbidden(err):
		return "", failure("SecretForbidden",
			"%s names the Secret %s, which the controller may not read: grant its service account get on it", field, name)
	case err != nil:
		return "", transient(err, "the Secret %s of %s could not be read", name, field)
	}
	content, there := secret.Data[key]
	switch {
	case !there:
		return "", failure("SecretKeyMissing", "%s: the Secret %s has no key %s: add it, or name another with %s.key", field, name, key, field)
	case strings.TrimSpace(string(content)) == "":
		return "", failure("SecretKeyEmpty", "%s: the key %s of the Secret %s is empty", field, key, name)
	}
	return string(content), nil
}

// transient is a failure of the API server, which passes.
func transient(err error, format string, arguments ...any) *Error {
	return &Error{
		Reason: "APIServerUnavailable", Transient: true, cause: err,
		Message: fmt.Sprintf(format, arguments...) + ": " + err.Error(),
	}
}
