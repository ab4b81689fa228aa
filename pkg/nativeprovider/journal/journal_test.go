package journal

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
)

const urn = "urn:pulumi:dev::shop::civo:index/network:Network::net"

func entry() Entry {
	return Entry{
		URN: urn, Endpoint: "https://api.civo.com", Scope: "here", Kind: "network", Name: "net", Parent: "LON1",
		AskedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), LastAskedAt: time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC),
		Request: Hash(map[string]string{"label": "net"}),
	}
}

func TestAnEntryComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "a", "b")
	j := Open(directory)
	want := entry()
	if found, err := j.Load(want.Key()); found != nil || err != nil {
		t.Fatalf("an empty journal has %v, %v", found, err)
	}
	if err := j.Write(want); err != nil {
		t.Fatal(err)
	}
	want.ID = "1234"
	if err := j.Write(want); err != nil {
		t.Fatal(err)
	}
	found, err := Open(directory).Load(Key{URN: urn, Endpoint: "HTTPS://user:secret@API.civo.com/?token=secret", Scope: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, found); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	for _, other := range []Key{
		{URN: urn + "2", Endpoint: want.Endpoint, Scope: "here"}, {URN: urn, Endpoint: "https://other", Scope: "here"},
		{URN: urn, Endpoint: want.Endpoint, Scope: "there"},
	} {
		if found, err := j.Load(other); found != nil || err != nil {
			t.Errorf("%v has %v, %v", other, found, err)
		}
	}

	names, err := os.ReadDir(directory)
	if err != nil || len(names) != 1 {
		t.Fatalf("%d files, %v, want one", len(names), err)
	}
	for path, mode := range map[string]os.FileMode{directory: 0o700, filepath.Join(directory, names[0].Name()): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s is %v, %v, want %v", path, info.Mode(), err, mode)
		}
	}
}

func TestPasswordsInAnEndpointAreNotWritten(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	secret := entry()
	secret.Endpoint = "https://user:hunter2@api.civo.com?token=hunter2"
	if err := Open(directory).Write(secret); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(content), "hunter2") {
		t.Errorf("%v, %s", err, content)
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	at := func(endpoint, id, importID string) Entry {
		e := entry()
		e.Endpoint, e.ID, e.ImportID = endpoint, id, importID
		return e
	}
	tests := []struct {
		reason  string
		entries []Entry
		id      string
		found   bool
		fails   bool
	}{
		{reason: "nothing was asked for"},
		{reason: "the answer was never learned", entries: []Entry{at("https://a", "", "")}, found: true},
		{reason: "the id is known", entries: []Entry{at("https://a", "1", "")}, id: "1", found: true},
		{reason: "an import takes another form", entries: []Entry{at("https://a", "1", "c:1")}, id: "c:1", found: true},
		{reason: "two clouds", entries: []Entry{at("https://a", "1", ""), at("https://b", "2", "")}, found: true, fails: true},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			j := Open(t.TempDir())
			for _, e := range test.entries {
				if err := j.Write(e); err != nil {
					t.Fatal(err)
				}
			}
			id, found, err := j.ID(urn)
			if id != test.id || found != test.found || (err != nil) != test.fails {
				t.Errorf("%q, %t, %v", id, found, err)
			}
		})
	}
}

func TestURNsAreThoseThatFilesTellOf(t *testing.T) {
	t.Parallel()
	j := Open(filepath.Join(t.TempDir(), "creates"))
	if urns, err := j.URNs(); err != nil || len(urns) != 0 {
		t.Fatalf("a journal without a folder has %v, %v", urns, err)
	}
	first, second, elsewhere, newer, torn := entry(), entry(), entry(), entry(), entry()
	second.URN, newer.URN, torn.URN = urn+"2", urn+"3", urn+"4"
	elsewhere.Scope = "there"
	for _, e := range []Entry{first, second, elsewhere} {
		if err := j.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(filepath.Join(j.String(), first.Key().name()))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		newer.Key().name():           []byte(`{"version":2,"urn":"` + newer.URN + `","name":["of another form"]}`),
		torn.Key().name():            whole[:20],
		first.Key().name() + ".123":  whole, // of a process that was killed
		"copy-" + first.Key().name(): whole,
		"notes.txt":                  nil,
	} {
		if err := os.WriteFile(filepath.Join(j.String(), name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(j.String(), "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	urns, err := j.URNs()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(urns)
	if diff := cmp.Diff([]string{first.URN, second.URN, newer.URN}, urns); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := j.Entries(newer.URN); !errors.Is(err, ErrDamaged) {
		t.Errorf("an entry of another form is not reported to whom it concerns: %v", err)
	}
	if entries, err := j.Entries(second.URN); err != nil || len(entries) != 1 {
		t.Errorf("it is reported to others: %v, %v", entries, err)
	}

	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if urns, err := Open(occupied).URNs(); err == nil {
		t.Errorf("a folder that is a file has %v", urns)
	}
}

func TestOnlyTheRecordedObjectIsForgotten(t *testing.T) {
	t.Parallel()
	known := entry()
	known.ID = "1"
	unknown := entry()
	for _, test := range []struct {
		reason string
		entry  Entry
		id     string
		same   func(Entry) bool
		stays  bool
	}{
		{reason: "recorded", entry: known, id: "1"},
		{reason: "the object that it replaces is recorded", entry: known, id: "0", stays: true},
		{reason: "no id was learned", entry: unknown, id: "", stays: true},
		{reason: "the id is of another parent", entry: known, id: "1", same: func(Entry) bool { return false }, stays: true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			j := Open(t.TempDir())
			if err := j.Write(test.entry); err != nil {
				t.Fatal(err)
			}
			if err := j.Recorded(urn, test.id, test.same); err != nil {
				t.Fatal(err)
			}
			if found, err := j.Load(test.entry.Key()); err != nil || (found != nil) != test.stays {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

func TestATornFileIsDamagedAndCanBeReplaced(t *testing.T) {
	t.Parallel()
	j := Open(t.TempDir())
	e := entry()
	if err := j.Write(e); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.String(), e.Key().normal().name())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole)-2; n += 7 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := j.Load(e.Key()); !errors.Is(err, ErrDamaged) {
			t.Fatalf("of %d bytes: %v, %v", n, found, err)
		}
	}
	if err := j.Write(e); err != nil {
		t.Fatal(err)
	}
	// What a killed process leaves beside it: a file that was not renamed.
	if err := os.WriteFile(path+".123", whole[:9], 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := j.Load(e.Key()); err != nil || found == nil {
		t.Fatalf("%v, %v", found, err)
	}
	if _, found, err := j.ID(urn); err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	if err := j.Remove(e.Key()); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(j.String()); err != nil || len(names) != 0 {
		t.Errorf("left %v, %v", names, err)
	}
	if err := j.Remove(e.Key()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAJournalThatCannotBeWrittenSaysSo(t *testing.T) {
	t.Parallel()
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(occupied, "creates")
	if err := Open(directory).Write(entry()); err == nil || !strings.Contains(err.Error(), directory) {
		t.Errorf("error %v: want one that names %s", err, directory)
	}
	if err := Open(t.TempDir()).Write(Entry{URN: urn}); !errors.Is(err, ErrDamaged) {
		t.Errorf("an entry that could not be read again was written: %v", err)
	}
}

// TestProcessesDoNotTearOneAnother: two processes write one entry again and again while this one reads it.
func TestProcessesDoNotTearOneAnother(t *testing.T) {
	t.Parallel()
	const variable = "PLANTON_TEST_JOURNAL"
	e := entry()
	if directory := os.Getenv(variable); directory != "" {
		for n := range 100 {
			e.ID = strings.Repeat(strconv.Itoa(n%10), 1+n*50)
			if err := Open(directory).Write(e); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	directory := t.TempDir()
	done := make(chan error, 2)
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestProcessesDoNotTearOneAnother$")
		child.Env = append(os.Environ(), variable+"="+directory)
		go func() {
			output, err := child.CombinedOutput()
			done <- errors.Wrap(err, string(output))
		}()
	}
	for running := 2; running > 0; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running--
		default:
			found, err := Open(directory).Load(e.Key())
			if err != nil {
				t.Fatal(err)
			}
			if found != nil && strings.Trim(found.ID, found.ID[:1]) != "" {
				t.Fatalf("a mixture: %s", found.ID)
			}
		}
	}
}

// FuzzDecode: whatever stands in a file, it is an entry that can be written again, or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"urn":"u","endpoint":"e","kind":"network","name":"n","asked_at":"2026-03-01T12:00:00Z","id":"1"}`))
	f.Add([]byte(`{"version":1,"urn":"u","name":"n","import_id":"c:1"}`))
	f.Add([]byte(`{"version":2,"urn":"u","name":"n"}`))
	f.Add([]byte(`{"version":1,"urn":"u","na`))
	f.Add([]byte(``))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, content []byte) {
		decoded, err := decode(content)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		j := Open(t.TempDir())
		if err := j.Write(*decoded); err != nil {
			t.Fatal(err)
		}
		again, err := j.Load(decoded.Key())
		if err != nil || again.Name != decoded.Name || again.ID != decoded.ID || !again.AskedAt.Equal(decoded.AskedAt) {
			t.Fatalf("%+v became %+v, %v", decoded, again, err)
		}
	})
}
