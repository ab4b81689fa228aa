package operator

import (
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// plainQueues is a manager whose controllers have queues without priorities, which neither core nor the provider makes use of. Those with
// priorities may hang when a controller is told to end, until the manager gives up after half a minute, and nobody leads meanwhile:
// https://github.com/kubernetes-sigs/controller-runtime/issues/3538
type plainQueues struct{ manager.Manager }

// GetControllerOptions implements manager.Manager.
func (m plainQueues) GetControllerOptions() config.Controller {
	options := m.Manager.GetControllerOptions()
	options.UsePriorityQueue = ptr.To(false)
	return options
}
