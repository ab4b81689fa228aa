package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// TestHints has an error for each row of the table, in the words of the clouds, the plugins and the engine.
func TestHints(t *testing.T) {
	t.Parallel()
	cases := []struct {
		hint, reason string
		kind         provision.ErrorKind
		message      string
		want         string // what the hint says
	}{
		{"canceled", "Ctrl-C", provision.Canceled, "canceled: what was begun was ended", "to go on: planton apply -f set.yaml"},
		{"passphrase", "the passphrase file was lost", provision.StateTrouble, "getting secrets manager: incorrect passphrase",
			"another passphrase"},
		{"rate limit", "DigitalOcean's hourly limit", provision.Unreachable,
			"the rate limit of the digitalocean API is used up; wait a while: GET /v2/vpcs: 429 API Rate limit exceeded.", "wait a minute"},
		{"quota", "Civo", provision.Failed, "civo API: POST /v2/networks: 403 Forbidden quota_limit_reached: The quota of 10 networks does not allow 11",
			"raise the quota"},
		{"quota", "DigitalOcean", provision.Failed, "422 validation error: exceed limits, not enough available droplet limit", "raise the quota"},
		{"no room", "Civo answers with a 503", provision.Unreachable,
			"civo API: POST /v2/kubernetes/clusters: 503 Service Unavailable out_of_capacity: The region is out of capacity", "another region"},
		{"no room", "DigitalOcean", provision.Failed, "422 validation error: the size is unavailable in this region", "another region or size"},
		{"name exists", "the troubleshooting guide's first entry, as Civo says it", provision.Failed,
			`civo API: POST /v2/kubernetes/clusters: 409 Conflict database_kubernetes_cluster_duplicate: A Kubernetes cluster with the name "prod" already exists`,
			"planton import"},
		{"name exists", "as the native plugin says it", provision.Failed,
			"a cluster of the name prod already exists (id 1), and it is not this resource's: choose another name", "civo kubernetes list"},
		{"in use", "a network with volumes", provision.Failed,
			`409 Conflict database_network_inuse_by_volumes: The network "main" is in use by volumes`, "destroy that first"},
		{"kubectl refused", "the guide's third entry", provision.Unreachable,
			"dial tcp 203.0.113.7:6443: connect: connection refused", "port 6443"},
		{"nodes not ready", "the guide's last entry, on Civo", provision.Failed,
			"wait for node pool 1 to have all its nodes (last seen: 1 of 3): timed out after 30m0s", "journalctl -u k3s-agent"},
		{"nodes not ready", "on DigitalOcean", provision.Failed, "wait for the nodes of pool 1 to run (last seen: provisioning): timed out", "kubectl describe node"},
		{"stuck in building", "the guide's second entry", provision.Failed,
			"wait for cluster prod to become ACTIVE (last seen: BUILDING): timed out after 30m0s", "dashboard.civo.com/kubernetes"},
		{"stuck in building", "as the official plugins say it", provision.Failed, "timeout while waiting for state to become 'available'", "makes no second one"},
		{"scope", "a token that may only read", provision.Credentials, "digitalocean forbids this; the token may lack a scope: POST: 403", "scopes"},
		{"token", "an expired token", provision.Credentials, "civo API: GET /v2/networks: 401 Unauthorized", "did not accept the token"},
		{"connection refused", "no server", provision.Unreachable, "dial tcp 127.0.0.1:1: connect: connection refused", "a proxy, a firewall"},
		{"unreachable", "an outage", provision.Unreachable, "civo API: GET /v2/networks: 502 Bad Gateway", "when the API answers"},
		{"locked", "another process", provision.Conflict, "somebody else works on the stack: me@host, process 7", "wait until that process has ended"},
		{"", "a refusal says the way out itself", provision.Refused, "the change is refused: it duplicates; destroy what uses it first", ""},
		{"", "nothing is known", provision.Failed, "the cloud has hiccups", ""},
	}
	seen := map[string]bool{}
	for _, tc := range cases {
		failure := &provision.Error{Kind: tc.kind, Message: tc.message}
		if got := findHint(failure).name; got != tc.hint {
			t.Errorf("%s: the hint is %q, want %q", tc.reason, got, tc.hint)
		}
		got := hintFor(Streams{}, nil, errors.Wrap(failure, "apply"), "planton apply -f set.yaml")
		if !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: it says %q, want %q", tc.reason, got, tc.want)
		}
		seen[tc.hint] = true
	}
	page, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, hint := range hints {
		if !seen[hint.name] {
			t.Errorf("no case of %q", hint.name)
		}
		if !strings.Contains(string(page), "| "+hint.name+" |") {
			t.Errorf("docs/exit-codes.md has no row of %q", hint.name)
		}
	}
}

// TestHowToGoOn cancels commands.
func TestHowToGoOn(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	streams := Streams{Err: &errs, Getenv: func(string) string { return "" }}
	streams.settings = &settings{args: []string{"apply", "-f", "it's here/set.yaml", "--yes"}}
	report(streams, nil, &canceledError{errors.New("interrupted")})
	if want := `hint: to go on: planton apply -f 'it'\''s here/set.yaml' --yes` + "\n"; !strings.HasSuffix(errs.String(), want) {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
	errs.Reset()
	report(streams, nil, &canceledError{cause: usageError("canceled: nothing was changed")})
	if strings.Contains(errs.String(), "hint") {
		t.Errorf("whoever said no is told how to go on: %q", errs.String())
	}
}

// TestCopiedHints has commands in hints carry the flags without which they would mean something else.
func TestCopiedHints(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason, typed, text, want string
	}{
		{"another cloud", "apply --cloud emulated", "planton unlock --stack a/b/c --force", "planton unlock --cloud emulated --stack a/b/c --force"},
		{"the cloud that is meant anyway", "apply", "planton unlock --stack a/b/c", "planton unlock --stack a/b/c"},
		{"a command in a command", "apply --cloud emulated", "run planton state import --stack a/b/c FILE", "run planton state import --cloud emulated --stack a/b/c FILE"},
		{"words behind a command", "state list --cloud emulated", "planton stacks lists those that there are",
			"planton stacks --cloud emulated lists those that there are"},
		{"in quotes, and two of them", "apply --cloud emulated", "`planton import`, then planton refresh -f FILE",
			"`planton import --cloud emulated`, then planton refresh --cloud emulated -f FILE"},
		{"plugins and credentials, for commands that take them", "apply --plugins native --profile 'a b' --civo-provider-config civo.yaml",
			"planton refresh -f FILE, planton unlock --stack a/b/c",
			"planton refresh --plugins native --profile 'a b' --civo-provider-config civo.yaml -f FILE, planton unlock --stack a/b/c"},
		{"a command without a cloud", "apply --cloud emulated", "planton explain civovpc.spec", "planton explain civovpc.spec"},
		{"by another name", "apply --cloud emulated", "planton cancel --stack a/b/c", "planton cancel --cloud emulated --stack a/b/c"},
		{"no command", "apply --cloud emulated", "planton made it", "planton made it"},
	}
	for _, tc := range cases {
		streams := Streams{Getenv: func(string) string { return "" }, settings: &settings{}}
		words := strings.Split(strings.ReplaceAll(tc.typed, "'a b'", "a_b"), " ")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		typed, flags, err := newRoot(streams).Find(words)
		if err == nil {
			err = typed.ParseFlags(flags)
		}
		if err != nil {
			t.Fatal(err)
		}
		streams.settings.command = typed
		if got := streams.commands(tc.text); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// TestErrorDocument has what a program can use of an error.
func TestErrorDocument(t *testing.T) {
	t.Parallel()
	document := errorDocument(Streams{}, &provision.Error{
		Kind: provision.Failed, Operation: "update", Message: "network: 409: already exists (request id 1-2-3-4)", Resource: "network",
		RequestID: "1-2-3-4",
	})
	if document["requestId"] != "1-2-3-4" || document["resource"] != "network" || document["hint"] != findHint(&provision.Error{
		Kind: provision.Failed, Message: "already exists",
	}).text || document["hint"] == "" {
		t.Errorf("got %v", document)
	}
}
