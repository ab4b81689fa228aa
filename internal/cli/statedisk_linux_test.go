package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
)

// environmentOwnMounts tells a test that it runs where it may mount.
const environmentOwnMounts = "TEST_OWN_MOUNTS"

// asUser are the attributes of a process in a user namespace of its own, in which it has the given id and is still the owner of what is
// this user's.
func asUser(id int, flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getgid(), Size: 1}},
	}
}

// withOwnMounts runs the test once more in a process that may mount disks which nobody else sees, and tells whether this is that process.
// Linux gives such a process to any user, unless it is told not to, as in some containers: then the test is skipped.
func withOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(environmentOwnMounts) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var refusals []error
	for _, attributes := range []*syscall.SysProcAttr{
		asUser(0, syscall.CLONE_NEWNS),
		{Cloneflags: syscall.CLONE_NEWNS}, // root may without a user namespace
	} {
		command := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=10m")
		command.Env = append(os.Environ(), environmentOwnMounts+"=1")
		command.SysProcAttr = attributes
		out, err := command.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			refusals = append(refusals, err)
			continue
		}
		t.Logf("where it may mount:\n%s", out)
		switch {
		case err != nil:
			t.Fail()
		case strings.Contains(string(out), "--- SKIP"):
			t.Skip("skipped where it may mount, see above")
		}
		return false
	}
	t.Skipf("this machine lets no test mount a disk that nobody else sees: %v", refusals)
	return false
}

// disk is a small disk in memory.
type disk struct {
	t    *testing.T
	path string
	// clear makes room; nil where there is.
	clear func()
}

func newDisk(t *testing.T, path string) *disk {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	// What is mounted here stays here.
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("none", path, "tmpfs", 0, "size=8m,mode=700")
	}
	if err != nil {
		t.Skipf("this machine lets no test mount a disk that nobody else sees: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
	return &disk{t: t, path: path}
}

// fill fills the disk up but for so many bytes. A disk without any is kept so.
func (d *disk) fill(left int64) {
	d.t.Helper()
	name := filepath.Join(d.path, "ballast")
	file, err := os.Create(name)
	if err != nil {
		d.t.Error(err)
		return
	}
	write := func(chunk []byte) {
		var err error
		for err == nil {
			_, err = file.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Errorf("fill the disk: %v", err)
		}
	}
	write(make([]byte, 64<<10))
	stop, stopped := make(chan struct{}), make(chan struct{})
	if left > 0 {
		size, err := file.Seek(0, io.SeekCurrent)
		if err == nil {
			err = file.Truncate(size - left)
		}
		if err != nil {
			d.t.Error(err)
		}
		close(stopped)
	} else {
		go func() {
			defer close(stopped)
			for {
				write([]byte{0})
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
	}
	d.clear = func() {
		d.clear = nil
		close(stop)
		<-stopped
		_ = file.Close()
		if err := os.Remove(name); err != nil {
			d.t.Error(err)
		}
	}
}

// readOnly mounts the disk anew, so that nothing may be written.
func (d *disk) readOnly() {
	d.t.Helper()
	for _, flags := range []uintptr{syscall.MS_BIND, syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY} {
		if err := syscall.Mount(d.path, d.path, "", flags, ""); err != nil {
			d.t.Fatal(err)
		}
	}
	d.t.Cleanup(func() { _ = syscall.Unmount(d.path, syscall.MNT_DETACH) })
}

// restoreCommand is the command that the hint about a damaged state gives.
var restoreCommand = regexp.MustCompile(`planton (state import --stack \S+ [^\s;]+)`)

// TestStateDisk: the disk of the states is full before an operation, gets full in the middle of one, and may not be written any more.
func TestStateDisk(t *testing.T) {
	t.Parallel()
	if !withOwnMounts(t) {
		return
	}
	s := newTroubled(t)
	disk := newDisk(t, filepath.Join(s.directory, "state"))
	nothing, firewall := map[string]int{}, map[string]int{"POST firewalls": 1}

	disk.fill(room / 2)
	s.apply("there is room for half of a try", ExitState, "no space left on device", "hint: make room on the disk of the state")
	s.checkAsked("there is room for half of a try", nothing)
	disk.clear()

	s.befalls = func() { disk.fill(0) }
	s.apply("the disk gets full", ExitState, "no space left on device", "hint: make room on the disk of the state")
	s.checkAsked("the disk gets full", firewall)
	if disk.clear == nil {
		t.Fatal("it never got full")
	}
	disk.clear()

	// The engine replaces the file of the state by half of one, or by an empty one; seldom there is room for it in a gap.
	code, _, stderr := s.run("apply", "-f", s.file, "--yes", "--plugins", "native")
	if command := restoreCommand.FindStringSubmatch(stderr); code == ExitState && command != nil {
		s.checkAsked("the state is damaged", firewall)
		if code, _, stderr := s.run(strings.Fields(command[1])...); code != ExitOK {
			t.Fatalf("%s: exit code %d\n%s", command[0], code, stderr)
		}
		s.checkAsked("the state was put back", firewall)
		s.apply("the state was put back", ExitOK)
	} else if code != ExitOK {
		t.Fatalf("there is room again: exit code %d\n%s", code, stderr)
	}
	s.checkAsked("the state was put back, and applied", everythingOnce)
	s.checkState()

	s.attributes = asUser(1000, 0) // one whom modes are something to, other than root
	backend := filepath.Join(disk.path, "backend")
	if err := os.Chmod(backend, 0o500); err != nil {
		t.Fatal(err)
	}
	s.apply("the folder may not be written", ExitState, "permission denied", "hint: the state must be writable")
	s.attributes = nil
	if err := os.Chmod(backend, 0o700); err != nil {
		t.Fatal(err)
	}
	disk.readOnly()
	s.apply("the disk may not be written", ExitState, "read-only file system", "hint: the state must be writable")
	s.checkAsked("nothing may be written", everythingOnce)
}

// room is how much planton tries to write before an operation.
const room = 1 << 20
