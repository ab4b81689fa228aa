package store_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

var _ journal.Files = (*store.Files)(nil)

// TestFiles: what one process writes, every other one on the database reads.
func TestFiles(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		files, others := open(t, address, store.Options{}).Files(), open(t, address, store.Options{}).Files()
		for name, content := range map[string]string{"a/1": "one", "a/2": "two", "a_/3": "three", "b": "", "a/ü": "\x00\xff"} {
			if err := files.Write(name, []byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := files.Write("b", nil); err != nil {
			t.Errorf("an empty file: %v", err)
		}
		for prefix, want := range map[string]map[string]string{
			"":    {"a/1": "one", "a/2": "two", "a_/3": "three", "b": "", "a/ü": "\x00\xff"},
			"a/":  {"a/1": "one", "a/2": "two", "a/ü": "\x00\xff"},
			"a/2": {"a/2": "two"}, "b": {"b": ""}, "c": {}, "A": {},
		} {
			read, err := others.Read(prefix)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for name, content := range read {
				got[name] = string(content)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files of the prefix %q (-want +got):\n%s", prefix, diff)
			}
		}
		if err := others.Write("a/1", []byte("other")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a/2", "never"} {
			if err := others.Remove(name); err != nil {
				t.Errorf("remove %s: %v", name, err)
			}
		}
		read, err := files.Read("a/")
		if err != nil || string(read["a/1"]) != "other" || len(read) != 2 {
			t.Errorf("after another process wrote, there are %v, %v", slices.Collect(maps.Keys(read)), err)
		}
	})
}

// TestJournalInTheDatabase: what one process asked a cloud for, another one knows.
func TestJournalInTheDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		one, two := journal.On(open(t, address, store.Options{}).Files()), journal.On(open(t, address, store.Options{}).Files())
		entry := journal.Entry{URN: "urn:pulumi:a::b::c::d", Endpoint: "https://api.example.com", Kind: "network", Name: "net", Attributes: map[string]any{"cidr": nil}}
		if err := one.Write(entry); err != nil {
			t.Fatal(err)
		}
		found, err := two.Load(entry.Key())
		if diff := cmp.Diff(&entry, found); diff != "" || err != nil {
			t.Fatalf("what another process wrote (-want +got), %v:\n%s", err, diff)
		}
		entry.ID = "1"
		if err := two.Write(entry); err != nil {
			t.Fatal(err)
		}
		if id, found, err := one.ID(entry.URN); id != "1" || !found || err != nil {
			t.Errorf("the object is %q, %t, %v", id, found, err)
		}
		if err := one.Recorded(entry.URN, "1", nil); err != nil {
			t.Fatal(err)
		}
		if urns, err := two.URNs(); len(urns) != 0 || err != nil {
			t.Errorf("after it was recorded there is %v, %v", urns, err)
		}
	})
}

// TestFilesOfAClosedDatabase: a read that fails does not mean that there is nothing, and what is not written is not remembered.
func TestFilesOfAClosedDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db, err := store.Open(t.Context(), address, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		files := db.Files()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if read, err := files.Read(""); err == nil {
			t.Errorf("a read told of %d files", len(read))
		}
		if err := files.Write("a", nil); err == nil {
			t.Error("a write succeeded")
		}
		if err := files.Remove("a"); err == nil {
			t.Error("a removal succeeded")
		}
	})
}
