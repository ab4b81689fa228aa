package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/graph"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// deployedFlags choose among what is deployed.
type deployedFlags struct {
	org, env string
}

func (f *deployedFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.org, "org", "", "only resources of this metadata.org")
	cmd.Flags().StringVar(&f.env, "env", "", "only resources of this metadata.env")
}

// fits tells whether a resource is meant by the flags, a kind and a name, each of which may be empty.
func (f *deployedFlags) fits(d provision.Deployed, kind kinds.Kind, name string) bool {
	cleaned := func(text string) string {
		identity, _ := stackidentity.For(d.Kind, &shared.CloudResourceMetadata{Name: text})
		return identity.Stack
	}
	return (f.org == "" || cleaned(f.org) == d.Org) && (f.env == "" || cleaned(f.env) == d.Env) &&
		(kind.Name == "" || kind.Name == d.Kind.Name) && (name == "" || cleaned(name) == d.Name)
}

// readDeployed reads what is deployed. Where states are files, no engine is looked for.
func readDeployed(ctx context.Context, streams Streams, flags cloudFlags) ([]provision.Deployed, error) {
	state, err := openState(streams, flags)
	if err != nil {
		return nil, err
	}
	if all, ok, err := state.Deployed(); ok {
		return all, err
	}
	progress := newProgress(streams, nil)
	defer progress.close()
	engine, err := openEngine(ctx, streams, flags, progress)
	if err != nil {
		return nil, err
	}
	return engine.Deployed(ctx)
}

// parseChoice reads KIND, KIND/NAME or nothing.
func parseChoice(args []string) (kinds.Kind, string, error) {
	if len(args) == 0 {
		return kinds.Kind{}, "", nil
	}
	if strings.Contains(args[0], "/") {
		return parseResource(args[0])
	}
	kind, _, err := parseResource(args[0] + "/any")
	return kind, "", err
}

type getOptions struct {
	cloud  cloudFlags
	output outputFlags
	choice deployedFlags
	tree   bool
}

func newGet(streams Streams) *cobra.Command {
	options := &getOptions{}
	cmd := &cobra.Command{
		Use:   "get [KIND[/NAME]]",
		Short: "List what is deployed",
		Long: "List the resources that were applied, as the states of their stacks say: no cloud is asked, and nothing is changed. " +
			"STATUS is the cloud's word from the last time that the state was written. DRIFT is what the last refresh found, and unknown " +
			"when there was none since the last apply.",
		Example: "  planton get\n  planton get civokubernetesclusters --env prod -o wide\n  planton get --tree",
		Args:    arguments(cobra.MaximumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return options.run(cmd.Context(), streams, cmd, args) },
	}
	options.cloud.bindCloud(cmd)
	options.output.bind(cmd, outputText, outputWide, outputJSON, outputYAML)
	options.choice.bind(cmd)
	cmd.Flags().BoolVar(&options.tree, "tree", false, "show what stands in what: from networks to node pools")
	return cmd
}

func (o *getOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command, args []string) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	kind, name, err := parseChoice(args)
	if err != nil {
		return err
	}
	o.cloud.plugins = string(provision.Automatic)
	all, err := readDeployed(ctx, streams, o.cloud)
	if err != nil {
		return err
	}
	uses := provision.Uses(all)
	var chosen []int
	for i, d := range all {
		if o.choice.fits(d, kind, name) {
			chosen = append(chosen, i)
		}
	}
	if name != "" && len(chosen) == 0 {
		return notDeployed(kind, name)
	}
	now := time.Now()
	switch o.output.format {
	case outputJSON, outputYAML:
		documents := make([]deployedDocument, len(chosen))
		for n, i := range chosen {
			documents[n] = documentOf(all, uses, i)
		}
		if o.output.format == outputYAML {
			return writeYAML(streams, map[string]any{"resources": documents})
		}
		return writeJSON(streams, map[string]any{"resources": documents})
	}
	if len(chosen) == 0 {
		_, _ = fmt.Fprintln(streams.Err, "nothing is deployed that fits")
		return nil
	}
	return errors.Wrap(o.writeTable(streams.Out, all, uses, chosen, now), "write the table")
}

// writeTable writes a line a resource; in a tree what stands in another resource beneath it.
func (o *getOptions) writeTable(out io.Writer, all []provision.Deployed, uses [][]int, chosen []int, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	heads := []string{"KIND", "NAME", "ORG", "ENV", "STATUS", "AGE", "DRIFT"}
	if o.tree {
		heads = append([]string{"RESOURCE"}, heads[2:]...)
	}
	if o.output.format == outputWide {
		heads = append(heads, "REGION", "ID", "STACK")
	}
	_, _ = fmt.Fprintln(table, strings.Join(heads, "\t"))
	row := func(d provision.Deployed, first ...string) {
		cells := append(first, orDefault(d.Org, "-"), orDefault(d.Env, "-"), d.Status, age(d.Created, now), d.Drift.String())
		if o.output.format == outputWide {
			cells = append(cells, orDefault(textOutput(d, "region"), "-"), orDefault(textOutput(d, d.Kind.OutputFields()[0]), "-"), d.Identity.String())
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if !o.tree {
		for _, i := range chosen {
			row(all[i], all[i].Kind.Name, all[i].Name)
		}
		return table.Flush()
	}
	place := map[int]int{}
	for n, i := range chosen {
		place[i] = n
	}
	parents := make([]int, len(chosen))
	for n, i := range chosen {
		parents[n] = -1
		for _, used := range uses[i] {
			if at, ok := place[used]; ok {
				parents[n] = at
				break
			}
		}
	}
	for _, line := range graph.Lines(parents) {
		d := all[chosen[line.Index]]
		row(d, line.Prefix+d.Kind.Name+" "+d.Name)
	}
	return table.Flush()
}

func notDeployed(kind kinds.Kind, name string) error {
	identity, err := stackidentity.For(kind, &shared.CloudResourceMetadata{Name: name})
	if err != nil {
		return usageError(err.Error())
	}
	cause := &provision.Error{Kind: provision.NotFound, Operation: "find", Stack: identity, Message: "there is no such stack"}
	return errors.Wrapf(cause, "there is no %s %s: apply its manifest first", kind, name)
}

// deployedDocument is what is deployed of a resource, in JSON and YAML.
type deployedDocument struct {
	Kind    string         `json:"kind" yaml:"kind"`
	Name    string         `json:"name" yaml:"name"`
	Org     string         `json:"org,omitempty" yaml:"org,omitempty"`
	Env     string         `json:"env,omitempty" yaml:"env,omitempty"`
	Stack   string         `json:"stack" yaml:"stack"`
	Status  string         `json:"status" yaml:"status"`
	Created string         `json:"created,omitempty" yaml:"created,omitempty"`
	Drift   driftDocument  `json:"drift" yaml:"drift"`
	Uses    []string       `json:"uses" yaml:"uses"`
	UsedBy  []string       `json:"usedBy" yaml:"usedBy"`
	Outputs map[string]any `json:"outputs" yaml:"outputs"`
}

// driftDocument is what the last refresh found; changed and time are null when nobody knows.
type driftDocument struct {
	Known   bool    `json:"known" yaml:"known"`
	Changed *int    `json:"changed" yaml:"changed"`
	Time    *string `json:"time" yaml:"time"`
}

func documentOf(all []provision.Deployed, uses [][]int, i int) deployedDocument {
	d := all[i]
	document := deployedDocument{
		Kind: d.Kind.Name, Name: d.Name, Org: d.Org, Env: d.Env, Stack: d.Identity.String(), Status: d.Status,
		Drift: driftDocument{Known: d.Drift.Known}, Uses: []string{}, UsedBy: []string{}, Outputs: outputsDocument(d.Outputs, false),
	}
	if !d.Created.IsZero() {
		document.Created = d.Created.UTC().Format(time.RFC3339)
	}
	if d.Drift.Known {
		at := d.Drift.Time.Format(time.RFC3339)
		document.Drift.Changed, document.Drift.Time = &d.Drift.Changed, &at
	}
	for _, used := range uses[i] {
		document.Uses = append(document.Uses, all[used].Identity.String())
	}
	for other := range all {
		for _, used := range uses[other] {
			if used == i {
				document.UsedBy = append(document.UsedBy, all[other].Identity.String())
			}
		}
	}
	return document
}

// textOutput is an output that is a text.
func textOutput(d provision.Deployed, name string) string {
	value, _ := d.Outputs[name].Value.(string)
	return value
}

// age is how long ago something was, as people say it: 42s, 5m, 3h, 12d.
func age(since, now time.Time) string {
	d := now.Sub(since)
	switch {
	case since.IsZero():
		return "unknown"
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
