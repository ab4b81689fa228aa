package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

const outputWide = "wide"

type stacksOptions struct {
	cloud  cloudFlags
	output outputFlags
}

func newStacks(streams Streams) *cobra.Command {
	options := &stacksOptions{}
	cmd := &cobra.Command{
		Use:   "stacks",
		Short: "List the stacks of the backend, and who works on them",
		Long: "List the stacks of the backend: what they hold, when they were written last, and who works on them. The lock of a process\n" +
			"that has ended and one that nobody can look up are told apart from that of one that runs, and so is a state that is damaged.",
		Example: "  planton stacks\n" +
			"  planton stacks -o json | jq -r '.stacks[] | select(.locks != null) | .stack'",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.cloud.bindCloud(cmd)
	options.output.bind(cmd, outputText, outputWide, outputJSON)
	return cmd
}

func (o *stacksOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	engine, done, err := backendEngine(ctx, streams, o.cloud)
	if err != nil {
		return err
	}
	defer done()
	stacks, err := engine.AllStacks(ctx)
	if err != nil {
		return err
	}
	if o.output.format == outputJSON {
		documents := make([]stackDocument, len(stacks))
		for i, stack := range stacks {
			documents[i] = stackDocumentOf(stack)
		}
		return writeJSON(streams, map[string]any{"stacks": documents})
	}
	if len(stacks) == 0 {
		_, _ = fmt.Fprintln(streams.Err, "there are no stacks")
		return nil
	}
	writeStacks(streams.Out, stacks, o.output.format == outputWide, time.Now())
	for _, stack := range stacks {
		tellTrouble(streams, engine, stack)
	}
	return nil
}

// backendEngine is an engine for commands that look into the backend and ask no cloud.
func backendEngine(ctx context.Context, streams Streams, cloud cloudFlags) (*provision.Engine, func(), error) {
	cloud.plugins = string(provision.Automatic)
	progress := newProgress(streams, nil)
	engine, err := openEngine(ctx, streams, cloud, progress)
	return engine, progress.close, err
}

// tellTrouble names what keeps a stack from being worked on, with the command that helps.
func tellTrouble(streams Streams, engine *provision.Engine, stack provision.StackSummary) {
	warn := painter(streams.ErrTerminal, streams.Getenv)(yellow, "warning:")
	for _, lock := range stack.Locks {
		command := streams.commands("planton unlock") + " --stack " + stack.Identity.String()
		switch lock.Holder {
		case provision.Ended:
			_, _ = fmt.Fprintf(streams.Err, "%s %s is locked by %s; the next operation removes the lock, and so does: %s\n",
				warn, stack.Identity, lock, command)
		case provision.Elsewhere, provision.Unreadable:
			_, _ = fmt.Fprintf(streams.Err, "%s %s is locked by %s; whether it still runs cannot be told from here. If you know that it "+
				"does not: %s --force\n", warn, stack.Identity, lock, command)
		}
	}
	if stack.Damage == "" {
		return
	}
	_, _ = fmt.Fprintf(streams.Err, "%s the state of %s is damaged: %s%s\n", warn, stack.Identity, stack.Damage, streams.commands(restoreHint(engine, stack.Identity)))
}

// restoreHint is how to get an earlier state of a stack back, with the newest one that can be read; "" where there is none.
func restoreHint(engine *provision.Engine, identity stackidentity.Identity) string {
	backups := engine.Backups(identity)
	if len(backups) == 0 {
		return ""
	}
	return fmt.Sprintf("; to go back to the last one that was kept, then look what has changed since: planton state import --stack %s %s, "+
		"planton refresh -f FILE", identity, backups[0])
}

// resourceOf is the kind, org, env and name in the name of a stack, as docs/stack-naming.md says; only a name where labels chose it.
func resourceOf(identity stackidentity.Identity) (kind, org, env, name string) {
	if known, ok := kinds.ByName(identity.Project); ok {
		kind = known.Name
	}
	parts := strings.Split(identity.Stack, ".")
	if len(parts) != 3 {
		return kind, "", "", identity.Stack
	}
	given := func(part string) string {
		if part == "_" {
			return ""
		}
		return part
	}
	return kind, given(parts[0]), given(parts[1]), parts[2]
}

// stackDocument is a stack in JSON.
type stackDocument struct {
	Stack      string           `json:"stack"`
	Kind       string           `json:"kind,omitempty"`
	Name       string           `json:"name"`
	Org        string           `json:"org,omitempty"`
	Env        string           `json:"env,omitempty"`
	Resources  int              `json:"resources"`
	Pending    int              `json:"pendingOperations,omitempty"`
	LastUpdate time.Time        `json:"lastUpdate,omitzero"`
	Locks      []provision.Lock `json:"locks,omitempty"`
	Damage     string           `json:"damage,omitempty"`
}

func stackDocumentOf(stack provision.StackSummary) stackDocument {
	kind, org, env, name := resourceOf(stack.Identity)
	return stackDocument{
		Stack: stack.Identity.String(), Kind: kind, Name: name, Org: org, Env: env, Resources: stack.Resources, Pending: stack.Pending,
		LastUpdate: stack.LastUpdate, Locks: stack.Locks, Damage: stack.Damage,
	}
}

func writeStacks(out io.Writer, stacks []provision.StackSummary, wide bool, now time.Time) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "STACK\tKIND\tNAME\tORG\tENV\tRESOURCES\tUPDATED\tLOCKED BY"
	if wide {
		head += "\tPENDING\tLAST UPDATE"
	}
	_, _ = fmt.Fprintln(table, head)
	for _, stack := range stacks {
		kind, org, env, name := resourceOf(stack.Identity)
		resources := strconv.Itoa(stack.Resources)
		updated, at := "-", "-"
		if !stack.LastUpdate.IsZero() {
			updated, at = ago(stack.LastUpdate, now), stack.LastUpdate.Format(time.RFC3339)
		}
		if stack.Damage != "" {
			resources, updated = "damaged", "-"
		}
		line := []string{stack.Identity.String(), orDash(kind), name, orDash(org), orDash(env), resources, updated, orDash(holders(stack.Locks))}
		if wide {
			line = append(line, strconv.Itoa(stack.Pending), at)
		}
		_, _ = fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	_ = table.Flush()
}

func holders(locks []provision.Lock) string {
	var texts []string
	for _, lock := range locks {
		switch lock.Holder {
		case provision.Ended:
			texts = append(texts, fmt.Sprintf("process %d (ended)", lock.PID))
		case provision.Elsewhere:
			texts = append(texts, fmt.Sprintf("process %d on %s", lock.PID, lock.Host))
		case provision.Unreadable:
			texts = append(texts, "unreadable")
		default:
			texts = append(texts, fmt.Sprintf("process %d", lock.PID))
		}
	}
	return strings.Join(texts, ", ")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// ago is how long ago something was, in its largest unit. A time to come is told as what it is: one of the clocks is wrong.
func ago(then, now time.Time) string {
	elapsed := now.Sub(then)
	if elapsed < -time.Minute {
		return "in the future"
	}
	switch {
	case elapsed < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(elapsed.Seconds())))
	case elapsed < time.Hour:
		return fmt.Sprintf("%dm", int(elapsed.Minutes()))
	case elapsed < 48*time.Hour:
		return fmt.Sprintf("%dh", int(elapsed.Hours()))
	default:
		return fmt.Sprintf("%dd", int(elapsed.Hours()/24))
	}
}
