package affinity

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

const prefix = "karpenter-test-0a1b2c3d"

func world(t *testing.T) (*fake.CloudStack, *clocktesting.FakeClock, *DefaultProvider) {
	t.Helper()
	cloud := fake.Default(fake.Options{})
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey},
		Rate:        1e6, Burst: 1e6, Attempts: 2, Backoff: time.Millisecond, JobPoll: time.Millisecond, JobPollMax: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Now())
	return cloud, clk, NewProvider(client, prefix, clk)
}

func class(mode csv1.AffinityMode, ids ...string) *csv1.CloudStackNodeClass {
	return &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec:       csv1.CloudStackNodeClassSpec{Affinity: &csv1.Affinity{Mode: mode, GroupIDs: ids}},
	}
}

func TestGroups(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		class     *csv1.CloudStackNodeClass
		groupType string
		ids       []string
		hard      bool
	}{
		"no affinity":   {class: &csv1.CloudStackNodeClass{}},
		"None":          {class: class(csv1.AffinityNone)},
		"AntiAffinity":  {class: class(csv1.AffinityAnti), groupType: fake.AntiAffinity, hard: true},
		"soft":          {class: class(csv1.AffinitySoftAnti), groupType: fake.SoftAntiAffinity},
		"groups by ids": {class: class(csv1.AffinityGroup, "b", "a"), ids: []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, _, p := world(t)
			for range 2 {
				ids, err := p.Groups(ctx, c.class, "pool")
				if err != nil {
					t.Fatal(err)
				}
				groups := cloud.AffinityGroups()
				if c.groupType == "" {
					if len(groups) > 0 || !slices.Equal(ids, c.ids) {
						t.Errorf("have %v, groups %v", ids, groups)
					}
					continue
				}
				if len(groups) != 1 || len(ids) != 1 || groups[0].ID != ids[0] || groups[0].Type != c.groupType ||
					!strings.HasPrefix(groups[0].Name, prefix+"-") || !strings.HasSuffix(groups[0].Name, "-pool") {
					t.Errorf("have %v, groups %+v", ids, groups)
				}
			}
			if n := cloud.Counts()["createAffinityGroup"]; n > 1 {
				t.Errorf("%d groups were asked for", n)
			}
			if p.IsHard(c.class) != c.hard {
				t.Errorf("hard: want %t", c.hard)
			}
		})
	}
}

func TestGroupsFaults(t *testing.T) {
	ctx := context.Background()
	c := class(csv1.AffinityAnti)
	for name, test := range map[string]struct {
		fault fake.Fault
		fails bool
	}{
		"answer lost":   {fault: fake.Fault{Command: "createAffinityGroup", LoseAnswer: true, Times: 1}},
		"refused":       {fault: fake.Fault{Command: "createAffinityGroup", Code: 531, Times: 1}, fails: true},
		"list fails":    {fault: fake.Fault{Command: "listAffinityGroups", Code: 530, Times: 2}, fails: true},
		"dropped":       {fault: fake.Fault{Command: "createAffinityGroup", Drop: true, Times: 1}, fails: true},
		"job forgotten": {fault: fake.Fault{Command: "queryAsyncJobResult", Code: 431, Text: "unable to find job", Times: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, _, p := world(t)
			cloud.Fail(test.fault)
			_, err := p.Groups(ctx, c, "pool")
			if (err != nil) != test.fails {
				t.Fatalf("have %v", err)
			}
			cloud.ClearFaults()
			ids, err := p.Groups(ctx, c, "pool")
			if err != nil || len(cloud.AffinityGroups()) != 1 || cloud.AffinityGroups()[0].ID != ids[0] {
				t.Errorf("have %v, %v, groups %v", ids, err, cloud.AffinityGroups())
			}
		})
	}
	t.Run("another type", func(t *testing.T) {
		cloud, _, p := world(t)
		cloud.AddAffinityGroup(fake.AffinityGroup{Name: prefix + "-hard-pool", Type: fake.SoftAntiAffinity})
		if _, err := p.Groups(ctx, c, "pool"); err == nil || !strings.Contains(err.Error(), prefix+"-hard-pool") {
			t.Errorf("have %v", err)
		}
	})
	t.Run("at once", func(t *testing.T) {
		cloud, _, p := world(t)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := p.Groups(ctx, c, "pool"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := cloud.Counts()["createAffinityGroup"]; n != 1 {
			t.Errorf("%d groups were asked for", n)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		cloud, _, p := world(t)
		before, _ := p.Groups(ctx, c, "pool")
		cloud.Remove(before[0])
		p.Forget(c, "pool")
		after, err := p.Groups(ctx, c, "pool")
		if err != nil || len(cloud.AffinityGroups()) != 1 || cloud.AffinityGroups()[0].ID != after[0] {
			t.Errorf("have %v, %v", after, err)
		}
	})
}

func TestFull(t *testing.T) {
	_, clk, p := world(t)
	c := class(csv1.AffinityAnti)
	p.MarkFull(context.Background(), c, "pool", "zone-a")
	for _, one := range []struct {
		class          *csv1.CloudStackNodeClass
		nodePool, zone string
		want           bool
	}{
		{c, "pool", "zone-a", true}, {c, "pool", "zone-b", false}, {c, "other", "zone-a", false}, {class(csv1.AffinitySoftAnti), "pool", "zone-a", false},
	} {
		if p.IsFull(one.class, one.nodePool, one.zone) != one.want {
			t.Errorf("%s in %s: want %t", one.nodePool, one.zone, one.want)
		}
	}
	clk.Step(fullFor)
	if p.IsFull(c, "pool", "zone-a") {
		t.Error("it has to end")
	}
}

func TestCleanup(t *testing.T) {
	ctx := context.Background()
	cloud, clk, p := world(t)
	project := cloud.AddProject(fake.Project{Name: "nodes"})
	names := func() (names []string) {
		for _, g := range cloud.AffinityGroups() {
			names = append(names, strings.TrimPrefix(g.Name, prefix+"-"))
		}
		slices.Sort(names)
		return names
	}
	add := func(name, projectID string) string {
		return cloud.AddAffinityGroup(fake.AffinityGroup{Name: name, Type: fake.AntiAffinity, ProjectID: projectID}).ID
	}
	add(prefix+"-hard-unused", "")
	add(prefix+"-hard-project", project.ID)
	add(prefix+"er-hard-x", "")
	add("somebody's", "")
	used := add(prefix+"-hard-used", "")
	cloud.AddVM(fake.VM{Name: "one", AffinityGroupIDs: []string{used}})
	if err := p.Cleanup(ctx); err != nil || len(names()) != 5 {
		t.Fatalf("a process that began just now knows nothing: %v, %v", err, names())
	}
	clk.Step(2 * unusedFor)
	if _, err := p.Groups(ctx, class(csv1.AffinityAnti), "needed"); err != nil {
		t.Fatal(err)
	}
	if err := p.Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []string{"hard-needed", "hard-used", prefix + "er-hard-x", "somebody's"}; !slices.Equal(names(), want) {
		t.Errorf("have %v, want %v", names(), want)
	}
	cloud.Fail(fake.Fault{Command: "listAffinityGroups", Code: 530})
	if err := p.Cleanup(ctx); err == nil {
		t.Error("a list that fails is an error")
	}
}
