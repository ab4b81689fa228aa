// Command demo shows the provider at work on this machine: a real Kubernetes control plane, an emulated CloudStack, and pending pods that
// find nodes. Then the pods go, and with them nodes and machines. It exits with 0 when nothing is left.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/term"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// name is the name of all that the demonstration makes.
const name = "demo"

// patience is how long a step may take on a busy machine.
const patience = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run is the demonstration.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	provider := flags.String("provider", "bin/controller", "the provider's binary, as `make build` makes it")
	pods := flags.Int("pods", 200, "how many pods")
	latency := flags.Duration("latency", 5*time.Second, "how long the emulated CloudStack takes to deploy a machine, on average")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errors.WithStack(err)
	}
	if *pods < 1 || *latency <= 0 {
		return errors.New("-pods and -latency need to be greater than 0")
	}
	if _, err := os.Stat(*provider); err != nil {
		return errors.Wrap(err, "no provider: `make build` makes bin/controller, -provider names another")
	}

	cloud := fake.Default(fake.Options{JobLatency: fake.Between(*latency/2, *latency*3/2)})
	l, err := lab.Start(ctx, lab.Options{Provider: *provider, Cloud: cloud, Output: out, Environment: []string{"BATCH_IDLE_DURATION=1s", "BATCH_MAX_DURATION=10s"}})
	if err != nil {
		return err
	}
	defer l.Stop()
	_, _ = fmt.Fprintln(out, "starting the provider")
	if err := l.StartProvider(); err != nil {
		return err
	}
	if err := l.Apply(ctx, lab.NodeClass(name), lab.NodePool(name, name)); err != nil {
		return err
	}
	if err := l.NodeClassReady(ctx, name, patience); err != nil {
		return err
	}
	v := &view{out: out, terminal: isTerminal(out), start: time.Now(), pods: *pods, lab: l}

	_, _ = fmt.Fprintf(out, "\n%d pods of half a CPU and 1 GiB are pending; a machine takes %s to be deployed\n", *pods, *latency)
	if err := l.CreatePods(ctx, name, *pods, lab.PodSpec(name, "500m", "1Gi")); err != nil {
		return err
	}
	full, err := v.until(ctx, func(c lab.Count) bool { return c.Bound == *pods && c.Ready == c.Claims && c.Claims > 0 })
	if err != nil {
		return err
	}
	bound, calls := time.Since(v.start), len(cloud.Requests())
	_, _ = fmt.Fprintf(out, "\nall pods are bound after %s: %d nodes, %.2f an hour, %.1f calls to CloudStack a node\n",
		bound.Round(100*time.Millisecond), full.Nodes, lab.HourlyCost(l.Machines(name)), float64(calls)/float64(full.Nodes))

	_, _ = fmt.Fprintln(out, "\nthe pods are deleted; Karpenter watches for half a minute whether nodes stay empty, then they go, and their machines with them")
	if err := l.DeletePods(ctx, name); err != nil {
		return err
	}
	v.start = time.Now()
	if _, err := v.until(ctx, func(c lab.Count) bool { return c == lab.Count{} }); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nnothing is left after %s: no pods, no nodes, no node claims, no machines, and no more cost\n",
		time.Since(v.start).Round(100*time.Millisecond))
	return nil
}

// view shows how far it is.
type view struct {
	out      io.Writer
	terminal bool
	start    time.Time
	pods     int
	lab      *lab.Lab
	last     string
}

// until shows the counts until they are as they should be.
func (v *view) until(ctx context.Context, met func(lab.Count) bool) (lab.Count, error) {
	return v.lab.Until(ctx, patience, name, func(c lab.Count) bool {
		v.show(c)
		return met(c)
	})
}

// show shows the counts in a line that a terminal shows in place; elsewhere a line is written when something has changed.
func (v *view) show(c lab.Count) {
	const width = 20
	machines := v.lab.Machines(name)
	line := fmt.Sprintf("[%s] pods %3d/%d bound, %3d pending | %3d node claims | %3d machines (%d running) | %3d nodes ready | %7.2f an hour",
		bar(c.Bound, v.pods, width), c.Bound, v.pods, c.Pending, c.Claims, c.Machines, lab.Running(machines), c.Ready, lab.HourlyCost(machines))
	elapsed := time.Since(v.start).Truncate(100 * time.Millisecond)
	switch {
	case v.terminal:
		_, _ = fmt.Fprintf(v.out, "\r\x1b[2K%6.1fs %s", elapsed.Seconds(), line)
	case line != v.last:
		_, _ = fmt.Fprintf(v.out, "%6.1fs %s\n", elapsed.Seconds(), line)
	}
	v.last = line
}

// bar is a bar of a width, as full as part is of whole.
func bar(part, whole, width int) string {
	full := min(part*width/whole, width)
	return strings.Repeat("#", full) + strings.Repeat(".", width-full)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
