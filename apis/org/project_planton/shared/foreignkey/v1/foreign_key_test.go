package foreignkeyv1_test

import (
	"strings"
	"testing"

	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
)

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

func from(ref *foreignkeyv1.ValueFromRef) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: ref}}
}

// What people write: one side, in either case of the keys. Its rules are tested in each kind that has references.
func TestStringValueOrRefInYAML(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, reason, yaml string
		want               *foreignkeyv1.StringValueOrRef
		wantError          string // a part of the error, with its position
	}{
		{
			name: "literal", reason: "the first side",
			yaml: `value: abc`,
			want: literal("abc"),
		},
		{
			name: "reference in camelCase", reason: "the second side",
			yaml: "valueFrom:\n  kind: CivoVpc\n  env: prod\n  name: main\n  fieldPath: status.outputs.network_id",
			want: from(&foreignkeyv1.ValueFromRef{
				Kind: cloudresourcekind.CloudResourceKind_CivoVpc, Env: "prod", Name: "main", FieldPath: "status.outputs.network_id",
			}),
		},
		{
			name: "reference in snake_case", reason: "both cases are read",
			yaml: "value_from:\n  kind: CivoVpc\n  name: main\n  field_path: status.outputs.network_id",
			want: from(&foreignkeyv1.ValueFromRef{
				Kind: cloudresourcekind.CloudResourceKind_CivoVpc, Name: "main", FieldPath: "status.outputs.network_id",
			}),
		},
		{
			name: "both sides", reason: "one of them would be ignored",
			yaml:      "value: abc\nvalueFrom:\n  name: main",
			wantError: "3:3",
		},
		{
			name: "a bare string", reason: "a literal is written as value:, so that a reference can stand beside it",
			yaml:      "abc",
			wantError: "1:1",
		},
		{
			name: "an unknown kind", reason: "kinds are a closed list",
			yaml:      "valueFrom:\n  kind: CivoNothing\n  name: main",
			wantError: "2:9",
		},
		{
			name: "an unknown key", reason: "a misspelt key would be ignored",
			yaml:      "valueFrom:\n  nam: main",
			wantError: "2:3",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := &foreignkeyv1.StringValueOrRef{}
			err := protoyaml.Unmarshal([]byte(tc.yaml), got)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("%s: got error %v, want one at %s", tc.reason, err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
