package soak

import (
	"fmt"
	"testing"

	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// A failing seed can be repeated because nothing but the seed decides.
func TestScheduleFollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	before := ""
	for seed := range uint64(200) {
		text := NewSchedule(seed, Options{}).Text()
		for range 3 { // the order of a map would be another one soon
			if again := NewSchedule(seed, Options{}).Text(); again != text {
				t.Fatalf("seed %d gives two schedules:\n%s\n%s", seed, text, again)
			}
		}
		if text == before {
			t.Errorf("seeds %d and %d give the same schedule", seed-1, seed)
		}
		before = text
	}
}

// Without kills, all else stays as it is.
func TestKillsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		with, without := NewSchedule(seed, Options{}), NewSchedule(seed, Options{NoKills: true})
		for _, steps := range [][]Step{with.Disturbed, with.Destroying} {
			for i := range steps {
				steps[i].Kill = nil
			}
		}
		if with.Text() != without.Text() {
			t.Errorf("seed %d is another schedule without kills", seed)
		}
	}
}

// The plans are valid, the manifests too, and the seeds of a CI run meet everything that there is to meet.
func TestSchedulesMeetEverything(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for seed := uint64(1); seed <= 30; seed++ {
		s := NewSchedule(seed, Options{})
		met["way "+string(s.Way)] = true
		met[fmt.Sprintf("passphrase %t", s.Passphrase)] = true
		met[fmt.Sprintf("changed %t", (Schedule{First: s.First}).Text() != (Schedule{First: s.Last}).Text())] = true
		for _, manifests := range []Manifests{s.First, s.Last} {
			for _, manifest := range manifests {
				if err := validation.Validate(manifest); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				kind, _ := kinds.Of(manifest)
				met["kind "+kind.Name] = true
			}
		}
		for _, step := range append(append([]Step{}, s.Disturbed...), s.Destroying...) {
			met["command "+string(step.Command)] = true
			if step.Kill != nil {
				met[fmt.Sprintf("kill at %s, answered %t", step.Kill.At, step.Kill.Answered)] = true
			}
			for cloud, plan := range step.Faults {
				if err := plan.Validate(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, f := range plan.Faults {
					met["fault "+string(f.Kind)] = true
					met["faults on "+cloud] = true
				}
			}
		}
	}
	want := []string{
		"way planton", "way program", "passphrase true", "passphrase false", "changed true", "changed false", "command apply", "command destroy",
		"kill at request, answered true", "kill at request, answered false", "kill at write, answered true",
		"kill at write, answered false", "kill at event, answered false", "faults on civo", "faults on digitalocean",
	}
	for _, kind := range kinds.All() {
		want = append(want, "kind "+kind.Name)
	}
	for _, kind := range fault.Kinds() {
		want = append(want, "fault "+string(kind))
	}
	for _, what := range want {
		if !met[what] {
			t.Errorf("none of 30 seeds has %s", what)
		}
	}
}
