// Package v1 has the API of the Karpenter provider for Apache CloudStack: the CloudStackNodeClass, the labels of its nodes, and the
// defaults that both have.
//
// +k8s:deepcopy-gen=package
// +groupName=karpenter.k8s.cloudstack
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Group is the API group of the CloudStackNodeClass, and the domain of the labels, annotations and finalizers of this provider.
const Group = "karpenter.k8s.cloudstack"

// SchemeGroupVersion is the group and version of the types of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

// Karpenter core and client-go share one scheme, which is the one that the manager of core uses.
func init() {
	metav1.AddToGroupVersion(scheme.Scheme, SchemeGroupVersion)
	scheme.Scheme.AddKnownTypes(SchemeGroupVersion, &CloudStackNodeClass{}, &CloudStackNodeClassList{})
}
