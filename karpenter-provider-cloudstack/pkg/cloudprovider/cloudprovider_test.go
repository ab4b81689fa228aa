package cloudprovider

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

const machineID = "0b8b4f4e-7c1e-4f07-9b1c-2f1d9c3a5e11"

// machines is an instance.Provider.
type machines struct {
	instance.Provider
	create  func([]*cloudprovider.InstanceType) (*instance.Instance, error)
	list    []*instance.Instance
	lists   int
	err     error
	gets    int
	deleted []string
}

func (m *machines) Create(
	_ context.Context, _ *csv1.CloudStackNodeClass, _ *karpv1.NodeClaim, its []*cloudprovider.InstanceType,
) (*instance.Instance, error) {
	return m.create(its)
}

func (m *machines) List(context.Context) ([]*instance.Instance, error) {
	m.lists++
	return m.list, m.err
}

func (m *machines) Get(_ context.Context, id string) (*instance.Instance, error) {
	m.gets++
	if found, ok := lo.Find(m.list, func(i *instance.Instance) bool { return i.ID == id }); ok {
		return found, m.err
	}
	return nil, cloudprovider.NewNodeClaimNotFoundError(errors.New("gone"))
}

func (m *machines) Delete(_ context.Context, id string) error {
	m.deleted = append(m.deleted, id)
	return m.err
}

// kinds is an instancetype.Provider.
type kinds struct {
	instancetype.Provider
	types     []*cloudprovider.InstanceType
	offerings []*cloudstack.ServiceOffering
	err       error
}

func (k *kinds) List(context.Context, *csv1.CloudStackNodeClass) ([]*cloudprovider.InstanceType, error) {
	return k.types, k.err
}

func (k *kinds) Offerings(context.Context, *csv1.CloudStackNodeClass) ([]*cloudstack.ServiceOffering, error) {
	return k.offerings, k.err
}

type recorder struct{ events []events.Event }

func (r *recorder) Publish(published ...events.Event) { r.events = append(r.events, published...) }

type world struct {
	machines *machines
	kinds    *kinds
	recorder *recorder
	clock    *clocktesting.FakeClock
	class    *csv1.CloudStackNodeClass
	// stale has the NodeClass changed since its status was written.
	stale   bool
	options Options
}

func newWorld() *world {
	class := &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1},
		Spec: csv1.CloudStackNodeClassSpec{
			Zones: []string{"zone-a"}, SecurityGroupSelectorTerms: []csv1.SecurityGroupSelectorTerm{{Name: "g1"}},
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{NameRegex: "m1.*"}}, TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{Name: "ubuntu"}},
		},
		Status: csv1.CloudStackNodeClassStatus{
			Zones:              []csv1.ZoneStatus{{ID: "za", Name: "zone-a", SecurityGroupsEnabled: true}, {ID: "zb", Name: "zone-b"}},
			Networks:           []csv1.NetworkStatus{{ID: "n1", ZoneID: "za"}, {ID: "n2", ZoneID: "za"}, {ID: "n3", ZoneID: "zb"}},
			AdditionalNetworks: []csv1.NetworkStatus{{ID: "n4", ZoneID: "za"}},
			Templates: []csv1.TemplateStatus{
				{ID: "t1", ZoneID: "za", Architecture: "amd64"}, {ID: "t2", ZoneID: "za", Architecture: "arm64"},
			},
			SecurityGroups: []csv1.SecurityGroupStatus{{ID: "g1"}},
		},
	}
	for _, condition := range []string{
		csv1.ConditionZonesReady, csv1.ConditionNetworksReady, csv1.ConditionTemplatesReady, csv1.ConditionOfferingsReady,
		csv1.ConditionSecurityGroupsReady, csv1.ConditionBootstrapReady,
	} {
		class.StatusConditions().SetTrue(condition)
	}
	class.Annotations = map[string]string{
		csv1.AnnotationNodeClassHash: class.Hash(), csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion,
	}
	return &world{
		machines: &machines{}, kinds: &kinds{types: []*cloudprovider.InstanceType{instanceType("m1small", "1"), instanceType("m1large", "4")},
			offerings: []*cloudstack.ServiceOffering{{Id: "o-m1small"}, {Id: "o-m1large"}}},
		recorder: &recorder{}, clock: clocktesting.NewFakeClock(time.Now()), class: class,
	}
}

func instanceType(name, cpu string) *cloudprovider.InstanceType {
	requirement := func(key string, values ...string) *scheduling.Requirement {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	it := &cloudprovider.InstanceType{
		Name: name,
		Requirements: scheduling.NewRequirements(
			requirement(corev1.LabelInstanceTypeStable, name), requirement(corev1.LabelArchStable, "amd64", "arm64"),
			requirement(corev1.LabelTopologyZone, "zone-a", "zone-b"), requirement(csv1.LabelInstanceCPU, cpu),
			requirement(csv1.LabelServiceOfferingID, "o-"+name), requirement(csv1.LabelInstanceGPUName, "no label value!"),
			scheduling.NewRequirement(csv1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist),
		),
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("2Gi"), csv1.ResourceNVIDIAGPU: resource.MustParse("0"),
		},
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
	}
	for _, zone := range []string{"zone-a", "zone-b"} {
		it.Offerings = append(it.Offerings, &cloudprovider.Offering{
			Available: true, Price: 1, Requirements: scheduling.NewRequirements(
				requirement(corev1.LabelTopologyZone, zone), requirement(karpv1.CapacityTypeLabelKey, "on-demand")),
		})
	}
	return it
}

func machine() *instance.Instance {
	return &instance.Instance{
		ID: machineID, Name: "pool-abcde-1a2b3c4d", State: cloudstack.StateRunning, ZoneID: "za", ZoneName: "zone-a", OfferingID: "o-m1small",
		InstanceTypeName: "m1small", TemplateID: "t1", Architecture: "amd64", NetworkIDs: []string{"n1", "n4"}, SecurityGroupIDs: []string{"g1"},
		CapacityType: "on-demand", Created: time.Now(), Tags: map[string]string{csv1.TagNodeClaim: "pool-abcde", csv1.TagNodePool: "pool"},
	}
}

func nodeClaim() *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "pool-abcde", UID: "1", Labels: map[string]string{karpv1.NodePoolLabelKey: "pool"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: "example.com/team", Operator: corev1.NodeSelectorOpIn, Values: []string{"blue"}}},
		},
	}
}

func (w *world) provider(t *testing.T) *CloudProvider {
	t.Helper()
	w.options.Clock = w.clock
	c := suite.Client(t)
	if w.class != nil {
		class := w.class.DeepCopy()
		suite.Create(t, c, class)
		if w.stale {
			class.Spec.Tags = map[string]string{"team": "blue"}
			if err := c.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
		}
	}
	return New(w.machines, w.kinds, c, w.recorder, w.options)
}

func TestProviderID(t *testing.T) {
	const id = machineID
	for format, want := range map[string]string{
		"": "external-cloudstack://" + id, "ccm": "external-cloudstack://" + id, "capc": "cloudstack:///" + id, "my+cloud://": "my+cloud://" + id,
	} {
		got := ProviderID(format, id)
		if got != want {
			t.Errorf("%q: have %s", format, got)
		}
		if back, err := ParseProviderID(got, format); err != nil || back != id {
			t.Errorf("%q: have %s, %v", format, back, err)
		}
	}
	for _, wrong := range []string{
		"", id, "external-cloudstack://", "external-cloudstack:///" + id, "cloudstack://" + id, "cloudstack:///zone/" + id, "aws:///" + id,
		"external-cloudstack://" + strings.ToUpper(id), "external-cloudstack://" + id + "/", " external-cloudstack://" + id, "external-cloudstack://" + id + "\n",
		"external-cloudstack://" + id[1:], "my+cloud://" + id, "external-cloudstack://{" + id + "}",
	} {
		if got, err := ParseProviderID(wrong); err == nil || !strings.Contains(err.Error(), "external-cloudstack://") {
			t.Errorf("%q: have %q, %v", wrong, got, err)
		}
	}
}

func TestCreate(t *testing.T) {
	w := newWorld()
	w.machines.create = func(its []*cloudprovider.InstanceType) (*instance.Instance, error) {
		if len(its) != 2 {
			t.Errorf("all instance types have to be given, not %d", len(its))
		}
		return machine(), nil
	}
	got, err := w.provider(t).Create(context.Background(), nodeClaim())
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{
		corev1.LabelInstanceTypeStable: "m1small", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: "zone-a",
		karpv1.CapacityTypeLabelKey: "on-demand", csv1.LabelInstanceCPU: "1", csv1.LabelServiceOfferingID: "o-m1small",
		karpv1.NodePoolLabelKey: "pool", "example.com/team": "blue",
	}
	if !maps.Equal(got.Labels, wantLabels) {
		t.Errorf("labels %v", got.Labels)
	}
	wantAnnotations := map[string]string{
		csv1.AnnotationNodeClassHash: w.class.Hash(), csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion,
		csv1.AnnotationTemplateID: "t1", csv1.AnnotationNetworkIDs: "n1,n4", csv1.AnnotationInstanceTagged: "true",
	}
	if !maps.Equal(got.Annotations, wantAnnotations) {
		t.Errorf("annotations %v", got.Annotations)
	}
	if got.Status.ProviderID != "external-cloudstack://"+machineID || got.Status.ImageID != "t1" {
		t.Errorf("status %+v", got.Status)
	}
	if c := got.Status.Capacity; len(c) != 2 || c.Cpu().String() != "1" {
		t.Errorf("capacity %v", c)
	}
	if a := got.Status.Allocatable; a.Cpu().String() != "900m" || a.Memory().String() != "2Gi" {
		t.Errorf("allocatable %v", a)
	}
	// A machine of an earlier call tells by its tags of which NodeClass it is, and has none of the annotation while it has no tags.
	w.machines.create = func([]*cloudprovider.InstanceType) (*instance.Instance, error) {
		m := machine()
		m.Tags = map[string]string{csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0"}
		return m, nil
	}
	got, err = w.provider(t).Create(context.Background(), nodeClaim())
	if err != nil || got.Annotations[csv1.AnnotationNodeClassHash] != "old" || got.Annotations[csv1.AnnotationNodeClassHashVersion] != "v0" ||
		got.Annotations[csv1.AnnotationInstanceTagged] != "" {
		t.Errorf("have %v, %v", got, err)
	}
	// One whose offering has become unavailable meanwhile keeps its labels.
	for _, offering := range w.kinds.types[0].Offerings {
		offering.Available = false
	}
	got, err = w.provider(t).Create(context.Background(), nodeClaim())
	if err != nil || got.Labels[csv1.LabelInstanceCPU] != "1" || got.Status.Allocatable.Cpu().String() != "900m" {
		t.Errorf("have %v, %v", got, err)
	}
}

func TestCreateNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		is     func(error) bool
	}{
		"no NodeClass": {func(w *world) { w.class = nil }, cloudprovider.IsInsufficientCapacityError},
		"being deleted": {func(w *world) {
			w.class.DeletionTimestamp, w.class.Finalizers = lo.ToPtr(metav1.Now()), []string{csv1.TerminationFinalizer}
		}, cloudprovider.IsInsufficientCapacityError},
		"not ready": {func(w *world) {
			w.class.StatusConditions().SetFalse(csv1.ConditionZonesReady, "ZoneUnknown", "no zone x")
		}, cloudprovider.IsNodeClassNotReadyError},
		"stale":         {func(w *world) { w.stale = true }, cloudprovider.IsNodeClassNotReadyError},
		"not known yet": {func(w *world) { w.class.StatusConditions().SetUnknown(csv1.ConditionZonesReady) }, isCreateError},
		"no status":     {func(w *world) { w.class.Status = csv1.CloudStackNodeClassStatus{} }, isCreateError},
		"no types":      {func(w *world) { w.kinds.err = errors.New("CloudStack is away") }, isCreateError},
		"no such types": {func(w *world) { w.kinds.err = selector.Errorf("NoOfferings", "no offering") }, func(err error) bool {
			var e *cloudprovider.CreateError
			return errors.As(err, &e) && e.ConditionReason == "NoOfferings"
		}},
		"types not ready": {func(w *world) { w.kinds.err = cloudprovider.NewNodeClassNotReadyError(errors.New("no zones")) }, cloudprovider.IsNodeClassNotReadyError},
		"no room":         {func(w *world) { w.machines.err = cloudprovider.NewInsufficientCapacityError(errors.New("full")) }, cloudprovider.IsInsufficientCapacityError},
		"launch that fails": {func(w *world) {
			w.machines.err = cloudprovider.NewCreateError(errors.New("taken"), "NameTaken", "taken")
		}, isCreateError},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			w.machines.create = func([]*cloudprovider.InstanceType) (*instance.Instance, error) {
				if w.machines.err == nil {
					t.Error("a machine was made")
				}
				return nil, w.machines.err
			}
			got, err := w.provider(t).Create(context.Background(), nodeClaim())
			if got != nil || !c.is(err) {
				t.Errorf("have %v, %v", got, err)
			}
			if (name == "no NodeClass" || name == "launch that fails") && len(w.recorder.events) != 1 {
				t.Errorf("events %v", w.recorder.events)
			}
		})
	}
}

func isCreateError(err error) bool {
	var e *cloudprovider.CreateError
	return errors.As(err, &e) && e.ConditionReason != "" && !cloudprovider.IsNodeClassNotReadyError(err)
}

type overlays struct{ pool string }

func (o *overlays) ApplyAll(pool string, _ []*cloudprovider.InstanceType) ([]*cloudprovider.InstanceType, error) {
	o.pool = pool
	return []*cloudprovider.InstanceType{instanceType("m1small", "7")}, nil
}

func TestCreateWithOverlays(t *testing.T) {
	for _, gate := range []bool{false, true} {
		w := newWorld()
		o := &overlays{}
		w.options.Overlays = o
		w.machines.create = func([]*cloudprovider.InstanceType) (*instance.Instance, error) { return machine(), nil }
		ctx := options.ToContext(context.Background(), &options.Options{FeatureGates: options.FeatureGates{NodeOverlay: gate}})
		got, err := w.provider(t).Create(ctx, nodeClaim())
		if want := lo.Ternary(gate, "7", "1"); err != nil || got.Status.Capacity.Cpu().String() != want || (o.pool == "pool") != gate {
			t.Errorf("gate %t: have %v, %v", gate, got, err)
		}
	}
}

func TestListGetDelete(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	deleting, odd := machine(), machine()
	deleting.ID, deleting.Deleting = "1b8b4f4e-7c1e-4f07-9b1c-2f1d9c3a5e11", true
	odd.ZoneName, odd.InstanceTypeName, odd.Tags = "zone with blanks", "type with blanks", nil
	w.machines.list = []*instance.Instance{odd, deleting}
	p := w.provider(t)
	list, err := p.List(ctx)
	if err != nil || len(list) != 2 || list[0].DeletionTimestamp != nil || list[1].DeletionTimestamp == nil ||
		list[0].Status.ProviderID != "external-cloudstack://"+machineID || list[1].Name != "pool-abcde" || list[0].Name != odd.Name {
		t.Fatalf("have %v, %v", list, err)
	}
	if zone := list[0].Labels[corev1.LabelTopologyZone]; zone != "zone-with-blanks" {
		t.Errorf("a label cannot have the value %q", zone)
	}
	if _, there := list[0].Labels[corev1.LabelInstanceTypeStable]; there {
		t.Error("a label cannot have that value")
	}
	if got, err := p.Get(ctx, "cloudstack:///"+machineID); err != nil || got.Status.ProviderID != "external-cloudstack://"+machineID {
		t.Errorf("have %v, %v", got, err)
	}
	if _, err := p.Get(ctx, "external-cloudstack://2b8b4f4e-7c1e-4f07-9b1c-2f1d9c3a5e11"); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
	if _, err := p.Get(ctx, "kwok://x"); err == nil || cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("an id that is none is not one of a machine that is gone: %v", err)
	}
	claim := nodeClaim()
	claim.Status.ProviderID = "external-cloudstack://" + machineID
	if err := p.Delete(ctx, claim); err != nil || !slices.Equal(w.machines.deleted, []string{machineID}) {
		t.Errorf("have %v, %v", err, w.machines.deleted)
	}
	claim.Status.ProviderID = ""
	if err := p.Delete(ctx, claim); err == nil || cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
	w.machines.err = errors.New("CloudStack is away")
	if list, err := p.List(ctx); err == nil || list != nil {
		t.Errorf("have %v, %v", list, err)
	}
}

type full map[string]bool

func (f full) IsFull(_ *csv1.CloudStackNodeClass, nodePool, zone string) bool {
	return f[nodePool+"/"+zone]
}

func TestGetInstanceTypes(t *testing.T) {
	w := newWorld()
	w.options.Full = full{"pool/zone-a": true}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = nodeClaim().Spec.NodeClassRef
	got, err := w.provider(t).GetInstanceTypes(context.Background(), pool)
	if err != nil || len(got) != 2 {
		t.Fatalf("have %v, %v", got, err)
	}
	for _, it := range got {
		for _, offering := range it.Offerings {
			if offering.Available != (offering.Zone() == "zone-b") {
				t.Errorf("%s in %s: %t", it.Name, offering.Zone(), offering.Available)
			}
		}
	}
	w.class = nil
	if _, err := w.provider(t).GetInstanceTypes(context.Background(), pool); err == nil || len(w.recorder.events) != 1 {
		t.Errorf("have %v, %v", err, w.recorder.events)
	}
}

func TestIsDrifted(t *testing.T) {
	hash := func(w *world, c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{csv1.AnnotationNodeClassHash: w.class.Hash(), csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion}
	}
	for name, c := range map[string]struct {
		change func(*world, *instance.Instance, *karpv1.NodeClaim)
		want   cloudprovider.DriftReason
	}{
		"nothing": {func(*world, *instance.Instance, *karpv1.NodeClaim) {}, ""},
		"hash": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) {
			w.class.Annotations[csv1.AnnotationNodeClassHash] = "new"
		}, DriftNodeClass},
		"hash of a version": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) {
			w.class.Annotations[csv1.AnnotationNodeClassHash], w.class.Annotations[csv1.AnnotationNodeClassHashVersion] = "new", "v2"
		}, ""},
		"no hash of the claim": {func(_ *world, _ *instance.Instance, c *karpv1.NodeClaim) { c.Annotations = nil }, ""},
		"no hash of the class": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) { w.class.Annotations = nil }, ""},
		"zone":                 {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.ZoneID = "zc" }, DriftZone},
		"template":             {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.TemplateID = "t0" }, DriftTemplate},
		"template of another architecture": {func(_ *world, m *instance.Instance, c *karpv1.NodeClaim) {
			m.TemplateID = "t2"
			c.Labels[corev1.LabelArchStable] = "amd64"
		}, DriftTemplate},
		"template of another zone": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) {
			w.class.Status.Templates[0].ZoneID = "zb"
			w.class.Status.Templates = append(w.class.Status.Templates, csv1.TemplateStatus{ID: "t9", ZoneID: "za", Architecture: "amd64"})
		}, DriftTemplate},
		"no template of the architecture": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) {
			w.class.Status.Templates = w.class.Status.Templates[1:]
		}, ""},
		"templates not known": {func(w *world, m *instance.Instance, _ *karpv1.NodeClaim) {
			m.TemplateID = "t0"
			w.class.StatusConditions().SetFalse(csv1.ConditionTemplatesReady, "x", "x")
		}, ""},
		"stale": {func(w *world, m *instance.Instance, _ *karpv1.NodeClaim) {
			m.TemplateID, m.ZoneID, m.OfferingID, m.NetworkIDs = "t0", "zc", "o-x", nil
			w.stale = true
		}, ""},
		"another network of the class": {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n2", "n4"} }, ""},
		"network":                      {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n9", "n4"} }, DriftNetwork},
		"network of another zone":      {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n3", "n4"} }, DriftNetwork},
		"network is not the default":   {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n4", "n1"} }, DriftNetwork},
		"further network missing":      {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n1"} }, DriftNetwork},
		"a network besides":            {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.NetworkIDs = []string{"n1", "n4", "n7"} }, ""},
		"security group":               {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.SecurityGroupIDs = []string{"g1", "g2"} }, DriftSecurityGroup},
		"no security group":            {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.SecurityGroupIDs = nil }, DriftSecurityGroup},
		"security groups not used": {func(w *world, m *instance.Instance, c *karpv1.NodeClaim) {
			w.class.Spec.SecurityGroupSelectorTerms, m.SecurityGroupIDs = nil, []string{"default"}
		}, ""},
		"offering not chosen": {func(w *world, _ *instance.Instance, _ *karpv1.NodeClaim) { w.kinds.offerings = w.kinds.offerings[1:] }, DriftServiceOffering},
		"offering changed":    {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) { m.OfferingID = "o-m1large" }, DriftServiceOffering},
		"being deleted": {func(_ *world, m *instance.Instance, _ *karpv1.NodeClaim) {
			m.TemplateID, m.Deleting = "t0", true
		}, ""},
		"no NodeClass": {func(w *world, m *instance.Instance, _ *karpv1.NodeClaim) {
			m.TemplateID = "t0"
			w.class = nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			claim, m := nodeClaim(), machine()
			claim.Status.ProviderID = "external-cloudstack://" + machineID
			claim.Labels[csv1.LabelServiceOfferingID] = "o-m1small"
			hash(w, claim)
			c.change(w, m, claim)
			w.machines.list = []*instance.Instance{m}
			if got, err := w.provider(t).IsDrifted(context.Background(), claim); err != nil || got != c.want {
				t.Errorf("have %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// Drift is looked for claim by claim, and CloudStack is asked for all machines now and then.
func TestIsDriftedAsksSeldom(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	w.machines.list = []*instance.Instance{machine()}
	claim := nodeClaim()
	claim.Status.ProviderID = "external-cloudstack://" + machineID
	p := w.provider(t)
	for range 100 {
		if _, err := p.IsDrifted(ctx, claim); err != nil {
			t.Fatal(err)
		}
	}
	if w.machines.lists != 1 || w.machines.gets != 0 {
		t.Errorf("%d lists and %d reads", w.machines.lists, w.machines.gets)
	}
	w.clock.Step(3 * time.Minute)
	w.machines.err = errors.New("CloudStack is away")
	if reason, err := p.IsDrifted(ctx, claim); err == nil {
		t.Errorf("a list that failed says nothing, and here %q", reason)
	}
	// That of one who asked is not asked for by the next.
	before := w.machines.lists
	if _, err := p.IsDrifted(ctx, claim); err == nil || w.machines.lists != before {
		t.Errorf("have %v", err)
	}
	w.machines.err = nil
	w.clock.Step(errorFor)
	if _, err := p.IsDrifted(ctx, claim); err != nil {
		t.Error(err)
	}
	gone := nodeClaim()
	gone.Status.ProviderID = "external-cloudstack://2b8b4f4e-7c1e-4f07-9b1c-2f1d9c3a5e11"
	if _, err := p.IsDrifted(ctx, gone); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
}

// When many machines are launched at a time, those that are younger than the list do not each cost a request.
func TestIsDriftedOfYoungMachines(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	p := w.provider(t)
	first := w.clock.Now()
	claimOf := func(n int, launched time.Time) *karpv1.NodeClaim {
		claim := nodeClaim()
		claim.Status.ProviderID = fmt.Sprintf("external-cloudstack://0b8b4f4e-7c1e-4f07-9b1c-%012d", n)
		claim.Labels[csv1.LabelServiceOfferingID] = "another" // what drift shows by
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		for i := range claim.Status.Conditions {
			claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(launched)
		}
		one := machine()
		one.ID = strings.TrimPrefix(claim.Status.ProviderID, "external-cloudstack://")
		w.machines.list = append(w.machines.list, one)
		return claim
	}
	for _, step := range []struct {
		reason      string
		after       time.Duration
		claim       int
		launched    time.Time
		want        cloudprovider.DriftReason
		lists, gets int
	}{
		{reason: "there is no list yet", claim: 1, launched: first, want: DriftServiceOffering, lists: 1},
		{reason: "launched after the list, which is fresh", after: 20 * time.Second, claim: 2, launched: first.Add(10 * time.Second), lists: 1},
		{reason: "the list is not fresh any more", after: 10 * time.Second, claim: 2, launched: first.Add(10 * time.Second), want: DriftServiceOffering, lists: 2},
		{reason: "launched before the list, and not in it", after: time.Second, claim: 3, launched: first, want: DriftServiceOffering, lists: 2, gets: 1},
		{reason: "it is in the list, which is old", after: time.Minute, claim: 2, launched: first, want: DriftServiceOffering, lists: 2, gets: 1},
		{reason: "the list is too old for all", after: time.Minute, claim: 2, launched: first, want: DriftServiceOffering, lists: 3, gets: 1},
	} {
		w.clock.Step(step.after)
		got, err := p.IsDrifted(ctx, claimOf(step.claim, step.launched))
		if err != nil || got != step.want || w.machines.lists != step.lists || w.machines.gets != step.gets {
			t.Errorf("%s: %q, %v after %d lists and %d reads, want %q after %d and %d",
				step.reason, got, err, w.machines.lists, w.machines.gets, step.want, step.lists, step.gets)
		}
	}
}

func TestExpungePolicy(t *testing.T) {
	ctx := context.Background()
	class := newWorld().class
	class.Name, class.Spec.ExpungeOnDelete = "keeps", lo.ToPtr(false)
	reader := suite.Client(t)
	suite.Create(t, reader, class)
	for name, want := range map[string]bool{"keeps": false, "unknown": true, "": true} {
		if got, err := ExpungePolicy(reader)(ctx, name); err != nil || got != want {
			t.Errorf("%q: have %t, %v", name, got, err)
		}
	}
	if _, err := ExpungePolicy(broken{})(ctx, "keeps"); err == nil {
		t.Error("what cannot be read is no permission to expunge")
	}
}

type broken struct{ client.Reader }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

func TestStatics(t *testing.T) {
	p := newWorld().provider(t)
	policies := p.RepairPolicies()
	if p.Name() != "cloudstack" || len(policies) != 2 || policies[0].TolerationDuration != 10*time.Minute ||
		policies[0].ConditionStatus == policies[1].ConditionStatus || policies[1].ConditionType != corev1.NodeReady {
		t.Errorf("%s, %+v", p.Name(), policies)
	}
	for _, policy := range New(p.instances, p.types, nil, nil, Options{RepairToleration: time.Minute}).RepairPolicies() {
		if policy.TolerationDuration != time.Minute {
			t.Errorf("a node may be not ready for a minute, and has %s", policy.TolerationDuration)
		}
	}
	classes := p.GetSupportedNodeClasses()
	if _, ok := classes[0].(*csv1.CloudStackNodeClass); !ok || len(classes) != 1 {
		t.Errorf("have %v", classes)
	}
}
