package service

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// change is one transaction: what it reads, decides and writes is there as a whole or not at all.
type change struct {
	*Service
	ctx     context.Context
	tx      store.Tx
	actor   string
	request Request
	at      time.Time
	// controllers are read once, when they are needed.
	controllers []store.Controller
	read        bool
	// document is the JSON of what is answered, where there is one.
	document []byte
}

// errDryRun ends a transaction that shall write nothing.
var errDryRun = errors.New("dry run")

// call is a request that writes.
type call struct {
	// actor is who makes it.
	actor string
	// method and message say what it is. A request that carries an Idempotency-Key is known again by them.
	method  string
	message proto.Message
	// dryRun checks everything and writes nothing.
	dryRun bool
}

// transact runs a function in a transaction of its own.
func (s *Service) transact(ctx context.Context, actor string, function func(c *change) error) error {
	request := requestOf(ctx)
	err := s.store.Write(ctx, func(tx store.Tx) error {
		at := tx.Now()
		if s.options.Now != nil {
			at = s.now().Truncate(time.Microsecond)
		}
		return function(&change{Service: s, ctx: ctx, tx: tx, actor: actor, request: request, at: at})
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return s.outcome(ctx, err)
}

// answer runs a function that answers a request, in a transaction of its own. A request whose Idempotency-Key was seen before gets
// the answer that was given then. Fresh makes an empty answer.
func answer[A proto.Message](ctx context.Context, s *Service, call call, fresh func() A, function func(c *change) (A, store.Key, error)) (A, error) {
	var result, none A
	request := requestOf(ctx)
	if err := checkIdempotencyKey(request.IdempotencyKey); err != nil {
		return none, err
	}
	var fingerprint []byte
	if request.IdempotencyKey != "" {
		message, err := proto.MarshalOptions{Deterministic: true}.Marshal(call.message)
		if err != nil {
			return none, s.outcome(ctx, errors.Wrap(err, "hash the request"))
		}
		fingerprint = s.sealer.fingerprint([]byte(call.method), message, []byte(request.IfMatch), []byte(request.IfNoneMatch))
	}
	keyed := request.IdempotencyKey != "" && !call.dryRun
	var document []byte
	err := s.transact(ctx, call.actor, func(c *change) error {
		document = nil
		if keyed {
			saved, err := c.tx.Idempotent(call.actor, request.IdempotencyKey)
			switch {
			case err != nil && !errors.Is(err, store.ErrNotFound):
				return err
			case err == nil && saved.Expires.After(c.tx.Now()):
				if !bytes.Equal(saved.Fingerprint, fingerprint) {
					return fail(ReasonKeyReused, "the Idempotency-Key was used with another request", "use a new key for a new request")
				}
				result = fresh()
				return errors.Wrap(proto.Unmarshal(saved.Answer, result), "read the kept answer")
			}
		}
		made, key, err := function(c)
		if err != nil {
			return err
		}
		result = made
		if call.dryRun {
			return errDryRun
		}
		document = c.document
		if !keyed {
			return nil
		}
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(made)
		if err != nil {
			return errors.Wrap(err, "keep the answer")
		}
		return c.tx.PutIdempotent(store.Idempotent{
			Actor: call.actor, Key: request.IdempotencyKey, Fingerprint: fingerprint, Object: key, Answer: body, Expires: c.tx.Now().Add(IdempotencyTTL),
		})
	})
	if err != nil {
		return none, err
	}
	if document != nil && request.Written != nil {
		request.Written(document)
	}
	return result, nil
}

func checkIdempotencyKey(key string) error {
	if len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return violates("Idempotency-Key", "header", "must be 1 to 255 printable ASCII characters")
	}
	return nil
}

// load reads an object as the transaction sees it.
func (c *change) load(key store.Key) (*object, error) {
	record, err := c.record(key)
	if err != nil {
		return nil, err
	}
	return decode(record)
}

// record reads the record of an object as the transaction sees it.
func (c *change) record(key store.Key) (store.Record, error) {
	record, err := c.tx.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		return record, notFound(key.Kind)
	}
	return record, err
}

// put writes an object at this transaction's revision.
func (c *change) put(o *object, owner string) error {
	record, err := o.toRecord(owner, c.tx.Revision())
	if err != nil {
		return err
	}
	if err := c.tx.Put(record); err != nil {
		return err
	}
	record.Revision = c.tx.Revision()
	o.record = record
	return nil
}

// event tells of what became of an object.
func (c *change) event(o *object, what, text string) error {
	return c.tx.Event(store.Event{
		Type: string(o.Kind) + "." + what, Time: c.at, Actor: c.actor, Object: o.Key, ClusterID: o.clusterID(), Owner: o.record.Owner,
		Platform: o.platform(), Generation: o.resource().GetGeneration(), Text: plainText(text), Document: o.record.Document,
	})
}

// plainText leaves out what no database keeps in a text: controllers write what they like.
func plainText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "")
}

// audit keeps who did what to an object.
func (c *change) audit(o *object, action string, before, after []byte) error {
	return c.tx.Audit(store.AuditEntry{
		Time: c.at, Actor: c.actor, Action: action, Resource: string(o.Kind), ObjectID: o.ID,
		Before: string(before), After: string(after), RequestID: plainText(c.request.ID),
	})
}

// enqueue has an object worked on, where this service does the work.
func (c *change) enqueue(o *object) error {
	if c.options.Provisioned[o.platform()] == "" {
		return nil
	}
	return c.tx.Enqueue(o.Key, time.Time{})
}
