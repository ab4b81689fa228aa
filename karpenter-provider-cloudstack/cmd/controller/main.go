// The controller makes nodes of a Kubernetes cluster on Apache CloudStack: Karpenter core with the provider for CloudStack.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/pkg/errors"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	corecontrollers "sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

func main() {
	if slices.Contains(os.Args[1:], "--version") || slices.Contains(os.Args[1:], "-version") {
		version(os.Stdout)
		return
	}
	if err := options.Check(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "karpenter for CloudStack cannot start: %v\n", err)
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "karpenter for CloudStack ends: %v\n", err)
		os.Exit(1)
	}
}

// version says what this is made of.
func version(w io.Writer) {
	core := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "sigs.k8s.io/karpenter" {
				core = module.Version
			}
		}
	}
	_, _ = fmt.Fprintf(w, "karpenter-provider-cloudstack %s (Karpenter core %s, %s, %s/%s)\n",
		coreoperator.Version, core, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func run() error {
	ctx, core := coreoperator.NewOperator()
	// The lease is given back when the controller is told to end, so that the next one leads at once. A second signal ends it as it is.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	ctx, op, err := operator.Build(ctx, core)
	if err != nil {
		return err
	}
	// Overlays are decided on with what the provider says, and applied to what core sees.
	undecorated := metrics.Decorate(op.CloudProvider)
	decorated := overlay.Decorate(undecorated, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	controllers, err := operator.NodeMetrics(crmetrics.Registry, cluster, corecontrollers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, undecorated, cluster, op.InstanceTypeStore,
	))
	if err != nil {
		return err
	}
	op.WithControllers(ctx, controllers...)
	op.WithControllers(ctx, op.Controllers(ctx)...)
	return errors.Wrap(op.Manager.Start(ctx), "the controllers")
}
