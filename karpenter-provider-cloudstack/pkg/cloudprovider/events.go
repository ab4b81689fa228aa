package cloudprovider

import (
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"
)

// nodeClassMissing tells that a NodeClaim or a NodePool names a NodeClass that there is not.
func nodeClassMissing(object client.Object, ref *karpv1.NodeClassReference) events.Event {
	name := ""
	if ref != nil {
		name = ref.Name
	}
	return events.Event{
		InvolvedObject: object, Type: corev1.EventTypeWarning, Reason: "NodeClassMissing",
		Message:      "There is no CloudStackNodeClass " + name + ", or it is being deleted: create it, or name another",
		DedupeValues: []string{string(object.GetUID()), name},
	}
}

// launchFailed tells why a machine could not be made. Core has an event of its own where there is no room.
func launchFailed(nodeClaim *karpv1.NodeClaim, err error) []events.Event {
	var e *cloudprovider.CreateError
	if !errors.As(err, &e) {
		return nil
	}
	return []events.Event{{
		InvolvedObject: nodeClaim, Type: corev1.EventTypeWarning, Reason: e.ConditionReason, Message: e.ConditionMessage,
		DedupeValues: []string{string(nodeClaim.UID), e.ConditionReason},
	}}
}
