package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// actAsCommand makes the test's own binary be the command, so that it can be sent signals without building another.
const actAsCommand = "CLOUD_EMULATOR_ACT_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(actAsCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEndsCleanlyWhenToldTo(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0], "--civo", "127.0.0.1:0", "--digitalocean", "127.0.0.1:0", "-o", "json")
			command.Env = append(os.Environ(), actAsCommand+"=1")
			command.Stderr = os.Stderr
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			var addresses []struct{ URL string }
			if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&addresses); err != nil || len(addresses) != 2 {
				t.Errorf("addresses %v: %v", addresses, err)
			}
			if err := command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- command.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("still running 10 s after the signal")
			}
		})
	}
}

func TestFailsWithAnExitCode(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), os.Args[0], "--civo", "0.0.0.0:0")
	command.Env = append(os.Environ(), actAsCommand+"=1")
	if err := command.Run(); err == nil || command.ProcessState.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1", err)
	}
}
