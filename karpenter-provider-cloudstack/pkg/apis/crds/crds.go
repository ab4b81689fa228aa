// Package crds has the CustomResourceDefinitions that a cluster needs before the provider runs: the CloudStackNodeClass, generated of
// pkg/apis/v1, and those of Karpenter core.
package crds

import (
	_ "embed" // the definition

	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/karpenter/pkg/apis"
)

// CloudStackNodeClassYAML is the definition of the CloudStackNodeClass as the generator wrote it.
//
//go:embed karpenter.k8s.cloudstack_cloudstacknodeclasses.yaml
var CloudStackNodeClassYAML []byte

// All returns the definitions of this provider and of Karpenter core. They are the caller's to change.
func All() []*apiextensionsv1.CustomResourceDefinition {
	all := []*apiextensionsv1.CustomResourceDefinition{object.Unmarshal[apiextensionsv1.CustomResourceDefinition](CloudStackNodeClassYAML)}
	for _, crd := range apis.CRDs {
		all = append(all, crd.DeepCopy())
	}
	return all
}
