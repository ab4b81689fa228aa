package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// name is the name of all that a measurement makes.
const name = "bench"

// settle is how long a cluster has to come to rest, once all pods are bound.
const settle = time.Minute

// load is what is measured.
type load struct {
	name string
	pods int
	// perNode has a node for each pod.
	perNode bool
}

// plan is a measurement to be made.
type plan struct {
	provider string
	load     load
	latency  latency
	// idle is how long the idle cluster is watched, once it has settled; patience is how long a phase may take.
	idle, patience time.Duration
}

// crowd is how many nodes core gives the time that it has by default. More of them at once are not all launched within it, as the limit on the
// rate of requests has them wait for each other, and have crowdTimeout: see --launch-timeout.
const (
	crowd        = 1000
	crowdTimeout = 15 * time.Minute
)

// memoryLimit is the limit of memory that the chart gives the provider, in bytes. The garbage collection of Go begins to hurry at nine tenths of
// it, so it changes nothing about a measurement that stays below.
const memoryLimit = 2 << 30

// crowded tells whether a load needs a longer launch timeout than the default.
func (l load) crowded() bool { return l.perNode && l.pods > crowd }

// environment is that of the provider beside what a lab sets.
func (l load) environment() []string {
	// What it is delivered with, where a lab is quicker or has no limits.
	environment := []string{"BATCH_IDLE_DURATION=1s", "BATCH_MAX_DURATION=10s", fmt.Sprintf("MEMORY_LIMIT=%d", memoryLimit)}
	if l.crowded() {
		environment = append(environment, "LAUNCH_TIMEOUT="+crowdTimeout.String())
	}
	return environment
}

// pause is how long nobody looks how far a load has come. Looking at thousands of objects is work for this machine, too.
func (l load) pause() time.Duration {
	return 200*time.Millisecond + time.Duration(l.pods)*time.Millisecond/2
}

// result is a measurement that was made.
type result struct {
	load    load
	latency latency
	nodes   int
	// up is the time until all pods were bound, down the time until all machines were gone.
	up, down time.Duration
	// used is what the provider, and all else on this machine, used while nodes were made.
	used
	// creating, settling, resting and deleting are the requests of each phase; idle is how long resting was.
	creating, settling, resting, deleting calls
	idle                                  time.Duration
}

func (r result) perNode(phase calls) float64 { return float64(phase.sum()) / float64(r.nodes) }

// calls are requests by command.
type calls map[string]int

func (c calls) sum() int {
	sum := 0
	for _, count := range c {
		sum += count
	}
	return sum
}

// String has the commands, the most frequent first.
func (c calls) String() string {
	commands := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		if c[a] != c[b] {
			return c[b] - c[a]
		}
		return strings.Compare(a, b)
	})
	for i, command := range commands {
		commands[i] = fmt.Sprintf("%s %d", command, c[command])
	}
	return strings.Join(commands, ", ")
}

// measure measures in a lab of its own.
func measure(ctx context.Context, p plan) (result, error) {
	r := result{load: p.load, latency: p.latency, idle: p.idle}
	cloud := fake.Default(fake.Options{
		JobLatency: fake.Between(p.latency.shortest, p.latency.longest), RequestLatency: p.latency.request, KeepRequests: 1,
	})
	l, err := lab.Start(ctx, lab.Options{Provider: p.provider, Cloud: cloud, Environment: p.load.environment()})
	if err != nil {
		return r, err
	}
	defer l.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Client, err = cached(ctx, l.ControlPlane.Config); err != nil {
		return r, err
	}
	if err := l.StartProvider(); err != nil {
		return r, err
	}
	pool, cpu := lab.NodePool(name, name), "100m"
	if p.load.perNode {
		cpu = "1100m"
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"},
		})
	}
	if err := l.Apply(ctx, lab.NodeClass(name), pool); err != nil {
		return r, err
	}
	if err := l.NodeClassReady(ctx, name, p.patience); err != nil {
		return r, err
	}

	cloud.ResetRequests()
	usage, err := watch(l.ProviderPid())
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := l.CreatePods(ctx, name, p.load.pods, lab.PodSpec(name, cpu, "128Mi")); err != nil {
		return r, err
	}
	full, err := l.UntilEvery(ctx, p.load.pause(), p.patience, name, func(c lab.Count) bool { return c.Bound == p.load.pods && c.Registered == c.Claims })
	if err != nil {
		return r, err
	}
	r.nodes, r.up, r.creating = full.Nodes, time.Since(start), cloud.Counts()
	if r.used, err = usage.stop(); err != nil {
		return r, err
	}
	if r.settling, err = during(ctx, cloud, settle); err != nil {
		return r, err
	}
	if r.resting, err = during(ctx, cloud, p.idle); err != nil {
		return r, err
	}

	cloud.ResetRequests()
	start = time.Now()
	if err := l.DeletePods(ctx, name); err != nil {
		return r, err
	}
	if _, err := l.UntilEvery(ctx, p.load.pause(), p.patience, name, func(c lab.Count) bool { return c == lab.Count{} }); err != nil {
		return r, err
	}
	r.down, r.deleting = time.Since(start), cloud.Counts()
	return r, nil
}

// cached is a client that is told of changes: to list thousands of objects all the time would be most of what is measured.
func cached(ctx context.Context, config *rest.Config) (client.Client, error) {
	// Pods and nodes are counted, and not changed: thousands of them need not be copied for each look.
	shared := cache.ByObject{UnsafeDisableDeepCopy: ptr.To(true)}
	reader, err := cache.New(config, cache.Options{Scheme: scheme.Scheme, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: shared, &corev1.Node{}: shared}})
	if err != nil {
		return nil, errors.Wrap(err, "making a cache")
	}
	go func() { _ = reader.Start(ctx) }() // it ends with the context; one that does not start never syncs
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpv1.NodeClaim{}} {
		if _, err := reader.GetInformer(ctx, object); err != nil {
			return nil, errors.Wrapf(err, "watching %T", object)
		}
	}
	if !reader.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache has not been filled")
	}
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Cache: &client.CacheOptions{Reader: reader}})
	return c, errors.Wrap(err, "making a client for the API server")
}

// during has the requests that are made in a time.
func during(ctx context.Context, cloud *fake.CloudStack, length time.Duration) (calls, error) {
	cloud.ResetRequests()
	select {
	case <-ctx.Done():
		return nil, errors.WithStack(ctx.Err())
	case <-time.After(length):
		return cloud.Counts(), nil
	}
}
