package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
)

type stackInputOptions struct {
	manifests   manifestFlags
	cloud       cloudFlags
	output      outputFlags
	showSecrets bool
	write       string
}

func newStackInput(streams Streams) *cobra.Command {
	options := &stackInputOptions{}
	cmd := &cobra.Command{
		Use:   "stack-input -f FILE",
		Short: "Print the stack input that the program of a manifest gets",
		Long: "Print the stack input that the program of a manifest gets: the manifest, and the provider config with the credentials.\n" +
			"Secrets are masked, unless --show-secrets is given. --write writes them into a file that its owner alone can read: one that\n" +
			"planton apply -i and, as stack-input.json or stack-input.yaml in the folder of a program, pulumi up take.",
		Example: "  planton stack-input -f vpc.yaml\n  planton stack-input -f vpc.yaml --write iac/pulumi/civo/civovpc/stack-input.json",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return options.run(streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.cloud.bindCredentials(cmd)
	options.output.bind(cmd, outputYAML, outputJSON)
	cmd.Flags().BoolVar(&options.showSecrets, "show-secrets", false, "show tokens and keys")
	cmd.Flags().StringVar(&options.write, "write", "", "write it with its secrets into a file, as JSON if the name ends in .json, instead of printing it")
	return cmd
}

func (o *stackInputOptions) run(streams Streams, cmd *cobra.Command) error {
	if err := o.output.check(); err != nil {
		return err
	}
	if o.write != "" && cmd.Flags().Changed("output") {
		return usageError("-o is for what is printed; the name of the file of --write tells its form")
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	if len(manifests) != 1 {
		return usageError("a stack input is for one manifest, and these are several")
	}
	configs, err := realConfigs(streams, o.cloud, manifests)
	if err != nil {
		return err
	}
	input, err := provision.NewStackInput(manifests[0].Target, configs)
	if err != nil {
		return err
	}
	input = proto.Clone(input)
	if o.write != "" {
		text, err := stackInputText(input, strings.EqualFold(filepath.Ext(o.write), ".json"))
		if err != nil {
			return err
		}
		if err := writePrivate(o.write, text); err != nil {
			return usageError(err.Error())
		}
		return nil
	}
	if !o.showSecrets {
		maskSecrets(input.ProtoReflect())
	}
	text, err := stackInputText(input, o.output.format == outputJSON)
	if err != nil {
		return err
	}
	_, err = streams.Out.Write(text)
	return errors.Wrap(err, "write the stack input")
}

// stackInputText is a stack input with the keys that other callers write.
func stackInputText(input proto.Message, asJSON bool) ([]byte, error) {
	if asJSON {
		return indentedJSON(input, protojson.MarshalOptions{UseProtoNames: true})
	}
	return manifest.MarshalSnakeCase(input)
}

// maskSecrets puts a mask in the place of every text that its proto marks as a secret.
func maskSecrets(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		options, _ := field.Options().(*descriptorpb.FieldOptions)
		switch {
		case options.GetDebugRedact() && field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap():
			message.Set(field, protoreflect.ValueOfString("[secret]"))
		case options.GetDebugRedact():
			message.Clear(field)
		case field.Message() != nil && !field.IsList() && !field.IsMap():
			maskSecrets(value.Message())
		}
		return true
	})
}

// writePrivate writes a file that its owner alone can read, whole or not at all.
func writePrivate(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // CreateTemp makes it 0600
	if err != nil {
		return errors.Wrap(err, "write "+path)
	}
	_, err = temporary.Write(data)
	err = firstError(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return errors.Wrap(err, "write "+path)
}
