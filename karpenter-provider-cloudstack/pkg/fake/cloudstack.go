// Package fake emulates the API of Apache CloudStack 4.22 over HTTP, as far as the provider uses it, with the traps that a real one has:
// signatures that expire, asynchronous jobs, a machine that exists before it is known whether there is room for it, machines in Error that
// keep their names, filters by tags that are ORed, pages, limits, and permissions that are refused only inside of a job. The real SDK talks
// to it. Faults can be planned for each command, and what was asked can be looked at.
//
// It is for tests and for the demonstration; the controller does not use it.
package fake

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"k8s.io/utils/clock"
)

// Keys that requests are signed with where Options name none.
const (
	DefaultAPIKey    = "fake-api-key"
	DefaultSecretKey = "fake-secret-key"
)

// Path is where the API is.
const Path = "/client/api"

// Account is the name of the account that the credentials are of.
const Account = "karpenter"

// Options configure a CloudStack. The zero value is good: jobs then end at once, though not within the request that begins them.
type Options struct {
	// APIKey and SecretKey are what requests must be signed with. Default: DefaultAPIKey and DefaultSecretKey.
	APIKey, SecretKey string
	// Clock tells when jobs end. Default: the real one. Whether a request has expired is told by the real clock always, see SetClockSkew.
	Clock clock.WithDelayedExecution
	// Seed makes ids, latencies and faults the same in each run, as far as requests come in the same order.
	Seed uint64
	// JobLatency tells how long a job of a command takes. A deployment that finds no room takes a tenth of it. Default: no time. See Between.
	JobLatency func(command string, random *rand.Rand) time.Duration
	// RequestLatency is how long each request takes.
	RequestLatency time.Duration
	// ThrottleRequests is how many requests are taken in each ThrottleInterval; all others are answered with 429. 0: any number.
	ThrottleRequests int
	ThrottleInterval time.Duration
	// Admin makes the credentials those of an administrator, who sees destroyed machines and disabled zones, and may expunge.
	Admin bool
	// ProjectsApart has users find machines and disks of projects only where they ask for all projects, as before 4.18.1. Since then they
	// find those that are in no project too.
	ProjectsApart bool
	// MaxPageSize is the most elements of a list that are answered at once. Default: 500.
	MaxPageSize int
	// MaxUserData is vm.userdata.max.length: the length of user data, in base64, that is taken. Default: 32768.
	MaxUserData int
	// ExpungeAfter is when destroyed machines are expunged. 0: never.
	ExpungeAfter time.Duration
	// KeepRequests is how many requests are remembered. Default: 20000.
	KeepRequests int
}

// Between is a JobLatency of deployVirtualMachine that is evenly spread between two durations; all other jobs take a fifth of the shorter.
func Between(shortest, longest time.Duration) func(string, *rand.Rand) time.Duration {
	return func(command string, random *rand.Rand) time.Duration {
		if command != "deployVirtualMachine" {
			return shortest / 5
		}
		if longest <= shortest {
			return shortest
		}
		return shortest + time.Duration(random.Int64N(int64(longest-shortest)))
	}
}

// CloudStack is an emulated CloudStack. It is an http.Handler, and safe for concurrent use.
type CloudStack struct {
	options Options
	clock   clock.WithDelayedExecution

	mu             sync.Mutex
	random         *rand.Rand
	numbers        uint64
	apiKey, secret string
	skew           time.Duration
	down           bool
	expungeAllowed bool
	throttled      int
	throttleSince  time.Time
	throttleMax    int
	throttleEvery  time.Duration
	requests       []Request
	counts         map[string]int
	faults         []*plannedFault
	zones          table[Zone]
	networks       table[Network]
	templates      table[Template]
	offerings      table[Offering]
	diskOfferings  table[DiskOffering]
	securityGroups table[SecurityGroup]
	affinityGroups table[AffinityGroup]
	projects       table[Project]
	keyPairs       map[string]bool
	capacity       map[string]int
	limits         map[string]Limit
	machines       table[VM]
	removed        map[string]*VM
	volumes        table[Volume]
	removedVolumes map[string]bool
	jobs           map[string]*job
	queue          []*job
	events         []event
	dispatching    bool
	hooks          []hook
}

// New makes a CloudStack without anything in it.
func New(options Options) *CloudStack {
	if options.APIKey == "" {
		options.APIKey = DefaultAPIKey
	}
	if options.SecretKey == "" {
		options.SecretKey = DefaultSecretKey
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.JobLatency == nil {
		options.JobLatency = func(string, *rand.Rand) time.Duration { return 0 }
	}
	if options.MaxPageSize == 0 {
		options.MaxPageSize = 500
	}
	if options.MaxUserData == 0 {
		options.MaxUserData = 32768
	}
	if options.KeepRequests == 0 {
		options.KeepRequests = 20000
	}
	return &CloudStack{
		options: options, clock: options.Clock, random: rand.New(rand.NewPCG(options.Seed, 1)), // not a secret
		apiKey: options.APIKey, secret: options.SecretKey, expungeAllowed: true,
		throttleMax: options.ThrottleRequests, throttleEvery: options.ThrottleInterval,
		counts: map[string]int{}, keyPairs: map[string]bool{}, capacity: map[string]int{}, limits: map[string]Limit{},
		removed: map[string]*VM{}, removedVolumes: map[string]bool{}, jobs: map[string]*job{},
	}
}

// Start serves the API on an address such as 127.0.0.1:0. It returns the URL of the API, and what ends it.
func (c *CloudStack) Start(address string) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, errors.Wrap(err, "serve the emulated CloudStack")
	}
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // its error says that it was closed
	}()
	return "http://" + listener.Addr().String() + Path, func() { _ = server.Close(); <-done }, nil
}

// SetCredentials exchanges the keys: requests that are signed with those from before are refused from now on.
func (c *CloudStack) SetCredentials(apiKey, secretKey string) {
	defer c.lock()()
	c.apiKey, c.secret = apiKey, secretKey
}

// SetClockSkew has the clock that judges whether requests have expired go ahead by that much.
func (c *CloudStack) SetClockSkew(skew time.Duration) {
	defer c.lock()()
	c.skew = skew
}

// SetDown has every request dropped without an answer, until it is called with false. Jobs go on.
func (c *CloudStack) SetDown(down bool) {
	defer c.lock()()
	c.down = down
}

// SetThrottle takes that many requests in each interval from now on; 0 takes any number.
func (c *CloudStack) SetThrottle(requests int, interval time.Duration) {
	defer c.lock()()
	c.throttleMax, c.throttleEvery, c.throttled, c.throttleSince = requests, interval, 0, time.Now()
}

// SetExpungeAllowed tells whether users may expunge; administrators may always. As in CloudStack, it is refused within the job, as an
// internal error (530) whose text says that the parameter is for administrators.
func (c *CloudStack) SetExpungeAllowed(allowed bool) {
	defer c.lock()()
	c.expungeAllowed = allowed
}

// lock locks, and returns what unlocks and then calls the hooks that became due.
func (c *CloudStack) lock() (unlock func()) {
	c.mu.Lock()
	return func() {
		c.mu.Unlock()
		c.dispatch()
	}
}

// namespace is that of the ids of objects with names.
var namespace = uuid.MustParse("5d6e2c8e-2f0b-4c39-9f6a-9d0c4c2b7f10")

// idOf is the id of an object of a kind and a name: the same in each run, so that tests may know it.
func idOf(kind, name string) string { return uuid.NewSHA1(namespace, []byte(kind+"/"+name)).String() }

// newID is an id that nothing has, for c that is locked.
func (c *CloudStack) newID(kind string) string {
	c.numbers++
	return uuid.NewSHA1(namespace, binary.BigEndian.AppendUint64([]byte(kind), c.options.Seed<<32|c.numbers)).String()
}

// table has rows in the order in which they came.
type table[T any] struct {
	order []string
	rows  map[string]*T
}

func (t *table[T]) put(id string, row *T) {
	if t.rows == nil {
		t.rows = map[string]*T{}
	}
	if _, there := t.rows[id]; !there {
		t.order = append(t.order, id)
	}
	t.rows[id] = row
}

func (t *table[T]) get(id string) *T { return t.rows[id] }

func (t *table[T]) remove(id string) {
	if _, there := t.rows[id]; !there {
		return
	}
	delete(t.rows, id)
	for i, one := range t.order {
		if one == id {
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			return
		}
	}
}

func (t *table[T]) all() []*T {
	rows := make([]*T, 0, len(t.order))
	for _, id := range t.order {
		rows = append(rows, t.rows[id])
	}
	return rows
}
