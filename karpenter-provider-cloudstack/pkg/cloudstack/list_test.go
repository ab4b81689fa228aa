package cloudstack

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What is there all the time is in the list, and once, where things come or go while its pages are read; where that is not certain, there is
// an error. Where things only come, there is none. One that goes and one that comes within one reading look like none: that is not tried.
func TestListsAreComplete(t *testing.T) {
	t.Parallel()
	lists, errs := 0, 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1)) // not a secret
		const size = 4
		leaves, going := seed%3 != 0, false
		var there []*string
		made := 0
		add := func(at int) {
			made++
			name := strings.Repeat("x", made)
			there = slices.Insert(there, at, &name)
		}
		for range random.IntN(20) {
			add(0)
		}
		always := map[string]bool{}
		for _, one := range there {
			always[*one] = true
		}
		got, err := all(func(one *string) string { return *one }, func(number int) (int, []*string, error) {
			if number == 1 {
				going = leaves && random.IntN(2) == 0
			}
			for random.IntN(3) == 0 {
				if going && len(there) > 0 {
					at := random.IntN(len(there))
					delete(always, *there[at])
					there = slices.Delete(there, at, at+1)
				} else if !going {
					add(random.IntN(len(there) + 1))
				}
			}
			from := min((number-1)*size, len(there))
			var page []*string
			for _, one := range there[from:min(from+size, len(there))] {
				page = append(page, new(*one)) // each answer has elements of its own
			}
			return len(there), page, nil
		})
		if err != nil {
			if errs++; !leaves {
				t.Errorf("seed %d: nothing went, and %v", seed, err)
			}
			continue
		}
		lists++
		seen := map[string]int{}
		for _, one := range got {
			seen[*one]++
		}
		for name := range always {
			if seen[name] != 1 {
				t.Errorf("seed %d: an element that was there all the time is %d times in the list", seed, seen[name])
			}
		}
	}
	if lists < 1500 {
		t.Errorf("only %d lists of 3000 were read, %d were not", lists, errs)
	}
}
