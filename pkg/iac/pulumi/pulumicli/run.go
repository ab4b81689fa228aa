package pulumicli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver"
	"github.com/pkg/errors"
)

const (
	// defaultGracePeriod is CLI.GracePeriod when it is 0: as long as the slowest single request of a cloud may take.
	defaultGracePeriod = 10 * time.Minute
	// unknownExitCode is the exit code of a command that could not be run, as the Automation API has it.
	unknownExitCode = -2
)

// Version is the version of the CLI.
func (c *CLI) Version() semver.Version {
	return c.version
}

// Run runs one command of the CLI, as the Automation API asks for it: without a terminal, in workdir, with additionalEnv on
// top of this process's environment. It returns what the command wrote, its exit code, and an error unless that code is 0.
// When the context is canceled the command is interrupted, and has the grace period to end.
func (c *CLI) Run(
	ctx context.Context,
	workdir string,
	stdin io.Reader,
	additionalOutput []io.Writer,
	additionalErrorOutput []io.Writer,
	additionalEnv []string,
	args ...string,
) (string, string, int, error) {
	cmd := exec.CommandContext(ctx, c.Path, nonInteractive(args)...)
	cmd.Dir = workdir
	cmd.Stdin = stdin
	cmd.Env = c.environment(additionalEnv)
	var stdout, stderr bytes.Buffer
	cmd.Stdout = io.MultiWriter(append(slices.Clone(additionalOutput), &stdout)...)
	cmd.Stderr = io.MultiWriter(append(slices.Clone(additionalErrorOutput), &stderr)...)
	// A terminal sends Ctrl-C to every process of its group. The CLI stands in one of its own, so that it is this process
	// that decides when to interrupt it, once.
	setProcessGroup(cmd)
	cmd.Cancel = func() error { return interrupt(cmd.Process) }
	cmd.WaitDelay = c.GracePeriod
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = defaultGracePeriod
	}

	if err := cmd.Start(); err != nil {
		return "", "", unknownExitCode, errors.Wrapf(err, "start %s", c.Path)
	}
	ended := make(chan struct{})
	if c.Kill != nil {
		go func() {
			select {
			case <-c.Kill:
				_ = cmd.Process.Kill()
			case <-ended:
			}
		}()
	}
	err := cmd.Wait()
	close(ended)

	code := unknownExitCode
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return stdout.String(), stderr.String(), code, err
}

// environment is what a command of the CLI sees: the folder of the CLI comes first on PATH, because the language hosts that
// belong to a release stand beside it.
func (c *CLI) environment(additional []string) []string {
	environment := make([]string, 0, len(additional)+len(os.Environ())+3)
	path := filepath.Dir(c.Path)
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.EqualFold(name, "PATH") {
			path += string(os.PathListSeparator) + value
			continue
		}
		environment = append(environment, variable)
	}
	environment = append(environment, "PATH="+path, "PULUMI_SKIP_UPDATE_CHECK=true")
	environment = append(environment, additional...)
	return append(environment, "PULUMI_AUTOMATION_API=true")
}

// nonInteractive makes a command fail where it would otherwise ask, and wait for ever.
func nonInteractive(args []string) []string {
	if slices.Contains(args, "--non-interactive") {
		return args
	}
	return append([]string{"--non-interactive"}, args...)
}
