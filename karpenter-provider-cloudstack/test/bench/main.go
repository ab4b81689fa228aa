// Command bench measures the provider on this machine: how long pods wait for nodes, how many nodes there are in a minute, how many calls
// to CloudStack a node costs and how many an idle cluster, how much memory and how much of a core the provider takes, and how long its
// answer takes when core asks for instance types. It does so with a CloudStack that takes as long as a real one, and beside it with one
// that answers at once: the difference is CloudStack's, the rest is the provider's, Karpenter core's and that of the control plane, all on
// this machine. Where a figure has a threshold in the suites of Karpenter core or of the provider for AWS, that is written beside it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// latency is how long CloudStack takes.
type latency struct {
	name string
	// shortest and longest are how long a deployment takes, all other jobs take a fifth of the shortest.
	shortest, longest time.Duration
	// request is how long each request takes.
	request time.Duration
}

var latencies = []latency{
	{"20-60 s", 20 * time.Second, 60 * time.Second, 100 * time.Millisecond},
	{"none", 0, 0, 0},
}

func main() {
	log.SetLogger(logr.Discard()) // the provider logs into a file of its own
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	provider := flags.String("provider", "bin/controller", "the provider's binary, as `make build` makes it")
	pods := flags.Int("pods", 1000, "how many pods share nodes; 0 leaves it out")
	nodes := flags.String("nodes", "500", "how many nodes with a pod each, comma separated; empty leaves it out")
	idle := flags.Duration("idle", 5*time.Minute,
		"how long the idle cluster is watched, after a minute to settle: all that is looked at again is so within five minutes; 0 leaves it out")
	alone := flags.String("machines", "500,2000", "how many machines are made without Kubernetes, comma separated; empty leaves it out")
	types := flags.Bool("types", true, "whether the answer with instance types is measured")
	only := flags.String("latency", "", "which CloudStack: real (jobs of 20-60 s), none, or empty for both")
	patience := flags.Duration("patience", 40*time.Minute, "how long a phase may take")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errors.WithStack(err)
	}
	with, err := latenciesOf(*only)
	if err != nil {
		return err
	}
	loads, err := loadsOf(*pods, *nodes)
	if err != nil {
		return err
	}
	counts, err := numbers("machines", *alone)
	if err != nil {
		return err
	}
	if *types {
		if err := instanceTypes(ctx, out, with); err != nil {
			return err
		}
	}
	if len(counts) > 0 {
		if err := machinesAll(ctx, out, counts, with); err != nil {
			return err
		}
	}
	if len(loads) == 0 {
		return nil
	}
	return measureAll(ctx, out, loads, with, func(load load, latency latency) (result, error) {
		watched := *idle
		// CloudStack's latency changes nothing about what an idle cluster asks, and pods that share nodes are no other idle cluster.
		if !load.perNode || latency != with[0] {
			watched = 0
		}
		return measure(ctx, plan{provider: *provider, load: load, latency: latency, idle: watched, patience: *patience})
	})
}

// latenciesOf are the latencies that are measured with.
func latenciesOf(name string) ([]latency, error) {
	switch name {
	case "":
		return latencies, nil
	case "real":
		return latencies[:1], nil
	case "none":
		return latencies[1:], nil
	}
	return nil, errors.Errorf("-latency %s: real, none, or empty for both", name)
}

func loadsOf(pods int, nodes string) ([]load, error) {
	var loads []load
	if pods > 0 {
		loads = append(loads, load{fmt.Sprintf("%d pods share nodes", pods), pods, false})
	}
	counts, err := numbers("nodes", nodes)
	for _, count := range counts {
		loads = append(loads, load{fmt.Sprintf("%d nodes with a pod each", count), count, true})
	}
	return loads, err
}

// numbers reads the value of a flag that has numbers.
func numbers(flag, text string) ([]int, error) {
	var numbers []int
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		number, err := strconv.Atoi(one)
		if err != nil || number < 1 {
			return nil, errors.Errorf("-%s %s: numbers greater than 0, comma separated", flag, text)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// measureAll measures the loads, each with each latency, and prints what came of those that were measured, even if one was not.
func measureAll(ctx context.Context, out io.Writer, loads []load, with []latency, measure func(load, latency) (result, error)) error {
	var results []result
	var failed error
	for _, load := range loads {
		for _, latency := range with {
			if failed != nil || ctx.Err() != nil {
				break
			}
			began := time.Now()
			one, err := measure(load, latency)
			if err != nil {
				failed = errors.Wrapf(err, "%s, latency %s", load.name, latency.name)
				break
			}
			results = append(results, one)
			_, _ = fmt.Fprintf(os.Stderr, "done in %s: %s, latency %s\n", time.Since(began).Round(time.Second), load.name, latency.name)
		}
	}
	if err := report(out, results); err != nil {
		return err
	}
	return failed
}

// report prints the figures (memory and cores are the provider's, others are the cores that other work on the machine took while nodes were
// made), the commands behind the numbers of calls, and how the figures compare with thresholds.
func report(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "load\tlatency\tnodes\tall bound\tnodes/min\tcalls/node created\tcalls/node deleted\tall gone\tmemory\tcores\tothers")
	for _, r := range results {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%.0f s\t%.0f\t%.1f\t%.1f\t%.0f s\t%.0f MB\t%.2f\t%.2f\n", r.load.name, r.latency.name, r.nodes, r.up.Seconds(),
			float64(r.nodes)/r.up.Minutes(), r.perNode(r.creating), r.perNode(r.deleting), r.down.Seconds(), r.memory, r.cores, r.others)
	}
	_, _ = fmt.Fprintln(table, "\nload\tlatency\tphase\tcalls\tby command")
	for _, r := range results {
		row := func(phase, total string, commands calls) {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.load.name, r.latency.name, phase, total, commands)
		}
		row("creating", strconv.Itoa(r.creating.sum()), r.creating)
		row("the minute after", strconv.Itoa(r.settling.sum()), r.settling)
		if r.idle > 0 {
			row("idle", fmt.Sprintf("%.1f/min", float64(r.resting.sum())/r.idle.Minutes()), r.resting)
		}
		row("deleting", strconv.Itoa(r.deleting.sum()), r.deleting)
	}
	if err := table.Flush(); err != nil {
		return errors.WithStack(err)
	}
	_, _ = fmt.Fprintln(out)
	for _, r := range results {
		if r.load.crowded() {
			_, _ = fmt.Fprintf(out, "%s, latency %s: with --launch-timeout %s\n", r.load.name, r.latency.name, crowdTimeout)
		}
		for _, line := range verdicts(r) {
			_, _ = fmt.Fprintln(out, line)
		}
	}
	return nil
}
