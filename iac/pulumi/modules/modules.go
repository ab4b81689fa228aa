// Package modules is the registry from a kind to the Pulumi module that provisions it, for whoever is handed manifests of
// any kind, such as the CLI. A program with one kind imports that kind's module alone.
package modules

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civofirewall "github.com/plantonhq/project-planton/iac/pulumi/civo/civofirewall/module"
	civokubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetescluster/module"
	civokubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetesnodepool/module"
	civovpc "github.com/plantonhq/project-planton/iac/pulumi/civo/civovpc/module"
	digitaloceankubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetescluster/module"
	digitaloceankubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetesnodepool/module"
	digitaloceanvpc "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceanvpc/module"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Module provisions the resource of a stack input in the stack of the context.
type Module func(ctx *pulumi.Context, stackInput proto.Message) error

// registry holds the module of each kind by the kind's name.
var registry = map[string]Module{
	"CivoFirewall":                   of(civofirewall.Resources),
	"CivoKubernetesCluster":          of(civokubernetescluster.Resources),
	"CivoKubernetesNodePool":         of(civokubernetesnodepool.Resources),
	"CivoVpc":                        of(civovpc.Resources),
	"DigitalOceanKubernetesCluster":  of(digitaloceankubernetescluster.Resources),
	"DigitalOceanKubernetesNodePool": of(digitaloceankubernetesnodepool.Resources),
	"DigitalOceanVpc":                of(digitaloceanvpc.Resources),
}

// ByKind returns the module of the kind. Every kind of package kinds has one.
func ByKind(kind kinds.Kind) (Module, bool) {
	module, ok := registry[kind.Name]
	return module, ok
}

// Resources provisions the resource of the stack input with the module of its kind.
func Resources(ctx *pulumi.Context, stackInput proto.Message) error {
	kind, ok := kinds.Of(stackInput)
	if !ok {
		return errors.Errorf("choose a module: %T is the stack input of no kind", stackInput)
	}
	module, ok := ByKind(kind)
	if !ok {
		return errors.Errorf("choose a module: kind %s has none", kind)
	}
	return module(ctx, stackInput)
}

// of makes a Module of the entry of a kind's module. The message of another kind is an error.
func of[M proto.Message](resources func(*pulumi.Context, M) error) Module {
	return func(ctx *pulumi.Context, stackInput proto.Message) error {
		typed, ok := stackInput.(M)
		if !ok {
			return errors.Errorf("the module takes a %T, not a %T", *new(M), stackInput)
		}
		return resources(ctx, typed)
	}
}
