package lab

import (
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/pricing"
)

// Machines are the machines of a NodePool that have not been deleted, whatever their state; with an empty name all machines there are.
// A machine without tags is in no NodePool.
func (l *Lab) Machines(nodePool string) []fake.VM {
	var machines []fake.VM
	for _, machine := range l.Cloud.VMs() {
		deleted := machine.State == fake.StateDestroyed || machine.State == fake.StateExpunging
		if !deleted && (nodePool == "" || machine.Tags[csv1.TagNodePool] == nodePool) {
			machines = append(machines, machine)
		}
	}
	return machines
}

// Running is how many machines run.
func Running(machines []fake.VM) int {
	running := 0
	for _, machine := range machines {
		if machine.State == fake.StateRunning {
			running++
		}
	}
	return running
}

// HourlyCost is what an hour of machines costs at the prices that the provider takes where a CloudStackNodeClass has none.
func HourlyCost(machines []fake.VM) float64 {
	var cost float64
	for _, machine := range machines {
		cost += pricing.Price(&csv1.CloudStackNodeClass{}, pricing.Size{
			CPU: machine.CPU, MemoryMiB: machine.MemoryMiB, GPU: machine.GPUs, Offering: machine.OfferingName,
		})
	}
	return cost
}
