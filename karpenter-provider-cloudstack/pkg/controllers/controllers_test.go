package controllers_test

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/controllers"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/affinity"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/network"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/zone"
)

// The providers there are have what the controllers ask of them.
var _ = controllers.Providers{
	API: (*cloudstack.Client)(nil), Zones: (*zone.DefaultProvider)(nil), Networks: (*network.DefaultProvider)(nil), Templates: (*template.DefaultProvider)(nil),
	InstanceTypes: (*instancetype.DefaultProvider)(nil), Bootstrap: (*bootstrap.DefaultProvider)(nil),
	Instances: (*instance.DefaultProvider)(nil), Groups: (*affinity.DefaultProvider)(nil),
}

// TestRegister: all controllers can be started by one manager. Names that are taken, and kinds that the scheme does not know, show here.
func TestRegister(t *testing.T) {
	m, err := controllerruntime.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, controllerruntime.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range controllers.New(m, clock.RealClock{}, m.GetClient(), nil, nil, controllers.Providers{}, controllers.Options{}) {
		if err := c.Register(context.Background(), m); err != nil {
			t.Errorf("%T: %v", c, err)
		}
	}
}
