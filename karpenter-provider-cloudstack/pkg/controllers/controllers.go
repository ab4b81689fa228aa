// Package controllers has the controllers of the provider, which run beside those of Karpenter core.
package controllers

import (
	"time"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/events"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers/bootstraptoken"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers/capacity"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers/garbagecollection"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers/nodeclass"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers/tagging"
)

// Instances has the machines of the cluster.
type Instances interface {
	garbagecollection.Instances
	tagging.Instances
}

// API is what controllers ask CloudStack themselves.
type API interface {
	garbagecollection.Volumes
	tagging.API
}

// InstanceTypes has the instance types.
type InstanceTypes interface {
	nodeclass.Offerings
	capacity.Observer
}

// Providers are what the controllers work with. All are needed but Groups.
type Providers struct {
	// API is the client of CloudStack.
	API API
	// Zones, Networks, Templates, InstanceTypes and Bootstrap find what a CloudStackNodeClass selects.
	Zones         nodeclass.Zones
	Networks      nodeclass.Networks
	Templates     nodeclass.Templates
	InstanceTypes InstanceTypes
	Bootstrap     nodeclass.Bootstrap
	// Instances has the machines.
	Instances Instances
	// Groups has the affinity groups.
	Groups garbagecollection.Groups
}

// Options configure the controllers.
type Options struct {
	// ClusterName is the name of the cluster, ClusterUID the UID of its namespace kube-system.
	ClusterName, ClusterUID string
	// ProviderIDFormat is "ccm", "capc" or a prefix.
	ProviderIDFormat string
	// GarbageGrace, GarbageMaxDeletions and GarbageDryRun bound the garbage collection, see garbagecollection.Options.
	GarbageGrace        time.Duration
	GarbageMaxDeletions int
	GarbageDryRun       bool
	// Wake has all CloudStackNodeClasses looked at whenever something comes through it, as when the credentials of CloudStack have changed.
	// Nil for never.
	Wake <-chan struct{}
}

// New makes all controllers. The reader asks the API server itself; without one it is the manager's.
func New(
	m manager.Manager, clk clock.Clock, kubeClient client.Client, reader client.Reader, recorder events.Recorder, providers Providers, options Options,
) []controller.Controller {
	if reader == nil {
		reader = m.GetAPIReader()
	}
	return []controller.Controller{
		nodeclass.NewController(clk, kubeClient, recorder, nodeclass.Providers{
			Zones: providers.Zones, Networks: providers.Networks, Templates: providers.Templates,
			Offerings: providers.InstanceTypes, Bootstrap: providers.Bootstrap,
		}, options.Wake),
		garbagecollection.NewController(clk, kubeClient, reader, recorder, providers.Instances, providers.API, providers.Groups, garbagecollection.Options{
			ClusterName: options.ClusterName, ClusterUID: options.ClusterUID, ProviderIDFormat: options.ProviderIDFormat,
			Grace: options.GarbageGrace, MaxDeletions: options.GarbageMaxDeletions, DryRun: options.GarbageDryRun,
		}),
		tagging.NewController(kubeClient, providers.Instances, providers.API, options.ProviderIDFormat),
		bootstraptoken.NewController(clk, kubeClient, reader),
		capacity.NewController(kubeClient, providers.InstanceTypes),
		// Metrics and events of the conditions, by the names that core has for NodePools and NodeClaims.
		status.NewController[*csv1.CloudStackNodeClass](
			kubeClient, m.GetEventRecorderFor("karpenter"), //nolint:staticcheck // core does so, operatorpkg takes no other
			status.EmitDeprecatedMetrics,
		),
	}
}
