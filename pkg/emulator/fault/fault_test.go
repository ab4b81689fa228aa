package fault_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// networkCreates is a fault of the calls that create a network, on either cloud.
func networkCreates(f fault.Fault) fault.Plan {
	civo, digitalOcean := f, f
	civo.Route, digitalOcean.Route = "POST /v2/networks", "POST /v2/vpcs"
	return fault.Plan{Faults: []fault.Fault{civo, digitalOcean}}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		fault  fault.Fault
		// civo and digitalOcean are the statuses that the clouds answer.
		civo, digitalOcean int
		retryAfter         string
	}{
		{"too many requests", fault.Fault{Kind: fault.RateLimit}, 429, 429, ""},
		{"too many requests, with a time to wait", fault.Fault{Kind: fault.RateLimit, RetryAfter: 1500 * time.Millisecond}, 429, 429, "2"},
		{"a server error of no status", fault.Fault{Kind: fault.ServerError}, 500, 500, ""},
		{"500", fault.Fault{Kind: fault.ServerError, Status: 500}, 500, 500, ""},
		{"502", fault.Fault{Kind: fault.ServerError, Status: 502}, 502, 502, ""},
		{"503", fault.Fault{Kind: fault.ServerError, Status: 503}, 503, 503, ""},
		{"503, with a time to wait", fault.Fault{Kind: fault.ServerError, Status: 503, RetryAfter: time.Minute}, 503, 503, "60"},
		{"504", fault.Fault{Kind: fault.ServerError, Status: 504}, 504, 504, ""},
		{"a quota", fault.Fault{Kind: fault.Quota}, 403, 422, ""},
		{"no capacity", fault.Fault{Kind: fault.Capacity}, 503, 422, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			test.fault.Count = 2
			onBothClouds(t, networkCreates(test.fault), func(t *testing.T, b *bench) {
				want := test.digitalOcean
				if b.cloud.Name() == "civo" {
					want = test.civo
				}
				_, err := b.createNetwork("one")
				if !b.refused(err, test.fault.Kind, want) {
					t.Errorf("the client's error is %v", err)
				}
				if last := b.last(); last.Status != want || !slices.Equal(last.Faults, []string{string(test.fault.Kind)}) {
					t.Errorf("the log has %+v, want %d", last, want)
				}
				// The client does not show its answer's header.
				request, err := http.NewRequest(http.MethodPost, b.url+b.networksPath, nil)
				check(t, err)
				response, err := http.DefaultClient.Do(request)
				check(t, err)
				check(t, response.Body.Close())
				if got := response.Header.Get("Retry-After"); got != test.retryAfter || response.StatusCode != want {
					t.Errorf("%d with Retry-After %q, want %d with %q", response.StatusCode, got, want, test.retryAfter)
				}
				if b.networks() != 0 {
					t.Error("the work was done")
				}
				must(b.createNetwork("one"))(t)
				if b.networks() != 1 || b.count("POST", b.networksPath) != 3 || len(b.Strikes()) != 2 {
					t.Errorf("%d networks, %d requests, strikes %v", b.networks(), b.count("POST", b.networksPath), b.Strikes())
				}
			})
		})
	}
}

func TestAnswersThatDoNotArrive(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		kind   fault.Kind
		made   int
		// status is whether the log has one.
		status bool
	}{
		{"a reset before the work", fault.Reset, 0, false},
		{"an answer lost after the work", fault.LostAnswer, 1, false},
		{"a truncated answer", fault.Truncate, 1, true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			onBothClouds(t, networkCreates(fault.Fault{Kind: test.kind, Count: 1}), func(t *testing.T, b *bench) {
				must(b.listNetworks())(t) // so that the connection was used before
				id, err := b.createNetwork("one")
				if err == nil {
					t.Errorf("the client got network %q", id)
				}
				// civogo does not show the cause.
				if b.cloud.Name() == "digitalocean" && !test.status && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("got %v, want a connection that is reset", err)
				}
				if b.networks() != test.made || b.count("POST", b.networksPath) != 1 {
					t.Errorf("%d networks after %d requests, want %d after one", b.networks(), b.count("POST", b.networksPath), test.made)
				}
				last := b.last()
				if (last.Status != 0) != test.status || !slices.Equal(last.Faults, []string{string(test.kind)}) {
					t.Errorf("the log has %+v", last)
				}
				must(b.createNetwork("two"))(t)
			})
		})
	}
}

func TestTruncatedReads(t *testing.T) {
	t.Parallel()
	onBothClouds(t, fault.Plan{Faults: []fault.Fault{{Kind: fault.Truncate, Route: "GET /**"}}}, func(t *testing.T, b *bench) {
		_, id := b.newCluster(t, "one")
		if ids, err := b.listNetworks(); err == nil {
			t.Errorf("networks %v", ids)
		}
		if state, err := b.getCluster(id); err == nil {
			t.Errorf("a cluster that is %s", state)
		}
	})
}

func TestTruncationKeepsAnswersWithoutABody(t *testing.T) {
	t.Parallel()
	b := start(t, "digitalocean", emulator.Options{}, fault.Plan{Faults: []fault.Fault{{Kind: fault.Truncate, Route: "DELETE /**"}}})
	check(t, b.deleteNetwork(must(b.createNetwork("one"))(t)))
}

func TestLatency(t *testing.T) {
	t.Parallel()
	const d = 120 * time.Millisecond
	onBothClouds(t, networkCreates(fault.Fault{Kind: fault.Latency, Duration: d}), func(t *testing.T, b *bench) {
		began := time.Now()
		must(b.createNetwork("one"))(t)
		if took := time.Since(began); took < d || b.last().Duration < d {
			t.Errorf("took %v, %v in the log", took, b.last().Duration)
		}
		must(b.listNetworks())(t)
		if last := b.last(); len(last.Faults) != 0 || len(b.Strikes()) != 1 {
			t.Errorf("another route was struck too: %+v", last)
		}
	})
}

// Lifting a plan lets those go that wait, and nothing else of the plan happens to them.
func TestLiftEndsWaiting(t *testing.T) {
	t.Parallel()
	plan := networkCreates(fault.Fault{Kind: fault.Latency, Duration: time.Hour})
	plan.Faults = append(plan.Faults, networkCreates(fault.Fault{Kind: fault.Quota}).Faults...)
	onBothClouds(t, plan, func(t *testing.T, b *bench) {
		ended := make(chan error, 1)
		go func() {
			_, err := b.createNetwork("one")
			ended <- err
		}()
		eventually(t, "the request waits", func() bool { return len(b.Strikes()) == 2 })
		check(t, b.Lift())
		check(t, <-ended)
		if b.networks() != 1 || len(b.Strikes()) != 0 || len(b.Plan().Faults) != 0 {
			t.Errorf("%d networks, strikes %v, plan %v", b.networks(), b.Strikes(), b.Plan())
		}
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestRevokedToken(t *testing.T) {
	t.Parallel()
	onBothClouds(t, networkCreates(fault.Fault{Kind: fault.RevokeToken, After: 1, Count: 1}), func(t *testing.T, b *bench) {
		id := must(b.createNetwork("one"))(t)
		_, err := b.createNetwork("two")
		for range 2 {
			if !b.refused(err, fault.RevokeToken, http.StatusUnauthorized) || b.last().Status != http.StatusUnauthorized {
				t.Errorf("the revoked token: %v", err)
			}
			err = b.getNetwork(id) // from then on, on every route
		}
		check(t, b.client("another-token-0123456789").getNetwork(id))
		check(t, b.Lift())
		check(t, b.getNetwork(id))
		if b.networks() != 1 {
			t.Errorf("%d networks", b.networks())
		}
	})
}

func everywhere(faults ...fault.Fault) fault.Plan { return fault.Plan{Faults: faults} }

func TestStuck(t *testing.T) {
	t.Parallel()
	onBothClouds(t, fault.Plan{}, func(t *testing.T, b *bench) {
		stuck := func(method string) {
			t.Helper()
			check(t, b.Set(everywhere(fault.Fault{Kind: fault.Stuck, Route: method + " /v2/kubernetes/**"})))
		}
		wantState := func(id, want string) {
			t.Helper()
			if state := must(b.getCluster(id))(t); state != want {
				t.Errorf("the cluster is %s, want %s", state, want)
			}
		}
		_, ordinary := b.newCluster(t, "ordinary")
		wantState(ordinary, b.running)

		stuck("POST")
		_, id := b.newCluster(t, "building")
		wantState(id, b.building)
		check(t, b.Lift())
		wantState(id, b.running)

		stuck("POST")
		pool := must(b.createPool(id, "extra"))(t)
		if states := must(b.getPool(id, pool))(t); !slices.Equal(states, []string{b.building}) {
			t.Errorf("the nodes of a pool that is stuck are %v", states)
		}
		check(t, b.Lift())
		if states := must(b.getPool(id, pool))(t); !slices.Equal(states, []string{b.running}) {
			t.Errorf("the nodes of a pool that is not stuck any more are %v", states)
		}

		stuck("DELETE")
		check(t, b.deletePool(id, pool))
		if states := must(b.getPool(id, pool))(t); len(states) != 1 || states[0] == b.running {
			t.Errorf("the nodes of a pool whose deletion is stuck are %v", states)
		}
		check(t, b.Lift())
		if states, err := b.getPool(id, pool); !b.notFound(err) {
			t.Errorf("the deleted pool: %v, nodes %v", err, states)
		}

		stuck("*")
		check(t, b.upgradeCluster(id))
		wantState(id, b.upgrading)
		check(t, b.Lift())
		wantState(id, b.running)

		stuck("DELETE")
		check(t, b.deleteCluster(id))
		check(t, b.deleteCluster(id)) // again, to no effect
		wantState(id, b.deleting)
		check(t, b.Lift())
		if _, err := b.getCluster(id); !b.notFound(err) {
			t.Errorf("the deleted cluster: %v", err)
		}
		wantState(ordinary, b.running)
	})
}

// What is stuck for a time gets on by itself.
func TestStuckForATime(t *testing.T) {
	t.Parallel()
	onBothClouds(t, everywhere(fault.Fault{Kind: fault.Stuck, Route: "* /v2/kubernetes/**", Duration: 100 * time.Millisecond}), func(t *testing.T, b *bench) {
		began := time.Now()
		networkID, id := b.newCluster(t, "one")
		eventually(t, "the cluster runs", func() bool { return must(b.getCluster(id))(t) == b.running })
		check(t, b.deleteCluster(id))
		eventually(t, "the cluster is gone", func() bool {
			_, err := b.getCluster(id)
			return b.notFound(err)
		})
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("both took %v", took)
		}
		check(t, b.deleteNetwork(networkID))
	})
}

// A cloud that is as slow as the real one is not made faster by lifting a plan.
func TestLiftKeepsOrdinarySlowness(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"civo", "digitalocean"} {
		b := start(t, name, emulator.Options{TimeScale: 1}, fault.Plan{})
		_, id := b.newCluster(t, "one")
		check(t, b.Lift())
		if state := must(b.getCluster(id))(t); state != b.building {
			t.Errorf("%s: the cluster is %s", name, state)
		}
	}
}

// What is stuck, unseen or lingering is so after a restart too.
func TestEffectsAreKept(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"civo", "digitalocean"} {
		options := emulator.Options{StateFile: filepath.Join(t.TempDir(), "state.json")}
		first := start(t, name, options, everywhere(
			fault.Fault{Kind: fault.Stuck, Route: "* /v2/kubernetes/**"}, fault.Fault{Kind: fault.Linger, Route: "DELETE /v2/kubernetes/**"},
		))
		_, id := first.newCluster(t, "stuck")
		check(t, first.Set(everywhere(fault.Fault{Kind: fault.Unseen, Route: "POST /v2/**"}, fault.Fault{Kind: fault.Stuck, Route: "DELETE /**"})))
		unseen := must(first.createNetwork("unseen"))(t)
		check(t, first.deleteCluster(id))

		second := start(t, name, options, fault.Plan{})
		if state := must(second.getCluster(id))(t); state != second.deleting {
			t.Errorf("%s: the cluster is %s", name, state)
		}
		if err := second.getNetwork(unseen); !second.notFound(err) {
			t.Errorf("%s: the network: %v", name, err)
		}
		check(t, second.Lift())
		check(t, second.getNetwork(unseen))
		if _, err := second.getCluster(id); !second.notFound(err) {
			t.Errorf("%s: the cluster: %v", name, err)
		}
	}
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	onBothClouds(t, fault.Plan{}, func(t *testing.T, b *bench) {
		network, cluster := b.newCluster(t, "seen")
		check(t, b.Set(everywhere(fault.Fault{Kind: fault.Unseen, Route: "POST /v2/**"})))
		hidden := must(b.createNetwork("hidden"))(t)
		firewall := must(b.createFirewall(hidden))(t)
		hiddenCluster := must(b.createCluster("hidden", hidden, firewall))(t)
		pool := must(b.createPool(cluster, "hidden"))(t)

		_, clusterErr := b.getCluster(hiddenCluster)
		_, poolErr := b.getPool(cluster, pool)
		for what, err := range map[string]error{
			"network": b.getNetwork(hidden), "firewall": b.getFirewall(firewall), "cluster": clusterErr, "pool": poolErr,
		} {
			if !b.notFound(err) {
				t.Errorf("reading the %s: %v", what, err)
			}
		}
		if ids := must(b.listNetworks())(t); slices.Contains(ids, hidden) || !slices.Contains(ids, network) {
			t.Errorf("networks %v", ids)
		}
		if ids := must(b.listClusters())(t); slices.Contains(ids, hiddenCluster) || !slices.Contains(ids, cluster) {
			t.Errorf("clusters %v", ids)
		}
		if b.networks() != 2 {
			t.Errorf("the account has %d networks", b.networks())
		}
		// A name is taken all the same, and writes find the object.
		if _, err := b.createNetwork("hidden"); err == nil {
			t.Error("a second network of the name was made")
		}
		check(t, b.deletePool(cluster, pool))

		check(t, b.Lift())
		check(t, b.getNetwork(hidden))
		check(t, b.getFirewall(firewall))
		if state := must(b.getCluster(hiddenCluster))(t); state != b.running {
			t.Errorf("the cluster is %s", state)
		}
		if ids := must(b.listNetworks())(t); !slices.Contains(ids, hidden) {
			t.Errorf("networks %v", ids)
		}
	})
}

func TestUnseenForATime(t *testing.T) {
	t.Parallel()
	onBothClouds(t, everywhere(fault.Fault{Kind: fault.Unseen, Route: "POST /**", Duration: 80 * time.Millisecond}), func(t *testing.T, b *bench) {
		began := time.Now()
		id := must(b.createNetwork("one"))(t)
		eventually(t, "the network is seen", func() bool { return b.getNetwork(id) == nil })
		if took := time.Since(began); took < 80*time.Millisecond {
			t.Errorf("seen after %v", took)
		}
	})
}

func TestLinger(t *testing.T) {
	t.Parallel()
	onBothClouds(t, everywhere(fault.Fault{Kind: fault.Linger, Route: "DELETE /v2/kubernetes/clusters/{id}"}), func(t *testing.T, b *bench) {
		network, cluster := b.newCluster(t, "one")
		check(t, b.deleteCluster(cluster))
		if _, err := b.getCluster(cluster); !b.notFound(err) {
			t.Errorf("the cluster: %v", err)
		}
		if err := b.deleteNetwork(network); !b.inUse(err) {
			t.Errorf("deleting the network: %v", err)
		}
		// On Civo a firewall belongs to the clusters of its network.
		if client, ok := b.api.(civoAPI); ok {
			firewall := must(client.FindFirewall("of-" + network))(t)
			if _, err := client.DeleteFirewall(firewall.ID); !b.inUse(err) {
				t.Errorf("deleting the firewall: %v", err)
			}
		}
		check(t, b.Lift())
		check(t, b.deleteNetwork(network))
	})
	onBothClouds(t, everywhere(fault.Fault{Kind: fault.Linger, Route: "DELETE /v2/kubernetes/**", Duration: 80 * time.Millisecond}), func(t *testing.T, b *bench) {
		network, cluster := b.newCluster(t, "one")
		began := time.Now()
		check(t, b.deleteCluster(cluster))
		eventually(t, "the network can be deleted", func() bool { return b.deleteNetwork(network) == nil })
		if took := time.Since(began); took < 80*time.Millisecond {
			t.Errorf("deleted after %v", took)
		}
	})
}

func TestAfterAndCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		fault  fault.Fault
		// want is which of five reads of the list fail.
		want string
	}{
		{"each time", fault.Fault{}, "xxxxx"},
		{"once", fault.Fault{Count: 1}, "x...."},
		{"after two", fault.Fault{After: 2}, "..xxx"},
		{"twice after one", fault.Fault{After: 1, Count: 2}, ".xx.."},
		{"on another method", fault.Fault{Route: "POST /v2/**"}, "....."},
		{"on another path", fault.Fault{Route: "GET /v2/kubernetes/**"}, "....."},
		{"on any method of one cloud", fault.Fault{Route: "* /v2/**", Cloud: "civo"}, "xxxxx"},
		{"on another cloud", fault.Fault{Route: "* /v2/**", Cloud: "digitalocean"}, "....."},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			test.fault.Kind = fault.ServerError
			if test.fault.Route == "" {
				test.fault.Route = "GET /v2/networks"
			}
			b := start(t, "civo", emulator.Options{}, everywhere(test.fault))
			got := ""
			for range 5 {
				if _, err := b.listNetworks(); err != nil {
					got += "x"
				} else {
					got += "."
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Faults add up until one decides the answer; later ones are not asked.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := start(t, "civo", emulator.Options{}, everywhere(
		fault.Fault{Kind: fault.Latency, Route: "GET /**", Duration: time.Millisecond},
		fault.Fault{Kind: fault.Quota, Route: "GET /**", Count: 1},
		fault.Fault{Kind: fault.Capacity, Route: "GET /**", Count: 1},
	))
	var got []fault.Strike
	for range 3 {
		_, _ = b.listNetworks()
	}
	for _, strike := range b.Strikes() {
		got = append(got, fault.Strike{Fault: strike.Fault, Kind: strike.Kind})
	}
	want := []fault.Strike{
		{Fault: 0, Kind: fault.Latency}, {Fault: 1, Kind: fault.Quota}, {Fault: 0, Kind: fault.Latency}, {Fault: 2, Kind: fault.Capacity},
		{Fault: 0, Kind: fault.Latency},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("strikes (-want +got):\n%s", diff)
	}
}

func TestInvalidPlansAreRefused(t *testing.T) {
	t.Parallel()
	invalid := everywhere(fault.Fault{Kind: "explode", Route: "GET /"})
	if _, _, err := fault.New(civo.New, emulator.Options{}, invalid); err == nil {
		t.Error("New took an invalid plan")
	}
	if _, _, err := fault.New(digitalocean.New, emulator.Options{TimeScale: -1}, fault.Plan{}); err == nil {
		t.Error("New took invalid options")
	}
	b := start(t, "civo", emulator.Options{}, everywhere(fault.Fault{Kind: fault.Quota, Route: "GET /**"}))
	if err := b.Set(invalid); err == nil || len(b.Plan().Faults) != 1 || b.Plan().Faults[0].Kind != fault.Quota {
		t.Errorf("Set: %v, then in force: %v", err, b.Plan())
	}
}

// The options' own Intercept sees what faults let through.
func TestInterceptComesAfterFaults(t *testing.T) {
	t.Parallel()
	seen := 0
	options := emulator.Options{Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		seen++
		next.ServeHTTP(w, r)
	}}
	b := start(t, "civo", options, everywhere(fault.Fault{Kind: fault.Quota, Route: "GET /**", Count: 1}))
	for range 3 {
		_, _ = b.listNetworks()
	}
	if seen != 2 {
		t.Errorf("it saw %d requests, want 2", seen)
	}
}

// Plans can be changed while many clients are at work; none of it remains when the last one was lifted.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	onBothClouds(t, fault.Plan{}, func(t *testing.T, b *bench) {
		var clients sync.WaitGroup
		for n := range 8 {
			client := b.client(fmt.Sprintf("token-of-client-%d", n))
			clients.Go(func() {
				for k := range 10 {
					if id, err := client.createNetwork(fmt.Sprintf("n-%d-%d", n, k)); err == nil {
						_ = client.deleteNetwork(id)
					}
				}
			})
		}
		for k := range 10 {
			plan := everywhere(
				fault.Fault{Kind: fault.Latency, Route: "* /**", Duration: time.Millisecond},
				fault.Fault{Kind: fault.Unseen, Route: "* /**"},
				fault.Fault{Kind: fault.Kinds()[k%8], Route: "* /**", Probability: 0.3},
			)
			check(t, b.Set(plan))
			_, _ = b.Strikes(), b.Plan()
		}
		clients.Wait()
		check(t, b.Lift())
		if ids := must(b.listNetworks())(t); len(ids) < b.networks() {
			t.Errorf("%d networks are listed, the account has %d and the default ones", len(ids), b.networks())
		}
	})
}
