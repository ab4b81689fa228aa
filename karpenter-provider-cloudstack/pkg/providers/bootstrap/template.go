package bootstrap

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"
)

// Values are what a template of userData may use.
type Values struct {
	// ClusterName is the name of the cluster.
	ClusterName string
	// NodeName is the name of the machine and of its node.
	NodeName string
	// NodeClaimName, NodePoolName and NodeClassName are the names of the objects that the machine is made for.
	NodeClaimName, NodePoolName, NodeClassName string
	// ZoneName is the name of the zone.
	ZoneName string
	// InstanceType and CapacityType are the values of these labels.
	InstanceType, CapacityType string
	// Labels are the labels that the kubelet sets. As text they are what --node-labels takes.
	Labels Labels
	// Taints are the taints that the node registers with. As text they are what --register-with-taints takes.
	Taints Taints
	// KubeletArgs are further settings of the kubelet by the names of their flags. As text they are flags for a shell.
	KubeletArgs Arguments
	// Endpoint is bootstrap.endpoint.
	Endpoint string
	// CABundle is the certificate authority of the API server in PEM.
	CABundle string
	// CACertHash is the hash of the key of its first certificate, as kubeadm takes it; CACertHashes are those of all.
	CACertHash   string
	CACertHashes []string
	// Token is the token of bootstrap.tokenSecretRef, or the one made for the machine.
	Token string
	// ProviderIDPrefix is what the provider id has before the id of the machine.
	ProviderIDPrefix string
	// ProviderID is the provider id as Jinja that cloud-init resolves: for user data that begins with "## template: jinja".
	ProviderID string
	// ProviderIDShell is the provider id as an expression of a POSIX shell, which asks cloud-init for the id of the machine.
	ProviderIDShell string
}

func (j join) values(clusterName string, request Request) Values {
	return Values{
		ClusterName:      clusterName,
		NodeName:         j.nodeName,
		NodeClaimName:    request.NodeClaim.Name,
		NodePoolName:     lo.CoalesceOrEmpty(request.NodeClaim.Labels[karpv1.NodePoolLabelKey], j.labels[karpv1.NodePoolLabelKey]),
		NodeClassName:    request.NodeClass.Name,
		ZoneName:         request.ZoneName,
		InstanceType:     instanceTypeName(request),
		CapacityType:     j.labels[karpv1.CapacityTypeLabelKey],
		Labels:           j.labels,
		Taints:           j.taints,
		KubeletArgs:      j.kubelet,
		Endpoint:         j.endpoint,
		CABundle:         string(j.caBundle),
		CACertHash:       lo.FirstOrEmpty(j.caHashes),
		CACertHashes:     j.caHashes,
		Token:            j.token,
		ProviderIDPrefix: j.providerIDPrefix,
		ProviderID:       j.providerIDPrefix + "{{ ds.meta_data.instance_id }}",
		ProviderIDShell:  j.providerIDPrefix + `"$(cloud-init query instance_id)"`,
	}
}

func instanceTypeName(request Request) string {
	if request.InstanceType != nil {
		return request.InstanceType.Name
	}
	return request.Labels[corev1.LabelInstanceTypeStable]
}

// functions of templates are those of sprig that give the same for the same values, and that reach neither the environment of the
// controller nor the network nor files, and some of its own.
func functions() template.FuncMap {
	allowed := lo.PickByKeys(sprig.TxtFuncMap(), []string{
		"default", "empty", "coalesce", "ternary", "fail",
		"quote", "squote", "upper", "lower", "trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "substr", "replace", "contains",
		"hasPrefix", "hasSuffix", "indent", "nindent", "toString", "cat",
		"split", "splitList", "join", "sortAlpha", "regexMatch", "regexFind", "regexReplaceAll",
		"list", "dict", "set", "first", "rest", "last", "append", "concat", "has", "uniq", "without",
		"add", "sub", "mul", "div", "mod", "max", "min", "int", "int64", "atoi",
		"b64enc", "b64dec", "sha256sum", "toJson", "fromJson",
	})
	maps.Copy(allowed, mapFunctions())
	maps.Copy(allowed, template.FuncMap{
		"shellQuote": shellQuote,
		"toYaml":     toYAML,
		"printf":     printf,
		"required": func(message string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
	})
	return allowed
}

// shellQuote makes one word of a POSIX shell of any text.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func toYAML(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), errors.Wrap(err, "toYaml")
}

var wideVerbs = regexp.MustCompile(`%[^%a-zA-Z]*(\*|[0-9]{4,})`)

// printf is fmt.Sprintf without widths that make gigabytes of a short template.
func printf(format string, values ...any) (string, error) {
	if wideVerbs.MatchString(format) {
		return "", errors.New("printf: a width is at most 999, and no *")
	}
	return fmt.Sprintf(format, values...), nil
}

// maxRendered bounds what a template makes: much more than CloudStack ever takes.
const maxRendered = 8 << 20

type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, errors.New("the result has more than 8 MiB")
	}
	return b.Buffer.Write(p) // it never fails
}

// custom renders the user's template. Text without an action comes out as it is.
func custom(secrets secrets, values Values) (string, error) {
	parsed, err := template.New("userData").Option("missingkey=error").Funcs(functions()).Parse(secrets.userData)
	if err != nil {
		return "", templateFailure("UserDataInvalid", "cannot be read", err, secrets)
	}
	var text bounded
	if err := parsed.Execute(&text, values); err != nil {
		return "", templateFailure("UserDataInvalid", "cannot be rendered", err, secrets)
	}
	return text.String(), nil
}

var templateLine = regexp.MustCompile(`^template: userData:(\d+)`)

// templateFailure cites the template, if it is not a secret, and never the token.
func templateFailure(reason, what string, err error, secrets secrets) *Error {
	where := ""
	if line := templateLine.FindStringSubmatch(err.Error()); line != nil {
		where = ", line " + line[1]
	}
	message := fmt.Sprintf("the template of userData%s %s", where, what)
	if secrets.fromSecret {
		return failure(reason, "%s: look at that line of the Secret's text; it is not shown here", message)
	}
	cited := templateLine.ReplaceAllString(err.Error(), "")
	if secrets.token != "" {
		cited = strings.ReplaceAll(cited, secrets.token, "[token]")
	}
	return failure(reason, "%s: %s", message, strings.TrimLeft(cited, ":0123456789 "))
}
