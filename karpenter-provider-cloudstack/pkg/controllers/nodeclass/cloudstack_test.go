package nodeclass

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	emulator "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

// TestOfAnEmulatedCloudStack has the real providers find what is in a CloudStack, over HTTP. Whatever is wrong shows as a condition and as an
// event that say which field it is, and what to change.
func TestOfAnEmulatedCloudStack(t *testing.T) {
	cloud := emulator.Default(emulator.Options{Seed: 1})
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	secret := func(key, text string) []client.Object {
		return []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "join"}, Data: map[string][]byte{key: []byte(text)}}}
	}
	fromSecret := func(s *csv1.CloudStackNodeClassSpec) { s.UserDataSecretRef = &csv1.SecretKeyReference{Name: "join"} }
	kubeadm := func(s *csv1.CloudStackNodeClassSpec) {
		s.Bootstrap = &csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: &csv1.SecretKeyReference{Name: "join"}}
	}
	script := func(text string) func(*csv1.CloudStackNodeClassSpec) {
		return func(s *csv1.CloudStackNodeClassSpec) { s.UserData = &text }
	}
	offerings := func(term csv1.ServiceOfferingSelectorTerm) func(*csv1.CloudStackNodeClassSpec) {
		return func(s *csv1.CloudStackNodeClassSpec) {
			s.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{term}
		}
	}
	cloud.AddZone(emulator.Zone{Name: "zone-c", Disabled: true})
	cloud.AddZone(emulator.Zone{Name: "zone-d"})
	cloud.AddTemplate(emulator.Template{Name: "half-copied", Arch: "x86_64", NotReadyZoneIDs: []string{emulator.IDOf("zone", emulator.ZoneB)}})
	const noise = "0123456789abcdefghijklmnopqrstuvwxyz"
	for name, test := range map[string]struct {
		change    func(*csv1.CloudStackNodeClassSpec)
		secretKey string
		objects   []client.Object
		condition string
		reason    string
		// says is what the condition and the event say: which field, and what there is or what to change.
		says []string
		// hides is what neither says.
		hides string
	}{
		"all is there": {},
		"by a Secret":  {change: fromSecret, objects: secret("userData", "#!/bin/sh")},

		"unknown zone":             {change: func(s *csv1.CloudStackNodeClassSpec) { s.Zones = []string{"zone-x"} }, condition: csv1.ConditionZonesReady, reason: "NotFound", says: []string{"zone-x", emulator.ZoneA, emulator.ZoneB}},
		"disabled zone":            {change: func(s *csv1.CloudStackNodeClassSpec) { s.Zones = []string{"zone-c"} }, condition: csv1.ConditionZonesReady, reason: "NotFound", says: []string{"zone-c", emulator.ZoneA}},
		"unknown network":          {change: func(s *csv1.CloudStackNodeClassSpec) { s.NetworkSelectorTerms[0].Tags["role"] = "none" }, condition: csv1.ConditionNetworksReady, reason: "NotFound", says: []string{"spec.networkSelectorTerms", emulator.ZoneA}},
		"a zone without a network": {change: func(s *csv1.CloudStackNodeClassSpec) { s.Zones = append(s.Zones, "zone-d") }, condition: csv1.ConditionNetworksReady, reason: "NotFound", says: []string{"spec.networkSelectorTerms", "zone-d"}},
		"unknown further network": {change: func(s *csv1.CloudStackNodeClassSpec) {
			s.AdditionalNetworkSelectorTerms = []csv1.NetworkSelectorTerm{{Name: "storage"}}
		}, condition: csv1.ConditionNetworksReady, reason: "NotFound", says: []string{"spec.additionalNetworkSelectorTerms"}},
		"unknown security group": {change: func(s *csv1.CloudStackNodeClassSpec) {
			s.SecurityGroupSelectorTerms = []csv1.SecurityGroupSelectorTerm{{Name: "open"}}
		}, condition: csv1.ConditionSecurityGroupsReady, says: []string{"spec.securityGroupSelectorTerms"}},
		"unknown template":           {change: func(s *csv1.CloudStackNodeClassSpec) { s.TemplateSelectorTerms[0].Name = "windows" }, condition: csv1.ConditionTemplatesReady, reason: "NotFound", says: []string{"spec.templateSelectorTerms", emulator.TemplateAMD64}},
		"template that is not ready": {change: func(s *csv1.CloudStackNodeClassSpec) { s.TemplateSelectorTerms[0].Name = "half-copied" }, condition: csv1.ConditionTemplatesReady, reason: "NotUsable", says: []string{"half-copied", emulator.ZoneB, "wait for the copy"}},
		"bad expression of a template": {change: func(s *csv1.CloudStackNodeClassSpec) {
			s.TemplateSelectorTerms = []csv1.TemplateSelectorTerm{{NameRegex: "["}}
		}, condition: csv1.ConditionTemplatesReady, reason: "Invalid", says: []string{"spec.templateSelectorTerms[0].nameRegex"}},
		"unknown offering":              {change: offerings(csv1.ServiceOfferingSelectorTerm{NameRegex: "x1.*"}), condition: csv1.ConditionOfferingsReady, reason: "NotFound", says: []string{"spec.serviceOfferingSelectorTerms", emulator.OfferingSmall}},
		"terms that exclude each other": {change: offerings(csv1.ServiceOfferingSelectorTerm{Name: emulator.OfferingSmall, CPU: &csv1.Range{Min: lo.ToPtr[int64](64)}}), condition: csv1.ConditionOfferingsReady, reason: "NotFound", says: []string{"spec.serviceOfferingSelectorTerms"}},
		"an offering without a size":    {change: offerings(csv1.ServiceOfferingSelectorTerm{Name: emulator.OfferingConstrained}), condition: csv1.ConditionOfferingsReady, reason: "NotUsable", says: []string{emulator.OfferingConstrained, "set spec.customOffering"}},
		"bad expression":                {change: offerings(csv1.ServiceOfferingSelectorTerm{NameRegex: "("}), condition: csv1.ConditionOfferingsReady, reason: "Invalid", says: []string{"spec.serviceOfferingSelectorTerms[0].nameRegex", "missing closing )"}},
		"an amount that is none": {change: func(s *csv1.CloudStackNodeClassSpec) {
			s.Kubelet = &csv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "much"}}
		}, condition: csv1.ConditionOfferingsReady, reason: "Invalid", says: []string{"spec.kubelet.kubeReserved[cpu]", "100m"}},
		"unknown disk offering": {change: func(s *csv1.CloudStackNodeClassSpec) { s.RootDisk = &csv1.RootDisk{DiskOfferingID: "ssd"} }, condition: csv1.ConditionOfferingsReady, reason: "NotFound", says: []string{"spec.rootDisk.diskOfferingID", emulator.DiskOfferingSmall}},
		"a disk without a size": {change: func(s *csv1.CloudStackNodeClassSpec) {
			s.DataDisks = []csv1.DataDisk{{DiskOfferingID: emulator.DiskOfferingCustom}}
		}, condition: csv1.ConditionOfferingsReady, reason: "Invalid", says: []string{"spec.dataDisks[0].sizeGiB", "set sizeGiB"}},
		"user data that is too long":    {change: script("{" + strings.Repeat(" ", 25000)), condition: csv1.ConditionBootstrapReady, reason: "UserDataTooLong", says: []string{"33336 bytes", "32768", "vm.userdata.max.length"}},
		"invalid user data":             {change: script("#!/bin/sh\necho {{ .NodName }}\n"), condition: csv1.ConditionBootstrapReady, reason: "UserDataInvalid", says: []string{"line 2", "NodName"}},
		"invalid user data of a Secret": {change: fromSecret, objects: secret("userData", "#!/bin/sh\n"+noise+" {{ .NodName }}\n"), condition: csv1.ConditionBootstrapReady, reason: "UserDataInvalid", says: []string{"line 2"}, hides: noise},
		"missing Secret":                {change: fromSecret, condition: csv1.ConditionBootstrapReady, reason: "SecretNotFound", says: []string{"userDataSecretRef", "karpenter/join"}},
		"missing key of a Secret":       {change: fromSecret, objects: secret("userdata", noise), condition: csv1.ConditionBootstrapReady, reason: "SecretKeyMissing", says: []string{"karpenter/join", "no key userData", "userDataSecretRef.key"}, hides: noise},
		"missing Secret of a token":     {change: kubeadm, condition: csv1.ConditionBootstrapReady, reason: "SecretNotFound", says: []string{"bootstrap.tokenSecretRef", "karpenter/join"}},
		"a token that is none":          {change: kubeadm, objects: secret("token", noise), condition: csv1.ConditionBootstrapReady, reason: "TokenInvalid", says: []string{"bootstrap.tokenSecretRef", "kubeadm token create"}, hides: noise},
		"unknown project":               {change: func(s *csv1.CloudStackNodeClassSpec) { s.ProjectID = "11111111-2222-3333-4444-555555555555" }, condition: csv1.ConditionNetworksReady, reason: "Rejected", says: []string{"projectid"}},
		"wrong credentials":             {secretKey: noise, condition: csv1.ConditionZonesReady, reason: "Unauthorized", says: []string{"Secret of the controller"}, hides: noise},
	} {
		t.Run(name, func(t *testing.T) {
			api, err := cloudstack.New(cloudstack.Options{
				Credentials: cloudstack.Credentials{URL: url, APIKey: emulator.DefaultAPIKey, SecretKey: lo.CoalesceOrEmpty(test.secretKey, emulator.DefaultSecretKey)},
				Rate:        1e6, Burst: 1e6, Attempts: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			n := newNodeClass()
			n.Spec = csv1.CloudStackNodeClassSpec{
				Zones:                        []string{emulator.ZoneA, emulator.ZoneB},
				NetworkSelectorTerms:         []csv1.NetworkSelectorTerm{{Tags: map[string]string{"role": "nodes"}}},
				ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{NameRegex: `m1\..*`}},
				TemplateSelectorTerms:        []csv1.TemplateSelectorTerm{{Name: emulator.TemplateAMD64}},
			}
			if test.change != nil {
				test.change(&n.Spec)
			}
			clk := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
			server := suite.Client(t)
			suite.Create(t, server, append(test.objects, n)...)
			c := indexed(server)
			templates := template.NewProvider(api, clk)
			told := &recorder{}
			controller := NewController(clk, c, told, Providers{
				Zones: zone.NewProvider(api, clk), Networks: network.NewProvider(api, clk), Templates: templates,
				Offerings: instancetype.NewProvider(api, templates, instancetype.NewUnavailable(clk), clk, instancetype.Options{}),
				Bootstrap: bootstrap.NewProvider(c, c, clk, bootstrap.Options{Namespace: "karpenter"}),
			}, nil)
			reconcile := func() *csv1.CloudStackNodeClass {
				got := &csv1.CloudStackNodeClass{}
				if err := c.Get(context.Background(), client.ObjectKeyFromObject(n), got); err != nil {
					t.Fatal(err)
				}
				if _, err := controller.Reconcile(context.Background(), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			got := reconcile()
			if test.condition != "" {
				found := condition(got, test.condition)
				if found.Status != metav1.ConditionFalse || test.reason != "" && found.Reason != test.reason {
					t.Errorf("%+v", found)
				}
				event, published := lo.Find(told.events, func(e events.Event) bool {
					return e.Reason == strings.TrimSuffix(test.condition, "Ready")+"NotReady"
				})
				if !published || event.Type != corev1.EventTypeWarning || event.InvolvedObject.(client.Object).GetName() != n.Name {
					t.Errorf("no event, or one of another kind: %+v", told.events)
				}
				ready := condition(got, status.ConditionReady)
				if ready.Status != metav1.ConditionFalse {
					t.Errorf("%+v", ready)
				}
				for where, message := range map[string]string{"condition": found.Message, "event": event.Message, "Ready": ready.Message} {
					for _, says := range test.says {
						if !strings.Contains(message, says) {
							t.Errorf("the %s says %q, and nothing of %q", where, message, says)
						}
					}
					if test.hides != "" && strings.Contains(message, test.hides) {
						t.Errorf("the %s has a secret in it: %s", where, message)
					}
				}
				return
			}
			s := got.Status
			if !got.StatusConditions().Root().IsTrue() || len(s.Zones) != 2 || len(s.Networks) != 2 || len(s.Templates) != 2 || s.OfferingCount != 4 {
				t.Fatalf("%+v", s)
			}
			// A day without CloudStack changes nothing.
			cloud.SetDown(true)
			defer cloud.SetDown(false)
			clk.Step(24 * time.Hour)
			if after := reconcile(); after.ResourceVersion != got.ResourceVersion {
				t.Errorf("%+v", after.Status)
			}
		})
	}
}
