package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Way is how the manifests are provisioned.
type Way string

// The ways.
const (
	// WayCLI is `planton apply`: a stack for each manifest, independent ones side by side.
	WayCLI Way = "planton"
	// WayProgram is one Pulumi program that imports the modules, with all resources in one stack, in parallel.
	WayProgram Way = "program"
)

// Command is what a process is told to do.
type Command string

// The commands.
const (
	Apply   Command = "apply"
	Destroy Command = "destroy"
)

// Schedule is what happens in one run. After the Disturbed steps the clouds are healed, and the last manifests are applied and
// compared with what is there. After the Destroying steps, where there are any, the clouds are healed again, and everything is destroyed.
type Schedule struct {
	Seed uint64 `json:"seed"`
	Way  Way    `json:"way"`
	// Passphrase has Pulumi derive the key of the secrets from a passphrase, as it does when nothing else is chosen. That takes most
	// of the time of a run of its CLI, so that most seeds let a key management service keep the key.
	Passphrase bool `json:"passphrase,omitempty"`
	// First and Last are the manifests of the first and the last apply, in the order of their references.
	First Manifests `json:"first"`
	Last  Manifests `json:"last"`
	// Disturbed are applies that may fail or be killed; Destroying are such destroys.
	Disturbed  []Step `json:"disturbed"`
	Destroying []Step `json:"destroying,omitempty"`
	// Brief leaves out the preview and the refresh that look whether nothing is left to do.
	Brief bool `json:"brief,omitempty"`
}

// Manifests are manifests that JSON shows as one would write them.
type Manifests []proto.Message

// MarshalJSON writes the manifests.
func (m Manifests) MarshalJSON() ([]byte, error) {
	documents := make([]json.RawMessage, len(m))
	for i, manifest := range m {
		document, err := protojson.Marshal(manifest)
		if err != nil {
			return nil, errors.Wrap(err, "encode a manifest")
		}
		// protojson spaces its output at random, so that nobody relies on it; encoding/json takes that out again.
		documents[i] = document
	}
	return json.Marshal(documents)
}

// Step is one process and what it meets.
type Step struct {
	Command Command `json:"command"`
	// Last tells that the last manifests are applied, not the first.
	Last bool `json:"last,omitempty"`
	// Faults are the plans of the clouds, by the cloud's name.
	Faults map[string]fault.Plan `json:"faults,omitempty"`
	// Kill is when the process, and what it started, is killed with -9; nil when it may end by itself.
	Kill *Kill `json:"kill,omitempty"`
}

// Moment is what the time of a kill is counted in.
type Moment string

// The moments.
const (
	// AtRequest counts the requests that the clouds get from the step on; AtWrite those that change something.
	AtRequest Moment = "request"
	AtWrite   Moment = "write"
	// AtEvent counts what the process tells of the engine's progress.
	AtEvent Moment = "event"
)

// Kill is a moment of a step.
type Kill struct {
	At Moment `json:"at"`
	// N is which one, from 1. A step that ends before is not killed.
	N int `json:"n"`
	// Answered has the cloud do the work of the request first; the answer is lost with the process.
	Answered bool `json:"answered,omitempty"`
	// Delay passes after the moment.
	Delay time.Duration `json:"delay,omitempty"`
}

// Options leave out a part of what schedules do.
type Options struct {
	// NoKills leaves out the kills. All else stays as it is.
	NoKills bool
}

// NewSchedule is what a seed decides.
func NewSchedule(seed uint64, options Options) Schedule {
	c := chance{rand.New(rand.NewPCG(seed, 0x736f616b))}
	s := Schedule{Seed: seed, Way: WayProgram}
	s.Passphrase = c.in(0.2)
	if c.in(0.15) {
		s.Way = WayCLI
	}
	s.First = s.manifests(c)
	s.Last = s.First
	isChanged := c.in(0.7)
	if isChanged {
		s.Last = changed(c, s.First)
	}

	steps := c.between(1, 2)
	// Where nothing disturbs the first apply, it is the update that meets the faults.
	undisturbed := isChanged && c.in(0.4)
	if undisturbed {
		s.Disturbed = append(s.Disturbed, Step{Command: Apply})
		steps = 1
	}
	for i := range steps {
		step := Step{Command: Apply, Last: isChanged && (undisturbed || i > 0)}
		step.Faults = s.faults(c, Apply, undisturbed || i > 0)
		step.Kill = s.kill(c)
		s.Disturbed = append(s.Disturbed, step)
	}
	if c.in(0.4) {
		s.Destroying = []Step{{Command: Destroy, Last: true, Faults: s.faults(c, Destroy, true), Kill: s.kill(c)}}
	}
	if options.NoKills {
		for _, steps := range [][]Step{s.Disturbed, s.Destroying} {
			for i := range steps {
				steps[i].Kill = nil
			}
		}
	}
	return s
}

func (s Schedule) manifests(c chance) Manifests {
	if s.Way == WayCLI {
		// Each manifest is a stack, and each stack takes a few runs of the Pulumi CLI.
		switch c.IntN(5) {
		case 0:
			return civoManifests(c, parts{firewall: true})
		case 1:
			return civoManifests(c, parts{cluster: true, pools: 1})
		case 2:
			return civoManifests(c, parts{firewall: true, cluster: true})
		case 3:
			return digitalOceanManifests(c, parts{cluster: true})
		default:
			return digitalOceanManifests(c, parts{cluster: true, pools: 1})
		}
	}
	var manifests Manifests
	which := c.IntN(3)
	if which != 1 {
		manifests = append(manifests, civoManifests(c, parts{firewall: c.in(0.7), cluster: true, pools: c.between(0, 2)})...)
	}
	if which != 0 {
		manifests = append(manifests, digitalOceanManifests(c, parts{cluster: true, pools: c.between(0, 2)})...)
	}
	return manifests
}

// clouds are those that the manifests live on, in the order of their names.
func (s Schedule) clouds() []string {
	var names []string
	for _, name := range []string{kinds.Civo, kinds.DigitalOcean} {
		for _, manifest := range s.First {
			if kind, ok := kinds.Of(manifest); ok && kind.Provider == name {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// kill draws the moment of a kill, and whether there is one. The more manifests, the later it may be.
func (s Schedule) kill(c chance) *Kill {
	happens := c.in(0.7)
	kill := Kill{At: of(c, AtRequest, AtWrite, AtEvent), Answered: c.in(0.5), Delay: time.Duration(c.between(0, 40)) * time.Millisecond}
	switch kill.At {
	case AtRequest:
		kill.N = c.between(1, 5*len(s.First))
	case AtWrite:
		kill.N = c.between(1, len(s.First)+1)
	case AtEvent:
		kill.Answered = false
		kill.N = c.between(1, 8+3*len(s.First))
		if s.Way == WayCLI {
			kill.N = c.between(1, 4*len(s.First)) // it tells less
		}
	}
	if kill.At != AtEvent {
		// The process is dead before the request is answered, so that what comes next does not depend on who is faster.
		kill.Delay = 0
	}
	if !happens {
		return nil
	}
	return &kill
}

// routes are where faults strike, by cloud and by what is done to objects.
var routes = map[string]struct{ creates, updates, deletes, clusterDeletes []string }{
	kinds.Civo: {
		creates: []string{
			"POST /v2/networks", "POST /v2/firewalls", "POST /v2/firewalls/{id}/rules", "POST /v2/kubernetes/clusters",
			"POST /v2/kubernetes/clusters/{id}/pools",
		},
		updates: []string{
			"PUT /v2/networks/{id}", "PUT /v2/kubernetes/clusters/{id}", "PUT /v2/kubernetes/clusters/{id}/pools/{pool}",
			"DELETE /v2/firewalls/{id}/rules/{rule}",
		},
		deletes: []string{
			"DELETE /v2/networks/{id}", "DELETE /v2/firewalls/{id}", "DELETE /v2/kubernetes/clusters/{id}",
			"DELETE /v2/kubernetes/clusters/{id}/pools/{pool}",
		},
		clusterDeletes: []string{"DELETE /v2/kubernetes/clusters/{id}"},
	},
	kinds.DigitalOcean: {
		creates: []string{
			"POST /v2/vpcs", "POST /v2/kubernetes/clusters", "POST /v2/kubernetes/clusters/{id}/node_pools",
		},
		updates: []string{
			"PUT /v2/vpcs/{id}", "PATCH /v2/vpcs/{id}", "PUT /v2/kubernetes/clusters/{id}", "POST /v2/kubernetes/clusters/{id}/upgrade",
			"PUT /v2/kubernetes/clusters/{id}/node_pools/{pool}",
		},
		deletes: []string{
			"DELETE /v2/vpcs/{id}", "DELETE /v2/kubernetes/clusters/{id}", "DELETE /v2/kubernetes/clusters/{id}/node_pools/{pool}",
		},
		clusterDeletes: []string{"DELETE /v2/kubernetes/clusters/{id}"},
	},
}

// faults are the plans of the clouds for one step. exists tells that there may be objects already.
func (s Schedule) faults(c chance, command Command, exists bool) map[string]fault.Plan {
	plans := map[string]fault.Plan{}
	for _, cloud := range s.clouds() {
		plan := fault.Plan{Seed: c.Uint64()}
		for range c.between(1, 5) {
			plan.Faults = append(plan.Faults, newFault(c, cloud, command, exists))
		}
		if len(plan.Faults) > 0 {
			plans[cloud] = plan
		}
	}
	return plans
}

// newFault draws a fault. Each one ends by itself, so that a step comes to an end of its own too.
func newFault(c chance, cloud string, command Command, exists bool) fault.Fault {
	at := routes[cloud]
	writes := at.creates
	if exists {
		writes = append(append([]string{}, at.creates...), at.updates...)
	}
	if command == Destroy {
		writes = at.deletes
	}
	anything := append(append([]string{}, writes...), "GET /v2/kubernetes/clusters/{id}", "GET /v2/**", "* /v2/**")
	milliseconds := func(low, high int) time.Duration { return time.Duration(c.between(low, high)) * time.Millisecond }

	f := fault.Fault{Kind: of(c, fault.Kinds()...), Route: of(c, anything...), After: of(c, 0, 0, 0, 1), Count: c.between(1, 3)}
	switch f.Kind {
	case fault.Latency:
		f.Duration = milliseconds(10, 300)
	case fault.RateLimit:
		f.RetryAfter = of(c, 0, 0, time.Second)
	case fault.ServerError:
		f.Status = of(c, 500, 502, 503, 504)
		if f.Status == 503 {
			f.RetryAfter = of(c, 0, time.Second)
		}
		if c.in(0.3) {
			f.Probability = 0.5
		}
	case fault.LostAnswer, fault.Truncate:
		// Only what changes something is more than a reset.
		f.Route, f.Count = of(c, writes...), c.between(1, 2)
	case fault.Quota, fault.Capacity:
		f.Route, f.After, f.Count = of(c, writes...), 0, 1
	case fault.RevokeToken:
		f.Route, f.After, f.Count = "* /v2/**", c.between(1, 30), 1
	case fault.Stuck:
		f.Route, f.Duration = of(c, writes...), milliseconds(100, 1200)
	case fault.Unseen:
		f.Route, f.Duration = of(c, at.creates...), milliseconds(100, 1500)
	case fault.Linger:
		f.Route, f.Duration = of(c, at.clusterDeletes...), milliseconds(100, 1200)
	}
	return f
}

// Text is the schedule as a failing run shows it.
func (s Schedule) Text() string {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Sprintf("the schedule of seed %d cannot be shown: %v", s.Seed, err)
	}
	return string(text)
}
