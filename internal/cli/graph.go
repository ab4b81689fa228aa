package cli

import (
	"io"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/graph"
)

// The forms of a graph that no other result has.
const (
	outputTree    = "tree"
	outputMermaid = "mermaid"
	outputDOT     = "dot"
	outputSVG     = "svg"
)

type graphOptions struct {
	manifests manifestFlags
	output    outputFlags
}

func newGraph(streams Streams) *cobra.Command {
	options := &graphOptions{}
	cmd := &cobra.Command{
		Use:   "graph -f FILE",
		Short: "Draw which manifests refer to which",
		Long: "Draw the references of manifests, without a cloud and without Pulumi: an arrow leads from a resource to the one it refers to, " +
			"and networks stand above clusters above pools. What is referred to and not among the manifests is marked.",
		Example: "  planton graph -f examples/civo\n  planton graph -f examples/civo -o svg >graph.svg",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return options.run(streams) },
	}
	options.manifests.bind(cmd)
	options.output.bind(cmd, outputTree, outputMermaid, outputDOT, outputSVG, outputJSON)
	return cmd
}

func (o *graphOptions) run(streams Streams) error {
	if err := o.output.check(); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, nil)
	if err != nil {
		return err
	}
	g, err := graph.Of(manifests)
	if err != nil {
		return err
	}
	var text string
	switch o.output.format {
	case outputJSON:
		return writeJSON(streams, g.Document())
	case outputMermaid:
		text = g.Mermaid()
	case outputDOT:
		text = g.DOT()
	case outputSVG:
		text = g.SVG()
	default:
		text = g.Tree()
	}
	_, err = io.WriteString(streams.Out, text)
	return errors.Wrap(err, "write the graph")
}
