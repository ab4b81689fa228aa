package moduletest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

// Expectation says where a field of a spec shows: at an input of a resource, in an option of it, or in a warning.
type Expectation struct {
	// Type and Name are the resource's.
	Type, Name string
	// Input is the path of the input, such as "pools.nodeCount".
	Input string
	// Want is the value of the input, as Resource.Input returns it: numbers are float64.
	Want any
	// IgnoreChanges is an input whose changes the resource must ignore because of the field.
	IgnoreChanges string
	// Warning is a part of a warning that must be logged because of the field.
	Warning string
}

// AssertFields fails the test unless every field of the spec has its expectation in the table, as
// AssertEverySpecFieldIsCovered checks, and the result meets each.
func AssertFields(t *testing.T, result *Result, spec proto.Message, table map[string]Expectation) {
	t.Helper()
	AssertEverySpecFieldIsCovered(t, spec, table)
	for path, expect := range table {
		t.Run(path, func(t *testing.T) {
			if expect.Type == "" && expect.Warning == "" {
				t.Fatal("the table expects nothing of the field")
			}
			if expect.Warning != "" && !slices.ContainsFunc(result.Warnings(), func(text string) bool {
				return strings.Contains(text, expect.Warning)
			}) {
				t.Errorf("no warning with %q; warnings: %q", expect.Warning, result.Warnings())
			}
			if expect.Type == "" {
				return
			}
			res := result.Resource(t, expect.Type, expect.Name)
			if expect.Input != "" {
				if diff := cmp.Diff(expect.Want, res.Input(expect.Input)); diff != "" {
					t.Errorf("input %s of %s (-want +got):\n%s", expect.Input, expect.Name, diff)
				}
			}
			if expect.IgnoreChanges != "" && !slices.Contains(res.IgnoreChanges, expect.IgnoreChanges) {
				t.Errorf("%s must ignore changes of %s; it ignores %q", expect.Name, expect.IgnoreChanges, res.IgnoreChanges)
			}
		})
	}
}
