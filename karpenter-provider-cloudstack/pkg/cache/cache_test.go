package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var errDown = errors.New("down")

// source is what a cache loads from.
type source struct {
	calls atomic.Int32
	value []string
	err   error
}

func (s *source) load(context.Context) ([]string, error) {
	s.calls.Add(1)
	return s.value, s.err
}

func TestGet(t *testing.T) {
	const ttl = time.Minute
	tests := []struct {
		name  string
		then  func(*source) // what happens at the source after the first look
		after time.Duration // the time to the second look
		want  string
		calls int32
		why   string
	}{
		{"young", func(s *source) { s.value = []string{"b"} }, ttl - 1, "a", 1, "what is younger than its time is served without a request"},
		{"old", func(s *source) { s.value = []string{"b"} }, ttl, "b", 2, "what is as old as its time is loaded again"},
		{"down", func(s *source) { s.err = errDown }, ttl, "a", 2, "an outage must not take the catalogue away"},
		{"down for a day", func(s *source) { s.err = errDown }, 24 * time.Hour, "a", 2, "nor a long one"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
			c, s := New[[]string](t.Name(), ttl, clk), &source{value: []string{"a"}}
			if got, err := c.Get(t.Context(), "key", s.load); err != nil || got[0] != "a" {
				t.Fatalf("first look: %v, %v", got, err)
			}
			test.then(s)
			clk.Step(test.after)
			got, err := c.Get(t.Context(), "key", s.load)
			if err != nil || got[0] != test.want || s.calls.Load() != test.calls {
				t.Errorf("got %v (%v) after %d requests, want %q after %d: %s", got, err, s.calls.Load(), test.want, test.calls, test.why)
			}
		})
	}
}

func TestErrorWithoutValue(t *testing.T) {
	c, s := New[[]string](t.Name(), time.Minute, clocktesting.NewFakeClock(time.Unix(1e9, 0))), &source{err: errDown}
	for range 2 {
		if got, err := c.Get(t.Context(), "key", s.load); !errors.Is(err, errDown) || got != nil {
			t.Fatalf("got %v, %v: what was never known must be an error", got, err)
		}
	}
	if s.calls.Load() != 2 {
		t.Errorf("%d requests: an error must not be remembered", s.calls.Load())
	}
}

func TestOutageIsNotHammered(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c, s := New[[]string](t.Name(), time.Minute, clk), &source{value: []string{"a"}}
	look := func() {
		t.Helper()
		if got, err := c.Get(t.Context(), "key", s.load); err != nil || got[0] != "a" {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	look()
	s.err = errDown
	clk.Step(time.Hour)
	for range 10 {
		look()
	}
	if s.calls.Load() != 2 {
		t.Errorf("%d requests for 10 looks in an outage, want 1 besides the first", s.calls.Load())
	}
	clk.Step(retryAfter)
	look()
	if s.calls.Load() != 3 {
		t.Error("after a while it has to be tried again")
	}
	if got := testutil.ToFloat64(stale.WithLabelValues(t.Name())); got != 11 {
		t.Errorf("%v old answers counted, want 11", got)
	}
}

func TestSequence(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c, s := New[[]string](t.Name(), time.Minute, clk), &source{value: []string{"a"}}
	number := func(key string) uint64 {
		t.Helper()
		_, sequence, err := c.GetWithin(t.Context(), key, time.Minute, s.load)
		if err != nil {
			t.Fatal(err)
		}
		return sequence
	}
	first, other := number("key"), number("other")
	if first == other {
		t.Error("two keys have the same number")
	}
	s.value = []string{"a"}
	clk.Step(time.Minute)
	if number("key") != first || s.calls.Load() != 3 {
		t.Error("the same value, loaded again, has to keep its number")
	}
	s.value = []string{"b"}
	clk.Step(time.Minute)
	if number("key") == first {
		t.Error("another value has to have another number")
	}
}

func TestYoungerOnRequest(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c, s := New[[]string](t.Name(), time.Hour, clk), &source{value: []string{"a"}}
	_, _ = c.Get(t.Context(), "key", s.load)
	clk.Step(time.Minute)
	if _, _, err := c.GetWithin(t.Context(), "key", time.Minute, s.load); err != nil || s.calls.Load() != 2 {
		t.Errorf("%d requests (%v), want 2: who asks for younger data gets them", s.calls.Load(), err)
	}
}

func TestOneRequestForAll(t *testing.T) {
	c := New[[]string](t.Name(), time.Minute, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	release, calls := make(chan struct{}), atomic.Int32{}
	load := func(context.Context) ([]string, error) {
		calls.Add(1)
		<-release
		return []string{"a"}, nil
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := c.Get(t.Context(), "key", load); err != nil || got[0] != "a" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for testutil.ToFloat64(misses.WithLabelValues(t.Name())) < 20 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
	if calls.Load() != 1 {
		t.Errorf("%d requests for 20 that ask at the same time", calls.Load())
	}
	_, _ = c.Get(t.Context(), "key", load)
	if got := testutil.ToFloat64(hits.WithLabelValues(t.Name())); got != 1 {
		t.Errorf("%v hits counted, want 1", got)
	}
}

func TestWhoGivesUpTakesNothingFromOthers(t *testing.T) {
	c := New[[]string](t.Name(), time.Minute, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	started, release := make(chan struct{}), make(chan struct{})
	load := func(ctx context.Context) ([]string, error) {
		close(started)
		<-release
		return []string{"a"}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := c.Get(ctx, "key", load)
		gaveUp <- err
	}()
	<-started
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the error of the context", err)
	}
	close(release)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if loaded, known := c.entry("key"); known && loaded.value[0] == "a" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the request ended with the one who began it")
		}
	}
}

// betweenClock does something between the look at what is there and the request.
type betweenClock struct {
	*clocktesting.FakeClock
	do func()
}

func (c *betweenClock) NewTimer(d time.Duration) clock.Timer {
	if do := c.do; do != nil {
		c.do = nil
		do()
	}
	return c.FakeClock.NewTimer(d)
}

func TestWhatWasLoadedInTheMeantimeIsTaken(t *testing.T) {
	clk := &betweenClock{FakeClock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	c, s := New[[]string](t.Name(), time.Minute, clk), &source{value: []string{"a"}}
	_, _ = c.Get(t.Context(), "key", s.load)
	clk.Step(time.Minute)
	clk.do = func() { _, _ = c.Get(t.Context(), "key", s.load) }
	if _, err := c.Get(t.Context(), "key", s.load); err != nil || s.calls.Load() != 2 {
		t.Errorf("%d requests (%v), want 2: another caller's has just ended", s.calls.Load(), err)
	}
}

func TestSlowSourceDoesNotHoldUp(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c, s := New[[]string](t.Name(), time.Minute, clk), &source{value: []string{"a"}}
	_, _ = c.Get(t.Context(), "key", s.load)
	clk.Step(time.Minute)
	release := make(chan struct{})
	defer close(release)
	got := make(chan []string)
	go func() {
		value, _ := c.Get(t.Context(), "key", func(context.Context) ([]string, error) {
			<-release
			return nil, errDown
		})
		got <- value
	}()
	for !clk.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	clk.Step(patience)
	if value := <-got; len(value) != 1 || value[0] != "a" {
		t.Errorf("got %v, want the value from before", value)
	}
}
