package service

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// object is a node pool or a cluster, whichever is not nil, with its secrets sealed.
type object struct {
	store.Key
	pool    *nodepoolsv1.NodePool
	cluster *nodepoolsv1.Cluster
	// record is the object as it was read, or as it was put last.
	record store.Record
	// shown is the object without its secrets, as it was put last. Nobody changes it before the transaction is over.
	shown resource
	// due and needsReconcile come from evaluating it.
	due            time.Time
	needsReconcile bool
}

// resource is what node pools and clusters have in common.
type resource interface {
	proto.Message
	GetId() string
	GetName() string
	GetGeneration() int32
	GetStatus() *nodepoolsv1.Status
	GetDeletionRequestedAt() *timestamppb.Timestamp
	GetFinalizers() []string
}

func decode(record store.Record) (*object, error) {
	result := &object{Key: record.Key, record: record, due: record.Due, needsReconcile: record.NeedsReconcile}
	if record.Kind == store.Cluster {
		result.cluster = &nodepoolsv1.Cluster{}
	} else {
		result.pool = &nodepoolsv1.NodePool{}
	}
	return result, errors.Wrapf(proto.Unmarshal(record.Message, result.resource()), "read %s %s", record.Kind, record.ID)
}

func (o *object) resource() resource {
	if o.cluster != nil {
		return o.cluster
	}
	return o.pool
}

func (o *object) platform() string {
	if o.cluster != nil {
		return o.cluster.GetSpec().GetPlatform().GetType()
	}
	return o.pool.GetSpec().GetPlatform().GetType()
}

func (o *object) spec() proto.Message {
	if o.cluster != nil {
		return o.cluster.GetSpec()
	}
	return o.pool.GetSpec()
}

func (o *object) clusterID() string {
	if o.cluster != nil {
		return o.cluster.GetId()
	}
	return o.pool.GetClusterId()
}

func (o *object) deleting() bool { return o.resource().GetDeletionRequestedAt() != nil }

func (o *object) setStatus(status *nodepoolsv1.Status) {
	if o.cluster != nil {
		o.cluster.Status = status
	} else {
		o.pool.Status = status
	}
}

func (o *object) setFinalizers(finalizers []string) {
	if o.cluster != nil {
		o.cluster.Finalizers = finalizers
	} else {
		o.pool.Finalizers = finalizers
	}
}

func (o *object) setDeletionRequestedAt(at time.Time) {
	if o.cluster != nil {
		o.cluster.DeletionRequestedAt = timestamppb.New(at)
	} else {
		o.pool.DeletionRequestedAt = timestamppb.New(at)
	}
}

func (o *object) setResourceVersion(version string) {
	if o.cluster != nil {
		o.cluster.ResourceVersion = version
	} else {
		o.pool.ResourceVersion = version
	}
}

// labels are those that lists can be filtered by: the labels of the nodes.
func (o *object) labels() map[string]string {
	if o.pool == nil {
		return nil
	}
	result := maps.Clone(o.pool.GetSpec().GetPlatform().GetGcp().GetLabels())
	if result == nil {
		return o.pool.GetSpec().GetLabels()
	}
	maps.Copy(result, o.pool.GetSpec().GetLabels())
	return result
}

// desiredNodes is how many nodes the spec wants; nil when the load decides.
func (o *object) desiredNodes() *int32 {
	if o.pool == nil || o.pool.GetSpec().GetAutoscaling().GetEnabled() {
		return nil
	}
	return o.pool.GetSpec().NodeCount
}

// nodes is the most nodes that the spec allows.
func (o *object) nodes() int32 {
	if o.cluster != nil {
		platform := o.cluster.GetSpec().GetPlatform()
		return platform.GetCivo().GetDefaultNodePool().GetNodeCount() + platform.GetDigitalocean().GetDefaultNodePool().GetNodeCount()
	}
	if scaling := o.pool.GetSpec().GetAutoscaling(); scaling.GetEnabled() {
		return max(scaling.GetMaxNodes(), o.pool.GetSpec().GetNodeCount())
	}
	return o.pool.GetSpec().GetNodeCount()
}

// removable says whether nothing stands in the way of a deleted object's removal.
func (o *object) removable(pools int) bool {
	return o.deleting() && len(o.resource().GetFinalizers()) == 0 && (o.pool != nil || pools == 0)
}

func (o *object) removeFinalizer(name string) bool {
	before := o.resource().GetFinalizers()
	after := slices.DeleteFunc(slices.Clone(before), func(one string) bool { return one == name })
	o.setFinalizers(after)
	return len(after) < len(before)
}

// toRecord makes the record of an object at a revision.
func (o *object) toRecord(owner string, revision int64) (store.Record, error) {
	o.setResourceVersion(strconv.FormatInt(revision, 10))
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(o.resource())
	if err != nil {
		return store.Record{}, errors.Wrapf(err, "write %s %s", o.Kind, o.ID)
	}
	o.shown = redacted(o.resource())
	document, err := toJSON(o.shown)
	if err != nil {
		return store.Record{}, err
	}
	status := o.resource().GetStatus()
	record := o.record
	record.Key = o.Key
	record.Name = o.resource().GetName()
	record.ClusterID = o.clusterID()
	record.Owner = owner
	record.Platform = o.platform()
	record.Phase = status.GetPhase()
	record.Health = status.GetHealth()
	record.Generation = o.resource().GetGeneration()
	record.ObservedGeneration = status.GetObservedGeneration()
	record.Nodes = o.nodes()
	record.Labels = o.labels()
	record.Deleting = o.deleting()
	record.NeedsReconcile = o.needsReconcile
	record.Due = o.due
	record.Message = message
	record.Document = document
	return record, nil
}

// answerOf is an object as it is answered: message, without its secrets. Of what was put, the JSON is there already.
func answerOf[M proto.Message](c *change, o *object, message M) M {
	shown, ok := o.shown.(M)
	if !ok {
		return redacted(message)
	}
	c.document = o.record.Document
	return shown
}

// toJSON writes a message as compact JSON. Protojson alone spaces its output differently from build to build.
func toJSON(message proto.Message) ([]byte, error) {
	loose, err := protojson.Marshal(message)
	if err != nil {
		return nil, errors.Wrapf(err, "write %s as JSON", message.ProtoReflect().Descriptor().Name())
	}
	var result bytes.Buffer
	result.Grow(len(loose))
	if err := json.Compact(&result, loose); err != nil {
		return nil, errors.Wrap(err, "compact JSON")
	}
	return result.Bytes(), nil
}
