package cli

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

type loadManifestOptions struct {
	manifests manifestFlags
	output    outputFlags
}

func newLoadManifest(streams Streams) *cobra.Command {
	options := &loadManifestOptions{}
	cmd := &cobra.Command{
		Use:     "load-manifest -f FILE",
		Aliases: []string{"load"},
		Short:   "Print manifests as they are applied",
		Long: "Print manifests as they are applied: built by kustomize, with what --set sets, and with the kind, the environment and the\n" +
			"output of each reference, also where they are left out. What is printed can be applied.",
		Example: "  planton load-manifest --kustomize-dir app --overlay prod --set spec.region=fra1\n" +
			"  planton load-manifest -f cluster.yaml -o json",
		Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return options.run(streams) },
	}
	options.manifests.bind(cmd)
	options.output.bind(cmd, outputYAML, outputJSON)
	return cmd
}

func (o *loadManifestOptions) run(streams Streams) error {
	if err := o.output.check(); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, nil)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i, m := range manifests {
		target := proto.Clone(m.Target)
		if err := foreignkey.FillDefaults(target); err != nil {
			return err
		}
		if i > 0 && o.output.format == outputYAML {
			out.WriteString("---\n")
		}
		text, err := formatted(target, o.output.format)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	_, err = streams.Out.Write(out.Bytes())
	return errors.Wrap(err, "write the manifests")
}

// formatted is a message as YAML or JSON.
func formatted(message proto.Message, format string) ([]byte, error) {
	if format == outputYAML {
		return manifest.Marshal(message)
	}
	return indentedJSON(message, protojson.MarshalOptions{})
}

// indentedJSON is a message as JSON, the same for the same message; protojson itself varies its white space.
func indentedJSON(message proto.Message, options protojson.MarshalOptions) ([]byte, error) {
	compact, err := options.Marshal(message)
	if err != nil {
		return nil, errors.Wrap(err, "write json")
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, errors.Wrap(err, "write json")
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
