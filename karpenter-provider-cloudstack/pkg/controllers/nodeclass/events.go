package nodeclass

import (
	"fmt"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/events"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// silence is the time for which an event is not published again.
const silence = 30 * time.Minute

// tell publishes an event for each condition that is not true, with what to change, and one when a CloudStackNodeClass becomes ready.
func (c *Controller) tell(stored, nodeClass *csv1.CloudStackNodeClass) {
	for _, condition := range nodeClass.Status.Conditions {
		switch {
		case condition.Type == status.ConditionReady:
			if condition.Status == metav1.ConditionTrue && !wasTrue(stored, condition.Type) {
				c.recorder.Publish(events.Event{
					InvolvedObject: nodeClass, Type: corev1.EventTypeNormal, Reason: "Ready", Message: "Machines can be started",
					DedupeValues: []string{string(nodeClass.UID), condition.LastTransitionTime.String()},
				})
			}
		case condition.Status != metav1.ConditionTrue && condition.Reason != reasonZones:
			c.recorder.Publish(events.Event{
				InvolvedObject: nodeClass, Type: corev1.EventTypeWarning,
				Reason: strings.TrimSuffix(condition.Type, "Ready") + "NotReady", Message: condition.Message,
				DedupeValues: []string{string(nodeClass.UID), condition.Type, condition.Message}, DedupeTimeout: silence,
			})
		}
	}
}

func wasTrue(nodeClass *csv1.CloudStackNodeClass, condition string) bool {
	return lo.ContainsBy(nodeClass.Status.Conditions, func(c status.Condition) bool {
		return c.Type == condition && c.Status == metav1.ConditionTrue
	})
}

func inUse(nodeClass *csv1.CloudStackNodeClass, names []string) events.Event {
	return events.Event{
		InvolvedObject: nodeClass, Type: corev1.EventTypeNormal, Reason: "WaitingOnNodeClaimTermination",
		Message:      fmt.Sprintf("Waits for %d NodeClaims that use it: %s", len(names), describe(names)),
		DedupeValues: []string{string(nodeClass.UID)},
	}
}
