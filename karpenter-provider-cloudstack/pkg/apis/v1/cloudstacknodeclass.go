package v1

import (
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CloudStackNodeClass says of what kind the machines of a NodePool are: in which zones and networks they are started, of which service
// offerings and templates, and how they join the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=cloudstacknodeclasses,scope=Cluster,categories=karpenter,shortName={csnc,csncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether machines can be started"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description="What is in the way"
// +kubebuilder:printcolumn:name="Offerings",type="integer",JSONPath=".status.offeringCount",priority=1,description="How many service offerings fit"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type CloudStackNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloudStackNodeClassSpec   `json:"spec"`
	Status CloudStackNodeClassStatus `json:"status,omitempty"`
}

// CloudStackNodeClassList is a list of CloudStackNodeClasses.
//
// +kubebuilder:object:root=true
type CloudStackNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloudStackNodeClass `json:"items"`
}

// CloudStackNodeClassSpec is what the user asks for.
//
// A term of a selector selects what fits all of its fields; a list of terms selects what fits any of them. A selector that selects
// nothing makes the CloudStackNodeClass not ready.
//
// +kubebuilder:validation:XValidation:rule="has(self.zone) || (has(self.zones) && size(self.zones) > 0)",message="name a zone: set zones"
// +kubebuilder:validation:XValidation:rule="!(has(self.zone) && has(self.zones) && size(self.zones) > 0)",message="set zones or zone, not both"
// +kubebuilder:validation:XValidation:rule="!(has(self.userData) && has(self.userDataSecretRef))",message="set userData or userDataSecretRef, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.account) || has(self.domainID)",message="an account needs the domainID that it is in"
// +kubebuilder:validation:XValidation:rule="!(has(self.account) && has(self.projectID))",message="set projectID or account, not both"
type CloudStackNodeClassSpec struct {
	// Zone is the name or id of the one zone of the machines; zones with one element is the same.
	//
	// Deprecated: use Zones.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Zone string `json:"zone,omitempty" hash:"ignore"`
	// Zones are the names or ids of the zones in which machines may be started. The value of the label topology.kubernetes.io/zone is
	// the name of the zone, as CloudStack's cloud controller manager has it.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:items:MinLength=1
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty" hash:"ignore"`
	// NetworkSelectorTerms select the networks of the first network interface. Each machine gets one of them, one of its zone that
	// still has addresses. Zones with security groups need none.
	// +kubebuilder:validation:MaxItems=30
	// +optional
	NetworkSelectorTerms []NetworkSelectorTerm `json:"networkSelectorTerms,omitempty" hash:"ignore"`
	// AdditionalNetworkSelectorTerms select networks of further interfaces, one for each term, in this order.
	// +kubebuilder:validation:MaxItems=7
	// +optional
	AdditionalNetworkSelectorTerms []NetworkSelectorTerm `json:"additionalNetworkSelectorTerms,omitempty" hash:"ignore"`
	// ServiceOfferingSelectorTerms select the service offerings that are the instance types.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	ServiceOfferingSelectorTerms []ServiceOfferingSelectorTerm `json:"serviceOfferingSelectorTerms" hash:"ignore"`
	// CustomOffering lists the sizes that offerings without a size of their own are used in; each size is an instance type. Offerings
	// that have bounds are used in the sizes within them. Without it, offerings without a size are not used.
	// +optional
	CustomOffering *CustomOffering `json:"customOffering,omitempty" hash:"ignore"`
	// TemplateSelectorTerms select the templates. Of those of one architecture, each zone uses the newest.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	TemplateSelectorTerms []TemplateSelectorTerm `json:"templateSelectorTerms" hash:"ignore"`
	// UserData is handed to the machine. With bootstrap mode Custom it is a Go template of the values that docs/BOOTSTRAP.md lists, and
	// all that the machine is told; with the other modes it runs before the machine joins.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	UserData *string `json:"userData,omitempty"`
	// UserDataSecretRef names a key of a Secret that has what userData would have.
	// +optional
	UserDataSecretRef *SecretKeyReference `json:"userDataSecretRef,omitempty"`
	// Bootstrap says how machines join the cluster. Default: mode Custom.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`
	// Kubelet configures the kubelet, and tells the scheduler what it keeps for itself.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`
	// RootDisk is the disk that the template is copied to.
	// +optional
	RootDisk *RootDisk `json:"rootDisk,omitempty"`
	// DataDisks are created with a machine, and deleted with it. Nothing of them is reckoned with: ephemeral storage is that of the root
	// disk. Where userData puts /var/lib/kubelet on one, nodes have more of it than pods are promised.
	// +kubebuilder:validation:MaxItems=6
	// +optional
	DataDisks []DataDisk `json:"dataDisks,omitempty"`
	// SSHKeyPairs are the names of key pairs whose keys may log in.
	// +kubebuilder:validation:MaxItems=10
	// +listType=set
	// +optional
	SSHKeyPairs []string `json:"sshKeyPairs,omitempty"`
	// SecurityGroupSelectorTerms select security groups, in zones that have them. Machines get all of them.
	// +kubebuilder:validation:MaxItems=30
	// +optional
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms,omitempty" hash:"ignore"`
	// Affinity says which hosts the machines share.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// ProjectID is the id of the project that the machines are in; empty for none.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	// +optional
	ProjectID string `json:"projectID,omitempty"`
	// Account is the account that the machines are in; empty for that of the credentials. Only administrators may name others.
	// +optional
	Account string `json:"account,omitempty"`
	// DomainID is the id of the domain that the account is in.
	// +optional
	DomainID string `json:"domainID,omitempty"`
	// Details are handed to deployVirtualMachine as they are, such as rootDiskController.
	// +kubebuilder:validation:MaxProperties=30
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['cpuNumber', 'cpuSpeed', 'memory']))",message="the size of a machine comes from its offering: use customOffering"
	// +optional
	Details map[string]string `json:"details,omitempty"`
	// Tags are put on machines and their disks. A change is made on machines that run.
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && !k.startsWith('karpenter.sh/') && !k.startsWith('karpenter.k8s.cloudstack/'))",message="keys that begin with karpenter.sh/ or karpenter.k8s.cloudstack/ tell whose a machine is, and cannot be set"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].size() > 0)",message="CloudStack takes no empty value of a tag"
	// +optional
	Tags map[string]string `json:"tags,omitempty" hash:"ignore"`
	// Pricing tells what machines cost. CloudStack knows no prices; without it, what an offering costs follows from its size.
	// +optional
	Pricing *Pricing `json:"pricing,omitempty" hash:"ignore"`
	// CapacityTypeRules tell which offerings are spot or reserved; all others are on-demand. The first rule that fits counts.
	// CloudStack itself has no spot market: this is for host tags whose machines may be taken away.
	// +kubebuilder:validation:MaxItems=30
	// +optional
	CapacityTypeRules []CapacityTypeRule `json:"capacityTypeRules,omitempty" hash:"ignore"`
	// ExpungeOnDelete has machines expunged at once when they are deleted, so that their names and addresses are free. Where the
	// credentials may not expunge, machines are destroyed, and CloudStack expunges them later. Default: true.
	// +optional
	ExpungeOnDelete *bool `json:"expungeOnDelete,omitempty" hash:"ignore"`
}

// NetworkSelectorTerm selects networks.
//
// +kubebuilder:validation:XValidation:rule="has(self.id) || has(self.name) || has(self.tags) || has(self.type) || has(self.vpcID)",message="a term needs a field"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.name) || has(self.tags) || has(self.type) || has(self.vpcID))",message="an id goes alone"
type NetworkSelectorTerm struct {
	// ID is the id of a network.
	// +kubebuilder:validation:MinLength=1
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of a network.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// Tags are tags that a network has; the value * is for any.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Type is the guest type.
	// +kubebuilder:validation:Enum={Isolated,Shared,L2}
	// +optional
	Type string `json:"type,omitempty"`
	// VPCID is the id of the VPC that a network is a tier of.
	// +kubebuilder:validation:MinLength=1
	// +optional
	VPCID string `json:"vpcID,omitempty"`
}

// ServiceOfferingSelectorTerm selects service offerings.
//
// +kubebuilder:validation:XValidation:rule="has(self.id) || has(self.name) || has(self.nameRegex) || has(self.tags) || has(self.hostTags) || has(self.cpu) || has(self.memoryMiB) || has(self.gpu)",message="a term needs a field"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.name) || has(self.nameRegex) || has(self.tags) || has(self.hostTags) || has(self.cpu) || has(self.memoryMiB) || has(self.gpu))",message="an id goes alone"
type ServiceOfferingSelectorTerm struct {
	// ID is the id of an offering.
	// +kubebuilder:validation:MinLength=1
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of an offering.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// NameRegex is a regular expression (RE2) that the whole name of an offering matches.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	NameRegex string `json:"nameRegex,omitempty"`
	// Tags are what an offering is marked with. CloudStack has no tags for offerings: a tag is a detail of the offering with that key
	// and value, or a host tag that is spelled key=value; the value * is for any.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// HostTags are host tags that an offering has, all of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=set
	// +optional
	HostTags []string `json:"hostTags,omitempty"`
	// CPU bounds the number of virtual CPUs.
	// +optional
	CPU *Range `json:"cpu,omitempty"`
	// MemoryMiB bounds the memory in MiB.
	// +optional
	MemoryMiB *Range `json:"memoryMiB,omitempty"`
	// GPU selects offerings with GPUs (true) or without (false).
	// +optional
	GPU *bool `json:"gpu,omitempty"`
}

// Range bounds a number, both bounds included.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min is greater than max"
type Range struct {
	// Min is the smallest that fits; no bound when it is absent.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Min *int64 `json:"min,omitempty"`
	// Max is the greatest that fits; no bound when it is absent.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Max *int64 `json:"max,omitempty"`
}

// CustomOffering is a grid of sizes: each number of CPUs with each memory for a CPU.
type CustomOffering struct {
	// CPUs are numbers of virtual CPUs.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=1024
	// +listType=set
	CPUs []int32 `json:"cpus"`
	// MemoryMiBPerCPU are amounts of memory for each CPU, in MiB.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:Minimum=128
	// +kubebuilder:validation:items:Maximum=1048576
	// +listType=set
	MemoryMiBPerCPU []int32 `json:"memoryMiBPerCPU"`
	// CPUSpeedMHz is the clock of each CPU in MHz, for offerings that want it said. Default: 1000.
	// +kubebuilder:validation:Minimum=100
	// +optional
	CPUSpeedMHz *int32 `json:"cpuSpeedMHz,omitempty"`
}

// TemplateSelectorTerm selects templates.
//
// +kubebuilder:validation:XValidation:rule="has(self.id) || has(self.name) || has(self.nameRegex) || has(self.tags)",message="a term needs id, name, nameRegex or tags"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.name) || has(self.nameRegex) || has(self.tags) || has(self.architecture))",message="an id goes alone"
type TemplateSelectorTerm struct {
	// ID is the id of a template.
	// +kubebuilder:validation:MinLength=1
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of a template.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// NameRegex is a regular expression (RE2) that the whole name of a template matches.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	NameRegex string `json:"nameRegex,omitempty"`
	// Tags are tags that a template has; the value * is for any.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Architecture is that of the template. CloudStack before 4.20 does not tell it: such templates are taken for amd64.
	// +kubebuilder:validation:Enum={amd64,arm64}
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// SecurityGroupSelectorTerm selects security groups.
//
// +kubebuilder:validation:XValidation:rule="has(self.id) || has(self.name) || has(self.tags)",message="a term needs a field"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.name) || has(self.tags))",message="an id goes alone"
type SecurityGroupSelectorTerm struct {
	// ID is the id of a security group.
	// +kubebuilder:validation:MinLength=1
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of a security group.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// Tags are tags that a security group has; the value * is for any.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// SecretKeyReference names a key of a Secret.
type SecretKeyReference struct {
	// Namespace is the namespace of the Secret; empty for that of the controller.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key is the key in it. Default: that which the field names.
	// +optional
	Key string `json:"key,omitempty"`
}

// BootstrapMode is a way in which machines join a cluster.
//
// +kubebuilder:validation:Enum={Custom,Kubeadm,K3s,RKE2}
type BootstrapMode string

// The ways in which machines join a cluster.
const (
	// BootstrapCustom leaves all to userData.
	BootstrapCustom BootstrapMode = "Custom"
	// BootstrapKubeadm has `kubeadm join` run.
	BootstrapKubeadm BootstrapMode = "Kubeadm"
	// BootstrapK3s starts the agent of K3s.
	BootstrapK3s BootstrapMode = "K3s"
	// BootstrapRKE2 starts the agent of RKE2.
	BootstrapRKE2 BootstrapMode = "RKE2"
)

// Bootstrap says how machines join the cluster.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Custom' || has(self.endpoint)",message="the endpoint of the cluster is needed"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Custom' || has(self.tokenSecretRef) || (has(self.mintToken) && self.mintToken)",message="a token is needed: set tokenSecretRef or mintToken"
// +kubebuilder:validation:XValidation:rule="!(has(self.mintToken) && self.mintToken) || self.mode == 'Kubeadm' || self.mode == 'Custom'",message="mintToken makes bootstrap tokens of kubeadm"
// +kubebuilder:validation:XValidation:rule="!(has(self.mintToken) && self.mintToken && has(self.tokenSecretRef))",message="set tokenSecretRef or mintToken, not both"
type Bootstrap struct {
	// Mode is how machines join.
	// +kubebuilder:default=Custom
	Mode BootstrapMode `json:"mode,omitempty"`
	// Endpoint is where the API server is: host:port for Kubeadm, a URL such as https://10.0.0.10:6443 for K3s and https://…:9345 for
	// RKE2.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// CABundle is the certificate authority of the API server in PEM, base64 encoded. Kubeadm checks the hash of its key.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
	// TokenSecretRef names the Secret with the token by which machines join. Default of key: token.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
	// MintToken has a bootstrap token made for each machine, which is deleted when the machine has joined, and expires in an hour.
	// +optional
	MintToken *bool `json:"mintToken,omitempty"`
}

// KubeletConfiguration configures the kubelet.
type KubeletConfiguration struct {
	// MaxPods is how many pods a node runs at most. Default: 110.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// KubeReserved is kept for the kubelet and the container runtime. Default: what GKE keeps for a machine of that size.
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",message="cpu, memory, ephemeral-storage and pid can be kept"
	// +optional
	KubeReserved map[string]string `json:"kubeReserved,omitempty"`
	// SystemReserved is kept for the system. Default: nothing.
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",message="cpu, memory, ephemeral-storage and pid can be kept"
	// +optional
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
	// EvictionHard are the amounts below which pods are evicted, such as memory.available: 100Mi or 5%. Thresholds that are not named
	// have the defaults of the kubelet: memory.available 100Mi, nodefs.available 10%, and those of images and inodes.
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])",message="this is no signal of the kubelet"
	// +optional
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
	// ClusterDNS are the addresses of the DNS servers of the cluster.
	// +kubebuilder:validation:MaxItems=3
	// +optional
	ClusterDNS []string `json:"clusterDNS,omitempty"`
}

// RootDisk is the disk that the template is copied to.
type RootDisk struct {
	// SizeGiB is its size in GiB, where its offering leaves it open: CloudStack holds to the size of an offering, whatever is asked for.
	// Default: that of the template.
	// +kubebuilder:validation:Minimum=1
	// +optional
	SizeGiB *int64 `json:"sizeGiB,omitempty"`
	// DiskOfferingID is the id, or the name, of a disk offering that takes the place of that of the service offering. One without a size
	// of its own needs sizeGiB.
	// +optional
	DiskOfferingID string `json:"diskOfferingID,omitempty"`
}

// DataDisk is a further disk.
type DataDisk struct {
	// DiskOfferingID is the id, or the name, of its disk offering.
	// +kubebuilder:validation:MinLength=1
	DiskOfferingID string `json:"diskOfferingID"`
	// SizeGiB is its size in GiB, for disk offerings without one.
	// +kubebuilder:validation:Minimum=1
	// +optional
	SizeGiB *int64 `json:"sizeGiB,omitempty"`
}

// AffinityMode says which hosts machines share.
//
// +kubebuilder:validation:Enum={None,AntiAffinity,SoftAntiAffinity,Group}
type AffinityMode string

// The ways in which machines share hosts.
const (
	// AffinityNone leaves it to CloudStack.
	AffinityNone AffinityMode = "None"
	// AffinityAnti has no two machines of a NodePool on one host: there are no more machines than hosts.
	AffinityAnti AffinityMode = "AntiAffinity"
	// AffinitySoftAnti has two machines of a NodePool on one host only where there is no other.
	AffinitySoftAnti AffinityMode = "SoftAntiAffinity"
	// AffinityGroup puts machines into affinity groups that exist.
	AffinityGroup AffinityMode = "Group"
)

// Affinity says which hosts the machines share.
//
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Group') == (has(self.groupIDs) && size(self.groupIDs) > 0)",message="groupIDs go with mode Group"
type Affinity struct {
	// Mode is how hosts are shared.
	// +kubebuilder:default=None
	Mode AffinityMode `json:"mode,omitempty"`
	// GroupIDs are the ids of affinity groups.
	// +kubebuilder:validation:MaxItems=10
	// +listType=set
	// +optional
	GroupIDs []string `json:"groupIDs,omitempty"`
}

// Pricing tells what an hour of a machine costs, in any currency: only the proportions count.
type Pricing struct {
	// CPUHour is the price of one virtual CPU. Default: 0.02.
	// +optional
	CPUHour *resource.Quantity `json:"cpuHour,omitempty"`
	// MemoryGiBHour is the price of one GiB of memory. Default: 0.005.
	// +optional
	MemoryGiBHour *resource.Quantity `json:"memoryGiBHour,omitempty"`
	// GPUHour is the price of one GPU. Default: 0.5.
	// +optional
	GPUHour *resource.Quantity `json:"gpuHour,omitempty"`
	// Offerings are prices of whole machines, by the name of the offering.
	// +kubebuilder:validation:MaxProperties=500
	// +optional
	Offerings map[string]resource.Quantity `json:"offerings,omitempty"`
}

// CapacityTypeRule tells of which capacity type offerings are.
type CapacityTypeRule struct {
	// Selector selects offerings.
	Selector ServiceOfferingSelectorTerm `json:"selector"`
	// CapacityType is their karpenter.sh/capacity-type.
	// +kubebuilder:validation:Enum={on-demand,spot,reserved}
	CapacityType string `json:"capacityType"`
}

// Conditions of a CloudStackNodeClass. Ready is true when all of them are.
const (
	// ConditionZonesReady tells whether each zone was found and takes machines.
	ConditionZonesReady = "ZonesReady"
	// ConditionNetworksReady tells whether each zone has a network.
	ConditionNetworksReady = "NetworksReady"
	// ConditionTemplatesReady tells whether each zone has a template that is ready.
	ConditionTemplatesReady = "TemplatesReady"
	// ConditionOfferingsReady tells whether there is a service offering.
	ConditionOfferingsReady = "OfferingsReady"
	// ConditionSecurityGroupsReady tells whether the security groups were found.
	ConditionSecurityGroupsReady = "SecurityGroupsReady"
	// ConditionBootstrapReady tells whether the user data can be rendered, and is not too long.
	ConditionBootstrapReady = "BootstrapReady"
)

// CloudStackNodeClassStatus is what was found for the selectors.
type CloudStackNodeClassStatus struct {
	// Zones are the zones.
	// +optional
	Zones []ZoneStatus `json:"zones,omitempty"`
	// Networks are the networks of the first interface.
	// +optional
	Networks []NetworkStatus `json:"networks,omitempty"`
	// AdditionalNetworks are the networks of the further interfaces.
	// +optional
	AdditionalNetworks []NetworkStatus `json:"additionalNetworks,omitempty"`
	// Templates are the templates in use.
	// +optional
	Templates []TemplateStatus `json:"templates,omitempty"`
	// SecurityGroups are the security groups.
	// +optional
	SecurityGroups []SecurityGroupStatus `json:"securityGroups,omitempty"`
	// OfferingCount is how many service offerings were found.
	// +optional
	OfferingCount int32 `json:"offeringCount,omitempty"`
	// Offerings are the names of the first twenty of them.
	// +optional
	Offerings []string `json:"offerings,omitempty"`
	// Conditions say what is in the way of machines.
	// +optional
	Conditions []status.Condition `json:"conditions,omitempty"`
}

// ZoneStatus is a zone.
type ZoneStatus struct {
	// ID is its id.
	ID string `json:"id"`
	// Name is its name, the value of the label topology.kubernetes.io/zone.
	Name string `json:"name"`
	// SecurityGroupsEnabled tells whether machines in it have security groups.
	// +optional
	SecurityGroupsEnabled bool `json:"securityGroupsEnabled,omitempty"`
}

// NetworkStatus is a network.
type NetworkStatus struct {
	// ID is its id.
	ID string `json:"id"`
	// Name is its name.
	Name string `json:"name"`
	// ZoneID is the id of its zone.
	ZoneID string `json:"zoneID"`
}

// TemplateStatus is a template.
type TemplateStatus struct {
	// ID is its id.
	ID string `json:"id"`
	// Name is its name.
	Name string `json:"name"`
	// ZoneID is the id of the zone that it is used in.
	ZoneID string `json:"zoneID"`
	// Architecture is its architecture, amd64 or arm64.
	Architecture string `json:"architecture"`
}

// SecurityGroupStatus is a security group.
type SecurityGroupStatus struct {
	// ID is its id.
	ID string `json:"id"`
	// Name is its name.
	Name string `json:"name"`
}

// DefaultMaxPods is how many pods a node runs at most where kubelet.maxPods is absent.
const DefaultMaxPods = 110

// ZoneSelectors are the names or ids of the zones.
func (in *CloudStackNodeClass) ZoneSelectors() []string {
	if in.Spec.Zone != "" {
		return []string{in.Spec.Zone}
	}
	return in.Spec.Zones
}

// Expunges tells whether machines are expunged when they are deleted.
func (in *CloudStackNodeClass) Expunges() bool {
	return in.Spec.ExpungeOnDelete == nil || *in.Spec.ExpungeOnDelete
}

// StatusConditions has the conditions, with Ready as their sum.
func (in *CloudStackNodeClass) StatusConditions(options ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions(
		ConditionZonesReady, ConditionNetworksReady, ConditionTemplatesReady, ConditionOfferingsReady, ConditionSecurityGroupsReady,
		ConditionBootstrapReady,
	).For(in, options...)
}

// GetConditions implements status.Object.
func (in *CloudStackNodeClass) GetConditions() []status.Condition { return in.Status.Conditions }

// SetConditions implements status.Object.
func (in *CloudStackNodeClass) SetConditions(conditions []status.Condition) {
	in.Status.Conditions = conditions
}
