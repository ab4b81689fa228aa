package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"go.uber.org/multierr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	corecloudprovider "sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/affinity"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

const (
	// workers is how many NodeClaims core launches at a time, where it requests one CPU.
	workers = 1000
	// again is when core asks once more whether a machine is gone, and about when it tries once more what failed.
	again = 5 * time.Second
)

// fleet is what became of many machines.
type fleet struct {
	machines int
	latency  latency
	// up is the time until all ran, launches are those of each NodeClaim, from when core would have made it; down the time until all were gone.
	up, down time.Duration
	launches []time.Duration
	// failures are launches that had to be tried again, by the reason that their condition has.
	failures calls
	// creating, listing and deleting are the requests of each phase; listing is one list of all machines.
	creating, listing, deleting calls
}

// machinesAll measures how many machines the provider makes in a minute by itself. There is no Kubernetes: what is left are CloudStack's
// latency and the provider's limits, those that it is delivered with.
func machinesAll(ctx context.Context, out io.Writer, counts []int, with []latency) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "machines, without Kubernetes\tlatency\tall run\tmachines/min\tlaunch p50\tp99\ttried again\tcalls/machine made\tcalls of a list\tcalls/machine deleted\tall gone\tcommands")
	for _, count := range counts {
		for _, latency := range with {
			f, err := machines(ctx, count, latency, again)
			if err != nil {
				// What was measured is printed.
				return multierr.Append(errors.Wrapf(err, "%d machines, latency %s", count, latency.name), table.Flush())
			}
			each := func(phase calls) float64 { return float64(phase.sum()) / float64(count) }
			_, _ = fmt.Fprintf(table, "%d\t%s\t%.0f s\t%.0f\t%.0f s\t%.0f s\t%s\t%.1f\t%d\t%.1f\t%.0f s\t%s\n", count, latency.name, f.up.Seconds(),
				float64(count)/f.up.Minutes(), percentile(f.launches, 50).Seconds(), percentile(f.launches, 99).Seconds(), cmp.Or(f.failures.String(), "0"),
				each(f.creating), f.listing.sum(), each(f.deleting), f.down.Seconds(), f.creating)
			_, _ = fmt.Fprintf(os.Stderr, "done: %d machines, latency %s\n", count, latency.name)
		}
	}
	_, _ = fmt.Fprintln(table)
	return errors.WithStack(table.Flush())
}

// machines makes machines as core would have them made, and deletes them.
func machines(ctx context.Context, count int, latency latency, again time.Duration) (fleet, error) {
	f := fleet{machines: count, latency: latency, failures: calls{}}
	cloud := fake.Default(fake.Options{
		JobLatency: fake.Between(latency.shortest, latency.longest), RequestLatency: latency.request, KeepRequests: 1,
	})
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		return f, err
	}
	defer stop()
	m, err := newMaker(ctx, url)
	if err != nil {
		return f, err
	}

	cloud.ResetRequests()
	start := time.Now()
	ids, launches := make([]string, count), make([]time.Duration, count)
	var failed sync.Mutex
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range count {
		group.Go(func() error {
			for {
				id, err := m.create(groupCtx, i)
				if err == nil {
					ids[i], launches[i] = id, time.Since(start)
					return nil
				}
				failed.Lock()
				f.failures[reason(err)]++
				failed.Unlock()
				if time.Since(start) > time.Hour {
					return err
				}
				if err := wait(groupCtx, again); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return f, err
	}
	f.up, f.creating, f.launches = time.Since(start), cloud.Counts(), launches

	cloud.ResetRequests()
	listed, err := m.instances.List(ctx)
	if err != nil {
		return f, err
	}
	if len(listed) != count {
		return f, errors.Errorf("%d machines were made of %d", len(listed), count)
	}
	f.listing = cloud.Counts()

	cloud.ResetRequests()
	start = time.Now()
	deletions, deleteCtx := errgroup.WithContext(ctx)
	for _, id := range ids {
		deletions.Go(func() error {
			for {
				err := m.instances.Delete(deleteCtx, id)
				if corecloudprovider.IsNodeClaimNotFoundError(err) {
					return nil
				}
				if err != nil && time.Since(start) > time.Hour {
					return err
				}
				if err := wait(deleteCtx, again); err != nil {
					return err
				}
			}
		})
	}
	if err := deletions.Wait(); err != nil {
		return f, err
	}
	f.down, f.deleting = time.Since(start), cloud.Counts()
	return f, nil
}

// reason is what core shows as the reason of a launch that failed.
func reason(err error) string {
	var create *corecloudprovider.CreateError
	if errors.As(err, &create) {
		return create.ConditionReason
	}
	return "other"
}

// wait waits, or returns the error of the context.
func wait(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.WithStack(ctx.Err())
	case <-time.After(length):
		return nil
	}
}

// maker makes machines.
type maker struct {
	nodeClass *csv1.CloudStackNodeClass
	types     *instancetype.DefaultProvider
	instances *instance.DefaultProvider
}

func newMaker(ctx context.Context, url string) (*maker, error) {
	delivered := options.Defaults()
	api, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey},
		Rate:        delivered.APIRate, Burst: delivered.APIBurst, RequestTimeout: delivered.APITimeout,
	})
	if err != nil {
		return nil, err
	}
	least, clk := int64(1), clock.RealClock{}
	m := &maker{nodeClass: &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: name},
		Spec: csv1.CloudStackNodeClassSpec{
			Zones:                        []string{fake.ZoneA, fake.ZoneB},
			NetworkSelectorTerms:         []csv1.NetworkSelectorTerm{{Type: "Isolated"}},
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{CPU: &csv1.Range{Min: &least}}},
			TemplateSelectorTerms:        []csv1.TemplateSelectorTerm{{Name: fake.TemplateAMD64}},
		},
	}}
	templates, unavailable, status := template.NewProvider(api, clk), instancetype.NewUnavailable(clk), &m.nodeClass.Status
	if status.Zones, err = zone.NewProvider(api, clk).Resolve(ctx, m.nodeClass); err != nil {
		return nil, err
	}
	if status.Networks, _, err = network.NewProvider(api, clk).Resolve(ctx, m.nodeClass, status.Zones); err != nil {
		return nil, err
	}
	if status.Templates, err = templates.Resolve(ctx, m.nodeClass, status.Zones); err != nil {
		return nil, err
	}
	uid := uuid.NewString()
	m.types = instancetype.NewProvider(api, templates, unavailable, clk, instancetype.Options{MemoryOverheadPercent: delivered.VMMemoryOverheadPercent})
	m.instances = instance.NewProvider(api, userData{}, m.types, unavailable, affinity.NewProvider(api, instance.GroupName(name, uid), clk), instance.Options{
		ClusterName: name, ClusterUID: uid, DeployConcurrency: delivered.DeployConcurrency,
		LaunchTimeout: delivered.LaunchTimeout - delivered.LaunchTimeout/5, // as the operator has it
	})
	return m, nil
}

// create makes the machine of a NodeClaim, the same each time.
func (m *maker) create(ctx context.Context, number int) (string, error) {
	all, err := m.types.List(ctx, m.nodeClass)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s-%05d", name, number)
	machine, err := m.instances.Create(ctx, m.nodeClass, &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: text, UID: types.UID(uuid.NewSHA1(uuid.Nil, []byte(text)).String()), Labels: map[string]string{karpv1.NodePoolLabelKey: name},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: name},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}},
			},
			Resources: karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")}},
		},
	}, all)
	if err != nil {
		return "", err
	}
	return machine.ID, nil
}

// userData is a renderer whose user data is as long as that of a usual machine.
type userData struct{}

var usual = sync.OnceValue(func() string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("# user data\n", 250))) })

// Render implements instance.Renderer.
func (userData) Render(context.Context, bootstrap.Request) (string, error) { return usual(), nil }
