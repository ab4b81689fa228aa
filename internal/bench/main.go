// Command bench measures what an operation costs beside the time of the clouds, and prints a table. Each row stands beside a
// baseline of the same run: what the work would cost without the part that is measured. docs/performance.md tells what the rows
// mean. `make bench` runs it; BENCH=full adds two hundred stacks and a hundred thousand manifests, and
// BENCH=manifests measures only what calls no engine.
//
// The engine is the real one, the plugins are the native ones, and the clouds are emulated in this process, without latency. An
// operation runs in a process of its own (worker.go), as `planton` is one, with the plugin in another, so that the operating system
// tells the times of engine, program and plugin apart. Commands that call no engine are run as people run them (commands.go).
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// runs is how often each figure is measured; what is printed is the median, and the spread.
const runs = 3

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch {
	case len(args) == 1 && args[0] == workerArgument:
		return work(ctx, os.Stdin, os.Stdout)
	case len(args) > 1 && args[0] == pluginArgument:
		return servePlugin(ctx, args[1:], os.Stdin, os.Stdout)
	case len(args) > 0:
		return errors.New("bench takes no arguments; BENCH=full measures two hundred stacks and a hundred thousand manifests too, " +
			"BENCH=manifests only what calls no engine")
	}
	chosen := os.Getenv("BENCH")
	if !slices.Contains([]string{"", benchFull, benchManifests}, chosen) {
		return errors.Errorf("BENCH is %s, %s or not set", benchFull, benchManifests)
	}
	return bench(ctx, os.Stdout, chosen)
}

// What BENCH chooses, beside everything in a few minutes.
const (
	benchFull      = "full"      // everything, with the large sizes
	benchManifests = "manifests" // what calls no engine, with the large sizes
)

// bench measures and prints what was chosen.
func bench(ctx context.Context, out io.Writer, chosen string) error {
	cli, err := pulumicli.Find(ctx, pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "planton-bench-")
	if err != nil {
		return errors.Wrap(err, "create the folder of the bench")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	p := &printer{out: bufio.NewWriter(out)}
	p.line("machine: %d cores, %s, %s/%s, pulumi %s; %d runs a figure, median (spread); CPU is user and system time",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cli.Version(), runs)
	c, err := buildCommands(ctx, directory)
	if err != nil {
		return err
	}
	if err := c.start(ctx, p); err != nil {
		return err
	}
	many := []int{100, 1000, 10_000}
	if chosen != "" {
		many = append(many, 100_000)
	}
	if err := c.validate(ctx, p, many); err != nil {
		return err
	}
	if err := p.manifests([]int{1, 100, 10_000}); err != nil || chosen == benchManifests {
		return err
	}
	b := &harness{cli: cli.Path, directory: directory}
	if err := b.operations(ctx, p); err != nil {
		return err
	}
	sizes := []int{1, 20}
	if chosen == benchFull {
		sizes = append(sizes, 100, 200)
	}
	if err := b.stacks(ctx, p, sizes); err != nil {
		return err
	}
	return b.kinds(ctx, p)
}

// printer prints tables as they come to be.
type printer struct{ out *bufio.Writer }

func (p *printer) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
	_ = p.out.Flush()
}

// table prints rows below a title; the first row is the head.
func (p *printer) table(title string, rows [][]string) {
	p.line("\n%s", title)
	aligned := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(aligned, strings.Join(row, "\t"))
	}
	_ = aligned.Flush()
	_ = p.out.Flush()
}

// samples are several measurements of one figure.
type samples []float64

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// text is the median, and the spread where there is one.
func (s samples) text(format string) string {
	median := fmt.Sprintf(format, s.median())
	if len(s) < 2 {
		return median
	}
	return median + fmt.Sprintf(" ("+format+"-"+format+")", slices.Min(s), slices.Max(s))
}

func seconds(of func(measured) time.Duration, measurements []measured) samples {
	var s samples
	for _, m := range measurements {
		s = append(s, of(m).Seconds())
	}
	return s
}

// operations measures one apply, an apply that changes nothing and a preview of one, with the native plugin and with one that does
// nothing.
func (h *harness) operations(ctx context.Context, p *printer) error {
	kinds := []string{"apply", "no-op apply", "no-op preview"}
	rows := [][]string{{"operation", "plugin", "wall s", "engine CPU s", "program CPU s", "plugin CPU s", "pulumi processes"}}
	memory := [][]string{{"operation", "plugin", "engine MiB", "program MiB", "plugin MiB"}}
	found := map[string][]measured{}
	plugins := []string{pluginNative, pluginNothing}
	for range runs {
		for _, plugin := range plugins { // in turns, so that what else the machine does falls on both
			w, err := h.world()
			if err != nil {
				return err
			}
			for i, operation := range []string{operationUp, operationUp, operationPreview} {
				m, err := w.do(ctx, job{Operation: operation, Manifests: vpcs(1), Plugin: plugin})
				if err != nil {
					return errors.Wrapf(w.close(err), "%s with the %s plugin", kinds[i], plugin)
				}
				found[kinds[i]+plugin] = append(found[kinds[i]+plugin], m)
			}
			if err := w.close(nil); err != nil {
				return err
			}
		}
	}
	for _, kind := range kinds {
		for _, plugin := range plugins {
			all := found[kind+plugin]
			rows = append(rows, []string{
				kind, plugin, seconds(func(m measured) time.Duration { return m.wall }, all).text("%.2f"),
				seconds(func(m measured) time.Duration { return m.engine.CPU }, all).text("%.2f"),
				seconds(func(m measured) time.Duration { return m.program.CPU }, all).text("%.2f"),
				seconds(func(m measured) time.Duration { return m.plugin.CPU }, all).text("%.2f"),
				fmt.Sprint(all[0].commands),
			})
			memory = append(memory, []string{kind, plugin,
				peak(all, func(m measured) usage { return m.engine }), peak(all, func(m measured) usage { return m.program }),
				peak(all, func(m measured) usage { return m.plugin }),
			})
		}
	}
	p.table("One stack (CivoVpc), no cloud latency. Baseline: the plugin that does nothing", rows)
	p.table("Memory: the largest resident set of a process", memory)
	return nil
}

func peak(all []measured, of func(measured) usage) string {
	var s samples
	for _, m := range all {
		s = append(s, float64(of(m).RSS)/(1<<20))
	}
	return s.text("%.0f")
}

// stacks measures several independent stacks that are applied together, twice: the second time nothing changes.
func (h *harness) stacks(ctx context.Context, p *printer, sizes []int) error {
	rows := [][]string{{"operation", "stacks", "who", "wall s", "wall s a stack", "CPU s", "CPU s a stack", "MiB at once", "pulumi processes"}}
	for _, n := range sizes {
		for _, who := range []struct {
			name  string
			plain bool
		}{{"planton", false}, {"baseline: pulumi in a loop", true}} {
			w, err := h.world()
			if err != nil {
				return err
			}
			for _, operation := range []struct{ name, word string }{{"apply", operationUp}, {"no-op apply", operationAgain}} {
				m, err := w.do(ctx, job{Operation: operation.word, Manifests: vpcs(n), Plugin: pluginNative, Plain: who.plain})
				if err != nil {
					return errors.Wrapf(w.close(err), "%s of %d stacks by %s", operation.name, n, who.name)
				}
				each := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()/float64(n)) }
				rows = append(rows, []string{
					operation.name, fmt.Sprint(n), who.name, fmt.Sprintf("%.1f", m.wall.Seconds()), each(m.wall),
					fmt.Sprintf("%.1f", m.cpu().Seconds()), each(m.cpu()), fmt.Sprint(m.together >> 20), fmt.Sprint(m.commands),
				})
			}
			if err := w.close(nil); err != nil {
				return err
			}
		}
	}
	p.table(fmt.Sprintf("Independent stacks (CivoVpc), one run, %d side by side. Baseline: pulumi stack init and pulumi up --skip-preview, one "+
		"stack after the other", provision.DefaultParallel()), rows)
	return nil
}

// kinds measures the life of an object of each kind.
func (h *harness) kinds(ctx context.Context, p *printer) error {
	rows := [][]string{{"kind", "operation", "requests", "fewest", "wall s", "CPU s", "requests in order"}}
	for _, life := range lives() {
		w, err := h.world()
		if err != nil {
			return err
		}
		err = func() error {
			text, err := life.prepare(w.clouds)
			if err != nil {
				return err
			}
			for _, stage := range life.stages {
				if text, err = stage.apply(text); err != nil {
					return err
				}
				w.clouds.forget()
				m, err := w.do(ctx, job{Operation: stage.operation, Manifests: text, Plugin: pluginNative})
				if err != nil {
					return errors.Wrap(err, stage.name)
				}
				requests := w.clouds.requests()
				rows = append(rows, []string{
					life.kind, stage.name, fmt.Sprint(len(requests)), fmt.Sprint(stage.fewest), fmt.Sprintf("%.2f", m.wall.Seconds()),
					fmt.Sprintf("%.2f", m.cpu().Seconds()), summary(requests),
				})
			}
			return nil
		}()
		if err = w.close(err); err != nil {
			return errors.Wrap(err, life.kind)
		}
	}
	p.table("Requests of each kind, one run. Baseline: the fewest requests that the API allows", rows)
	return nil
}

// world makes a world with a state and clouds of its own. Close it.
func (h *harness) world() (*world, error) {
	h.made++
	directory := filepath.Join(h.directory, fmt.Sprint(h.made))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, errors.Wrap(err, "create the folder of a world")
	}
	clouds, err := startClouds()
	if err != nil {
		return nil, err
	}
	return &world{cli: h.cli, directory: directory, clouds: clouds}, nil
}
