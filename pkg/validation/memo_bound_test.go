package validation

import (
	"fmt"
	"testing"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
)

// A memo does not grow with the number of messages.
func TestMemoIsBounded(t *testing.T) {
	t.Parallel()
	memo := NewMemo()
	for i := range 4 * mostForms {
		message := &civovpcv1.CivoVpc{
			ApiVersion: "civo.project-planton.org/v1",
			Kind:       "CivoVpc",
			Metadata:   &shared.CloudResourceMetadata{Name: "main", Labels: map[string]string{"number": fmt.Sprint(i)}},
			Spec:       &civovpcv1.CivoVpcSpec{NetworkName: "main", Region: "fra1"},
		}
		if !memo.Valid(message) {
			t.Fatal(Validate(message))
		}
		for itself, forms := range memo.types {
			if len(forms.good) > mostForms {
				t.Fatalf("%d forms of %s are remembered", len(forms.good), itself.Name())
			}
		}
	}
}
