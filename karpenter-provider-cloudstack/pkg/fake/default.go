package fake

import "time"

// Names of what Default has.
const (
	ZoneA                = "zone-a"
	ZoneB                = "zone-b"
	NetworkA             = "nodes-a"
	NetworkB             = "nodes-b"
	NetworkShared        = "shared-b"
	TemplateAMD64        = "ubuntu-24.04-k8s-amd64"
	TemplateARM64        = "ubuntu-24.04-k8s-arm64"
	OfferingSmall        = "m1.small"
	OfferingMedium       = "m1.medium"
	OfferingLarge        = "m1.large"
	OfferingXLarge       = "m1.xlarge"
	OfferingHighMemory   = "High Memory"
	OfferingDedicated    = "dedicated.large"
	OfferingGPU          = "g1.large"
	OfferingConstrained  = "custom-constrained"
	DiskOfferingSmall    = "disk-20"
	DiskOfferingCustom   = "disk-custom"
	KeyPairOps           = "ops"
	SecurityGroupDefault = "default"
	DedicatedHostTag     = "dedicated"
	GPUHosts             = "gpu"
)

// IDOf is the id that Default and the Add methods give to a zone, template, offering, diskoffering, securitygroup or project of that name.
// Those of networks have their zone in the name: IDOf("network", IDOf("zone", ZoneA)+"/"+NetworkA).
func IDOf(kind, name string) string { return idOf(kind, name) }

// Default makes a small data centre: two zones, three networks with tags (one of them shared), two templates for two architectures in both
// zones, eight offerings from 1 to 8 CPUs, of which one has host tags, one a GPU, and one a size to be told, two disk offerings, a security
// group and a key pair.
func Default(options Options) *CloudStack {
	c := New(options)
	a, b := c.AddZone(Zone{Name: ZoneA}), c.AddZone(Zone{Name: ZoneB})
	nodes := map[string]string{"role": "nodes"}
	c.AddNetwork(Network{Name: NetworkA, ZoneID: a.ID, Tags: nodes})
	c.AddNetwork(Network{Name: NetworkB, ZoneID: b.ID, Tags: nodes})
	c.AddNetwork(Network{Name: NetworkShared, ZoneID: b.ID, Type: "Shared", State: "Setup", Tags: map[string]string{"role": "shared"}})
	image := map[string]string{"purpose": "kubernetes"}
	c.AddTemplate(Template{Name: TemplateAMD64, Arch: "x86_64", OSType: "Ubuntu 24.04 LTS", Tags: image})
	c.AddTemplate(Template{
		Name: TemplateARM64, Arch: "aarch64", OSType: "Ubuntu 24.04 LTS", Tags: image, Created: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	})
	c.AddOffering(Offering{Name: OfferingSmall, CPU: 1, CPUSpeedMHz: 2000, MemoryMiB: 2048})
	c.AddOffering(Offering{Name: OfferingMedium, CPU: 2, CPUSpeedMHz: 2000, MemoryMiB: 4096})
	c.AddOffering(Offering{Name: OfferingLarge, CPU: 4, CPUSpeedMHz: 2000, MemoryMiB: 8192})
	c.AddOffering(Offering{Name: OfferingXLarge, CPU: 8, CPUSpeedMHz: 2000, MemoryMiB: 16384, RootDiskGiB: 50})
	c.AddOffering(Offering{Name: OfferingHighMemory, CPU: 4, CPUSpeedMHz: 2000, MemoryMiB: 32768})
	c.AddOffering(Offering{Name: OfferingDedicated, CPU: 4, CPUSpeedMHz: 3000, MemoryMiB: 8192, HostTags: DedicatedHostTag})
	c.AddOffering(Offering{
		Name: OfferingGPU, CPU: 4, CPUSpeedMHz: 3000, MemoryMiB: 16384, HostTags: GPUHosts,
		GPUs: 1, GPUCard: "NVIDIA L4", VGPUProfile: "passthrough",
	})
	c.AddOffering(Offering{Name: OfferingConstrained, CPUSpeedMHz: 2000, Customized: true, Details: map[string]string{
		"mincpunumber": "1", "maxcpunumber": "8", "minmemory": "1024", "maxmemory": "32768",
	}})
	c.AddDiskOffering(DiskOffering{Name: DiskOfferingSmall, SizeGiB: 20})
	c.AddDiskOffering(DiskOffering{Name: DiskOfferingCustom})
	c.AddSecurityGroup(SecurityGroup{Name: SecurityGroupDefault, Tags: nodes})
	c.AddKeyPair(KeyPairOps)
	return c
}
