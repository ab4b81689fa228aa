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
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	emulator "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

// TestOfAnEmulatedCloudStack has the real providers find what is in a CloudStack, over HTTP.
func TestOfAnEmulatedCloudStack(t *testing.T) {
	cloud := emulator.Default(emulator.Options{Seed: 1})
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for name, test := range map[string]struct {
		change    func(*csv1.CloudStackNodeClassSpec)
		secretKey string
		objects   []client.Object
		condition string
		reason    string
		says      string
	}{
		"all is there":      {},
		"by a Secret":       {change: func(s *csv1.CloudStackNodeClassSpec) { s.UserDataSecretRef = &csv1.SecretKeyReference{Name: "join"} }, objects: []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "join"}, Data: map[string][]byte{"userData": []byte("#!/bin/sh")}}}},
		"unknown zone":      {change: func(s *csv1.CloudStackNodeClassSpec) { s.Zones = []string{"zone-x"} }, condition: csv1.ConditionZonesReady, reason: "NotFound", says: emulator.ZoneA},
		"unknown network":   {change: func(s *csv1.CloudStackNodeClassSpec) { s.NetworkSelectorTerms[0].Tags["role"] = "none" }, condition: csv1.ConditionNetworksReady, reason: "NotFound"},
		"unknown template":  {change: func(s *csv1.CloudStackNodeClassSpec) { s.TemplateSelectorTerms[0].Name = "windows" }, condition: csv1.ConditionTemplatesReady, reason: "NotFound"},
		"unknown offering":  {change: func(s *csv1.CloudStackNodeClassSpec) { s.ServiceOfferingSelectorTerms[0].NameRegex = "x1.*" }, condition: csv1.ConditionOfferingsReady, reason: "NotFound"},
		"bad expression":    {change: func(s *csv1.CloudStackNodeClassSpec) { s.ServiceOfferingSelectorTerms[0].NameRegex = "(" }, condition: csv1.ConditionOfferingsReady, reason: "Invalid"},
		"missing Secret":    {change: func(s *csv1.CloudStackNodeClassSpec) { s.UserDataSecretRef = &csv1.SecretKeyReference{Name: "join"} }, condition: csv1.ConditionBootstrapReady, reason: "SecretNotFound", says: "karpenter/join"},
		"wrong credentials": {secretKey: "wrong", condition: csv1.ConditionZonesReady, reason: "Unauthorized", says: "Secret of the controller"},
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
			c := index(fake.NewClientBuilder().WithScheme(scheme.Scheme)).WithObjects(append(test.objects, n)...).WithStatusSubresource(n).Build()
			templates := template.NewProvider(api, clk)
			controller := NewController(clk, c, &recorder{}, Providers{
				Zones: zone.NewProvider(api, clk), Networks: network.NewProvider(api, clk), Templates: templates,
				Offerings: instancetype.NewProvider(api, templates, instancetype.NewUnavailable(clk), clk, instancetype.Options{}),
				Bootstrap: bootstrap.NewProvider(c, c, clk, bootstrap.Options{Namespace: "karpenter"}),
			})
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
				if c := condition(got, test.condition); c.Status != metav1.ConditionFalse || c.Reason != test.reason || !strings.Contains(c.Message, test.says) {
					t.Errorf("%+v", c)
				}
				if ready := condition(got, status.ConditionReady); ready.Status != metav1.ConditionFalse {
					t.Errorf("%+v", ready)
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
