// Command bench measures the provider on this machine: how long pods wait for nodes, how many nodes there are in a minute, how many calls
// to CloudStack a node costs and how many an idle cluster, and how much memory the provider takes. It does so with deployments that take
// as long as those of a real CloudStack, and beside it with an emulated CloudStack that answers at once: the difference is CloudStack's,
// the rest is the provider's, Karpenter core's and that of the control plane, all on this machine.
package main

import (
	"bytes"
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
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// name is the name of all that a measurement makes.
const name = "bench"

// patience is how long a phase may take.
const patience = time.Hour

// latency is how long deployments take.
type latency struct {
	name              string
	shortest, longest time.Duration
}

var latencies = []latency{
	{"20-60 s", 20 * time.Second, 60 * time.Second},
	{"none", 0, 0},
}

// load is what is measured.
type load struct {
	name string
	pods int
	// perNode has a node for each pod.
	perNode bool
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
	idle := flags.Duration("idle", time.Minute, "how long the idle cluster is watched")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errors.WithStack(err)
	}
	var loads []load
	if *pods > 0 {
		loads = append(loads, load{fmt.Sprintf("%d pods share nodes", *pods), *pods, false})
	}
	for _, text := range strings.FieldsFunc(*nodes, func(r rune) bool { return r == ',' }) {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 {
			return errors.Errorf("-nodes %s: numbers greater than 0, comma separated", *nodes)
		}
		loads = append(loads, load{fmt.Sprintf("%d nodes with a pod each", count), count, true})
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "load\tdeploy jobs\tnodes\tall bound\tnodes/min\tcalls/node created\tidle calls/min\tcalls/node deleted\tall gone\tmemory")
	for _, load := range loads {
		for _, latency := range latencies {
			row, err := measure(ctx, *provider, load, latency, *idle)
			if err != nil {
				return errors.Wrapf(err, "%s, deploy jobs %s", load.name, latency.name)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", load.name, latency.name, row)
			_, _ = fmt.Fprintf(os.Stderr, "done: %s, deploy jobs %s\n", load.name, latency.name)
		}
	}
	return errors.WithStack(table.Flush())
}

// measure measures a load in a lab of its own.
func measure(ctx context.Context, provider string, load load, latency latency, idle time.Duration) (string, error) {
	cloud := fake.Default(fake.Options{JobLatency: fake.Between(latency.shortest, latency.longest), KeepRequests: 1 << 20})
	l, err := lab.Start(ctx, lab.Options{Provider: provider, Cloud: cloud, Environment: []string{
		// What it is delivered with, where a lab is quicker.
		"BATCH_IDLE_DURATION=1s", "BATCH_MAX_DURATION=10s",
	}})
	if err != nil {
		return "", err
	}
	defer l.Stop()
	if err := l.StartProvider(); err != nil {
		return "", err
	}
	pool, cpu := lab.NodePool(name, name), "100m"
	if load.perNode {
		cpu = "1100m"
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"},
		})
	}
	if err := l.Apply(ctx, lab.NodeClass(name), pool); err != nil {
		return "", err
	}
	if err := l.NodeClassReady(ctx, name, patience); err != nil {
		return "", err
	}

	cloud.ResetRequests()
	start := time.Now()
	if err := l.CreatePods(ctx, name, load.pods, lab.PodSpec(name, cpu, "128Mi")); err != nil {
		return "", err
	}
	full, err := l.Until(ctx, patience, name, func(c lab.Count) bool { return c.Bound == load.pods && c.Registered == c.Claims })
	if err != nil {
		return "", err
	}
	up, created := time.Since(start), calls(cloud)
	memory, err := residentMiB(l.ProviderPid())
	if err != nil {
		return "", err
	}

	cloud.ResetRequests()
	select {
	case <-ctx.Done():
		return "", errors.WithStack(ctx.Err())
	case <-time.After(idle):
	}
	resting := calls(cloud)

	cloud.ResetRequests()
	start = time.Now()
	if err := l.DeletePods(ctx, name); err != nil {
		return "", err
	}
	if _, err := l.Until(ctx, patience, name, func(c lab.Count) bool { return c == lab.Count{} }); err != nil {
		return "", err
	}
	down, deleted := time.Since(start), calls(cloud)
	nodes := float64(full.Nodes)
	return fmt.Sprintf("%d\t%.0f s\t%.0f\t%.1f\t%.1f\t%.1f\t%.0f s\t%d MiB", full.Nodes, up.Seconds(), nodes/up.Minutes(), created/nodes,
		resting/idle.Minutes(), deleted/nodes, down.Seconds(), memory), nil
}

// calls is how many requests there were.
func calls(cloud *fake.CloudStack) float64 {
	sum := 0
	for _, count := range cloud.Counts() {
		sum += count
	}
	return float64(sum)
}

// residentMiB is the memory of a process that is in use, as Linux tells it.
func residentMiB(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, errors.Wrap(err, "reading how much memory the provider takes")
	}
	for line := range bytes.Lines(raw) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			return kib / 1024, errors.WithStack(err)
		}
	}
	return 0, errors.New("Linux does not tell how much memory the provider takes")
}
