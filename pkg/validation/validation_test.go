package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/validation"
)

func validVpc() *civovpcv1.CivoVpc {
	return &civovpcv1.CivoVpc{
		ApiVersion: "civo.project-planton.org/v1",
		Kind:       "CivoVpc",
		Metadata:   &shared.CloudResourceMetadata{Name: "main"},
		Spec:       &civovpcv1.CivoVpcSpec{NetworkName: "main", Region: "fra1"},
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		change func(*civovpcv1.CivoVpc)
		want   []validation.Violation
	}{
		"valid": {
			reason: "A message that keeps every rule gives no error.",
			change: func(*civovpcv1.CivoVpc) {},
		},
		"two": {
			reason: "Every broken rule is listed, with its path and its id.",
			change: func(m *civovpcv1.CivoVpc) { m.Kind = "CivoVPC"; m.Spec.NetworkName = "A" },
			want: []validation.Violation{
				{FieldPath: "kind", RuleID: "string.const", Message: "must equal `CivoVpc`"},
				{FieldPath: "spec.network_name", RuleID: "dns_label", Message: "must be a DNS label: 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := validVpc()
			tc.change(message)
			err := validation.Validate(message)
			var broken *validation.Error
			if err != nil && !errors.As(err, &broken) {
				t.Fatalf("%s\nValidate: %v", tc.reason, err)
			}
			var got []validation.Violation
			if broken != nil {
				got = broken.Violations
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			for _, v := range tc.want {
				if !strings.Contains(err.Error(), v.FieldPath) || !strings.Contains(err.Error(), v.RuleID) {
					t.Errorf("the error does not name %s and %s: %v", v.FieldPath, v.RuleID, err)
				}
			}
		})
	}
}

func TestValidateNil(t *testing.T) {
	t.Parallel()
	for _, message := range []proto.Message{nil, (*civovpcv1.CivoVpc)(nil)} {
		if err := validation.Validate(message); err == nil {
			t.Errorf("Validate(%T) gave no error", message)
		}
	}
}
