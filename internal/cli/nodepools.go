package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/client"
)

// The environment of commands that speak to a NodePools service.
const (
	environmentService      = "PLANTON_NODEPOOLS_SERVER"
	environmentServiceToken = "PLANTON_NODEPOOLS_TOKEN"
	environmentServiceUser  = "PLANTON_NODEPOOLS_USER"

	defaultService = "http://127.0.0.1:8080"
)

// serviceFlags say which service is meant, and who calls. The token has no flag: others can read the arguments of a process.
type serviceFlags struct {
	server, user string
}

func (f *serviceFlags) bind(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.server, "server", "", "URL of the service ("+environmentService+"); "+defaultService+" when neither is given")
	cmd.PersistentFlags().StringVar(&f.user, "user", "",
		"email address to call as, where the service runs in development mode ("+environmentServiceUser+")")
}

func (f *serviceFlags) connect(streams Streams) (*client.Client, error) {
	connection, err := client.New(client.Options{
		Server: orDefault(orDefault(f.server, streams.Getenv(environmentService)), defaultService),
		Token:  streams.Getenv(environmentServiceToken),
		User:   orDefault(f.user, streams.Getenv(environmentServiceUser)),
	})
	if err != nil {
		return nil, usageError(err.Error())
	}
	return connection, nil
}

func newNodePools(streams Streams) *cobra.Command {
	flags := &serviceFlags{}
	cmd := &cobra.Command{
		Use:   "nodepools",
		Short: "Clusters and node pools of a NodePools service",
		Long: "Create, watch, scale and delete the node pools that a NodePools service owns, and with `planton nodepools clusters` their " +
			"clusters. The bearer token, where the service wants one, is read from " + environmentServiceToken + ".",
		Example: "  planton nodepools list --status Failed\n  planton nodepools create -f pool.yaml\n  planton nodepools scale batch --nodes 5\n" +
			"  planton nodepools watch",
		Args: arguments(cobra.NoArgs),
	}
	flags.bind(cmd)
	addServed(cmd, streams, flags, servedPools())
	cmd.AddCommand(newServedScale(streams, flags), newServedWatch(streams, flags))
	clusters := &cobra.Command{Use: "clusters", Short: "Clusters of a NodePools service", Args: arguments(cobra.NoArgs)}
	addServed(clusters, streams, flags, servedClusters())
	cmd.AddCommand(clusters)
	return cmd
}

// addServed adds the commands that both kinds have.
func addServed(parent *cobra.Command, streams Streams, flags *serviceFlags, kind servedKind) {
	parent.AddCommand(
		newServedList(streams, flags, kind), newServedGet(streams, flags, kind), newServedWrite(streams, flags, kind, false),
		newServedWrite(streams, flags, kind, true), newServedDelete(streams, flags, kind), newServedStatus(streams, flags, kind),
	)
}

func newServedList(streams Streams, flags *serviceFlags, kind servedKind) *cobra.Command {
	filter, output := servedFilter{}, outputFlags{}
	cmd := &cobra.Command{
		Use: "list", Short: "List the " + kind.noun + "s", Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			connection, err := flags.connect(streams)
			if err != nil {
				return err
			}
			if filter.cluster != "" {
				if filter.cluster, err = findServed(cmd.Context(), connection, servedClusters(), filter.cluster, ""); err != nil {
					return err
				}
			}
			all, err := kind.list(cmd.Context(), connection, filter)
			if err != nil {
				return served(err)
			}
			return writeServed(streams, output.format, kind, all)
		},
	}
	output.bind(cmd, outputText, outputWide, outputJSON, outputYAML)
	choices := func(into *string, name, help string, values ...string) {
		cmd.Flags().StringVar(into, name, "", help+": "+strings.Join(values, ", "))
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	choices(&filter.status, "status", "only in this phase", "Pending", "Progressing", "Ready", "Failed", "Deleting")
	choices(&filter.health, "health", "only of this health", "healthy", "unhealthy", "unknown")
	choices(&filter.platform, "platform", "only of this platform", "gcp", "aws", "azure", "civo", "digitalocean")
	if kind.plural == servedPools().plural {
		cmd.Flags().StringVar(&filter.cluster, "cluster", "", "only of this cluster: its id or name")
		cmd.Flags().StringArrayVar(&filter.labels, "label", nil, "only with this label of nodes: key=value or key; can be repeated")
	}
	return cmd
}

func newServedGet(streams Streams, flags *serviceFlags, kind servedKind) *cobra.Command {
	output, cluster := outputFlags{}, ""
	cmd := &cobra.Command{
		Use: "get ID|NAME", Short: "Show a " + kind.noun, Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			connection, id, err := connectTo(cmd.Context(), streams, flags, kind, args[0], cluster)
			if err != nil {
				return err
			}
			object, err := kind.get(cmd.Context(), connection, id)
			if err != nil {
				return served(err)
			}
			return writeMessage(streams, output.format, object)
		},
	}
	output.bind(cmd, outputYAML, outputJSON)
	bindCluster(cmd, kind, &cluster)
	return cmd
}

// newServedWrite is create, or update.
func newServedWrite(streams Streams, flags *serviceFlags, kind servedKind, update bool) *cobra.Command {
	output, file, dryRun, wait, ifMatch, cluster := outputFlags{}, "", false, false, "", ""
	use, short, count := "create -f FILE", "Create a "+kind.noun, 0
	if update {
		use, short, count = "update ID|NAME -f FILE", "Replace the name and the spec of a "+kind.noun, 1
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: arguments(cobra.ExactArgs(count)),
		Long: short + ". The file holds the object as the API has it, as YAML or JSON; - is the standard input.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			document, err := readDocument(streams, file)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			connection, err := flags.connect(streams)
			if err != nil {
				return err
			}
			var object servedObject
			if update {
				var id string
				if id, err = findServed(ctx, connection, kind, args[0], cluster); err != nil {
					return err
				}
				if ifMatch != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, client.IfMatch, `"`+ifMatch+`"`)
				}
				object, err = kind.update(ctx, connection, id, document, dryRun)
			} else {
				// An answer that is lost on the way is no reason to create twice.
				ctx = metadata.AppendToOutgoingContext(ctx, client.IdempotencyKey, uuid.NewString())
				object, err = kind.create(ctx, connection, document, dryRun)
			}
			if err != nil {
				return served(err)
			}
			if wait && !dryRun {
				if object, err = waitReady(cmd.Context(), streams, connection, kind, object); err != nil {
					return err
				}
			}
			return writeMessage(streams, output.format, object)
		},
	}
	output.bind(cmd, outputYAML, outputJSON)
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file of the "+kind.noun)
	_ = cmd.MarkFlagRequired("file")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, show what the provider would do, and write nothing")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is Ready, or Failed")
	if update {
		cmd.Flags().StringVar(&ifMatch, "if-match", "", "only if its resource_version is still this one")
		bindCluster(cmd, kind, &cluster)
	}
	return cmd
}

func newServedDelete(streams Streams, flags *serviceFlags, kind servedKind) *cobra.Command {
	force, cascade, dryRun, wait, cluster := false, false, false, false, ""
	cmd := &cobra.Command{
		Use: "delete ID|NAME", Short: "Delete a " + kind.noun, Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, id, err := connectTo(cmd.Context(), streams, flags, kind, args[0], cluster)
			if err != nil {
				return err
			}
			if err := kind.remove(cmd.Context(), connection, id, force, cascade, dryRun); err != nil {
				return served(err)
			}
			if wait && !dryRun {
				return waitGone(cmd.Context(), streams, connection, kind, id)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "forget it at once, whatever is left of it in the cloud; for administrators")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check whether it could be deleted, and write nothing")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until its machines are gone")
	if kind.plural == servedClusters().plural {
		cmd.Flags().BoolVar(&cascade, "cascade", false, "delete its node pools too, before it")
	}
	bindCluster(cmd, kind, &cluster)
	return cmd
}

func newServedStatus(streams Streams, flags *serviceFlags, kind servedKind) *cobra.Command {
	output, cluster := outputFlags{}, ""
	cmd := &cobra.Command{
		Use: "status ID|NAME", Short: "Show what the controllers report about a " + kind.noun, Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			connection, id, err := connectTo(cmd.Context(), streams, flags, kind, args[0], cluster)
			if err != nil {
				return err
			}
			status, err := kind.status(cmd.Context(), connection, id)
			if err != nil {
				return served(err)
			}
			return writeMessage(streams, output.format, status)
		},
	}
	output.bind(cmd, outputYAML, outputJSON)
	bindCluster(cmd, kind, &cluster)
	return cmd
}

func newServedScale(streams Streams, flags *serviceFlags) *cobra.Command {
	kind, output, nodes, wait, cluster := servedPools(), outputFlags{}, int32(0), false, ""
	cmd := &cobra.Command{
		Use: "scale ID|NAME --nodes N", Short: "Change how many nodes a node pool has", Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			connection, id, err := connectTo(cmd.Context(), streams, flags, kind, args[0], cluster)
			if err != nil {
				return err
			}
			patch, err := structpb.NewStruct(map[string]any{"spec": map[string]any{"nodeCount": float64(nodes)}})
			if err != nil {
				return errors.Wrap(err, "make the patch")
			}
			object, err := kind.patch(cmd.Context(), connection, id, patch, false)
			if err != nil {
				return served(err)
			}
			if wait {
				if object, err = waitReady(cmd.Context(), streams, connection, kind, object); err != nil {
					return err
				}
			}
			return writeMessage(streams, output.format, object)
		},
	}
	output.bind(cmd, outputYAML, outputJSON)
	cmd.Flags().Int32Var(&nodes, "nodes", 0, "how many nodes it is to have")
	_ = cmd.MarkFlagRequired("nodes")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is Ready, or Failed")
	bindCluster(cmd, kind, &cluster)
	return cmd
}

func newServedWatch(streams Streams, flags *serviceFlags) *cobra.Command {
	output, cluster, since := outputFlags{}, "", ""
	cmd := &cobra.Command{
		Use: "watch", Short: "Show what happens to clusters and node pools, as it does", Args: arguments(cobra.NoArgs),
		Long: "Show what happens to clusters and node pools, a line each, until it is interrupted. A connection that is lost is made again, and " +
			"nothing is missed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			connection, err := flags.connect(streams)
			if err != nil {
				return err
			}
			request := &nodepoolsv1.WatchEventsRequest{Since: since}
			if cluster != "" {
				if request.ClusterId, err = findServed(cmd.Context(), connection, servedClusters(), cluster, ""); err != nil {
					return err
				}
			}
			stream, err := nodepoolsv1.NewEventServiceClient(connection).WatchEvents(cmd.Context(), request)
			if err != nil {
				return served(err)
			}
			for {
				event, err := stream.Recv()
				if err != nil {
					return served(err)
				}
				if output.format == outputJSON {
					document, err := protojson.Marshal(event)
					if err != nil {
						return errors.Wrap(err, "write json")
					}
					_, _ = fmt.Fprintln(streams.Out, string(document))
					continue
				}
				var object servedObject = event.GetNodepool()
				if event.GetCluster() != nil {
					object = event.GetCluster()
				}
				_, _ = fmt.Fprintf(streams.Out, "%s  %-18s  %s  %s  %s\n", event.GetTime().AsTime().Format(time.RFC3339), event.GetType(),
					printable(orDefault(object.GetName(), event.GetObjectId())), orDefault(object.GetStatus().GetPhase(), "-"), printable(event.GetMessage()))
			}
		},
	}
	output.bind(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "only of this cluster and its pools: its id or name")
	cmd.Flags().StringVar(&since, "since", "", "begin after this revision; now when it is not given")
	return cmd
}

// bindCluster is for names of pools, which are unlike in one cluster only.
func bindCluster(cmd *cobra.Command, kind servedKind, cluster *string) {
	if kind.plural == servedPools().plural {
		cmd.Flags().StringVar(cluster, "cluster", "", "the cluster of a pool that is named: its id or name")
	}
}

// connectTo connects, and finds the id of an object.
func connectTo(
	ctx context.Context, streams Streams, flags *serviceFlags, kind servedKind, name, cluster string,
) (*client.Client, string, error) {
	connection, err := flags.connect(streams)
	if err != nil {
		return nil, "", err
	}
	id, err := findServed(ctx, connection, kind, name, cluster)
	return connection, id, err
}

// findServed finds the id of an object that is called by its id or its name.
func findServed(ctx context.Context, connection *client.Client, kind servedKind, name, cluster string) (string, error) {
	if uuid.Validate(name) == nil {
		return name, nil
	}
	filter := servedFilter{name: name}
	if cluster != "" {
		id, err := findServed(ctx, connection, servedClusters(), cluster, "")
		if err != nil {
			return "", err
		}
		filter.cluster = id
	}
	all, err := kind.list(ctx, connection, filter)
	switch {
	case err != nil:
		return "", served(err)
	case len(all) == 0:
		return "", &foundError{errors.Errorf("there is no %s named %q", kind.noun, name)}
	case len(all) > 1:
		return "", usageError(fmt.Sprintf("there are %d %ss named %q: give the id, or --cluster", len(all), kind.noun, name))
	}
	return all[0].GetId(), nil
}

// readDocument reads YAML or JSON as JSON.
func readDocument(streams Streams, file string) ([]byte, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(streams.In)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, usageError(err.Error())
	}
	var document any
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, usageError(file + ": " + err.Error())
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, usageError(file + ": " + err.Error())
	}
	return text, nil
}

// served is the error of a call, in the words and with the exit code of planton.
func served(err error) error {
	var refused *client.Error
	switch {
	case errors.Is(err, context.Canceled):
		return &canceledError{err}
	case errors.As(err, &refused):
		return err
	case strings.Contains(err.Error(), "unknown field") || strings.Contains(err.Error(), "invalid value"):
		return usageError(strings.TrimPrefix(err.Error(), "proto:\u00a0"))
	default:
		return err
	}
}

// waitEvery is how often an object is looked at that is waited for.
const waitEvery = time.Second

// waitReady waits until an object is what its spec says, or cannot be.
func waitReady(ctx context.Context, streams Streams, connection *client.Client, kind servedKind, object servedObject) (servedObject, error) {
	said := ""
	for {
		status := object.GetStatus()
		if text := strings.TrimSuffix(status.GetPhase()+": "+status.GetMessage(), ": "); text != said {
			said = text
			_, _ = fmt.Fprintln(streams.at(levelInfo), printable(text))
		}
		current := status.GetObservedGeneration() >= object.GetGeneration()
		switch {
		case current && status.GetPhase() == "Ready":
			return object, nil
		case status.GetPhase() == "Failed":
			return object, &foundError{errors.Errorf("%s %s failed: %s", kind.noun, object.GetName(), printable(status.GetMessage()))}
		}
		select {
		case <-ctx.Done():
			return object, &canceledError{ctx.Err()}
		case <-time.After(waitEvery):
		}
		next, err := kind.get(ctx, connection, object.GetId())
		if err != nil {
			return object, served(err)
		}
		object = next
	}
}

// waitGone waits until an object cannot be read any more.
func waitGone(ctx context.Context, streams Streams, connection *client.Client, kind servedKind, id string) error {
	said := ""
	for {
		object, err := kind.get(ctx, connection, id)
		var refused *client.Error
		if errors.As(err, &refused) && refused.Code == "NOT_FOUND" {
			return nil
		}
		if err != nil {
			return served(err)
		}
		if text := object.GetStatus().GetMessage(); text != said {
			said = text
			_, _ = fmt.Fprintln(streams.at(levelInfo), printable(text))
		}
		select {
		case <-ctx.Done():
			return &canceledError{ctx.Err()}
		case <-time.After(waitEvery):
		}
	}
}

// writeServed writes objects, a line each.
func writeServed(streams Streams, format string, kind servedKind, all []servedObject) error {
	if format == outputJSON || format == outputYAML {
		documents := make([]any, len(all))
		for i, object := range all {
			document, err := documentOfMessage(object)
			if err != nil {
				return err
			}
			documents[i] = document
		}
		if format == outputYAML {
			return writeYAML(streams, map[string]any{kind.plural: documents})
		}
		return writeJSON(streams, map[string]any{kind.plural: documents})
	}
	if len(all) == 0 {
		_, _ = fmt.Fprintf(streams.Err, "there are no %ss\n", kind.noun)
		return nil
	}
	table, now := tabwriter.NewWriter(streams.Out, 0, 8, 3, ' ', 0), time.Now()
	heads := "NAME\tPLATFORM\tPHASE\tHEALTH\tNODES\tAGE"
	if format == outputWide {
		heads += "\tID\tMESSAGE"
	}
	_, _ = fmt.Fprintln(table, heads)
	for _, object := range all {
		status, platform, nodes := object.GetStatus(), "", "-"
		switch o := object.(type) {
		case *nodepoolsv1.NodePool:
			platform = o.GetSpec().GetPlatform().GetType()
		case *nodepoolsv1.Cluster:
			platform = o.GetSpec().GetPlatform().GetType()
		}
		if counts := status.GetNodes(); counts != nil {
			nodes = fmt.Sprintf("%d/%d", counts.GetReady(), counts.GetDesired())
		}
		cells := []string{
			printable(object.GetName()), platform, status.GetPhase(), orDefault(status.GetHealth(), "-"), nodes,
			age(object.GetCreatedAt().AsTime(), now),
		}
		if format == outputWide {
			cells = append(cells, object.GetId(), printable(status.GetMessage()))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return errors.Wrap(table.Flush(), "write the table")
}

// documentOfMessage is a message as JSON has it.
func documentOfMessage(message proto.Message) (any, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, errors.Wrap(err, "write json")
	}
	var document any
	return document, errors.Wrap(json.Unmarshal(text, &document), "write json")
}

func writeMessage(streams Streams, format string, message proto.Message) error {
	document, err := documentOfMessage(message)
	if err != nil {
		return err
	}
	if format == outputYAML {
		return writeYAML(streams, document)
	}
	return writeJSON(streams, document)
}
