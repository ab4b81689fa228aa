package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// hint is what to do about an error that does not say so itself.
type hint struct {
	// name is the entry of the table in docs/exit-codes.md.
	name string
	// words are a regular expression for those of the clouds and the engine; empty for all errors of the kind.
	words string
	// kind is that of the error; "" for those in which a cloud said no, did not answer or did not accept the token.
	kind provision.ErrorKind
	text string
}

// hints are looked through in their order. AGAIN stands for the command line that was typed, STACK for the stack.
var hints = []hint{
	{
		name: "canceled", kind: provision.Canceled,
		text: "to go on: AGAIN",
	},
	{
		name: "passphrase", kind: provision.StateTrouble,
		words: `(?i)incorrect passphrase|passphrase must be set|decrypt(ing)? (secret|value|config)|` +
			`message authentication failed`,
		text: "the secrets of the state are encrypted with another passphrase: put the file passphrase of the state directory back from " +
			"its copy, or set PULUMI_CONFIG_PASSPHRASE_FILE to the one that the stack was made with",
	},
	{
		name:  "rate limit",
		words: `(?i)rate[ -]?limit|\b429\b|too many requests`,
		text:  "the cloud takes fewer requests than it was asked; wait a minute, then run the command again: what was done is recorded",
	},
	{
		name: "quota",
		words: `(?i)\bquota|quota_limit_reached|exceeds? (the )?limits?|limit (has been )?(reached|exceeded)|` +
			`not enough available \w+ limit`,
		text: "the account may hold no more: ask the cloud to raise the quota (https://dashboard.civo.com/quota, " +
			"https://cloud.digitalocean.com/account/team), or delete what nobody needs",
	},
	{
		name:  "no room",
		words: `(?i)out[ _]of[ _]capacity|unavailable in (this|the) region|no capacity|region_unavailable|sold out`,
		text:  "the region has no room for it now: choose another region or size in the manifest, or try again later",
	},
	{
		name:  "name exists",
		words: `(?i)already exists|duplicate|name (is|has) (already )?(been )?(taken|in use)|must be unique`,
		text: "something of that name is there that is not this manifest's, perhaps made by hand or from another state: look with " +
			"`civo kubernetes list` or `doctl kubernetes cluster list`, take it over with `planton import`, or choose another name",
	},
	{
		name:  "in use",
		words: `(?i)\bin use by\b|_(inuse|used)_by_|delete_with_instance|still has (members|resources)|members? of (the )?vpc`,
		text:  "it cannot go while something uses it: destroy that first, and what Kubernetes made (load balancers, volumes) in the cloud",
	},
	{
		name:  "kubectl refused",
		words: `(?i):6443\b.*(refused|timeout|no route)|(refused|timeout|no route).*:6443\b`,
		text: "the cluster's API server does not answer: test it with `curl -k` on the output api_server_endpoint, see that its firewall " +
			"lets you in on port 6443, and that the kubeconfig is this cluster's (`kubectl config view`)",
	},
	{
		name:  "nodes not ready",
		words: `(?i)not ?ready|wait for (node pool .* to have all its nodes|the nodes of pool)`,
		text: "the nodes were asked for and have not joined: `kubectl describe node NAME` says why; on Civo look into one with ssh " +
			"(`civo kubernetes show CLUSTER` has its address) and `sudo journalctl -u k3s-agent`. Run the command again: it goes on waiting",
	},
	{
		name:  "stuck in building",
		words: `(?i)timed out|timeout while waiting|wait for (cluster|network)\b`,
		text: "the cloud is late; ten minutes are nothing unusual: look at https://dashboard.civo.com/kubernetes or " +
			"https://cloud.digitalocean.com/kubernetes, see that the network has free addresses and the region room, then run the command " +
			"again: it goes on waiting for the same object and makes no second one",
	},
	{
		name: "scope", kind: provision.Credentials,
		words: `(?i)\b403\b|forbidden|scope`,
		text:  "the cloud knows the token and does not allow this: give it the scopes for networks, firewalls and Kubernetes, or use another one",
	},
	{
		name: "token", kind: provision.Credentials,
		text: "the cloud did not accept the token: it may have expired; give a new one in CIVO_TOKEN or DIGITALOCEAN_TOKEN, in the provider " +
			"config or in the credentials file",
	},
	{
		name: "connection refused", kind: provision.Unreachable,
		words: `(?i)connection refused|no such host|dial tcp|network is unreachable|x509:`,
		text: "nothing is lost: what was done is recorded; look whether this machine reaches the API (a proxy, a firewall, " +
			"CIVO_API_URL, DIGITALOCEAN_API_URL), and run the command again",
	},
	{
		name: "unreachable", kind: provision.Unreachable,
		text: "nothing is lost: what was done is recorded; run the command again when the API answers",
	},
	{
		name: "locked", kind: provision.Conflict,
		text: "wait until that process has ended, and run the command again (--lock-timeout 10m waits for it); where it was killed on another " +
			"machine: planton unlock --stack STACK --force",
	},
}

// hintFor is what to do about an error that does not say so itself; again is the command line that was typed.
func hintFor(streams Streams, command *cobra.Command, err error, again string) string {
	var foreign *kubeconfig.ForeignError
	if errors.As(err, &foreign) {
		return fmt.Sprintf("choose another name with --context NAME, or remove it: kubectl --kubeconfig %s config delete-%s %s",
			foreign.File, foreign.Section, foreign.Name)
	}
	if again == "" {
		again = "run the same command"
	}
	var (
		failure  *provision.Error
		canceled *canceledError
		usage    *usageFailure
	)
	switch {
	case errors.As(err, &usage) && ExitCode(err) != ExitUsage:
		return "" // "no" to a question
	case errors.As(err, &usage):
		if command == nil {
			return ""
		}
		return command.CommandPath() + " --help"
	case errors.As(err, &canceled):
		failure = &provision.Error{Kind: provision.Canceled}
	case !errors.As(err, &failure):
		return ""
	}
	if failure.Hint != "" {
		return streams.commands(failure.Hint)
	}
	text := streams.commands(findHint(failure).text)
	return strings.NewReplacer("AGAIN", again, "STACK", failure.Stack.String()).Replace(text)
}

// carried are the flags without which a command would mean other stacks, or reach the cloud in another way. None of them holds a secret:
// they are words, and the names of profiles and files.
var carried = []string{"cloud", "plugins", "profile", "civo-provider-config", "digital-ocean-provider-config"}

// plantonWords are a command of planton in a text, and perhaps words behind it.
var plantonWords = regexp.MustCompile(`\bplanton( [a-z][a-z-]*)+`)

// commands gives the commands of planton that a text names those flags that were typed, as far as the commands have them: whoever copies
// one means the same cloud.
func (s Streams) commands(text string) string {
	if s.settings == nil || s.settings.command == nil {
		return text
	}
	typed := s.settings.command
	return plantonWords.ReplaceAllStringFunc(text, func(words string) string {
		named, rest := typed.Root(), strings.Fields(words)[1:]
		for len(rest) > 0 {
			inner := slices.IndexFunc(named.Commands(), func(c *cobra.Command) bool { return c.Name() == rest[0] || c.HasAlias(rest[0]) })
			if inner < 0 {
				break
			}
			named, rest = named.Commands()[inner], rest[1:]
		}
		parts := strings.Fields(words)
		parts = parts[:len(parts)-len(rest)]
		for _, name := range carried {
			if flag := typed.Flags().Lookup(name); flag != nil && flag.Changed && named.Flags().Lookup(name) != nil {
				parts = append(parts, "--"+name, shellWord(flag.Value.String()))
			}
		}
		return strings.Join(append(parts, rest...), " ")
	})
}

// findHint is the first hint about an error; an empty one where there is none.
func findHint(failure *provision.Error) hint {
	for _, hint := range hints {
		if hint.fits(failure) {
			return hint
		}
	}
	return hint{}
}

// fits tells whether a hint is about an error.
func (h hint) fits(failure *provision.Error) bool {
	switch failure.Kind {
	case h.kind:
	case provision.Failed, provision.Unreachable, provision.Credentials:
		if h.kind != "" {
			return false
		}
	default:
		return false
	}
	return h.words == "" || regexp.MustCompile(h.words).MatchString(failure.Message)
}
