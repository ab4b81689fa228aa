package instancetype

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// leastShare is the share of the memory of an offering below which an observation is not believed: such a node is broken.
const leastShare = 0.5

// Machine is of which kind a node is that has registered.
type Machine struct {
	// OfferingID is the id of its service offering, the label service-offering-id.
	OfferingID string
	// TemplateID is the id of its template.
	TemplateID string
	// MemoryMiB is the memory of its offering, the label instance-memory; it tells the sizes of one offering apart.
	MemoryMiB int
}

// observations are the least memory that nodes had. A guest sees less than its offering has; how much less depends on the hypervisor and
// the kernel, and no one tells.
type observations struct {
	mu       sync.Mutex
	sequence uint64
	bytes    map[Machine]int64
}

// observe tells whether seen is less than all before it.
func (o *observations) observe(machine Machine, seen resource.Quantity) bool {
	bytes, nominal := seen.Value(), int64(machine.MemoryMiB)*mib
	if bytes >= nominal || float64(bytes) < leastShare*float64(nominal) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if least, known := o.bytes[machine]; known && least <= bytes {
		return false
	}
	if o.bytes == nil {
		o.bytes = map[Machine]int64{}
	}
	o.bytes[machine] = bytes
	o.sequence++
	return true
}

// snapshot is what is known now, and a number that changes with it.
func (o *observations) snapshot() (map[Machine]int64, uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.bytes), o.sequence
}

func (o *observations) version() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sequence
}
