// Package store keeps clusters, node pools and what happened to them, in SQLite or in PostgreSQL.
//
// Every write happens in one transaction: the object, its event, its audit entry and the job that acts on it are all there or
// none is. Each transaction has a revision, one higher than that of the last one that was committed; an object carries the
// revision of its last change, and events are in the order of revisions, without gaps in time: who has seen revision n has seen
// all that came before it.
package store

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

var (
	// ErrNotFound says that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrNameTaken says that another object of the same cluster (a pool) or owner (a cluster) has the name.
	ErrNameTaken = errors.New("the name is taken")
	// ErrIDTaken says that an object of this id exists, or existed.
	ErrIDTaken = errors.New("the id is taken")
	// ErrExpired says that events after the given revision are no longer kept: read anew, then watch from there.
	ErrExpired = errors.New("events of this revision are no longer kept")
)

// Kind is a kind of object.
type Kind string

const (
	// NodePool is a node pool.
	NodePool Kind = "nodepool"
	// Cluster is a cluster.
	Cluster Kind = "cluster"
	// Worker is a process that works on objects: leases alone are of this kind.
	Worker Kind = "worker"
)

// Key names an object.
type Key struct {
	Kind Kind
	ID   string
}

// Record is an object as it is kept: what is looked for in columns, and the object itself twice.
type Record struct {
	Key
	Name      string
	ClusterID string // of a cluster its own id
	Owner     string
	Platform  string
	Phase     string
	Health    string
	// Generation and ObservedGeneration are those of the object.
	Generation, ObservedGeneration int32
	// Revision is set by Put: that of its transaction.
	Revision int64
	// Sequence is the place in the order of creation, set by the first Put.
	Sequence int64
	// Nodes is the most nodes that the spec allows, for quotas.
	Nodes int32
	// Labels are those that lists can be filtered by.
	Labels map[string]string
	// Deleting says that the deletion was asked for.
	Deleting bool
	// NeedsReconcile says that controllers have yet to work on it.
	NeedsReconcile bool
	// Due is when time alone may change the status, or when a look at the cloud is due. Zero is never.
	Due time.Time
	// Message is the object as protobuf, its secrets sealed.
	Message []byte
	// Document is the object as JSON, as it is answered; without secrets.
	Document []byte
}

// Report is what one controller reported last about an object.
type Report struct {
	Controller         string
	ObservedGeneration int32
	// FirstAt is when the controller reported first about this generation; At is when it did last.
	FirstAt, At time.Time
	// Message is the ControllerStatus as protobuf.
	Message []byte
}

// Controller is a registered controller.
type Controller struct {
	Name      string
	Platforms []string
	Version   string
	Clusters  bool
	LastSeen  time.Time
}

// Event is one change of one object.
type Event struct {
	Revision   int64 // set by the store
	Type       string
	Time       time.Time // set by the store when zero
	Actor      string
	Object     Key
	ClusterID  string
	Owner      string
	Platform   string
	Generation int32
	Text       string
	// Document is the object after the change, as JSON without secrets.
	Document []byte
}

// AuditEntry tells who wrote what.
type AuditEntry struct {
	Revision         int64     // set by the store
	Time             time.Time // set by the store when zero
	Actor            string
	Action, Resource string
	ObjectID         string
	Before, After    string // JSON without secrets
	RequestID        string
}

// Webhook is where events are sent.
type Webhook struct {
	ID, URL, Owner string
	Types          []string
	Secret         []byte // sealed
	All            bool   // whether it sees objects of every owner
	CreatedAt      time.Time
	// Delivered is the revision of the last event that was delivered or given up.
	Delivered int64
	LastError string
}

// Idempotent is the answer to a request that carried an Idempotency-Key.
type Idempotent struct {
	Actor, Key string
	// Fingerprint is a hash of the request.
	Fingerprint []byte
	// Object is what the request made.
	Object Key
	// Answer is the answer's body.
	Answer  []byte
	Expires time.Time
}

// Query says which objects a list holds, and in which order.
type Query struct {
	Kind                           Kind
	Owner                          string   // empty: of every owner
	Platforms                      []string // nil: of every platform
	ClusterID, Name, Phase, Health string
	Labels                         map[string]string // exact values
	LabelKeys                      []string          // present, whatever the value
	NeedsReconcile                 bool
	Limit, Offset                  int
	// DocumentsOnly leaves all but Sequence, Revision and Document of the records empty, which takes a third of the time.
	DocumentsOnly bool
	// After is the Sequence that the page before ended with.
	After int64
}

// Page is a part of a list, in the order of creation.
type Page struct {
	Records  []Record
	Total    int
	More     bool
	Revision int64
}

// EventQuery says which events a list holds.
type EventQuery struct {
	Owner, ObjectID, ClusterID string
	Platforms                  []string
	Before                     int64
	Limit                      int
}

// AuditQuery says which entries a list holds.
type AuditQuery struct {
	ObjectID, Actor string
	Before          int64
	Limit           int
}

// Store keeps objects. All methods can be called at the same time. Errors other than those of this package are failures of
// the database, never answers: a read that fails does not mean that something is gone.
type Store interface {
	// Get reads an object, or returns ErrNotFound.
	Get(ctx context.Context, key Key) (Record, error)
	// Document reads an object as Get does, and leaves all but Key, ClusterID, Owner, Platform, Revision and Document empty.
	Document(ctx context.Context, key Key) (Record, error)
	// List reads a page of objects.
	List(ctx context.Context, query Query) (Page, error)
	// Reports reads what controllers reported about an object, by their names.
	Reports(ctx context.Context, key Key) ([]Report, error)
	// Controllers reads the registered controllers, by their names.
	Controllers(ctx context.Context) ([]Controller, error)
	// Events reads past events, the newest first.
	Events(ctx context.Context, query EventQuery) ([]Event, error)
	// EventsAfter reads at most limit events after a revision, the oldest first, all of a revision or none of it; ErrExpired
	// when they are no longer kept.
	EventsAfter(ctx context.Context, revision int64, limit int) ([]Event, error)
	// Changed returns a channel that is closed when there may be events after the revision.
	Changed(revision int64) <-chan struct{}
	// Revision is that of the last transaction.
	Revision(ctx context.Context) (int64, error)
	// Audit reads entries, the newest first.
	Audit(ctx context.Context, query AuditQuery) ([]AuditEntry, error)
	// Webhooks reads all webhooks.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Due reads the keys of at most limit objects whose Due is not after now, the longest due first.
	Due(ctx context.Context, now time.Time, limit int) ([]Key, error)
	// Write runs a function in a transaction and commits it durably before it returns nil. Nothing is written when the function
	// returns an error, which Write returns as it is. The function may run more than once and must not do anything else
	// than call its Tx; transactions run one after the other, in every process on the same database.
	Write(ctx context.Context, function func(tx Tx) error) error
	// Acquire takes the lease of an object for a holder, unless another holder has it and its time is not over. The token rises
	// with every new holder.
	Acquire(ctx context.Context, key Key, holder string, ttl time.Duration) (token int64, ok bool, err error)
	// Renew prolongs a lease; false when it is another's now.
	Renew(ctx context.Context, key Key, token int64, ttl time.Duration) (bool, error)
	// Lease tells who has, or had last, the lease of an object, and until when; ErrNotFound when nobody ever had it. A released
	// lease is over.
	Lease(ctx context.Context, key Key) (holder string, expires time.Time, err error)
	// Release ends a lease.
	Release(ctx context.Context, key Key, token int64) error
	// Prune removes events, audit entries, tombstones and idempotent answers that are older than they are kept.
	Prune(ctx context.Context) error
	// Ping asks the database whether it is there.
	Ping(ctx context.Context) error
	// Close ends all work on the database.
	Close() error
}

// Tx is one transaction.
type Tx interface {
	// Revision is what the transaction will be known by.
	Revision() int64
	// Now is the time of the transaction, the same through all of it, to the microsecond, UTC.
	Now() time.Time
	// Get reads an object as this transaction sees it, or returns ErrNotFound.
	Get(key Key) (Record, error)
	// Put writes an object: ErrNameTaken, ErrIDTaken (also of a removed object, of a first Put). Deleting objects keep their names.
	Put(record Record) error
	// Remove removes an object, its reports and its lease. Its id is not used again; its name may be.
	Remove(key Key) error
	// Pools reads the pools of a cluster, in the order of creation.
	Pools(clusterID string) ([]Record, error)
	// CountOwned counts the objects of an owner.
	CountOwned(kind Kind, owner string) (int, error)
	// NodesOwned sums the Nodes of all objects of an owner.
	NodesOwned(owner string) (int, error)
	// Reports reads what controllers reported about an object, by their names.
	Reports(key Key) ([]Report, error)
	// PutReport keeps a report in the place of the controller's last one.
	PutReport(key Key, report Report) error
	// Controllers reads the registered controllers, by their names.
	Controllers() ([]Controller, error)
	// PutController registers a controller.
	PutController(controller Controller) error
	// DeleteController forgets a controller, or returns ErrNotFound.
	DeleteController(name string) error
	// Event adds an event of this transaction.
	Event(event Event) error
	// Audit adds an entry of this transaction.
	Audit(entry AuditEntry) error
	// Enqueue has an object worked on, not before the given time (zero: now). A job that waits already for the same object does;
	// one that runs does not, as it may have begun before this write.
	Enqueue(key Key, at time.Time) error
	// Idempotent reads the answer of a request, or returns ErrNotFound.
	Idempotent(actor, key string) (Idempotent, error)
	// PutIdempotent keeps the answer of a request.
	PutIdempotent(answer Idempotent) error
	// PutWebhook keeps a webhook.
	PutWebhook(webhook Webhook) error
	// DeleteWebhook removes a webhook, or returns ErrNotFound.
	DeleteWebhook(id string) error
}

// Work does what is due for one object, and says after how long it is to be done again though nothing changes; 0 is never.
// An error has it tried again, later each time.
type Work func(ctx context.Context, key Key) (again time.Duration, err error)
