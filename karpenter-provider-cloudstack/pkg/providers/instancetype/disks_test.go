package instancetype

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

func TestDiskOfferings(t *testing.T) {
	root := func(offering string, size ...int64) func(*csv1.CloudStackNodeClass) {
		return func(c *csv1.CloudStackNodeClass) {
			c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: offering}
			if len(size) > 0 {
				c.Spec.RootDisk.SizeGiB = &size[0]
			}
		}
	}
	data := func(offering string, size ...int64) func(*csv1.CloudStackNodeClass) {
		return func(c *csv1.CloudStackNodeClass) {
			c.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: "d-20"}, {DiskOfferingID: offering}}
			if len(size) > 0 {
				c.Spec.DataDisks[1].SizeGiB = &size[0]
			}
		}
	}
	for name, test := range map[string]struct {
		change       func(*csv1.CloudStackNodeClass)
		reason, says string
		root         string
		data         []string
	}{
		"none is named":            {change: func(*csv1.CloudStackNodeClass) {}},
		"by its name":              {change: root("disk-20"), root: "d-20"},
		"an id goes before a name": {change: root("d-20"), root: "d-20"},
		"of its own size, told":    {change: root("disk-20", 20), root: "d-20"},
		"without a size":           {change: root("custom", 70), root: "d-own"},
		"data disks in order":      {change: data("custom", 5), data: []string{"d-20", "d-own"}},
		"one that there is not":    {change: root("ssd"), reason: selector.ReasonNotFound, says: `spec.rootDisk.diskOfferingID: there is no disk offering "ssd"; there is "custom", "d-20", "disk-20"`},
		"a data disk of none":      {change: data("ssd"), reason: selector.ReasonNotFound, says: `spec.dataDisks[1].diskOfferingID: there is no disk offering "ssd"`},
		"a name of several":        {change: root("twice"), reason: selector.ReasonAmbiguous, says: `write the id of one of them, "d-t1", "d-t2"`},
		"inactive":                 {change: root("old"), reason: selector.ReasonNotUsable, says: `"old" is inactive`},
		"not for all zones":        {change: root("far"), reason: selector.ReasonNotUsable, says: `"far" is not for the zones "zone-2"`},
		"no size is told":          {change: data("custom"), reason: selector.ReasonInvalid, says: `spec.dataDisks[1].sizeGiB: the disk offering "custom" has no size of its own: set sizeGiB`},
		"another size is told":     {change: root("disk-20", 30), reason: selector.ReasonInvalid, says: "spec.rootDisk.sizeGiB: disks of the disk offering \"disk-20\" have 20 GiB, and not 30: leave sizeGiB out"},
	} {
		t.Run(name, func(t *testing.T) {
			w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096)), class(test.change)
			launch, err := w.Offering(t.Context(), nodeClass, "small")
			_, ofStatus := w.Offerings(t.Context(), nodeClass)
			if test.reason != "" {
				for _, err := range []error{err, ofStatus} {
					e, is := selector.As(err)
					if !is || e.Reason != test.reason || !strings.Contains(e.Message, test.says) {
						t.Errorf("%v, and it has to be %s: %s", err, test.reason, test.says)
					}
				}
				return
			}
			if err != nil || ofStatus != nil {
				t.Fatal(err, ofStatus)
			}
			if launch.RootDiskOfferingID != test.root || !slices.Equal(launch.DataDiskOfferingIDs, test.data) {
				t.Errorf("%+v", launch)
			}
			if want := lo.Ternary(test.root == "" && test.data == nil, 0, 1); w.api.diskCalls != want {
				t.Errorf("CloudStack was asked %d times, and not %d", w.api.diskCalls, want)
			}
		})
	}
}

// A disk offering that is made since, or made larger, counts.
func TestDiskOfferingsChange(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096)), class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: "new"}
	})
	if _, err := w.List(t.Context(), nodeClass); !selector.IsNotFound(err) {
		t.Fatal(err)
	}
	w.api.disks = append(w.api.disks, &cloudstack.DiskOffering{Id: "d-new", Name: "new", Disksize: 40})
	w.clock.Step(2 * time.Minute)
	size := func() int64 {
		capacity := only(t, w, nodeClass).Capacity
		return capacity.Name(corev1.ResourceEphemeralStorage, "").Value() / gib
	}
	if got := size(); got != 40 {
		t.Errorf("%d GiB", got)
	}
	w.api.disks = []*cloudstack.DiskOffering{{Id: "d-new", Name: "new", Disksize: 80}}
	w.clock.Step(6 * time.Minute)
	if got := size(); got != 80 {
		t.Errorf("%d GiB, and it was made larger", got)
	}
	// An outage changes nothing.
	w.api.err = errDown
	w.clock.Step(6 * time.Minute)
	if got := size(); got != 80 {
		t.Errorf("%d GiB", got)
	}
}
