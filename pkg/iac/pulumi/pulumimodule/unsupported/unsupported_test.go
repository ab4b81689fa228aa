package unsupported

import (
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

func TestWarn(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		return Warn(ctx, "spec.auto_upgrade", "the platform has no such thing")
	})
	warnings := result.Warnings()
	if result.RunErr != nil || len(warnings) != 1 || warnings[0] != "spec.auto_upgrade has no effect: the platform has no such thing" {
		t.Errorf("warnings %q, error %v", warnings, result.RunErr)
	}
}
