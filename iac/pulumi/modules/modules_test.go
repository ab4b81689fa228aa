package modules_test

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Every kind has a module: it is reached, and it refuses an empty stack input by its rules.
func TestEveryKindHasAModule(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		err := modules.Resources(nil, kind.NewStackInput())
		var broken *validation.Error
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v", kind.Name, err)
		}
	}
	if err := modules.Resources(nil, kinds.All()[0].NewTarget()); err == nil {
		t.Error("a manifest is no stack input, yet it was taken")
	}
}
