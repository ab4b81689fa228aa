// Package bootstrap makes the user data by which a machine joins the cluster: the user's own template, or the configuration of kubeadm,
// K3s or RKE2 with the labels, taints and kubelet settings of the node claim. docs/BOOTSTRAP.md tells what users may write.
package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// DefaultMaxBytes is how long user data may be as CloudStack is delivered (vm.userdata.max.length), counted in base64.
const DefaultMaxBytes = 32768

// DefaultProviderIDPrefix is what CloudStack's cloud controller manager has before the id of a machine.
const DefaultProviderIDPrefix = "external-cloudstack://"

// Request is a machine that needs user data.
type Request struct {
	// NodeClass and NodeClaim are what the machine is made for. Neither is changed.
	NodeClass *csv1.CloudStackNodeClass
	NodeClaim *karpv1.NodeClaim
	// NodeName is the name of the machine, and of its node.
	NodeName string
	// ZoneName is the name of the zone that it is started in.
	ZoneName string
	// InstanceType is its instance type: the kubelet keeps what its overhead says. Without it, what the NodeClass says is kept.
	InstanceType *cloudprovider.InstanceType
	// Labels are the labels of the node. Those that a kubelet may not set itself are left to Karpenter, which sets all of them.
	Labels map[string]string
	// Taints are the taints of the node; karpenter.sh/unregistered:NoExecute is always added.
	Taints []corev1.Taint
	// ProviderIDPrefix is what the provider id has before the id of the machine; empty for DefaultProviderIDPrefix.
	ProviderIDPrefix string
}

// Provider makes user data.
type Provider interface {
	// Render makes the user data of a machine: base64 of the text, or of the text packed by gzip where it is long. It is never logged: it
	// has the token of the machine. Errors are of type *Error.
	Render(ctx context.Context, request Request) (string, error)
	// Check makes user data of sample values, and throws it away. Errors are of type *Error.
	Check(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) error
}

// Options configure a DefaultProvider.
type Options struct {
	// ClusterName is the name of the cluster, for templates.
	ClusterName string
	// Namespace is that of Secrets whose reference names none: that of the controller.
	Namespace string
	// MaxBytes is how long user data may be, in base64. Default: DefaultMaxBytes.
	MaxBytes int
	// CABundle is the certificate authority of the API server in PEM, where a NodeClass gives none.
	CABundle []byte
}

// DefaultProvider makes user data. It is safe for concurrent use.
type DefaultProvider struct {
	reader  client.Reader
	tokens  *minter
	options Options
}

var _ Provider = (*DefaultProvider)(nil)

// NewProvider makes a provider. The reader has to ask the API server each time: a cache would hold all Secrets of the cluster. The writer
// makes the Secrets of bootstrap tokens.
func NewProvider(reader client.Reader, writer client.Writer, clk clock.PassiveClock, options Options) *DefaultProvider {
	if options.MaxBytes <= 0 {
		options.MaxBytes = DefaultMaxBytes
	}
	return &DefaultProvider{reader: reader, options: options, tokens: &minter{reader: reader, writer: writer, clock: clk}}
}

// Render implements Provider.
func (p *DefaultProvider) Render(ctx context.Context, request Request) (string, error) {
	secrets, err := p.secrets(ctx, request.NodeClass)
	if err != nil {
		return "", err
	}
	if mints(request.NodeClass) {
		if secrets.token, err = p.tokens.mint(ctx, request.NodeClaim); err != nil {
			return "", err
		}
	}
	userData, err := p.render(request, secrets)
	if err == nil {
		userDataBytes.WithLabelValues(string(modeOf(request.NodeClass))).Observe(float64(len(userData)))
	}
	return userData, err
}

// Check implements Provider.
func (p *DefaultProvider) Check(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) error {
	secrets, err := p.secrets(ctx, nodeClass)
	if err != nil {
		return err
	}
	if mints(nodeClass) {
		secrets.token = sampleToken
	}
	zone := "sample-zone"
	if len(nodeClass.Status.Zones) > 0 {
		zone = nodeClass.Status.Zones[0].Name
	}
	_, err = p.render(Request{
		NodeClass: nodeClass,
		NodeClaim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "sample-nodepool-x7k2p"}},
		NodeName:  "sample-nodepool-x7k2p-0123456789",
		ZoneName:  zone,
		Labels: map[string]string{
			karpv1.NodePoolLabelKey: "sample-nodepool", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand,
			csv1.LabelNodeClass: "sample-nodeclass", corev1.LabelArchStable: karpv1.ArchitectureAmd64, corev1.LabelOSStable: "linux",
			corev1.LabelInstanceTypeStable: "sample", corev1.LabelTopologyZone: "sample-zone",
		},
	}, secrets)
	return err
}

// secrets are what user data is made of besides the node claim and its class.
type secrets struct {
	// userData is the user's own; fromSecret tells that it came from a Secret, so that errors cite nothing of it.
	userData   string
	fromSecret bool
	token      string
}

func (p *DefaultProvider) secrets(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) (secrets, error) {
	got := secrets{userData: lo.FromPtr(nodeClass.Spec.UserData)}
	if reference := nodeClass.Spec.UserDataSecretRef; reference != nil {
		text, err := p.secret(ctx, "userDataSecretRef", "userData", *reference)
		if err != nil {
			return secrets{}, err
		}
		got.userData, got.fromSecret = text, true
	}
	if bootstrap := nodeClass.Spec.Bootstrap; bootstrap != nil && bootstrap.TokenSecretRef != nil {
		text, err := p.secret(ctx, "bootstrap.tokenSecretRef", "token", *bootstrap.TokenSecretRef)
		if err != nil {
			return secrets{}, err
		}
		got.token = strings.TrimSpace(text)
	}
	return got, nil
}

// render makes user data; it reads nothing and writes nothing.
func (p *DefaultProvider) render(request Request, secrets secrets) (string, error) {
	joining, err := p.join(request, secrets)
	if err != nil {
		return "", err
	}
	var text string
	if mode := modeOf(request.NodeClass); mode == csv1.BootstrapCustom {
		text, err = custom(secrets, joining.values(p.options.ClusterName, request))
	} else {
		text, err = joining.cloudConfig(mode)
		if err == nil && secrets.userData != "" {
			text, err = merge(secrets.userData, text)
		}
	}
	if err != nil {
		return "", err
	}
	return encode(text, p.options.MaxBytes)
}

// join is how a machine joins, checked.
type join struct {
	nodeName         string
	labels           Labels
	taints           Taints
	kubelet          Arguments
	endpoint, token  string
	caBundle         []byte
	caHashes         []string
	providerIDPrefix string
}

var providerIDPrefixes = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9/._-]*$`)

func (p *DefaultProvider) join(request Request, secrets secrets) (join, error) {
	j := join{
		nodeName: request.NodeName, token: secrets.token, caBundle: p.options.CABundle,
		providerIDPrefix: lo.CoalesceOrEmpty(request.ProviderIDPrefix, DefaultProviderIDPrefix),
	}
	if !providerIDPrefixes.MatchString(j.providerIDPrefix) {
		return join{}, failure("ProviderIDPrefixInvalid", "the prefix of provider ids has to look like %s", DefaultProviderIDPrefix)
	}
	if problems := validation.IsDNS1123Subdomain(j.nodeName); len(problems) > 0 {
		return join{}, failure("NodeNameInvalid", "the name of a node cannot be %q: %s", j.nodeName, problems[0])
	}
	var err error
	if j.labels, err = nodeLabels(request.Labels); err != nil {
		return join{}, err
	}
	if j.taints, err = nodeTaints(request.Taints); err != nil {
		return join{}, err
	}
	if j.kubelet, err = kubeletArguments(request.NodeClass.Spec.Kubelet, request.InstanceType); err != nil {
		return join{}, err
	}
	if bootstrap := request.NodeClass.Spec.Bootstrap; bootstrap != nil {
		j.endpoint = bootstrap.Endpoint
		if len(bootstrap.CABundle) > 0 {
			j.caBundle = bootstrap.CABundle
		}
	}
	if len(j.caBundle) > 0 {
		if j.caHashes, err = caHashes(j.caBundle); err != nil {
			return join{}, err
		}
	}
	return j, nil
}

// nodeLabels checks labels, and leaves out those that a kubelet refuses to set.
func nodeLabels(labels map[string]string) (Labels, error) {
	kept := Labels{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return nil, failure("LabelInvalid", "%q cannot be the key of a label: %s", key, problems[0])
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return nil, failure("LabelInvalid", "the label %s cannot have the value %q: %s", key, labels[key], problems[0])
		}
		if settable(key) {
			kept[key] = labels[key]
		}
	}
	return kept, nil
}

// nodeTaints checks taints, and adds the one by which Karpenter keeps pods away until it knows the node.
func nodeTaints(taints []corev1.Taint) (Taints, error) {
	var kept Taints
	for _, taint := range append(slices.Clone(taints), karpv1.UnregisteredNoExecuteTaint) {
		if problems := validation.IsQualifiedName(taint.Key); len(problems) > 0 {
			return nil, failure("TaintInvalid", "%q cannot be the key of a taint: %s", taint.Key, problems[0])
		}
		if problems := validation.IsValidLabelValue(taint.Value); len(problems) > 0 {
			return nil, failure("TaintInvalid", "the taint %s cannot have the value %q: %s", taint.Key, taint.Value, problems[0])
		}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, failure("TaintInvalid", "the taint %s cannot have the effect %q", taint.Key, taint.Effect)
		}
		// A kubelet that is told two taints with one key and effect does not start.
		if !slices.ContainsFunc(kept, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
			kept = append(kept, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	return kept, nil
}

func modeOf(nodeClass *csv1.CloudStackNodeClass) csv1.BootstrapMode {
	if nodeClass.Spec.Bootstrap == nil || nodeClass.Spec.Bootstrap.Mode == "" {
		return csv1.BootstrapCustom
	}
	return nodeClass.Spec.Bootstrap.Mode
}

func mints(nodeClass *csv1.CloudStackNodeClass) bool {
	return nodeClass.Spec.Bootstrap != nil && lo.FromPtr(nodeClass.Spec.Bootstrap.MintToken)
}

// Error is what is in the way of user data.
type Error struct {
	// Reason is one word in CamelCase, fit for a condition.
	Reason string
	// Message says what is wrong, and what to change. It has nothing of a Secret's content.
	Message string
	// Transient tells that nothing is wrong with the NodeClass: the API server could not be asked.
	Transient bool

	cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

func failure(reason, format string, arguments ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}
