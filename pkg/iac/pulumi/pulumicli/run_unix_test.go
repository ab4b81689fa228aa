//go:build unix

package pulumicli

import (
	"context"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A terminal sends Ctrl-C to every process of its group, and the command would hear of it twice.
func TestRunStandsInAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	cli := script(t, "echo $$\nexec sleep 60\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	go func() {
		defer cancel()
		text := make([]byte, 32)
		n, _ := read.Read(text)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
		if err != nil {
			t.Errorf("the command wrote %q", text[:n])
			return
		}
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("the command %d stands in group %d, error %v; want one of its own", pid, group, err)
		}
	}()
	if _, _, _, err := cli.Run(ctx, t.TempDir(), nil, []io.Writer{write}, nil, nil); err == nil {
		t.Error("the command was not interrupted")
	}
}
