package store

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/errors"
)

// lookup waits for the document of one object.
type lookup struct {
	id    string
	found Record
	err   error
	done  chan struct{}
}

// lookups of one kind. Those that come while the database is asked are asked for together next: what a read finds was committed before
// it began, so no lookup joins one that has begun.
type lookups struct {
	mutex   sync.Mutex
	waiting []*lookup
	// asking says that somebody asks. A second one would find half as many to read together.
	asking bool
}

// Document reads an object as Get does, and leaves all but Key, ClusterID, Owner, Platform, Revision and Document empty. Documents that
// are asked for at the same time are read together, which takes a fraction of the time.
func (d *DB) Document(ctx context.Context, key Key) (Record, error) {
	group, ok := d.lookups[key.Kind]
	if !ok || valid("the id", key.ID) != nil {
		record, err := d.Get(ctx, key)
		record.Message = nil
		return record, err
	}
	one := &lookup{id: key.ID, done: make(chan struct{})}
	group.mutex.Lock()
	group.waiting = append(group.waiting, one)
	ask := !group.asking
	group.asking = true
	group.mutex.Unlock()
	if ask {
		go d.lookUp(key.Kind, group)
	}
	select {
	case <-one.done:
		return one.found, one.err
	case <-ctx.Done():
		return Record{}, errors.Wrap(ctx.Err(), "read the database")
	}
}

// lookUp asks for what waits, until nothing does.
func (d *DB) lookUp(kind Kind, group *lookups) {
	for {
		runtime.Gosched() // who was answered may ask for the next
		group.mutex.Lock()
		some := group.waiting
		if len(some) > maxLookups {
			some = some[:maxLookups]
		}
		group.waiting = group.waiting[len(some):]
		if len(some) == 0 {
			group.waiting = nil
			group.asking = false
			group.mutex.Unlock()
			return
		}
		group.mutex.Unlock()
		ids := make([]string, len(some))
		for i, one := range some {
			ids[i] = one.id
		}
		found := make(map[string]Record, len(some))
		// The contexts of those who wait end with their requests; those of the others do not.
		ctx, cancel := context.WithTimeout(d.background, batchTimeout)
		err := d.backend.documents(ctx, kind, ids, func(scan scan) error {
			record := Record{Key: Key{Kind: kind}}
			err := scan(&record.ID, &record.ClusterID, &record.Owner, &record.Platform, &record.Revision, &record.Document)
			found[record.ID] = record
			return err
		})
		cancel()
		for _, one := range some {
			record, ok := found[one.id]
			switch {
			case err != nil:
				one.err = err
			case !ok:
				one.err = ErrNotFound
			default:
				one.found = record
			}
			close(one.done)
		}
	}
}

// maxLookups is how many documents are read together at most.
const maxLookups = 32

const documentsStatement = `SELECT id, cluster_id, owner, platform, revision, document FROM objects WHERE kind = ?1 AND id `

// documents reads them by statements for a few numbers of ids, so that they are parsed once.
func (s *sqlite) documents(_ context.Context, kind Kind, ids []string, each func(scan scan) error) error {
	size := 1
	for size < len(ids) {
		size *= 2
	}
	arguments := make([]any, 0, 1+size)
	arguments = append(arguments, string(kind))
	for i := range size {
		arguments = append(arguments, ids[min(i, len(ids)-1)])
	}
	// The driver starts a goroutine for a context that can end.
	return s.query(background, documentsBySize[size], arguments, each)
}

// documentsBySize are the statements for powers of two.
var documentsBySize = func() map[int]string {
	statements := map[int]string{1: documentsStatement + `= ?2`}
	for size := 2; size <= maxLookups; size *= 2 {
		marks := make([]string, size)
		for i := range marks {
			marks[i] = "?" + strconv.Itoa(2+i)
		}
		statements[size] = documentsStatement + "IN (" + strings.Join(marks, ", ") + ")"
	}
	return statements
}()

func (p *postgres) documents(ctx context.Context, kind Kind, ids []string, each func(scan scan) error) error {
	if len(ids) == 1 {
		return p.query(ctx, documentsStatement+`= ?2`, []any{string(kind), ids[0]}, each)
	}
	return p.query(ctx, documentsStatement+`= ANY(?2)`, []any{string(kind), ids}, each)
}
