package program

import (
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/stackinput"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

const input = `{"target": {"apiVersion": "civo.project-planton.org/v1", "kind": "CivoVpc", "metadata": {"name": "main"},
	"spec": {"networkName": "n", "region": "fra1"}}}`

func TestFunc(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var got *civovpcv1.CivoVpcStackInput
	result := moduletest.Run(t, Func(func(_ *pulumi.Context, stackInput *civovpcv1.CivoVpcStackInput) error {
		got = stackInput
		return boom
	}), moduletest.WithConfig(map[string]string{stackinput.ConfigKey: input}))
	if got.GetTarget().GetSpec().GetNetworkName() != "n" {
		t.Errorf("the module was handed %v", got)
	}
	if !errors.Is(result.Err, boom) {
		t.Errorf("error %v, want the module's", result.Err)
	}
}

func TestFuncWithoutValidInput(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"invalid": "target: {}", "unknown field": "taget: {}"} {
		result := moduletest.Run(t, Func(func(*pulumi.Context, *civovpcv1.CivoVpcStackInput) error {
			t.Errorf("%s: the module was called", name)
			return nil
		}), moduletest.WithConfig(map[string]string{stackinput.ConfigKey: text}))
		var wrong *manifest.Error
		if !errors.As(result.Err, &wrong) {
			t.Errorf("%s: error %v, want a *manifest.Error", name, result.Err)
		}
	}
}
