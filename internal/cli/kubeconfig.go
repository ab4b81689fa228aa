package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// The outputs that hold a kubeconfig; every kind that has one has it in base64.
const (
	kubeconfigOutput        = "kubeconfig_b64"
	kubeconfigExpiresOutput = "kubeconfig_expires_at_rfc3339"
)

type kubeconfigOptions struct {
	cloud      cloudFlags
	resource   resourceFlags
	outputFile string
	merge      bool
	file       string
	context    string
	setCurrent bool
}

func newKubeconfig(streams Streams) *cobra.Command {
	options := &kubeconfigOptions{}
	cmd := &cobra.Command{
		Use:   "kubeconfig KIND/NAME",
		Short: "Print the kubeconfig of a cluster, or merge it into the one of kubectl",
		Long: "Print the kubeconfig of a cluster that was applied. It is a credential: whoever reads it can use the cluster.\n\n" +
			"With --merge it is put into the kubeconfig that kubectl reads, as a context, a cluster and a user of the cluster's name. " +
			"The file is written as a whole, readable by its owner alone; a copy of what was there before stands beside it, as FILE" +
			kubeconfig.BackupSuffix + ". What planton wrote for the cluster is renewed; a context, cluster or user of that name that is not " +
			"its own is never touched.",
		Example: "  planton kubeconfig civokubernetesclusters/dev-cluster >config\n" +
			"  planton kubeconfig civokubernetesclusters/dev-cluster --merge --set-current && kubectl get nodes",
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.run(cmd.Context(), streams, cmd, args[0])
		},
	}
	options.cloud.bindCloud(cmd)
	options.resource.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&options.outputFile, "output-file", "", "write it to a file that only you can read, instead of stdout")
	flags.BoolVar(&options.merge, "merge", false, "put it into a kubeconfig, as a context")
	flags.StringVar(&options.file, "kubeconfig", "", "with --merge: the kubeconfig (default: the first of $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&options.context, "context", "", "with --merge: what the context, cluster and user are called (default: NAME)")
	flags.BoolVar(&options.setCurrent, "set-current", false, "with --merge: make it the current context")
	_ = cmd.MarkFlagFilename("output-file")
	_ = cmd.MarkFlagFilename("kubeconfig")
	return cmd
}

func (o *kubeconfigOptions) check() error {
	switch {
	case o.merge && o.outputFile != "":
		return usageError("--merge and --output-file cannot be given together: --kubeconfig names the file to merge into")
	case !o.merge && (o.file != "" || o.context != "" || o.setCurrent):
		return usageError("--kubeconfig, --context and --set-current go with --merge")
	}
	return nil
}

func (o *kubeconfigOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command, resource string) error {
	if err := firstError(o.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	kind, name, err := parseResource(resource)
	if err != nil {
		return err
	}
	if !slices.Contains(kind.OutputFields(), kubeconfigOutput) {
		return usageError(fmt.Sprintf("a %s has no kubeconfig; %s have", kind, strings.Join(clusterKinds(), " and ")))
	}
	o.cloud.plugins = string(provision.Automatic)
	progress := newProgress(streams, nil)
	defer progress.close()
	engine, err := openEngine(ctx, streams, o.cloud, progress)
	if err != nil {
		return err
	}
	found, err := o.resource.find(ctx, engine, kind, name, engine.Outputs)
	if err != nil {
		return err
	}
	content, err := kubeconfigOf(found)
	if err != nil {
		return err
	}
	if expired := expiredAt(found.outputs, time.Now()); expired != "" {
		_, _ = fmt.Fprintf(streams.Err, "%s the token in it expired at %s: %s -f FILE gets a new one\n",
			painter(streams.ErrTerminal, streams.Getenv)(yellow, "warning:"), expired, streams.commands("planton refresh"))
	}
	switch {
	case o.merge:
		return o.mergeInto(ctx, streams, kubeconfig.Entry{
			Name: orDefault(o.context, name), Owner: engine.Fingerprint(found.identity), Kubeconfig: content, SetCurrent: o.setCurrent,
		})
	case o.outputFile != "":
		return kubeconfig.Write(o.outputFile, content)
	}
	if streams.OutTerminal {
		_, _ = fmt.Fprintln(streams.Err, "This is a credential: whoever reads it can use the cluster. To use it with kubectl, pass --merge.")
	}
	_, err = streams.Out.Write(content)
	return errors.Wrap(err, "write the kubeconfig")
}

func (o *kubeconfigOptions) mergeInto(ctx context.Context, streams Streams, entry kubeconfig.Entry) error {
	file := o.file
	if file == "" {
		var err error
		if file, err = kubeconfig.DefaultFile(streams.Getenv); err != nil {
			return err
		}
	}
	merged, err := kubeconfig.Merge(ctx, file, entry)
	if err != nil {
		return err
	}
	if !merged.Changed {
		_, _ = fmt.Fprintf(streams.Err, "%s has the context %s already, as it is\n", merged.File, entry.Name)
		return nil
	}
	_, _ = fmt.Fprintf(streams.Err, "%s: wrote the context %s\n", merged.File, entry.Name)
	if merged.Backup != "" {
		_, _ = fmt.Fprintf(streams.Err, "%s: what was there before\n", merged.Backup)
	}
	return nil
}

// clusterKinds are the names of the kinds that have a kubeconfig.
func clusterKinds() []string {
	var names []string
	for _, kind := range kinds.All() {
		if slices.Contains(kind.OutputFields(), kubeconfigOutput) {
			names = append(names, kind.Name)
		}
	}
	return names
}

// kubeconfigOf is the kubeconfig in the outputs of a cluster. No error carries any of it.
func kubeconfigOf(stack foundStack) ([]byte, error) {
	encoded, _ := stack.outputs[kubeconfigOutput].Value.(string)
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.Errorf("the output %s of stack %s is not base64", kubeconfigOutput, stack.identity)
	}
	if len(content) == 0 {
		return nil, &provision.Error{
			Kind: provision.NotFound, Stack: stack.identity, Operation: "read the kubeconfig of",
			Message: "it has none yet: planton refresh -f FILE reads it when the cluster is ready",
		}
	}
	return content, nil
}

// expiredAt is when the token in a kubeconfig expired, "" when it did not, or has no end.
func expiredAt(outputs provision.Outputs, now time.Time) string {
	text, _ := outputs[kubeconfigExpiresOutput].Value.(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.After(now) {
		return ""
	}
	return text
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
