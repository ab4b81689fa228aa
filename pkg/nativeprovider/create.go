package nativeprovider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// Making is a request that makes an object which must not be made twice, see [Operation.MakeOnce].
type Making struct {
	// Kind of the object in words: "kubernetes cluster".
	Kind string
	// Name is what the object is asked for by. The cloud keeps it unique in Parent.
	Name string
	// Parent is what the name is unique in: a region, the id of a cluster, "" for the account.
	Parent string
	// Find looks for the objects of a name in Parent.
	Find func(ctx context.Context, name string) ([]Found, error)
	// Post sends the request once and returns the id of the new object.
	Post func(ctx context.Context) (id string, err error)
	// Refused tells whether an error of Post says for certain that nothing was made. Any other error leaves it open.
	Refused func(err error) bool
	// Taken tells whether an error of Post says that the name is taken.
	Taken func(err error) bool
	// ImportID is the id in the form that an import takes; nil when that is the id itself.
	ImportID func(id string) string
}

// Found is an object that has the name.
type Found struct {
	// ID of the object.
	ID string
	// State is what the cloud tells of it, as Read returns it. A property that is absent or empty was not told.
	State resource.PropertyMap
	// Created is when the cloud made it, by its own clock; zero when it does not tell.
	Created time.Time
}

// The times around a create. Variables, so that tests need not wait.
var (
	// lostLooks are the pauses before each look for an object whose creation was not answered.
	lostLooks = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	// takenLooks are those for one that must be there, because the cloud says that its name is taken.
	takenLooks = []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 10 * time.Second, 10 * time.Second}
	// lastLook bounds the looks after an operation that was cancelled or timed out.
	lastLook = 15 * time.Second
)

const (
	// sendings is how often a request is sent whose answers are all lost.
	sendings = 3
	// skew is what the clocks of a cloud may differ among one another. Times in answers have whole seconds, too.
	skew = 5 * time.Second
	// longestRequest is how long after it was asked for a cloud may make an object.
	longestRequest = 10 * time.Minute
)

// errAdopt tells Create that the object of an earlier create was found, and its id is in the journal.
var errAdopt = errors.New("the object was made by an earlier create")

// creating is what the create of a resource keeps of itself beyond the death of its process.
type creating struct {
	journal  *journal.Journal
	key      journal.Key
	declared *Resource
	inputs   resource.PropertyMap
	secrets  map[resource.PropertyKey]bool // which inputs are secret
	// entry is what an earlier create has left, nil for nothing.
	entry *journal.Entry
}

// PendingName is the name that an earlier create of the resource, whose process ended, has asked for; "" for none. A name that is made up
// must be this one.
func (o *Operation) PendingName() string {
	if o == nil || o.creating == nil || o.creating.entry == nil {
		return ""
	}
	return o.creating.entry.Name
}

// MakeOnce makes an object that must not be made twice, and returns its id.
//
// An object of the name that was there before is refused: it is not ours. When the answer to the request is lost, the object is looked for
// before the request is sent again. In a create of a resource that has a journal, what is asked for is written there first, and what
// an earlier create of the same resource has left there decides whether an object is ours; docs/reliability.md tells how. A nil operation
// keeps nothing: it is for objects that are a part of a resource.
func (o *Operation) MakeOnce(ctx context.Context, m Making) (string, error) {
	ctx, clock := watchClock(ctx)
	making := &makingOnce{Making: m, op: o}
	if o != nil {
		making.creating = o.creating
	}
	return making.run(ctx, clock)
}

// makingOnce is one call of MakeOnce.
type makingOnce struct {
	Making
	op *Operation
	*creating
	// asked is what was asked for, and may or may not have been carried out.
	asked *journal.Entry
	// doubtful tells that an earlier request may have been carried out.
	doubtful bool
}

func (m *makingOnce) run(ctx context.Context, clock *cloudClock) (string, error) {
	if err := m.goOn(ctx); err != nil {
		return "", err
	}
	name := m.Name
	switch {
	case !m.onlyLooks():
	case m.isEarlier():
		name = m.entry.Name
	default:
		m.lookAgain(ctx, name, append([]time.Duration{0}, lostLooks...)) // reads may be behind
	}
	switch found, err := m.Find(ctx, name); {
	case err != nil:
		return "", errors.Wrapf(err, "look for a %s of the name %s", m.Kind, name)
	case len(found) > 0 && m.doubtful:
		return "", m.judgeEarlier(found)
	case len(found) > 0:
		return "", m.refuse(found[0], "this stack has not made it")
	case m.onlyLooks():
		return "", m.nothing()
	}
	for sending := 1; ; sending++ {
		if err := m.write(clock.last()); err != nil {
			return "", err
		}
		id, err := m.Post(ctx)
		switch {
		case err == nil:
			m.learned(id)
			return id, nil
		case m.Taken(err):
			return m.taken(ctx, err)
		case m.Refused(err) && !m.doubtful:
			m.forget()
			return "", err
		case m.Refused(err):
			return m.refusedInDoubt(ctx, err)
		}
		m.doubtful = true
		if found := m.lookOn(ctx, lostLooks); len(found) > 0 {
			ours, reason := m.ours(found)
			if ours == nil {
				return "", m.refuse(found[0], reason)
			}
			return m.take(ours)
		}
		if sending == sendings || ctx.Err() != nil {
			return "", err
		}
	}
}

// onlyLooks tells whether the request must not be sent: what exists is about to be destroyed.
func (m *makingOnce) onlyLooks() bool { return m.op != nil && m.op.looking != nil }

// nothing is the end of a create that only looks and finds nothing.
func (m *makingOnce) nothing() error {
	m.forget()
	m.op.looking("")
	return errors.Errorf("there is no %s %s that an earlier run has made", m.Kind, m.Name)
}

// goneWith ends a create that only looks and finds not even what the object would be in, such as the cluster of a node pool.
func (o *Operation) goneWith(parent resource.PropertyValue) {
	if c := o.creating; c != nil {
		if c.entry != nil && !parent.DeepEquals(resource.NewStringProperty(c.entry.Parent)) {
			return // it was asked for elsewhere
		}
		if err := c.journal.Remove(c.key); err != nil {
			o.Warn(err.Error())
		}
	}
	o.looking("")
}

// goOn deals with what an earlier create left. It returns errAdopt when that has made the object.
func (m *makingOnce) goOn(ctx context.Context) error {
	if !m.isEarlier() {
		return nil
	}
	earlier := *m.entry
	if earlier.Kind != m.Kind || earlier.Parent != m.Parent {
		if earlier.ID != "" {
			return nil // it was read by its id, and is gone
		}
		m.op.Warn(fmt.Sprintf("%s %s was asked for in %s at %s, and whether it was made is not known: look for it there",
			earlier.Kind, earlier.Name, earlier.Parent, earlier.LastAskedAt.Format(time.RFC3339)))
		return nil
	}
	m.asked, m.doubtful = &earlier, true
	found := m.lookAgain(ctx, earlier.Name, append([]time.Duration{0}, lostLooks...))
	if ctx.Err() != nil {
		return ContextError(ctx)
	}
	if len(found) > 0 {
		return m.judgeEarlier(found)
	}
	if earlier.Name != m.Name {
		m.asked, m.doubtful = nil, false
	}
	return nil
}

// judgeEarlier adopts what an earlier create has made, or refuses it.
func (m *makingOnce) judgeEarlier(found []Found) error {
	ours, reason := m.ours(found)
	if ours == nil {
		if m.asked.ID != "" || m.askedIsKnown() || m.asked.Request == journal.Hash(m.inputs.Mappable()) {
			m.forget() // what was asked for then is not there
		} else {
			reason += ", and what is asked for has changed since; with the inputs of then it may be taken over"
		}
		return m.refuse(found[0], reason)
	}
	m.learned(ours.ID)
	return errAdopt
}

// taken deals with an answer that says that the name is taken although none was there right before: an earlier request was carried out, or
// someone else was faster.
func (m *makingOnce) taken(ctx context.Context, err error) (string, error) {
	looks := takenLooks
	if !m.doubtful {
		looks = lostLooks[:1]
	}
	found := m.lookOn(ctx, looks)
	switch {
	case !m.doubtful && len(found) == 0:
		m.forget()
		return "", errors.Wrapf(err, "a %s of the name %s already exists and is not shown: choose another name, or import it", m.Kind, m.Name)
	case !m.doubtful:
		m.forget()
		return "", m.refuse(found[0], "someone else has made it just now")
	case len(found) == 0:
		return "", errors.Wrapf(err, "a %s of the name %s was asked for before and is not shown yet: run again in a while", m.Kind, m.Name)
	}
	ours, reason := m.ours(found)
	if ours == nil {
		return "", m.refuse(found[0], reason)
	}
	return m.take(ours)
}

// refusedInDoubt deals with a refusal after a request that may have been carried out. The object itself may be the reason, in other words
// than that its name is taken: its range overlaps, or it has used up the quota.
func (m *makingOnce) refusedInDoubt(ctx context.Context, refusal error) (string, error) {
	if found := m.lookOn(ctx, lostLooks); len(found) > 0 {
		if ours, _ := m.ours(found); ours != nil {
			return m.take(ours)
		}
	}
	return "", refusal
}

// take remembers the id of an object that was made by what was asked for. Create goes on with it, unless an earlier one had begun, maybe
// with other inputs.
func (m *makingOnce) take(ours *Found) (string, error) {
	earlier := m.isEarlier()
	m.learned(ours.ID)
	if earlier {
		return "", errAdopt
	}
	return ours.ID, nil
}

// isEarlier tells whether a create before this one has left something.
func (m *makingOnce) isEarlier() bool { return m.creating != nil && m.entry != nil }

// lookOn is lookAgain that goes on for a moment when the operation is cancelled: an object that nobody knows of is worse than a short delay.
func (m *makingOnce) lookOn(ctx context.Context, pauses []time.Duration) []Found {
	beyond, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastLook, cancel) })
	defer stop()
	return m.lookAgain(beyond, m.Name, pauses)
}

// lookAgain looks for objects of the name after each of the pauses, until there are some.
func (m *makingOnce) lookAgain(ctx context.Context, name string, pauses []time.Duration) []Found {
	for _, pause := range pauses {
		if Sleep(ctx, jitter(pause)) != nil {
			return nil
		}
		if found, err := m.Find(ctx, name); err == nil && len(found) > 0 {
			return found
		}
	}
	return nil
}

// ours is the object that was made by what was asked for, nil when none is proven to be; reason then tells why not.
func (m *makingOnce) ours(found []Found) (ours *Found, reason string) {
	for i := range found {
		if reason = m.foreign(found[i]); reason == "" {
			return &found[i], ""
		}
	}
	return nil, reason
}

// foreign tells why an object cannot be what was asked for, "" when it is.
func (m *makingOnce) foreign(found Found) string {
	asked := m.asked
	if asked.ID != "" {
		if found.ID == asked.ID {
			return ""
		}
		return "this resource's own had the id " + asked.ID
	}
	if !found.Created.IsZero() {
		switch {
		case asked.AskedAt.IsZero() && !m.isEarlier():
		case asked.AskedAt.IsZero():
			return "when this stack asked for one is not known"
		case found.Created.Before(asked.AskedAt.Add(-skew)):
			return fmt.Sprintf("it was made at %s, before this stack asked for one at %s",
				found.Created.UTC().Format(time.RFC3339), asked.AskedAt.UTC().Format(time.RFC3339))
		case found.Created.After(asked.LastAskedAt.Add(longestRequest)):
			return fmt.Sprintf("it was made at %s, long after this stack asked for one at %s",
				found.Created.UTC().Format(time.RFC3339), asked.LastAskedAt.UTC().Format(time.RFC3339))
		}
	}
	if m.creating == nil {
		return ""
	}
	diff := m.declared.Compare(found.ID, found.State, m.askedInputs())
	for _, path := range m.declared.Identity {
		if diff.Changed(path) && !isEmpty(at(diff.Old, path)) {
			return "its " + path + " is another than this stack asked for"
		}
	}
	return ""
}

// askedIsKnown tells whether the entry says all by which the object is known again.
func (m *makingOnce) askedIsKnown() bool {
	for _, path := range m.declared.Identity {
		if _, known := m.asked.Attributes[path]; !known {
			return false
		}
	}
	return true
}

// askedInputs are the inputs with what was asked for, which the resource may have changed since.
func (m *makingOnce) askedInputs() resource.PropertyMap {
	inputs := m.inputs
	for path, value := range m.asked.Attributes {
		inputs = with(inputs, path, resource.NewPropertyValue(value))
	}
	return inputs
}

// with is a copy of m with another value at a path of names with dots between.
func with(m resource.PropertyMap, path string, value resource.PropertyValue) resource.PropertyMap {
	copied := m.Copy()
	first, rest, nested := strings.Cut(path, ".")
	if key := resource.PropertyKey(first); nested {
		copied[key] = resource.NewObjectProperty(with(objectOf(copied[key]), rest, value))
	} else {
		copied[key] = value
	}
	return copied
}

// at is the value at a path of names with dots between.
func at(m resource.PropertyMap, path string) resource.PropertyValue {
	first, rest, nested := strings.Cut(path, ".")
	value := m[resource.PropertyKey(first)]
	if !nested {
		return value
	}
	return at(objectOf(value), rest)
}

// refuse is the error about an object that is not ours.
func (m *makingOnce) refuse(found Found, reason string) error {
	where, how := "", "import it"
	if m.Parent != "" {
		where = " in " + m.Parent
	}
	if m.creating != nil {
		urn := m.op.URN
		how = fmt.Sprintf("import it: pulumi import %s %s %s", urn.Type(), urn.Name(), m.importID(found.ID))
	}
	return errors.Errorf("a %s of the name %s already exists%s (id %s), and it is not this resource's (%s): choose another name, or %s",
		m.Kind, m.Name, where, found.ID, reason, how)
}

func (m *makingOnce) importID(id string) string {
	if m.ImportID == nil {
		return id
	}
	return m.ImportID(id)
}

// write puts into the journal what is about to be asked for. now is the time by the cloud's clock.
func (m *makingOnce) write(now time.Time) error {
	entry := journal.Entry{Kind: m.Kind, Name: m.Name, Parent: m.Parent, AskedAt: now, LastAskedAt: now}
	if m.doubtful {
		entry.AskedAt = m.asked.AskedAt
	}
	m.asked = &entry
	if m.creating == nil {
		return nil
	}
	entry.URN, entry.Endpoint, entry.Scope = m.key.URN, m.key.Endpoint, m.key.Scope
	entry.Request = journal.Hash(m.inputs.Mappable())
	entry.Attributes = map[string]any{}
	for _, path := range m.declared.Identity {
		if first, _, _ := strings.Cut(path, "."); !m.secrets[resource.PropertyKey(first)] {
			entry.Attributes[path] = at(m.inputs, path).Mappable()
		}
	}
	return errors.Wrapf(m.journal.Write(entry), "nothing was created, because it could not be remembered that %s %s was asked for", m.Kind, m.Name)
}

// learned adds the id to the journal. The object exists: that it cannot be written is no reason to lose it.
func (m *makingOnce) learned(id string) {
	if m.creating == nil {
		return
	}
	entry := *m.asked
	entry.ID = id
	if importID := m.importID(id); importID != id {
		entry.ImportID = importID
	}
	if err := m.journal.Write(entry); err != nil {
		m.op.Warn(fmt.Sprintf("%s %s was made (id %s), which could not be remembered: %s", m.Kind, m.Name, id, err.Error()))
	}
	m.entry = &entry
}

// forget removes the entry: nothing was made.
func (m *makingOnce) forget() {
	if m.creating == nil {
		return
	}
	if err := m.journal.Remove(m.key); err != nil {
		m.op.Warn(err.Error())
	}
	m.entry = nil
}

// beginCreate looks into the journal for what an earlier create of the resource has left. nil without a journal.
func (p *Provider) beginCreate(
	op *Operation, declared *Resource, inputs resource.PropertyMap, secrets map[resource.PropertyKey]bool,
) (*creating, error) {
	if p.creates == nil {
		return nil, nil
	}
	c := &creating{journal: p.creates, declared: declared, inputs: inputs, secrets: secrets}
	c.key = journal.Key{URN: string(op.URN), Scope: p.spec.JournalScope}
	if cloud, ok := op.Client.(interface{ Endpoint() string }); ok {
		c.key.Endpoint = cloud.Endpoint()
	}
	entry, err := c.journal.Load(c.key)
	if errors.Is(err, journal.ErrDamaged) {
		op.Warn("what an earlier run asked for cannot be read, and what it made will not be taken over: " + err.Error())
		return c, nil
	}
	c.entry = entry
	return c, err
}

// adopt goes on with the object that an earlier create has made: it reads it, and updates it to what the inputs say. done is false when the
// object is not there.
func (p *Provider) adopt(
	ctx context.Context, op *Operation, secrets map[resource.PropertyKey]bool,
) (response plugin.CreateResponse, done bool, err error) {
	declared, inputs, entry := op.creating.declared, op.creating.inputs, op.creating.entry
	seed := inputs.Copy()
	if declared.Parent != "" {
		seed[declared.Parent] = resource.NewStringProperty(entry.Parent)
	}
	id, state, err := declared.Read(ctx, op, entry.ID, seed)
	switch {
	case IsNotFound(err):
		// Reads may be behind: Create looks for it by its name once more, and knows its id.
		return plugin.CreateResponse{}, false, nil
	case state == nil:
		return plugin.CreateResponse{}, true, errors.Wrapf(err, "look at %s %s, which an earlier run has made", entry.Kind, entry.Name)
	}
	// An object that is not ready yet is read with an error: the update waits.
	finished := func(state resource.PropertyMap, from resource.PropertyMap) resource.PropertyMap {
		return declared.finish(fill(declared.Properties, state, from), resource.PropertyMap{metaKey: metaOf(declared)}, secrets, id)
	}
	state = fill(declared.Properties, state, seed)
	if op.looking != nil {
		op.looking(id)
		return plugin.CreateResponse{ID: resource.ID(id), Properties: finished(state, seed), Status: resource.StatusOK}, true, nil
	}
	diff := declared.Compare(id, state, inputs)
	if diff.refusal != nil || diff.Replaces() {
		cause := diff.refusal
		if cause == nil {
			cause = errors.New("the next run replaces it")
		}
		return plugin.CreateResponse{}, true, notReady(id, finished(state, seed), nil, errors.Wrapf(cause,
			"%s %s (id %s) was made by an earlier run, with other inputs than now", entry.Kind, entry.Name, id))
	}
	updated, err := declared.Update(ctx, op, id, state, inputs)
	if err != nil {
		if updated == nil {
			updated = state
		}
		return plugin.CreateResponse{}, true, notReady(id, finished(updated, state), nil, err)
	}
	return plugin.CreateResponse{
		ID: resource.ID(id), Properties: finished(updated, inputs), Status: resource.StatusOK,
	}, true, nil
}

// recorded removes from the journal the create of an object that the engine has recorded.
func (p *Provider) recorded(declared *Resource, urn resource.URN, id resource.ID, state resource.PropertyMap) error {
	if p.creates == nil || id == "" {
		return nil
	}
	return p.creates.Recorded(string(urn), string(id), func(entry journal.Entry) bool {
		return declared.Parent == "" || plainValue(state[declared.Parent]).DeepEquals(resource.NewStringProperty(entry.Parent))
	})
}

// pendingName is the name that an earlier create of the resource has asked for, "" for none. It is for checks, which come before the
// provider knows its cloud.
func (p *Provider) pendingName(urn resource.URN) string {
	if p.creates == nil {
		return ""
	}
	entries, err := p.creates.Entries(string(urn))
	entries = slices.DeleteFunc(entries, func(e journal.Entry) bool { return e.Scope != p.spec.JournalScope })
	if err != nil || len(entries) != 1 {
		return ""
	}
	return entries[0].Name
}

// cloudClock is the time by the clock of a cloud: the Date of its last answer.
type cloudClock struct {
	mu sync.Mutex
	at time.Time
}

type cloudClockKey struct{}

// watchClock is a context whose requests through a [RetryTransport] set the clock.
func watchClock(ctx context.Context) (context.Context, *cloudClock) {
	clock := &cloudClock{}
	return context.WithValue(ctx, cloudClockKey{}, clock), clock
}

func (c *cloudClock) last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// tellClock sets the clock of a request's context, if it has one, to the Date of an answer.
func tellClock(ctx context.Context, answer *http.Response) {
	clock, ok := ctx.Value(cloudClockKey{}).(*cloudClock)
	if !ok {
		return
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		clock.mu.Lock()
		clock.at = at.UTC()
		clock.mu.Unlock()
	}
}
