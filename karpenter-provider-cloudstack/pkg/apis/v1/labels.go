package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Labels of nodes, which NodePools and pods may require. Their values are derived from the service offering of an instance, and from
// its template; a label is left out where CloudStack does not tell its value.
const (
	// LabelInstanceCPU is the number of virtual CPUs.
	LabelInstanceCPU = Group + "/instance-cpu"
	// LabelInstanceCPUSpeed is the clock of one virtual CPU in MHz.
	LabelInstanceCPUSpeed = Group + "/instance-cpu-speed"
	// LabelInstanceMemory is the memory of the offering in MiB, before what is lost to the hypervisor and the kernel.
	LabelInstanceMemory = Group + "/instance-memory"
	// LabelInstanceGPUCount is the number of GPUs.
	LabelInstanceGPUCount = Group + "/instance-gpu-count"
	// LabelInstanceGPUName is the name of the GPU card, in the form that labels allow.
	LabelInstanceGPUName = Group + "/instance-gpu-name"
	// LabelServiceOfferingID is the id of the service offering.
	LabelServiceOfferingID = Group + "/service-offering-id"
	// LabelNodeClass is the name of the CloudStackNodeClass.
	LabelNodeClass = Group + "/cloudstacknodeclass"
)

// Annotations of NodeClaims and CloudStackNodeClasses.
const (
	// AnnotationNodeClassHash is the hash of the fields of the CloudStackNodeClass that a machine cannot change during its life.
	AnnotationNodeClassHash = Group + "/cloudstacknodeclass-hash"
	// AnnotationNodeClassHashVersion is the version of the way in which the hash is made. Hashes of different versions are not
	// compared: an upgrade of the provider replaces no machine.
	AnnotationNodeClassHashVersion = Group + "/cloudstacknodeclass-hash-version"
	// AnnotationInstanceTagged tells that the tags of the instance have been written, "true" or absent.
	AnnotationInstanceTagged = Group + "/tagged"
	// AnnotationTemplateID is the id of the template that a machine was made of.
	AnnotationTemplateID = Group + "/template-id"
	// AnnotationNetworkIDs are the ids of the networks of a machine, comma separated, the default network first.
	AnnotationNetworkIDs = Group + "/network-ids"
)

// TerminationFinalizer keeps a CloudStackNodeClass until no NodeClaim uses it.
const TerminationFinalizer = Group + "/termination"

// Keys of the CloudStack tags by which instances and volumes are known as ours. Tags of a CloudStackNodeClass cannot have them.
const (
	// TagManagedBy is the name of the cluster that owns the object.
	TagManagedBy = Group + "/cluster"
	// TagClusterUID is the UID of the kube-system namespace of that cluster: two clusters may have one name.
	TagClusterUID = Group + "/cluster-uid"
	// TagNodeClaim is the name of the NodeClaim.
	TagNodeClaim = "karpenter.sh/nodeclaim"
	// TagNodePool is the name of the NodePool.
	TagNodePool = "karpenter.sh/nodepool"
	// TagNodeClass is the name of the CloudStackNodeClass.
	TagNodeClass = Group + "/cloudstacknodeclass"
)

// Resources that GPUs are requested by.
const (
	ResourceNVIDIAGPU corev1.ResourceName = "nvidia.com/gpu"
	ResourceAMDGPU    corev1.ResourceName = "amd.com/gpu"
	ResourceIntelGPU  corev1.ResourceName = "gpu.intel.com/i915"
)

// Requirements of NodePools on labels that core does not know of never match.
func init() {
	karpv1.RestrictedLabelDomains = karpv1.RestrictedLabelDomains.Insert(Group)
	karpv1.WellKnownLabels = karpv1.WellKnownLabels.Insert(wellKnown.UnsortedList()...)
	karpv1.WellKnownResources = karpv1.WellKnownResources.Insert(ResourceNVIDIAGPU, ResourceAMDGPU, ResourceIntelGPU)
}

// wellKnown are the labels that each instance type has a requirement for.
var wellKnown = sets.New(
	LabelInstanceCPU, LabelInstanceCPUSpeed, LabelInstanceMemory, LabelInstanceGPUCount, LabelInstanceGPUName, LabelServiceOfferingID,
)
