package provision

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// sharedFiles are files that two machines reach.
type sharedFiles struct {
	mu    sync.Mutex
	files map[string][]byte
	away  error
}

func (s *sharedFiles) String() string { return "shared" }

func (s *sharedFiles) Read(prefix string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := maps.Clone(s.files)
	maps.DeleteFunc(found, func(name string, _ []byte) bool { return !strings.HasPrefix(name, prefix) })
	return found, s.away
}

func (s *sharedFiles) Write(name string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		s.files[name] = content
	}
	return s.away
}

func (s *sharedFiles) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		delete(s.files, name)
	}
	return s.away
}

// TestSharedBetweenMachines: what one machine was doing when it died, another one finds, though it has a state directory of its own.
func TestSharedBetweenMachines(t *testing.T) {
	t.Parallel()
	shared := &sharedFiles{files: map[string][]byte{}}
	machine := func() *State {
		getenv := func(name string) string {
			return map[string]string{environmentBackend: "s3://states", environmentPassphrase: "x"}[name]
		}
		state, err := OpenState(t.TempDir(), getenv)
		if err != nil {
			t.Fatal(err)
		}
		state.Shared = shared
		return state
	}
	one, two := machine(), machine()
	main := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
	mainToo := main
	mainToo.Stack = "main2" // of which the other's name is the beginning
	entry := journal.Entry{URN: "urn:pulumi:main::civovpc::civo:index/network:Network::network", Kind: "network", Name: "main"}
	for _, identity := range []stackidentity.Identity{mainToo, main} {
		if found, _, err := one.mark(identity); found || err != nil {
			t.Fatalf("a first run of %s found a mark: %t, %v", identity, found, err)
		}
	}
	if err := one.journal().Write(entry); err != nil {
		t.Fatal(err)
	}

	found, unmark, err := two.mark(main)
	if !found || err != nil {
		t.Fatalf("the mark of the other machine was found: %t, %v", found, err)
	}
	asked, err := two.askedFor(main)
	if diff := cmp.Diff([]journal.Entry{entry}, asked); diff != "" || err != nil {
		t.Errorf("what the other machine asked for (-want +got), %v:\n%s", err, diff)
	}
	if asked, err := two.askedFor(mainToo); len(asked) != 0 || err != nil {
		t.Errorf("another stack asked for %v, %v", asked, err)
	}
	if err := two.journal().Remove(entry.Key()); err != nil {
		t.Fatal(err)
	}
	unmark()
	if found, _, err := one.mark(main); found || err != nil {
		t.Errorf("after a run that ended well there is a mark: %t, %v", found, err)
	}
	if asked, err := one.askedFor(main); len(asked) != 0 || err != nil {
		t.Errorf("after it was recorded, the journal has %v, %v", asked, err)
	}

	// What cannot be read or remembered is not begun.
	shared.away = errors.New("no database")
	if _, _, err := two.mark(main); err == nil {
		t.Error("a run begins without a mark")
	}
	if _, err := two.askedFor(main); err == nil {
		t.Error("a journal that cannot be read is an empty one")
	}
	if err := two.journal().Write(entry); err == nil {
		t.Error("an entry that could not be written is one that was")
	}
}

// TestLocksNamed: an operation that was locked out tells who holds the locks, in buckets too.
func TestLocksNamed(t *testing.T) {
	t.Parallel()
	engine := &Engine{options: Options{State: &State{BackendURL: "s3://states"}}, secrets: &redactor{}}
	identity := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"two": {
			"error: the stack is currently locked by 2 lock(s). Either wait\n  s3://states/a.json: created by me@pod-1 (pid 7) at 2026-03-01T12:00:00Z\n" +
				"  s3://states/b.json: created by root@pod-2 (pid 19) at 2026-03-01T12:00:00Z",
			[]string{"process 7 of me on pod-1, since 2026-03-01T12:00:00Z", "process 19 of root on pod-2, since 2026-03-01T12:00:00Z"},
		},
		"nobody's":              {"error: another update is currently in progress", nil},
		"a number that is none": {"the stack is currently locked: created by me@pod-1 (pid 99999999999999999999) at 2026-03-01T12:00:00Z", nil},
		"another failure":       {"error: created by me@pod-1 (pid 7) at 2026-03-01T12:00:00Z", nil},
	} {
		var failure *Error
		if !errors.As(engine.failure(context.Background(), "update", identity, errors.New(test.text), nil, nil), &failure) {
			t.Fatal("no failure")
		}
		var got []string
		for _, lock := range failure.Locks {
			if lock.Holder != Elsewhere {
				t.Errorf("%s: the holder is %s", name, lock.Holder)
			}
			got = append(got, lock.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
