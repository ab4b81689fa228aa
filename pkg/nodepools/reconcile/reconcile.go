// Package reconcile makes what clusters and node pools of Civo and DigitalOcean want, through the modules of this project: a Pulumi
// stack an object. It reports what it does as every other controller does.
//
// It is level-triggered: a job names an object and nothing else, and what there is to do follows from the object and from what was
// reported about it last. So it does no harm when a job is lost, done twice, or cut short.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// Controllers are the names that this package reports under, by platform.
var Controllers = map[string]string{
	kinds.Civo:         "civo-controller",
	kinds.DigitalOcean: "digitalocean-controller",
}

// Reporter takes reports about objects.
type Reporter interface {
	// Report takes a report, as PUT …/status does.
	Report(ctx context.Context, key store.Key, report *nodepoolsv1.ControllerStatus) error
	// Provisions says whether this process provisions a platform. Others on the same database may provision others.
	Provisions(platform string) bool
}

// Objects are what is read of the store.
type Objects interface {
	Get(ctx context.Context, key store.Key) (store.Record, error)
	Reports(ctx context.Context, key store.Key) ([]store.Report, error)
	List(ctx context.Context, query store.Query) (store.Page, error)
	Acquire(ctx context.Context, key store.Key, holder string, ttl time.Duration) (token int64, ok bool, err error)
	Renew(ctx context.Context, key store.Key, token int64, ttl time.Duration) (bool, error)
	Lease(ctx context.Context, key store.Key) (holder string, expires time.Time, err error)
	Release(ctx context.Context, key store.Key, token int64) error
}

// Options are what a Reconciler is made of.
type Options struct {
	// Objects is the store. Required.
	Objects Objects
	// Reporter takes the reports. Required.
	Reporter Reporter
	// Provisioner makes and takes away. Required.
	Provisioner Provisioner
	// Progress tells what the provisioner is doing. Required.
	Progress *Progress
	// Holder names this process among all workers; unlike that of every other one. Required.
	Holder string
	// DriftInterval is how often a look is taken at what is ready; 10 minutes when 0.
	DriftInterval time.Duration
	// Poll is how soon something is looked at again that waits for something else; 2 seconds when 0.
	Poll time.Duration
	// MaxBackoff is the longest time between two attempts at what fails; 2 minutes when 0. The first is after Poll.
	MaxBackoff time.Duration
	// LeaseTTL is after how long without a sign of life a worker counts as dead; 30 seconds when 0.
	LeaseTTL time.Duration
	// Log is told what goes wrong; the default logger when nil.
	Log *slog.Logger
}

// Reconciler works on one object at a time, and on several side by side.
type Reconciler struct {
	options Options

	mu       sync.Mutex
	attempts map[store.Key]int       // that failed in a row
	looked   map[store.Key]time.Time // when drift was looked for last
	returned map[store.Key]returned  // that are others' to work on
}

// returned says when a job was given back last, and for how long.
type returned struct {
	at   time.Time
	wait time.Duration
}

// New makes a Reconciler.
func New(options Options) *Reconciler {
	if options.DriftInterval == 0 {
		options.DriftInterval = 10 * time.Minute
	}
	if options.Poll == 0 {
		options.Poll = 2 * time.Second
	}
	if options.MaxBackoff == 0 {
		options.MaxBackoff = 2 * time.Minute
	}
	if options.LeaseTTL == 0 {
		options.LeaseTTL = 30 * time.Second
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	return &Reconciler{options: options, attempts: map[store.Key]int{}, looked: map[store.Key]time.Time{}, returned: map[store.Key]returned{}}
}

// Work does what is due for one object; it is a store.Work. When the context ends, what was begun in the cloud is finished and recorded.
func (r *Reconciler) Work(ctx context.Context, key store.Key) (again time.Duration, err error) {
	token, ok, err := r.options.Objects.Acquire(ctx, key, r.options.Holder, r.options.LeaseTTL)
	if err != nil {
		return 0, errors.Wrap(err, "take the lease")
	}
	if !ok {
		// Whoever has it may have begun before what this job is for.
		return r.jitter(r.options.Poll), nil
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		r.keep(ctx, key, token, lost)
	}()
	defer func() {
		lost(nil)
		<-kept
		if err := r.options.Objects.Release(context.WithoutCancel(ctx), key, token); err != nil {
			r.options.Log.Warn("release the lease", "kind", key.Kind, "id", key.ID, "error", err)
		}
	}()

	o, err := r.read(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		r.forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if o == nil {
		return 0, nil
	}
	if !r.options.Reporter.Provisions(o.platform) {
		return r.giveBack(key), nil
	}
	if o.record.Deleting {
		again, err = r.delete(ctx, o)
	} else {
		again, err = r.apply(ctx, o)
	}
	return again, err
}

// errLeaseLost says that another worker took over.
var errLeaseLost = errors.New("the lease was lost")

// keep prolongs a lease until the context ends.
func (r *Reconciler) keep(ctx context.Context, key store.Key, token int64, lost context.CancelCauseFunc) {
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.options.LeaseTTL / 3):
		}
		ok, err := r.options.Objects.Renew(ctx, key, token, r.options.LeaseTTL)
		switch {
		case err == nil && ok:
			last = time.Now()
		case err == nil || time.Since(last) > r.options.LeaseTTL:
			lost(errLeaseLost)
			return
		}
	}
}

// object is what a job is about.
type object struct {
	key        store.Key
	record     store.Record
	controller string
	platform   string
	generation int32
	cluster    *nodepoolsv1.Cluster  // of a pool, the one that it belongs to
	pool       *nodepoolsv1.NodePool // nil of a cluster
	// reported is what was reported last; nil when nothing was.
	reported *nodepoolsv1.ControllerStatus
}

// read reads an object; nil when it is not one of a platform that this package provisions.
func (r *Reconciler) read(ctx context.Context, key store.Key) (*object, error) {
	record, err := r.options.Objects.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	controller, ok := Controllers[record.Platform]
	if !ok {
		return nil, nil
	}
	o := &object{key: key, record: record, controller: controller, platform: record.Platform, generation: record.Generation}
	if key.Kind == store.Cluster {
		o.cluster, err = unmarshal(record.Message, &nodepoolsv1.Cluster{})
	} else {
		o.pool, err = unmarshal(record.Message, &nodepoolsv1.NodePool{})
	}
	if err != nil {
		return nil, err
	}
	o.reported, err = r.report(ctx, key, controller)
	return o, err
}

// report reads what a controller reported last, nil when it never did.
func (r *Reconciler) report(ctx context.Context, key store.Key, controller string) (*nodepoolsv1.ControllerStatus, error) {
	reports, err := r.options.Objects.Reports(ctx, key)
	if err != nil {
		return nil, errors.Wrap(err, "read the reports")
	}
	for _, report := range reports {
		if report.Controller == controller {
			return unmarshal(report.Message, &nodepoolsv1.ControllerStatus{})
		}
	}
	return nil, nil
}

// manifests are what the object consists of. Waiting says what has to come first, empty when nothing has.
func (r *Reconciler) manifests(ctx context.Context, o *object) (all []*manifest.Manifest, waiting string, err error) {
	if o.pool == nil {
		all, err = clusterManifests(o.cluster)
		return all, "", err
	}
	key := store.Key{Kind: store.Cluster, ID: o.record.ClusterID}
	record, err := r.options.Objects.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "the cluster does not exist any more", nil
	}
	if err != nil {
		return nil, "", errors.Wrap(err, "read the cluster")
	}
	if o.cluster, err = unmarshal(record.Message, &nodepoolsv1.Cluster{}); err != nil {
		return nil, "", err
	}
	report, err := r.report(ctx, key, o.controller)
	if err != nil {
		return nil, "", err
	}
	cloudID := report.GetMetadata().GetFields()[metadataCloudID].GetStringValue()
	if cloudID == "" {
		return nil, fmt.Sprintf("cluster %q is not there yet", o.cluster.GetName()), nil
	}
	all, err = poolManifests(o.cluster, o.pool, cloudID)
	return all, "", err
}

// The fields of the metadata that this package reports.
const (
	metadataCloudID      = "cloud_id"
	metadataName         = "name"
	metadataPlatform     = "platform"
	metadataRegion       = "region"
	metadataActiveNodes  = "active_nodes"
	metadataReadyNodes   = "ready_nodes"
	metadataDesiredNodes = "desired_nodes"
)

// engineStarts is what is told of an operation before its engine says more.
const engineStarts = "the engine starts"

// apply makes the cloud what the spec says, or looks for drift where it is already.
func (r *Reconciler) apply(ctx context.Context, o *object) (time.Duration, error) {
	all, waiting, err := r.manifests(ctx, o)
	if err != nil {
		return 0, err
	}
	if waiting != "" {
		r.tell(ctx, o, report{ready: statusFalse, progressing: statusTrue, reason: "WaitingForCluster", message: waiting})
		return r.jitter(r.options.Poll), nil
	}
	drifted := conditionOf(o.reported, conditionDrifted).GetStatus() == statusTrue
	if o.isMade() {
		return r.lookForDrift(ctx, o, all)
	}

	verb := "Updating"
	if o.reported.GetMetadata().GetFields()[metadataCloudID].GetStringValue() == "" {
		verb = "Creating"
	}
	begun := report{ready: statusFalse, progressing: statusTrue, reason: verb, message: engineStarts}
	r.tell(ctx, o, begun)
	if drifted {
		// The state says otherwise than the cloud, and an update would go by the state.
		if _, err := r.follow(ctx, o, all, begun, r.options.Provisioner.Refresh); err != nil {
			return r.failed(ctx, o, all, err)
		}
	}
	results, err := r.follow(ctx, o, all, begun, r.options.Provisioner.Up)
	if err != nil {
		return r.failed(ctx, o, all, err)
	}
	r.succeeded(o.key)
	r.look(o.key, time.Now())
	details, outputs := detailsOf(o, results)
	done := report{ready: statusTrue, progressing: statusFalse, drifted: statusFalse, reason: "Provisioned", details: details}
	done.message = "the cluster is active"
	if o.pool != nil {
		done.reason, done.message = "NodesReady", fmt.Sprintf("%d nodes are ready", len(outputs.nodes))
	}
	if err := r.send(ctx, o, done); err != nil {
		return 0, err
	}
	return r.jitter(r.options.DriftInterval), nil
}

// isMade tells whether the cloud was made what the object says, by what was reported last. A new name is no new generation, and is to be
// made all the same.
func (o *object) isMade() bool {
	return o.reported.GetObservedGeneration() == o.generation && conditionOf(o.reported, conditionReady).GetStatus() == statusTrue &&
		o.reported.GetMetadata().GetFields()[metadataName].GetStringValue() == o.name()
}

func (o *object) name() string {
	if o.pool != nil {
		return o.pool.GetName()
	}
	return o.cluster.GetName()
}

// delete takes away what there is of the object in the cloud.
func (r *Reconciler) delete(ctx context.Context, o *object) (time.Duration, error) {
	if o.pool == nil {
		pools, err := r.options.Objects.List(ctx, store.Query{Kind: store.NodePool, ClusterID: o.record.ID, Limit: 1})
		if err != nil {
			return 0, errors.Wrap(err, "list the cluster's node pools")
		}
		if pools.Total > 0 {
			r.tell(ctx, o, report{
				ready: statusFalse, deleting: statusTrue, reason: "WaitingForNodePools", message: fmt.Sprintf("%d node pools are there still", pools.Total),
			})
			return r.jitter(r.options.Poll), nil
		}
	}
	all, waiting, err := r.manifests(ctx, o)
	if err != nil {
		return 0, err
	}
	if waiting != "" && o.reported.GetMetadata().GetFields()[metadataCloudID].GetStringValue() == "" {
		// Without a cluster nothing of the pool was ever begun: its stack takes the cluster's id.
		return 0, r.send(ctx, o, report{ready: statusFalse, deleted: statusTrue, reason: "NothingMade", message: "nothing was made"})
	}
	if waiting != "" {
		if all, err = poolManifests(o.cluster, o.pool, o.reported.GetMetadata().GetFields()[metadataClusterCloudID].GetStringValue()); err != nil {
			return 0, err
		}
	}
	begun := report{ready: statusFalse, deleting: statusTrue, reason: "Deleting", message: engineStarts}
	r.tell(ctx, o, begun)
	if _, err := r.follow(ctx, o, all, begun, r.options.Provisioner.Destroy); err != nil {
		return r.failed(ctx, o, all, err)
	}
	r.forget(o.key)
	return 0, r.send(ctx, o, report{ready: statusFalse, deleted: statusTrue, reason: "Deleted", message: "nothing is left in the cloud"})
}

// operation is one of a Provisioner's.
type operation func(context.Context, []*manifest.Manifest) ([]*provision.Result, error)

// follow does an operation, and reports what it waits for meanwhile.
func (r *Reconciler) follow(
	ctx context.Context, o *object, all []*manifest.Manifest, begun report, do operation,
) ([]*provision.Result, error) {
	stop := r.options.Progress.follow(all, func(message string) {
		begun.message = message
		r.tell(ctx, o, begun)
	})
	defer stop()
	return do(ctx, all)
}

// failed reports why an operation failed, and when it is tried again.
func (r *Reconciler) failed(ctx context.Context, o *object, all []*manifest.Manifest, failure error) (time.Duration, error) {
	if cause := context.Cause(ctx); cause != nil {
		// The next one who works on it goes on from here. What was begun was recorded.
		return 0, errors.Wrap(cause, "stopped")
	}
	var again time.Duration
	if provision.KindOf(failure) == provision.Conflict {
		cleared, soon, err := r.clearLocks(ctx, all, failure)
		if err != nil {
			r.options.Log.Warn("clear the locks of dead workers", "kind", o.key.Kind, "id", o.key.ID, "error", err)
		}
		if cleared {
			return time.Millisecond, nil
		}
		again = soon
	}
	if again == 0 {
		again = r.backoff(o.key)
	}
	told := report{ready: statusFalse, progressing: statusTrue, failure: errorOf(failure, time.Now().Add(again))}
	if o.record.Deleting {
		told.deleting, told.progressing = statusTrue, ""
	}
	told.reason, told.message = told.failure.GetErrorCode(), told.failure.GetMessage()
	r.tell(ctx, o, told)
	return again, nil
}

// lookForDrift compares what is ready with the cloud, when it is time to.
func (r *Reconciler) lookForDrift(ctx context.Context, o *object, all []*manifest.Manifest) (time.Duration, error) {
	if left := r.options.DriftInterval - time.Since(r.lookedAt(o.key)); left > 0 {
		return r.jitter(left), nil
	}
	r.look(o.key, time.Now())
	again := r.jitter(r.options.DriftInterval)
	results, err := r.options.Provisioner.PreviewRefresh(ctx, all)
	if err != nil {
		if ctx.Err() != nil {
			return 0, errors.Wrap(context.Cause(ctx), "stopped")
		}
		// What cannot be seen has not drifted: the object stays what it was.
		_, message := words(err)
		return again, r.change(ctx, o, &nodepoolsv1.Condition{Type: conditionDrifted, Status: statusUnknown, Reason: "CannotLook", Message: message})
	}
	drift, nodes := driftOf(o, results)
	condition := &nodepoolsv1.Condition{Type: conditionDrifted, Status: statusFalse, Reason: asDeclared}
	if drift != "" {
		condition.Status, condition.Reason, condition.Message = statusTrue, "DiffersFromCloud", drift
	}
	if nodes >= 0 && o.reported.GetMetadata().GetFields()[metadataReadyNodes].GetNumberValue() != float64(nodes) {
		o.reported = proto.CloneOf(o.reported)
		o.reported.Metadata.Fields[metadataActiveNodes] = structpb.NewNumberValue(float64(nodes))
		o.reported.Metadata.Fields[metadataReadyNodes] = structpb.NewNumberValue(float64(nodes))
		return again, r.replace(ctx, o, condition)
	}
	return again, r.change(ctx, o, condition)
}

// change reports one condition that is otherwise than before, beside the others as they are.
func (r *Reconciler) change(ctx context.Context, o *object, condition *nodepoolsv1.Condition) error {
	before := conditionOf(o.reported, condition.GetType())
	if before.GetStatus() == condition.GetStatus() && before.GetMessage() == condition.GetMessage() {
		return nil
	}
	o.reported = proto.CloneOf(o.reported)
	return r.replace(ctx, o, condition)
}

// replace reports what was reported last with one other condition.
func (r *Reconciler) replace(ctx context.Context, o *object, condition *nodepoolsv1.Condition) error {
	conditions := []*nodepoolsv1.Condition{condition}
	for _, other := range o.reported.GetConditions() {
		if other.GetType() != condition.GetType() {
			conditions = append(conditions, other)
		}
	}
	o.reported.Conditions = conditions
	return errors.Wrap(r.options.Reporter.Report(ctx, o.key, o.reported), "report")
}

// tell reports what goes on, unless that is what was reported last. It is no reason to stop when that fails: the next report says more.
func (r *Reconciler) tell(ctx context.Context, o *object, told report) {
	if same(o.reported, told.status(o)) {
		return
	}
	if err := r.send(ctx, o, told); err != nil && ctx.Err() == nil {
		r.options.Log.Warn("report progress", "kind", o.key.Kind, "id", o.key.ID, "error", err)
	}
}

// same tells whether two reports say the same, whenever they did.
func same(a, b *nodepoolsv1.ControllerStatus) bool {
	timeless := func(report *nodepoolsv1.ControllerStatus) *nodepoolsv1.ControllerStatus {
		report = proto.CloneOf(report)
		report.UpdatedAt = nil
		for _, condition := range report.GetConditions() {
			condition.LastTransitionTime = nil
		}
		slices.SortFunc(report.GetConditions(), func(a, b *nodepoolsv1.Condition) int { return strings.Compare(a.GetType(), b.GetType()) })
		return report
	}
	return a != nil && proto.Equal(timeless(a), timeless(b))
}

// send reports, and keeps of the metadata what was reported before.
func (r *Reconciler) send(ctx context.Context, o *object, told report) error {
	message := told.status(o)
	if err := r.options.Reporter.Report(ctx, o.key, message); err != nil {
		return errors.Wrap(err, "report")
	}
	o.reported = message
	return nil
}

// The conditions and their statuses.
const (
	conditionReady       = "Ready"
	conditionProgressing = "Progressing"
	conditionDrifted     = "Drifted"
	conditionDeleting    = "Deleting"
	conditionDeleted     = "Deleted"

	statusTrue    = "True"
	statusFalse   = "False"
	statusUnknown = "Unknown"

	asDeclared = "AsDeclared"
)

// report is what is reported about an object; conditions that are empty are left out.
type report struct {
	ready, progressing, drifted, deleting, deleted string
	reason, message                                string
	details                                        map[string]any
	failure                                        *nodepoolsv1.ControllerError
}

// status is the report as it is sent.
func (told report) status(o *object) *nodepoolsv1.ControllerStatus {
	message := &nodepoolsv1.ControllerStatus{ControllerName: o.controller, ObservedGeneration: o.generation, LastError: told.failure}
	for _, c := range []struct{ name, status string }{
		{conditionReady, told.ready}, {conditionProgressing, told.progressing},
		{conditionDeleting, told.deleting}, {conditionDeleted, told.deleted},
	} {
		if c.status != "" {
			message.Conditions = append(message.Conditions, &nodepoolsv1.Condition{
				Type: c.name, Status: c.status, Reason: told.reason, Message: cut(told.message),
			})
		}
	}
	if drifted := conditionOf(o.reported, conditionDrifted); drifted != nil && told.drifted == "" {
		message.Conditions = append(message.Conditions, drifted)
	} else if told.drifted != "" {
		message.Conditions = append(message.Conditions, &nodepoolsv1.Condition{Type: conditionDrifted, Status: told.drifted, Reason: asDeclared})
	}
	message.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, value := range o.reported.GetMetadata().GetFields() {
		message.Metadata.Fields[name] = value
	}
	for name, value := range told.details {
		if v, err := structpb.NewValue(value); err == nil {
			message.Metadata.Fields[name] = v
		}
	}
	message.Metadata.Fields[metadataPlatform] = structpb.NewStringValue(o.platform)
	if o.pool != nil {
		message.Metadata.Fields[metadataDesiredNodes] = structpb.NewNumberValue(float64(sizeOf(o.pool.GetSpec()).count))
	}
	return message
}

// cut is a message that a condition has room for.
func cut(message string) string {
	const most = 4000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "…"
}

// conditionOf is a condition of a report, nil when it has none.
func conditionOf(report *nodepoolsv1.ControllerStatus, name string) *nodepoolsv1.Condition {
	for _, condition := range report.GetConditions() {
		if condition.GetType() == name {
			return condition
		}
	}
	return nil
}

// errorOf is what went wrong, for the report.
func errorOf(failure error, again time.Time) *nodepoolsv1.ControllerError {
	kind, message := words(failure)
	told := &nodepoolsv1.ControllerError{
		ErrorType: "System", ErrorCode: "Failed", Message: cut(message), RetryAfter: timestamppb.New(again), Timestamp: timestamppb.Now(),
	}
	switch kind {
	case provision.Invalid, provision.Refused:
		told.ErrorType, told.ErrorCode, told.UserActionable = "Configuration", "Refused", true
	case provision.Credentials:
		told.ErrorCode = "Credentials"
	case provision.Unreachable:
		told.ErrorType, told.ErrorCode = "Transient", "CloudUnreachable"
	case provision.Conflict:
		told.ErrorType, told.ErrorCode = "Transient", "StackLocked"
	case provision.StateTrouble:
		told.ErrorCode = "State"
	case provision.Failed:
		told.ErrorCode, told.UserActionable = "RefusedByCloud", true
		if strings.Contains(strings.ToLower(message), "quota") {
			told.ErrorType = "Quota"
		}
	case provision.NotFound, provision.Canceled:
	}
	var known *provision.Error
	if errors.As(failure, &known) && known.Hint != "" {
		told.Suggestions = []string{known.Hint}
	}
	return told
}

// words are the kind of an error and what it says, without secrets.
func words(failure error) (provision.ErrorKind, string) {
	var known *provision.Error
	if errors.As(failure, &known) {
		return known.Kind, known.Message
	}
	// Errors of other kinds are ours: of files, of processes. They name no secrets, but are of no use to the owner of an object.
	return "", "the service could not do it; its log says why"
}

// jitter is a duration give or take a tenth, so that not everything is due at once.
func (r *Reconciler) jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// backoff is how long to wait after one more failure.
func (r *Reconciler) backoff(key store.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	attempt := min(r.attempts[key], 20)
	r.attempts[key]++
	return r.jitter(min(r.options.Poll<<attempt, r.options.MaxBackoff))
}

// giveBack is how soon an object of a platform that other processes provision is worked on anew: it may well be one of those that takes the
// job then. It is put off more and more as long as it keeps coming back, as it does where no process provisions the platform.
func (r *Reconciler) giveBack(key store.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.returned[key]
	if time.Since(last.at) > 2*last.wait {
		last.wait = 0 // another process had it meanwhile
	}
	wait := min(max(2*last.wait, r.options.Poll), r.options.MaxBackoff)
	r.returned[key] = returned{at: time.Now(), wait: wait}
	return r.jitter(wait)
}

func (r *Reconciler) succeeded(key store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, key)
}

func (r *Reconciler) forget(key store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, key)
	delete(r.looked, key)
	delete(r.returned, key)
}

func (r *Reconciler) look(key store.Key, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked[key] = at
}

func (r *Reconciler) lookedAt(key store.Key) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looked[key]
}
