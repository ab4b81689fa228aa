package foreignkey_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
)

// TestAnyGraph: whatever refers to what, in which way and how often. Without a circle every manifest stands in the order exactly once,
// after all that it needs, and a set that is in order already is left as it is. With one, the error names a circle that is there.
func TestAnyGraph(t *testing.T) {
	t.Parallel()
	const kind = cloudresourcekind.CloudResourceKind_CivoKubernetesCluster
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 9).Draw(t, "size")
		targets := make([]proto.Message, size)
		edges := make([]map[int]bool, size)
		name := func(i int) string { return fmt.Sprintf("c%d", i) }
		for i := range size {
			edges[i] = map[int]bool{}
			c := cluster(name(i), literal("x"), nil)
			// Half of the sets cannot have a circle, so that both outcomes are seen often.
			highest := size
			if i > 0 && rapid.Bool().Draw(t, "only backwards") {
				highest = i
			}
			for _, j := range rapid.SliceOfN(rapid.IntRange(0, highest-1), 0, 2).Draw(t, "needs of "+name(i)) {
				edges[i][j] = true
				if c.Spec.Network.GetValueFrom() == nil && rapid.Bool().Draw(t, "by a field") {
					c.Spec.Network = ref(&foreignkeyv1.ValueFromRef{Kind: kind, Name: name(j), FieldPath: "status.outputs.network_id"})
				} else {
					c.Metadata.Relationships = append(c.Metadata.Relationships, &shared.CloudResourceRelationship{Kind: kind, Name: name(j)})
				}
			}
			// What is not in the set does not count.
			c.Metadata.Relationships = append(c.Metadata.Relationships, &shared.CloudResourceRelationship{Kind: kind, Name: "elsewhere"})
			targets[i] = c
		}

		graph, err := foreignkey.Order(targets)
		again, againErr := foreignkey.Order(targets)
		if !cmp.Equal(graph, again) || fmt.Sprint(err) != fmt.Sprint(againErr) {
			t.Fatalf("the same set gave %v, %v and then %v, %v", graph, err, again, againErr)
		}
		if inCircle := circular(edges); inCircle != (err != nil) {
			t.Fatalf("a circle: %t, error %v\n%v", inCircle, err, edges)
		}
		if err != nil {
			var circle *foreignkey.CycleError
			if !errors.As(err, &circle) || len(circle.Cycle) == 0 {
				t.Fatalf("got %T %v, want a *CycleError that names the circle", err, err)
			}
			at := make([]int, len(circle.Cycle))
			for i, key := range circle.Cycle {
				at[i] = slices.IndexFunc(targets, func(m proto.Message) bool { return foreignkey.KeyOf(m) == key })
				if at[i] < 0 || slices.Contains(at[:i], at[i]) {
					t.Fatalf("%s is not in the set, or twice in the circle %v", key, err)
				}
			}
			for i, from := range at {
				if to := at[(i+1)%len(at)]; !edges[from][to] {
					t.Fatalf("%d does not refer to %d, but the error says: %v", from, to, err)
				}
			}
			return
		}

		position := make([]int, size)
		if sorted := slices.Sorted(slices.Values(graph.Order)); len(sorted) != size || len(slices.Compact(sorted)) != size {
			t.Fatalf("the order %v has not each of %d manifests exactly once", graph.Order, size)
		}
		inOrder := make([]proto.Message, size)
		for at, i := range graph.Order {
			position[i], inOrder[at] = at, targets[i]
		}
		for i := range edges {
			if needs := slices.Sorted(slices.Values(graph.Needs[i])); !slices.Equal(slices.Compact(needs), sortedKeys(edges[i])) {
				t.Fatalf("manifest %d needs %v, want %v", i, needs, sortedKeys(edges[i]))
			}
			for j := range edges[i] {
				if position[j] >= position[i] {
					t.Fatalf("manifest %d needs %d, which comes later: %v", i, j, graph.Order)
				}
			}
		}
		second, err := foreignkey.Order(inOrder)
		if err != nil || !slices.IsSorted(second.Order) {
			t.Fatalf("what is in order is put in the order %v (%v)", second.Order, err)
		}
	})
}

// circular takes away what needs nothing that is left, until there is nothing more to take.
func circular(edges []map[int]bool) bool {
	left := map[int]bool{}
	for i := range edges {
		left[i] = true
	}
	for taken := true; taken; {
		taken = false
		for i := range left {
			free := true
			for j := range edges[i] {
				free = free && !left[j]
			}
			if free {
				delete(left, i)
				taken = true
			}
		}
	}
	return len(left) > 0
}

func sortedKeys(set map[int]bool) []int {
	keys := []int{}
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
