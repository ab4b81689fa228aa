package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	corecloudprovider "sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

// offerings and zones are what core benchmarks its scheduling with, in as many zones as large clouds have.
const offerings, zones = 400, 5

// catalogue is a CloudStack with many offerings, and the provider.
type catalogue struct {
	*cloudprovider.CloudProvider
	unavailable *instancetype.Unavailable
}

// instanceTypes measures how long GetInstanceTypes takes: when nothing has changed, when there is no room somewhere any more, and when
// CloudStack has to be asked.
func instanceTypes(ctx context.Context, out io.Writer, with []latency) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "GetInstanceTypes, %d offerings x %d zones\tlatency\tcalls\tp50\tp99\n", offerings, zones)
	for _, latency := range with {
		cloud, nodeClass := dataCentre(latency)
		url, stop, err := cloud.Start("127.0.0.1:0")
		if err != nil {
			return err
		}
		err = instanceTypesOf(ctx, table, latency, url, nodeClass, 50)
		stop()
		if err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(table)
	return errors.WithStack(table.Flush())
}

// instanceTypesOf asks so many times with CloudStack's help, and more often without.
func instanceTypesOf(
	ctx context.Context, table io.Writer, latency latency, url string, nodeClass *csv1.CloudStackNodeClass, times int,
) error {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: name}
	var warm *catalogue
	for _, one := range []struct {
		name   string
		times  int
		before func() (*catalogue, error)
	}{
		{"CloudStack is asked", times, func() (*catalogue, error) { return newCatalogue(ctx, url, nodeClass) }},
		{"nothing has changed", 40 * times, func() (*catalogue, error) { return warm, nil }},
		{"no room in one zone more", 4 * times, func() (*catalogue, error) {
			warm.unavailable.Mark(ctx, "bench", time.Now().String(), "", "")
			return warm, nil
		}},
	} {
		took := make([]time.Duration, 0, one.times)
		for range one.times {
			c, err := one.before()
			if err != nil {
				return err
			}
			warm = c
			began := time.Now()
			got, err := c.GetInstanceTypes(ctx, pool)
			took = append(took, time.Since(began))
			if err != nil {
				return err
			}
			if err := whole(got); err != nil {
				return err
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", one.name, latency.name, one.times, rounded(percentile(took, 50)), rounded(percentile(took, 99)))
	}
	return nil
}

func whole(types []*corecloudprovider.InstanceType) error {
	if len(types) != offerings || len(types[0].Offerings) != zones {
		return errors.Errorf("%d instance types, %d wanted", len(types), offerings)
	}
	return nil
}

func rounded(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// dataCentre is a CloudStack with many offerings, and a CloudStackNodeClass that takes all of them.
func dataCentre(latency latency) (*fake.CloudStack, *csv1.CloudStackNodeClass) {
	cloud := fake.New(fake.Options{RequestLatency: latency.request, KeepRequests: 1})
	least := int64(1)
	nodeClass := &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: name},
		Spec: csv1.CloudStackNodeClassSpec{
			NetworkSelectorTerms:         []csv1.NetworkSelectorTerm{{Type: "Isolated"}},
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{CPU: &csv1.Range{Min: &least}}},
			TemplateSelectorTerms:        []csv1.TemplateSelectorTerm{{NameRegex: ".*"}},
		},
	}
	for i := range zones {
		zone := cloud.AddZone(fake.Zone{Name: fmt.Sprintf("zone-%d", i)})
		cloud.AddNetwork(fake.Network{Name: fmt.Sprintf("nodes-%d", i), ZoneID: zone.ID})
		nodeClass.Spec.Zones = append(nodeClass.Spec.Zones, zone.Name)
	}
	cloud.AddTemplate(fake.Template{Name: "image", Arch: "x86_64", OSType: "Ubuntu 24.04 LTS"})
	for i := range offerings {
		cloud.AddOffering(offeringOf(i))
	}
	return cloud, nodeClass
}

func offeringOf(i int) fake.Offering {
	return fake.Offering{Name: fmt.Sprintf("offering.%d", i), CPU: 1 + i%64, CPUSpeedMHz: 2000, MemoryMiB: 1024 * (1 + i%128)}
}

// newCatalogue is a provider that has not asked CloudStack anything, but for what the status of the CloudStackNodeClass has.
func newCatalogue(ctx context.Context, url string, nodeClass *csv1.CloudStackNodeClass) (*catalogue, error) {
	api, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey},
		Rate:        1e6, Burst: 1e6, // the limit is not what is measured
	})
	if err != nil {
		return nil, err
	}
	clk := clock.RealClock{}
	templates, unavailable := template.NewProvider(api, clk), instancetype.NewUnavailable(clk)
	if len(nodeClass.Status.Zones) == 0 {
		status := &nodeClass.Status
		if status.Zones, err = zone.NewProvider(api, clk).Resolve(ctx, nodeClass); err != nil {
			return nil, err
		}
		if status.Networks, _, err = network.NewProvider(api, clk).Resolve(ctx, nodeClass, status.Zones); err != nil {
			return nil, err
		}
		if status.Templates, err = templates.Resolve(ctx, nodeClass, status.Zones); err != nil {
			return nil, err
		}
	}
	types := instancetype.NewProvider(api, templates, unavailable, clk, instancetype.Options{MemoryOverheadPercent: 7.5})
	// Machines are not asked for.
	machines := instance.NewProvider(api, nil, types, unavailable, nil, instance.Options{})
	return &catalogue{cloudprovider.New(machines, types, oneNodeClass{nodeClass: nodeClass}, nil, cloudprovider.Options{}), unavailable}, nil
}

// oneNodeClass is a client that has a CloudStackNodeClass in its cache, and nothing else.
type oneNodeClass struct {
	client.Client
	nodeClass *csv1.CloudStackNodeClass
}

// Get copies the CloudStackNodeClass, as a cache does.
func (o oneNodeClass) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	nodeClass, ok := into.(*csv1.CloudStackNodeClass)
	if !ok {
		return errors.Errorf("there is no %T", into)
	}
	o.nodeClass.DeepCopyInto(nodeClass)
	return nil
}
