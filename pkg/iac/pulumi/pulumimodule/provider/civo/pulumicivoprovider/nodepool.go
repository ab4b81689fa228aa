package pulumicivoprovider

import (
	"strconv"

	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/plugin"
)

// wayOut is what a user can do when the official plugin must not be given an update of a node pool.
const wayOut = "Nothing was changed. " +
	"Use the native plugin, which makes the change in place: `planton ... --plugins native`, or, for plain pulumi, have it on PATH: " +
	"`go install github.com/plantonhq/project-planton/cmd/pulumi-resource-civo@latest`. " +
	"Or give the pool another name, which makes a new pool in the wanted form and removes this one"

// GuardNodePool returns the option that keeps updates of a node pool away from the official plugin (2.4.8) where it would
// fail: it crashes when the node count changes (terraform-provider-civo issue 381), and silently leaves the labels as
// they are when all of them are removed. The update is refused in the preview already. The name must be unique in the
// program.
func GuardNodePool(ctx *pulumi.Context, name string, provider *civoprovider.Provider) (pulumi.ResourceOption, error) {
	hook, err := plugin.RefuseUpdate(ctx, name, Package, provider, RefuseNodePoolUpdate)
	if err != nil {
		return nil, err
	}
	return pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeUpdate: []*pulumi.ResourceHook{hook}}), nil
}

// RefuseNodePoolUpdate is the plugin.Refusal of GuardNodePool.
func RefuseNodePoolUpdate(oldInputs, newInputs resource.PropertyMap) error {
	oldCount, newCount := oldInputs["nodeCount"], newInputs["nodeCount"]
	if !newCount.DeepEquals(oldCount) {
		return errors.Errorf("spec.node_count: the change from %s to %s is refused: "+
			"it is known to crash the official Civo plugin. %s", number(oldCount), number(newCount), wayOut)
	}
	if size(oldInputs["labels"]) > 0 && size(newInputs["labels"]) == 0 {
		return errors.Errorf("spec.labels: the removal of the pool's last labels is refused: "+
			"the official Civo plugin would report success and leave them on the nodes. %s", wayOut)
	}
	return nil
}

func number(value resource.PropertyValue) string {
	value = plugin.Known(value)
	if !value.IsNumber() {
		return "a number that is not known yet"
	}
	return strconv.FormatFloat(value.NumberValue(), 'f', -1, 64)
}

func size(value resource.PropertyValue) int {
	value = plugin.Known(value)
	if !value.IsObject() {
		return 0
	}
	return len(value.ObjectValue())
}
