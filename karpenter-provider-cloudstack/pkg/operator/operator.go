// Package operator builds what the provider consists of: the client of CloudStack with its credentials, the check whether CloudStack can be
// reached, the providers, and what core and the controllers make of them.
package operator

import (
	"context"
	"os"
	"time"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/credentials"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/reachability"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/affinity"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

// Operator is the operator of core, and what the provider consists of.
type Operator struct {
	*coreoperator.Operator

	// Client calls CloudStack.
	Client *cloudstack.Client
	// Reachability tells whether CloudStack can be reached.
	Reachability *reachability.Monitor
	// ClusterUID is the UID of the namespace kube-system, which tells clusters of one name apart.
	ClusterUID string

	// The providers.
	Zones         *zone.DefaultProvider
	Networks      *network.DefaultProvider
	Templates     *template.DefaultProvider
	Unavailable   *instancetype.Unavailable
	InstanceTypes *instancetype.DefaultProvider
	Affinity      *affinity.DefaultProvider
	Bootstrap     *bootstrap.DefaultProvider
	Instances     *instance.DefaultProvider

	// CloudProvider is what core asks. It is not decorated.
	CloudProvider *cloudprovider.CloudProvider

	// wake has all CloudStackNodeClasses looked at.
	wake chan struct{}
}

// New builds the provider. It panics where it cannot, as core does where its operator cannot be built; Build returns an error.
func New(ctx context.Context, core *coreoperator.Operator) (context.Context, *Operator) {
	ctx, built, err := Build(ctx, core)
	if err != nil {
		panic(err)
	}
	return ctx, built
}

// Build builds the provider, with the options of the context. Controllers of core are registered after it. It asks the API server for the
// identity of the cluster, and CloudStack for nothing: a CloudStack that is down, and credentials that are missing or wrong, show in the
// check, the log and the conditions later on.
func Build(ctx context.Context, core *coreoperator.Operator) (context.Context, *Operator, error) {
	o := options.FromContext(ctx)
	client, err := newClient(o)
	if err != nil {
		return ctx, nil, err
	}
	core.Manager = plainQueues{core.Manager}
	if err := slim(ctx, core.GetCache()); err != nil {
		return ctx, nil, err
	}
	built := &Operator{Operator: core, Client: client, Reachability: reachability.NewMonitor(client, core.Clock, o), wake: make(chan struct{}, 1)}
	watcher := credentials.NewWatcher(client, o, built.credentialsChanged)
	// What is wrong is logged, and may be put right while the controller runs.
	_ = watcher.Load(ctx)
	if err := core.Add(watcher); err != nil {
		return ctx, nil, errors.Wrap(err, "watch the credentials")
	}
	if err := core.Add(built.Reachability); err != nil {
		return ctx, nil, errors.Wrap(err, "check whether CloudStack can be reached")
	}
	// Neither /healthz nor /readyz has this: they would restart the controller, or take it for not ready, when CloudStack is down.
	if err := core.AddMetricsServerExtraHandler(reachability.Path, built.Reachability); err != nil {
		return ctx, nil, errors.Wrap(err, "answer whether CloudStack can be reached")
	}
	if built.ClusterUID, err = clusterUID(ctx, core.KubernetesInterface); err != nil {
		return ctx, nil, err
	}
	bundle, err := clusterCA(core.GetConfig())
	if err != nil {
		return ctx, nil, err
	}
	lifecycle.LaunchTimeout = o.LaunchTimeout
	built.providers(o, bundle)
	log.FromContext(ctx).Info("machines are marked with this cluster", "cluster", o.ClusterName, "uid", built.ClusterUID)
	return ctx, built, nil
}

// credentialsChanged has looked at once at what other credentials may have put right.
func (o *Operator) credentialsChanged() {
	o.Reachability.Now()
	select {
	case o.wake <- struct{}{}:
	default: // one that nobody has heard yet does for both
	}
}

// newClient makes the client. It has no credentials yet.
func newClient(o *options.Options) (*cloudstack.Client, error) {
	var bundle []byte
	if o.CABundleFile != "" {
		var err error
		if bundle, err = os.ReadFile(o.CABundleFile); err != nil {
			return nil, errors.Wrap(err, "read the CA bundle for CloudStack")
		}
	}
	client, err := cloudstack.New(cloudstack.Options{
		SkipVerify: !o.VerifySSL, CABundle: bundle, Proxy: o.Proxy, RequestTimeout: o.APITimeout, Rate: o.APIRate, Burst: o.APIBurst,
	})
	return client, errors.Wrap(err, "make the client of CloudStack")
}

// clusterUID asks for the namespace kube-system, which each cluster has, and keeps for life.
func clusterUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	var namespace *corev1.Namespace
	passes := func(err error) bool {
		return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && ctx.Err() == nil
	}
	err := retry.OnError(retry.DefaultBackoff, passes, func() (err error) {
		namespace, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return "", errors.Wrap(err, "look up the identity of the cluster, the namespace "+metav1.NamespaceSystem)
	}
	if namespace.UID == "" {
		return "", errors.New("the namespace " + metav1.NamespaceSystem + " has no UID")
	}
	return string(namespace.UID), nil
}

// clusterCA has the certificate authority of the API server, which machines that join by kubeadm check.
func clusterCA(config *rest.Config) ([]byte, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, errors.Wrap(err, "read the certificate authority of the API server")
	}
	return config.CAData, nil
}

func (o *Operator) providers(opts *options.Options, bundle []byte) {
	o.Zones = zone.NewProvider(o.Client, o.Clock)
	o.Networks = network.NewProvider(o.Client, o.Clock)
	o.Templates = template.NewProvider(o.Client, o.Clock)
	o.Unavailable = instancetype.NewUnavailable(o.Clock)
	o.InstanceTypes = instancetype.NewProvider(o.Client, o.Templates, o.Unavailable, o.Clock, instancetype.Options{
		MemoryOverheadPercent: opts.VMMemoryOverheadPercent, Region: opts.Region,
	})
	o.Affinity = affinity.NewProvider(o.Client, instance.GroupName(opts.ClusterName, o.ClusterUID), o.Clock)
	o.Bootstrap = bootstrap.NewProvider(o.GetAPIReader(), o.GetClient(), o.Clock, bootstrap.Options{
		ClusterName: opts.ClusterName, Namespace: opts.SystemNamespace, MaxBytes: opts.UserDataMaxBytes, CABundle: bundle,
	})
	o.Instances = instance.NewProvider(o.Client, o.Bootstrap, o.InstanceTypes, o.Unavailable, o.Affinity, instance.Options{
		ClusterName: opts.ClusterName, ClusterUID: o.ClusterUID, ProviderIDPrefix: cloudprovider.ProviderID(opts.ProviderIDFormat, ""),
		DeployConcurrency: opts.DeployConcurrency, LaunchTimeout: launchTime(opts.LaunchTimeout),
		Expunges: cloudprovider.ExpungePolicy(o.GetClient()), Clock: o.Clock,
	})
	o.CloudProvider = cloudprovider.New(o.Instances, o.InstanceTypes, o.GetClient(), o.EventRecorder, cloudprovider.Options{
		ProviderIDFormat: opts.ProviderIDFormat, Overlays: o.InstanceTypeStore, Full: o.Affinity,
		RepairToleration: opts.NodeRepairToleration, Clock: o.Clock,
	})
}

// Controllers are the controllers of the provider, which run beside those of core.
func (o *Operator) Controllers(ctx context.Context) []controller.Controller {
	opts := options.FromContext(ctx)
	return controllers.New(o.Manager, o.Clock, o.GetClient(), o.GetAPIReader(), o.EventRecorder, controllers.Providers{
		API: o.Client, Zones: o.Zones, Networks: o.Networks, Templates: o.Templates, InstanceTypes: o.InstanceTypes, Bootstrap: o.Bootstrap,
		Instances: o.Instances, Groups: o.Affinity,
	}, controllers.Options{
		ClusterName: opts.ClusterName, ClusterUID: o.ClusterUID, ProviderIDFormat: opts.ProviderIDFormat,
		GarbageGrace: opts.GC.Grace, GarbageMaxDeletions: opts.GC.MaxDeletions, GarbageDryRun: opts.GC.DryRun,
		Wake: o.wake,
	})
}

// launchTime is what Create may take of the time after which core gives a NodeClaim up: what is made at the last moment has to be told.
func launchTime(timeout time.Duration) time.Duration { return timeout - timeout/5 }
