package nodeclass

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/awslabs/operatorpkg/status"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// Reasons of conditions beside those of the providers.
const (
	// reasonUnavailable: CloudStack or the API server gave no answer.
	reasonUnavailable = "Unavailable"
	// reasonUnauthorized: CloudStack does not take the credentials.
	reasonUnauthorized = "Unauthorized"
	// reasonRejected: CloudStack does not take a request that was made of the specification.
	reasonRejected = "Rejected"
	// reasonZones: what depends on zones waits for them.
	reasonZones = "ZonesNotReady"
	// reasonReady and reasonNotReady are those of Ready.
	reasonReady    = "Ready"
	reasonNotReady = "NotReady"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// maxOfferings is how many offerings the status names.
const maxOfferings = 20

// outcome is what a resolver has found out.
type outcome struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
	message   string
	// again tells that it is not known, and has to be looked at soon.
	again bool
}

// resolve asks the providers, and writes what they find into the status. Where one finds nothing, what it had found before stays: nothing is
// started with it, as Ready is not true, and machines that run are not taken for drifted over a slip of the pen.
func (c *Controller) resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) []outcome {
	found := &nodeClass.Status
	var outcomes []outcome
	run := func(condition string, needsZones bool, resolve func() error) {
		var o outcome
		if needsZones && len(outcomes) > 0 && outcomes[0].status != metav1.ConditionTrue {
			o = outcome{condition: condition, status: metav1.ConditionUnknown, reason: reasonZones}
			o.message = "waits for the zones, see " + csv1.ConditionZonesReady
		} else {
			o = judge(nodeClass, condition, resolve())
		}
		if o.again {
			log.FromContext(ctx).Info("not known whether the CloudStackNodeClass is ready, asking again soon",
				"condition", condition, "message", o.message)
		}
		outcomes = append(outcomes, o)
	}
	run(csv1.ConditionZonesReady, false, func() error {
		zones, err := c.providers.Zones.Resolve(ctx, nodeClass)
		if err == nil {
			found.Zones = zones
		}
		return err
	})
	run(csv1.ConditionNetworksReady, true, func() error {
		first, additional, err := c.providers.Networks.Resolve(ctx, nodeClass, found.Zones)
		if err == nil {
			found.Networks, found.AdditionalNetworks = first, additional
		}
		return err
	})
	run(csv1.ConditionSecurityGroupsReady, true, func() error {
		groups, err := c.providers.Networks.ResolveSecurityGroups(ctx, nodeClass, found.Zones)
		if err == nil {
			found.SecurityGroups = groups
		}
		return err
	})
	run(csv1.ConditionTemplatesReady, true, func() error {
		templates, err := c.providers.Templates.Resolve(ctx, nodeClass, found.Zones)
		if err == nil {
			found.Templates = templates
		}
		return err
	})
	run(csv1.ConditionOfferingsReady, true, func() error {
		offerings, err := c.providers.Offerings.Offerings(ctx, nodeClass)
		if err == nil {
			names := lo.Map(offerings, func(o *cloudstack.ServiceOffering, _ int) string { return o.Name })
			slices.Sort(names)
			found.OfferingCount = int32(len(names)) // a few hundred
			found.Offerings = names[:min(len(names), maxOfferings)]
		}
		return err
	})
	run(csv1.ConditionBootstrapReady, false, func() error { return c.providers.Bootstrap.Check(ctx, nodeClass) })
	return outcomes
}

// judge makes an outcome of an error. What is not known leaves a condition true that was so for this specification: an outage of
// CloudStack makes nothing unready that was ready.
func judge(nodeClass *csv1.CloudStackNodeClass, condition string, err error) outcome {
	o := outcome{condition: condition, status: metav1.ConditionTrue, reason: condition}
	if err == nil {
		return o
	}
	o.status, o.message = metav1.ConditionFalse, shorten(err.Error())
	var renders *bootstrap.Error
	chosen, isSelector := selector.As(err)
	switch {
	case isSelector:
		o.reason, o.message = chosen.Reason, shorten(chosen.Message)
		return o
	case errors.As(err, &renders) && !renders.Transient:
		o.reason, o.message = renders.Reason, shorten(renders.Message)
		return o
	case cloudstack.IsUnauthorized(err):
		o.reason = reasonUnauthorized
		o.message = shorten("CloudStack does not take the credentials, or does not let them do this: " +
			"check the Secret of the controller, and the role of the account: " + err.Error())
		o.again = true
		return o
	case cloudstack.IsBadRequest(err):
		o.reason = reasonRejected
		return o
	}
	before, there := lo.Find(nodeClass.Status.Conditions, func(c status.Condition) bool { return c.Type == condition })
	if there && before.Status == metav1.ConditionTrue && before.ObservedGeneration == nodeClass.Generation {
		return outcome{condition: condition, status: metav1.ConditionTrue, reason: before.Reason, message: before.Message, again: true}
	}
	o.status, o.reason, o.again = metav1.ConditionUnknown, reasonUnavailable, true
	if there && before.Status == o.status && before.Reason == o.reason && before.ObservedGeneration == nodeClass.Generation {
		o.message = before.Message // texts of the network differ each time, by a port
	}
	return o
}

// conditions are those of the outcomes, in their order, with Ready as their sum at the end. A condition that is as it was keeps its time,
// so that an unchanged CloudStackNodeClass is not written.
func conditions(stored *csv1.CloudStackNodeClass, outcomes []outcome, now time.Time) []status.Condition {
	ready := outcome{condition: status.ConditionReady, status: metav1.ConditionTrue, reason: reasonReady}
	var wrong []string
	for _, o := range outcomes {
		if o.status == metav1.ConditionTrue || o.reason == reasonZones {
			continue
		}
		if ready.status == metav1.ConditionTrue {
			ready.status, ready.reason = metav1.ConditionUnknown, reasonUnavailable
		}
		if o.status == metav1.ConditionFalse {
			ready.status, ready.reason = metav1.ConditionFalse, reasonNotReady
		}
		wrong = append(wrong, o.condition+": "+o.message)
	}
	ready.message = shorten(strings.Join(wrong, "; "))
	var all []status.Condition
	for _, o := range append(slices.Clone(outcomes), ready) {
		condition := status.Condition{
			Type: o.condition, Status: o.status, Reason: reasonOf(o), Message: o.message,
			ObservedGeneration: stored.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		for _, before := range stored.Status.Conditions {
			if before.Type == condition.Type && before.Status == condition.Status {
				condition.LastTransitionTime = before.LastTransitionTime
			}
		}
		all = append(all, condition)
	}
	return all
}

// reasonOf is a reason of the form that the API takes.
func reasonOf(o outcome) string {
	reason := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, o.reason)
	if reason == "" || unicode.IsDigit(rune(reason[0])) {
		return cmp.Or(o.condition, reasonNotReady)
	}
	return reason
}

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}

func describe(names []string) string {
	const shown = 5
	slices.Sort(names)
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
