package provision

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// backendIn is an engine on a backend in files, without a CLI: for what needs none.
func backendIn(t *testing.T) (*Engine, string) {
	t.Helper()
	directory := t.TempDir()
	return &Engine{options: Options{State: &State{BackendURL: fileURL(directory) + "?metadata=skip"}}, secrets: &redactor{}}, directory
}

func put(t *testing.T, directory, name, text string) string {
	t.Helper()
	file := filepath.Join(directory, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// endedPID is the number of a process that has ended.
func endedPID(t *testing.T) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "-test.run=^$")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid
}

func lockText(host string, pid int, since time.Time) string {
	return fmt.Sprintf(`{"pid":%d,"username":"me","hostname":%q,"timestamp":%q}`, pid, host, since.Format(time.RFC3339))
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ended := endedPID(t)
	now, tomorrow := time.Now(), time.Now().Add(24*time.Hour)
	cases := map[string]struct {
		reason string
		locks  []string
		force  bool
		want   []Holder // of what is removed
		fails  bool
	}{
		"None":      {reason: "a stack without a lock is none to fail on"},
		"Ended":     {reason: "the lock of a process that has ended is nobody's", locks: []string{lockText(here, ended, now)}, want: []Holder{Ended}},
		"Skew":      {reason: "the time of a lock says nothing: its clock may have been wrong", locks: []string{lockText(here, ended, tomorrow)}, want: []Holder{Ended}},
		"Alive":     {reason: "this process runs", locks: []string{lockText(here, os.Getpid(), now)}, fails: true},
		"AliveSkew": {reason: "and still does when its lock looks a year old", locks: []string{lockText(here, os.Getpid(), now.AddDate(-1, 0, 0))}, fails: true},
		"Elsewhere": {reason: "nobody can tell from here what runs there", locks: []string{lockText("elsewhere", ended, now)}, fails: true},
		"Both":      {reason: "one that is another's protects all", locks: []string{lockText(here, ended, now), lockText("elsewhere", 1, now)}, fails: true},
		"Garbage":   {reason: "a lock that tells nothing may be anybody's", locks: []string{`{"pid":`}, fails: true},
		"Force":     {reason: "the user knows better", locks: []string{lockText("elsewhere", 1, now), `{}`}, force: true, want: []Holder{Elsewhere, Unreadable}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, directory := backendIn(t)
			identity := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
			var files []string
			for i, lock := range tc.locks {
				files = append(files, put(t, directory, fmt.Sprintf("%s/%s/%d.json", lockFolder, identity, i), lock))
			}
			other := put(t, directory, lockFolder+"/organization/civovpc/other/0.json", lockText(here, ended, now))
			removed, err := engine.Unlock(t.Context(), identity, tc.force)
			if got := KindOf(err) == Conflict; got != tc.fails || err != nil && !got {
				t.Fatalf("%s: error %v, want one: %v", tc.reason, err, tc.fails)
			}
			var holders []Holder
			for _, lock := range removed {
				holders = append(holders, lock.Holder)
			}
			if diff := cmp.Diff(tc.want, holders); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			for _, file := range files {
				if _, err := os.Stat(file); os.IsNotExist(err) == tc.fails {
					t.Errorf("%s: %s: %v", tc.reason, file, err)
				}
			}
			if _, err := os.Stat(other); err != nil {
				t.Errorf("the lock of another stack: %v", err)
			}
		})
	}
}

func TestUnlockElsewhere(t *testing.T) {
	t.Parallel()
	engine := &Engine{options: Options{State: &State{BackendURL: "s3://states"}}, secrets: &redactor{}}
	if _, err := engine.Unlock(t.Context(), stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}, false); KindOf(err) != Refused {
		t.Errorf("in a backend that does not tell whose a lock is: error %v, want one that refuses", err)
	}
}

// A disk that is full when a lock is written leaves a part of one, which Pulumi fails to read for ever. Another may be being written just
// now, and the time of its file, which is of another machine's clock perhaps, does not tell.
func TestDropTornLocks(t *testing.T) {
	t.Parallel()
	engine, directory := backendIn(t)
	stack := lockFolder + "/organization/civovpc/main/"
	now := time.Now()
	kept := map[string]bool{}
	var written []string
	for name, clock := range map[string]time.Time{"here": now, "late": now.Add(-time.Hour), "early": now.Add(time.Hour), "last-year": now.AddDate(-1, 0, 0)} {
		for file, want := range map[string]bool{
			put(t, directory, stack+name+".a.json.18ea.tmp", ""):                                  false,
			put(t, directory, stack+name+".b.json.18eb.tmp", `{"pid":12,"user`):                   false,
			put(t, directory, stack+name+".c.json.18ec.tmp", lockText("elsewhere", 1, clock)):     true,
			put(t, directory, stack+name+".d.json", lockText("elsewhere", 1, clock)):              true,
			put(t, directory, stack+name+".e.json.18ee.tmp", `{"pid":12,"username":"me","hostna`): true, // see below
		} {
			kept[file] = want
			if err := os.Chtimes(file, clock, clock); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(file, ".e.json") {
				written = append(written, file)
			}
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-stopped
	}()
	go func() { // as long as it is looked at
		defer close(stopped)
		for {
			for _, name := range written {
				// Never made anew, should it be gone.
				file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					continue
				}
				if _, err := file.WriteString("x"); err != nil {
					t.Error(err)
				}
				_ = file.Close()
			}
			select {
			case <-stop:
				return
			case <-time.After(tornAfter / 20):
			}
		}
	}()
	if err := engine.options.State.mend(); err != nil {
		t.Fatal(err)
	}
	for file, want := range kept {
		if _, err := os.Stat(file); os.IsNotExist(err) == want {
			t.Errorf("%s: %v, want it kept: %v", file, err, want)
		}
	}
}

func stateText(project, stack string, names ...string) string {
	var resources []string
	for _, name := range append([]string{""}, names...) {
		if name == "" {
			resources = append(resources, fmt.Sprintf(`{"urn":"urn:pulumi:%s::%s::pulumi:pulumi:Stack::%s-%s","type":"pulumi:pulumi:Stack"}`,
				stack, project, project, stack))
			continue
		}
		resources = append(resources, fmt.Sprintf(
			`{"urn":"urn:pulumi:%s::%s::civo:index/network:Network::%s","type":"civo:index/network:Network","custom":true,"id":"id-%s"}`,
			stack, project, name, name))
	}
	return `{"manifest":{"time":"2026-01-02T03:04:05Z"},"resources":[` + strings.Join(resources, ",") + `]}`
}

func storedText(deployment string) string {
	return `{"version":3,"checkpoint":{"stack":"x","latest":` + deployment + `}}`
}

func TestAllStacks(t *testing.T) {
	t.Parallel()
	engine, directory := backendIn(t)
	put(t, directory, ".pulumi/stacks/civovpc/acme.prod.main.json", storedText(stateText("civovpc", "acme.prod.main", "network", "second")))
	put(t, directory, ".pulumi/stacks/civovpc/acme.prod.main.json.bak", "")
	put(t, directory, ".pulumi/stacks/civovpc/empty.json", `{"version":3,"checkpoint":{"stack":"x"}}`)
	put(t, directory, ".pulumi/stacks/civovpc/torn.json", `{"version":3,"check`)
	put(t, directory, ".pulumi/stacks/civovpc/nothing.json", "")
	var zipped strings.Builder
	writer := gzip.NewWriter(&zipped)
	_, _ = writer.Write([]byte(storedText(stateText("civovpc", "zipped", "network"))))
	_ = writer.Close()
	put(t, directory, ".pulumi/stacks/civovpc/zipped.json.gz", zipped.String())
	put(t, directory, lockFolder+"/organization/civofirewall/new/1.json", lockText("elsewhere", 7, time.Unix(0, 0)))

	got, err := engine.AllStacks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := func(project, stack string) stackidentity.Identity {
		return stackidentity.Identity{Organization: "organization", Project: project, Stack: stack}
	}
	written := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []StackSummary{
		{Identity: in("civofirewall", "new"), Locks: []Lock{{Holder: Elsewhere, User: "me", Host: "elsewhere", PID: 7, Since: time.Unix(0, 0)}}},
		{Identity: in("civovpc", "acme.prod.main"), Resources: 2, LastUpdate: written},
		{Identity: in("civovpc", "empty")},
		{Identity: in("civovpc", "nothing"), Damage: "damaged"},
		{Identity: in("civovpc", "torn"), Damage: "damaged"},
		{Identity: in("civovpc", "zipped"), Resources: 1, LastUpdate: written},
	}
	for i := range got {
		if got[i].Damage != "" {
			got[i].Damage = "damaged"
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Lock{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := (&Engine{options: Options{State: &State{BackendURL: fileURL(filepath.Join(directory, "none"))}}}).AllStacks(t.Context()); err == nil {
		t.Error("a backend whose folder is gone gave no error")
	}
}

func TestCheckState(t *testing.T) {
	t.Parallel()
	identity := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
	mine := stateText("civovpc", "main", "network")
	cases := map[string]struct {
		reason string
		text   string
		fails  string
	}{
		"Exported":       {reason: "what pulumi stack export writes", text: `{"version":3,"deployment":` + mine + `}`},
		"Stored":         {reason: "a backup of the file backend", text: storedText(mine)},
		"NoJSON":         {reason: "half a file", text: `{"version":3,"deploy`, fails: "it is no JSON"},
		"Nothing":        {reason: "an empty file", text: "", fails: "it is no JSON"},
		"Something":      {reason: "another JSON", text: `{"apiVersion":"v1"}`, fails: "it is no state"},
		"NoDeployment":   {reason: "the deployment is null", text: `{"version":3,"deployment":null}`, fails: "it is no state"},
		"Text":           {reason: "the deployment is a text", text: `{"version":3,"deployment":"x"}`, fails: "it is no state"},
		"OtherStack":     {reason: "a stack of another name", text: `{"version":3,"deployment":` + stateText("civovpc", "other") + `}`, fails: "another stack: civovpc/other"},
		"OtherKind":      {reason: "a stack of another kind", text: `{"version":3,"deployment":` + stateText("civofirewall", "main") + `}`, fails: "another stack: civofirewall/main"},
		"PendingOfOther": {reason: "an operation of another stack", text: `{"version":3,"deployment":{"pending_operations":[{"type":"creating","resource":{"urn":"urn:pulumi:other::civovpc::a:b:C::d","type":"a:b:C"}}]}}`, fails: "another stack: civovpc/other"},
		"NoURN":          {reason: "a resource that is none", text: `{"version":3,"deployment":{"resources":[{"type":"a"}]}}`, fails: "without a proper URN"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := checkState(identity, []byte(tc.text))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%s: error %v, want %q", tc.reason, err, tc.fails)
				}
				return
			}
			var document struct{ Deployment json.RawMessage }
			if err != nil || json.Unmarshal(got, &document) != nil || string(document.Deployment) != mine {
				t.Errorf("%s: got %s, error %v", tc.reason, got, err)
			}
		})
	}
}

func TestBackups(t *testing.T) {
	t.Parallel()
	engine, directory := backendIn(t)
	identity := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
	good := storedText(stateText("civovpc", "main"))
	put(t, directory, ".pulumi/backups/civovpc/main/main.100.json", good)
	newest := put(t, directory, ".pulumi/backups/civovpc/main/main.200.json", good)
	put(t, directory, ".pulumi/backups/civovpc/main/main.300.json", "{")
	put(t, directory, ".pulumi/backups/civovpc/main.other/main.other.400.json", good)
	put(t, directory, ".pulumi/stacks/civovpc/main.json.bak", good)
	if got := engine.Backups(identity); len(got) != 3 || got[0] != newest {
		t.Errorf("got %q, want the newest one that can be read first: %s", got, newest)
	}
}

func TestStateTrouble(t *testing.T) {
	t.Parallel()
	engine, directory := backendIn(t)
	identity := stackidentity.Identity{Organization: "organization", Project: "civovpc", Stack: "main"}
	backup := put(t, directory, ".pulumi/backups/civovpc/main/main.100.json", storedText(stateText("civovpc", "main")))
	cases := []struct {
		reason, text string
		want         ErrorKind
		hint         string
	}{
		{"the passphrase is another one", "error: getting stack configuration: get stack secrets manager: failed to decrypt: incorrect passphrase, please set PULUMI_CONFIG_PASSPHRASE", StateTrouble, ""},
		{"there is none", "error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables", StateTrouble, ""},
		{"half a file", "error: failed to load checkpoint: place 1: unexpected end of JSON input", StateTrouble, "planton state import --stack organization/civovpc/main " + backup},
		{"a file that was edited by hand", "error: snapshot integrity failure; refusing to use it: child resource's parent is missing", StateTrouble, "planton refresh"},
		{"the disk is full", "error: An IO error occurred while writing the new snapshot file: write /s/x.tmp: no space left on device", StateTrouble, "make room"},
		{"the disk may not be written", "error: open /s/locks/x.tmp: read-only file system", StateTrouble, "must be writable"},
		{"nor may the folder", "error: mkdir /s/locks: permission denied", StateTrouble, "must be writable"},
		{"the store of the states does not answer", `error: failed to save snapshot: blob (key ".pulumi/stacks/civovpc/main.json") (code=Unknown): operation error S3: PutObject, dial tcp 127.0.0.1:1: connect: connection refused`, StateTrouble, "PULUMI_BACKEND_URL"},
		{"nor does it list", "error: unable to check if bucket s3://states is accessible: blob (code=Unknown): operation error S3: ListObjectsV2, api error ServiceUnavailable: 503 Service Unavailable", StateTrouble, "PULUMI_BACKEND_URL"},
		{"the cloud does not answer, which is another matter", "error: network: dial tcp 127.0.0.1:1: connect: connection refused", Unreachable, ""},
		{"the cloud's permission is another matter", "error: network: permission denied", Credentials, ""},
		{"and so is its outage", "error: network: failed to load: unexpected EOF", Unreachable, ""},
		{"a name with a passphrase in it", "error: network: passphrase-net is taken", Failed, ""},
	}
	for _, tc := range cases {
		err := engine.failure(context.Background(), "update", identity, errors.New(tc.text), nil, nil)
		var failure *Error
		if !errors.As(err, &failure) || failure.Kind != tc.want || !strings.Contains(failure.Hint, tc.hint) {
			t.Errorf("%s: got %#v, want %s with the hint %q", tc.reason, err, tc.want, tc.hint)
		}
	}
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES} {
		err := onDisk(&fs.PathError{Op: "mkdir", Path: "/s", Err: cause}, "make the folder")
		if KindOf(err) != StateTrouble || !strings.HasPrefix(err.Error(), "make the folder: mkdir /s: ") {
			t.Errorf("got %v (%s)", err, KindOf(err))
		}
	}
	if err := onDisk(os.ErrNotExist, "make the folder"); KindOf(err) != "" {
		t.Errorf("a file that is missing: got %s", KindOf(err))
	}
}

// What is tried before each operation, on a device that is always full.
func TestTryOut(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("there is no device that is always full: %v", err)
	}
	if err := tryOut(full); KindOf(err) != StateTrouble || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v (%s), want that there is no space, of kind %s", err, KindOf(err), StateTrouble)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tryOut(file); err != nil {
		t.Error(err)
	}
}

// A backend whose folder is gone is not begun anew: everything would be created a second time.
func TestBackendGone(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	none := func(string) string { return "" }
	state, err := OpenLocalState(directory, none)
	if err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(directory, "backend")
	if err := os.Remove(backend); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocalState(directory, none); err != nil {
		t.Errorf("nothing was ever made with the backend that is gone: %v", err)
	}
	put(t, state.Creates, "entry.json", "{}")
	if err := os.Remove(backend); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocalState(directory, none); KindOf(err) != StateTrouble || !strings.Contains(err.Error(), backend) {
		t.Errorf("got %v, want an error that names the folder", err)
	}
	if err := os.Mkdir(backend, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocalState(directory, none); err != nil {
		t.Errorf("an empty folder begins anew: %v", err)
	}

	// The first operation gives the folder a name, by which it is known from then on.
	for range 2 {
		if err := state.checkRoom(); err != nil {
			t.Fatal(err)
		}
	}
	refuses := func(reason string) {
		t.Helper()
		_, err := OpenLocalState(directory, none)
		for _, err := range []error{err, state.checkRoom()} {
			if KindOf(err) != StateTrouble || !strings.Contains(err.Error(), backend) {
				t.Errorf("%s: got %v, want an error that names the folder", reason, err)
			}
		}
	}
	elsewhere := filepath.Join(directory, "elsewhere")
	if err := os.Rename(backend, elsewhere); err != nil {
		t.Fatal(err)
	}
	refuses("it was moved away")
	if err := os.Mkdir(backend, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses("its disk is not mounted")
	put(t, backend, ".pulumi/meta.yaml", "version: 1")
	refuses("the engine has made another one")
	if err := os.RemoveAll(backend); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(elsewhere, backend); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocalState(directory, none); err != nil {
		t.Errorf("it is back: %v", err)
	}
	if err := os.Remove(filepath.Join(directory, nameBesideBackend)); err != nil {
		t.Fatal(err)
	}
	if err := state.checkRoom(); err != nil {
		t.Errorf("the name beside it was removed: %v", err)
	}
	if err := state.checkFolder(); err != nil {
		t.Errorf("and written again: %v", err)
	}
}

func TestStackNames(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for _, file := range []string{"civovpc/a.json", "civovpc/b.c.d.json.gz", "civovpc/a.json.bak", "civovpc/a.json.attrs", "readme.json"} {
		file = filepath.Join(directory, "backend", ".pulumi", "stacks", filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := []string{"organization/civovpc/a", "organization/civovpc/b.c.d"}
	elsewhere := filepath.Join(directory, "none")
	for _, test := range []struct {
		reason, directory, backend string
		local                      bool
		want                       []string
	}{
		{"files under the directory", directory, "", false, here},
		{"a backend in files", elsewhere, fileURL(filepath.Join(directory, "backend")) + "?metadata=skip", false, here},
		{"a backend that is not in files", directory, "s3://bucket", false, nil},
		{"what belongs to this machine alone", directory, "s3://bucket", true, here},
		{"no folder", elsewhere, "", false, nil},
	} {
		var got []string
		getenv := func(name string) string { return map[string]string{environmentBackend: test.backend}[name] }
		for _, identity := range StackNames(test.directory, getenv, test.local) {
			got = append(got, identity.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a folder was made")
	}
}
