package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// commands are the programs that are run as they are, each in a process of its own.
type commands struct{ planton, small, messages, directory string }

// process is what a process took.
type process struct {
	Wall, CPU time.Duration
	Memory    int64 // the largest resident set, in bytes
}

// buildCommands builds them.
func buildCommands(ctx context.Context, directory string) (*commands, error) {
	c := &commands{
		planton: filepath.Join(directory, "planton"), small: filepath.Join(directory, "small"),
		messages: filepath.Join(directory, "messages"), directory: directory,
	}
	for file, source := range map[string]string{
		c.planton: "cmd/planton", c.small: "internal/bench/small", c.messages: "internal/bench/messages",
	} {
		build := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/plantonhq/project-planton/"+source)
		if out, err := build.CombinedOutput(); err != nil {
			return nil, errors.Wrapf(err, "build %s: %s", source, out)
		}
	}
	return c, nil
}

// measure runs a program several times, in turns with others.
func (c *commands) measure(ctx context.Context, times int, programs ...[]string) ([][]process, error) {
	found := make([][]process, len(programs))
	for run := range times + 1 {
		for i, program := range programs {
			measuring := exec.CommandContext(ctx, c.small, append([]string{"run"}, program...)...)
			measuring.Stderr = os.Stderr
			out, err := measuring.Output()
			if err != nil {
				return nil, errors.Wrapf(err, "run %v", program)
			}
			var took process
			if err := json.Unmarshal(out, &took); err != nil {
				return nil, errors.Wrap(err, "read what a process took")
			}
			if run > 0 { // the first reads the program from the disk
				found[i] = append(found[i], took)
			}
		}
	}
	return found, nil
}

// startRuns is how often commands are run that are too short for a few runs to tell.
const startRuns = 15

// start measures how long commands take that have next to nothing to do.
func (c *commands) start(ctx context.Context, p *printer) error {
	file := filepath.Join(c.directory, "one.yaml")
	if err := os.WriteFile(file, []byte(clustersOfFile(0, 1)), 0o600); err != nil {
		return errors.Wrap(err, "write a manifest")
	}
	names := []string{"planton --help", "planton validate of one file", "baseline: a Go program that does nothing"}
	found, err := c.measure(ctx, startRuns,
		[]string{c.planton, "--help"}, []string{c.planton, "validate", "-f", file}, []string{c.small, "nothing"})
	if err != nil {
		return err
	}
	rows := [][]string{{"command", "wall ms", "CPU ms", "MiB"}}
	for i, name := range names {
		wall, cpu, memory := c.figures(found[i], time.Millisecond)
		rows = append(rows, []string{name, wall.text("%.0f"), cpu.text("%.0f"), memory.text("%.0f")})
	}
	p.table(fmt.Sprintf("Start-up, %d runs a figure", startRuns), rows)
	return nil
}

// validate measures the check of many manifests.
func (c *commands) validate(ctx context.Context, p *printer, sizes []int) error {
	rows := [][]string{{"manifests", "who", "wall s", "CPU s", "manifests a second", "MiB"}}
	for _, n := range sizes {
		folder := filepath.Join(c.directory, fmt.Sprint(n))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return errors.Wrap(err, "create a folder of manifests")
		}
		for i, file := range clusters(n) {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%06d.yaml", i)), file, 0o600); err != nil {
				return errors.Wrap(err, "write manifests")
			}
		}
		found, err := c.measure(ctx, runs,
			[]string{c.planton, "validate", "-f", folder}, []string{c.messages, folder}, []string{c.small, "yaml", folder})
		if err != nil {
			return err
		}
		for i, who := range []string{"planton validate", "baseline: the parse into messages", "baseline: the YAML parse"} {
			wall, cpu, memory := c.figures(found[i], time.Second)
			rows = append(rows, []string{
				fmt.Sprint(n), who, wall.text("%.2f"), cpu.text("%.2f"), fmt.Sprintf("%.0f", float64(n)/wall.median()), memory.text("%.0f"),
			})
		}
	}
	p.table("Manifests checked by the command (CivoKubernetesCluster, a hundred a file) on all cores. Baselines: less than is needed", rows)
	return nil
}

// figures are times in a unit, and memory in MiB.
func (c *commands) figures(found []process, unit time.Duration) (wall, cpu, memory samples) {
	for _, one := range found {
		wall = append(wall, float64(one.Wall)/float64(unit))
		cpu = append(cpu, float64(one.CPU)/float64(unit))
		memory = append(memory, float64(one.Memory)/(1<<20))
	}
	return wall, cpu, memory
}
