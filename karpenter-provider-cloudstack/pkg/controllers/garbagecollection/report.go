package garbagecollection

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/events"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

// Values of the labels of metrics.
const (
	kindInstance  = "instance"
	kindVolume    = "volume"
	resultDeleted = "deleted"
	resultFailed  = "failed"
	resultDryRun  = "dry_run"
)

var (
	collected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "garbage_collected_total",
		Help: "Machines and disks without a NodeClaim, by kind (instance, volume) and result (deleted, failed, dry_run).",
	}, []string{"kind", "result"})
	orphans = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "garbage",
		Help: "Machines and disks without a NodeClaim that the last cycle has found, also those that are younger than the grace, by kind.",
	}, []string{"kind"})
	refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "garbage_collection_refused_total",
		Help: "Cycles that deleted nothing because something looked wrong, by reason (identity, living_nodes).",
	}, []string{"reason"})
)

func init() { metrics.Registry.MustRegister(collected, orphans, refused) }

// nodeClassOf stands for the CloudStackNodeClass of a machine: machines are no objects of Kubernetes, and events are about one.
func nodeClassOf(name string) *csv1.CloudStackNodeClass {
	if name == "" {
		name = "unknown"
	}
	return &csv1.CloudStackNodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: csv1.SchemeGroupVersion.String(), Kind: "CloudStackNodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

func found(i *instance.Instance, message string) events.Event {
	return events.Event{
		InvolvedObject: nodeClassOf(i.Tags[csv1.TagNodeClass]), Type: corev1.EventTypeWarning, Reason: "GarbageCollected", Message: message,
		DedupeValues: []string{i.ID, message}, DedupeTimeout: time.Hour,
	}
}

func refusal(nodeClass, message string) events.Event {
	return events.Event{
		InvolvedObject: nodeClassOf(nodeClass), Type: corev1.EventTypeWarning, Reason: "GarbageCollectionRefused", Message: message,
		DedupeValues: []string{nodeClass, message}, DedupeTimeout: 30 * time.Minute,
	}
}
