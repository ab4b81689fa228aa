// Package modules is the registry from a kind to the Pulumi module that provisions it.
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
)

// module is one entry of the registry. It reports false when the stack input is not of its kind.
type module func(ctx *pulumi.Context, stackInput proto.Message) (bool, error)

// registry holds every module. A new kind is one line here.
var registry = []module{
	entry(civofirewall.Resources),
	entry(civokubernetescluster.Resources),
	entry(civokubernetesnodepool.Resources),
	entry(civovpc.Resources),
	entry(digitaloceankubernetescluster.Resources),
	entry(digitaloceankubernetesnodepool.Resources),
	entry(digitaloceanvpc.Resources),
}

func entry[M proto.Message](resources func(*pulumi.Context, M) error) module {
	return func(ctx *pulumi.Context, stackInput proto.Message) (bool, error) {
		input, ok := stackInput.(M)
		if !ok {
			return false, nil
		}
		return true, resources(ctx, input)
	}
}

// Resources provisions what a stack input of any kind declares, through the module of its kind. It fails for a message that is no
// stack input of a known kind.
func Resources(ctx *pulumi.Context, stackInput proto.Message) error {
	for _, provision := range registry {
		if found, err := provision(ctx, stackInput); found {
			return err
		}
	}
	return errors.Errorf("no module provisions a %T", stackInput)
}
