package kinds_test

import (
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

func TestAllIsComplete(t *testing.T) {
	t.Parallel()
	if got, want := len(kinds.All()), len(cloudresourcekind.CloudResourceKind_name)-1; got != want {
		t.Fatalf("%d kinds, the enum has %d", got, want)
	}
	for _, kind := range kinds.All() {
		if kind.APIVersion == "" || kind.IDPrefix == "" {
			t.Errorf("%s: api version %q, id prefix %q", kind.Name, kind.APIVersion, kind.IDPrefix)
		}
		for _, name := range []string{kind.Name, strings.ToLower(kind.Name), kind.Plural(), strings.ToUpper(kind.Name), kind.IDPrefix} {
			if got, ok := kinds.ByName(name); !ok || got.Name != kind.Name {
				t.Errorf("ByName(%q) = %v, %v", name, got, ok)
			}
		}
		if got, ok := kinds.ByNumber(kind.Number); !ok || got.Name != kind.Name {
			t.Errorf("ByNumber(%d) = %v, %v", kind.Number, got, ok)
		}
		if got, ok := kinds.Of(kind.NewTarget()); !ok || got.Name != kind.Name {
			t.Errorf("Of(%s) = %v, %v", kind.Name, got, ok)
		}
		if got, ok := kinds.Of(kind.NewStackInput()); !ok || got.Name != kind.Name {
			t.Errorf("Of(%sStackInput) = %v, %v", kind.Name, got, ok)
		}
		if len(kind.OutputFields()) == 0 {
			t.Errorf("%s has no outputs", kind.Name)
		}
		if kinds.Spec(kind.NewTarget()) != nil || kinds.Metadata(kind.NewTarget()) != nil {
			t.Errorf("an empty %s has a spec or metadata", kind.Name)
		}
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	if got, ok := kinds.ByName("CivoDatabase"); ok {
		t.Errorf("ByName of an unknown kind = %v", got)
	}
	if got, ok := kinds.ByNumber(0); ok {
		t.Errorf("ByNumber(0) = %v", got)
	}
	if _, ok := kinds.Of(nil); ok {
		t.Error("Of(nil) found a kind")
	}
}
