package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

type validateOptions struct {
	manifests manifestFlags
	output    outputFlags
}

func newValidate(streams Streams) *cobra.Command {
	options := &validateOptions{}
	cmd := &cobra.Command{
		Use:     "validate -f FILE",
		Aliases: []string{"validate-manifest"},
		Short:   "Check manifests, without a cloud and without Pulumi",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return options.run(streams) },
	}
	options.manifests.bind(cmd)
	options.output.bind(cmd)
	return cmd
}

// run checks all rules of the protos, the references' kinds and outputs, and that the manifests can be put in order.
func (o *validateOptions) run(streams Streams) error {
	if err := o.output.check(); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, nil)
	if err != nil {
		return err
	}
	if o.output.format == outputJSON {
		described := make([]manifestDocument, len(manifests))
		for i, m := range manifests {
			described[i] = describe(m)
		}
		return writeJSON(streams, map[string]any{"valid": true, "manifests": described})
	}
	for _, m := range manifests {
		_, _ = fmt.Fprintf(streams.Out, "%s: %s is valid\n", m.Source, m)
	}
	return nil
}
