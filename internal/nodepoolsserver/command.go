// Package nodepoolsserver is the command nodepools-server: the NodePools API and its workers in one process, or some of it in each of
// several.
package nodepoolsserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/plantonhq/project-planton/internal/quietterminal"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
)

func init() { quietterminal.Restore() }

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is the error of wrong flags or arguments.
type usageError struct{ cause error }

func (e *usageError) Error() string { return e.cause.Error() }
func (e *usageError) Unwrap() error { return e.cause }

// gcPercent is the GOGC of the service, where neither GOGC nor GOMEMLIMIT is set: what it keeps in use is small, some 30 MiB, and collecting
// garbage as often as Go does by itself takes a tenth of the time of a request.
const gcPercent = 300

// Main runs the command with the process's own arguments, and returns its exit code. The first SIGINT or SIGTERM lets what was begun end.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends the process.
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
}

// Run runs the command with some arguments, and returns its exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, out, log io.Writer) int {
	command := newCommand(getenv, out, log)
	command.SetArgs(args)
	command.SetOut(out)
	command.SetErr(log)
	err := command.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(log, "error:", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintln(log, "error:", err)
		return exitFailed
	}
}

func newCommand(getenv func(string) string, out, log io.Writer) *cobra.Command {
	c := config{}
	root := &cobra.Command{
		Use:   "nodepools-server",
		Short: "Serve the NodePools API, and do its work",
		Long: `Serve the NodePools API: clusters and node pools that people create, watch, scale and delete over HTTP and gRPC. Those of Civo and
DigitalOcean are provisioned by workers in this process; controllers of other platforms report over the API.

Without any flag, everything is on this machine: a SQLite database and emulated clouds. ` + databaseVariable + ` names another database
(postgres://...), which any number of processes may share; --cloud real provisions for real; --auth says who may do what.`,
		Example: `  nodepools-server
  nodepools-server --auth auth.yaml --listen :8443 --tls-cert tls.crt --tls-key tls.key --cloud real
  nodepools-server backup nodepools.backup`,
		Args:          usage(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), c, getenv, log) },
	}
	root.Version, _ = readBuild()
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	c.bind(root.Flags())
	root.AddCommand(newMigrate(getenv), newBackup(getenv), newRestore(getenv, out), newToken(out))
	return root
}

// usage makes wrong arguments errors of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// address is that of the database that the environment means.
func address(getenv func(string) string) (string, error) {
	directory, err := provision.StateDirectory(getenv)
	return databaseAddress(getenv, filepath.Join(directory, "nodepools")), err
}

func newMigrate(getenv func(string) string) *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database to the form that this version needs", Args: usage(cobra.NoArgs),
		Long: "Bring the database to the form that this version needs. Serving does so too; this is for those who want it done before.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := address(getenv)
			if err != nil {
				return err
			}
			return store.Migrate(cmd.Context(), address, store.Options{})
		},
	}
}

func newBackup(getenv func(string) string) *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "Copy the SQLite database, as of one moment, while it is used", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := address(getenv)
			if err != nil {
				return err
			}
			return store.Backup(cmd.Context(), address, args[0])
		},
	}
}

func newRestore(getenv func(string) string, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "restore FILE", Short: "Put a backup in the place of the SQLite database", Args: usage(cobra.ExactArgs(1)),
		Long: "Put a backup in the place of the SQLite database. No process may have the database open. What was there before is kept beside it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := address(getenv)
			if err != nil {
				return err
			}
			kept, err := store.Restore(cmd.Context(), address, args[0])
			if err == nil && kept != "" {
				_, err = fmt.Fprintf(out, "the database from before is kept as %s\n", kept)
			}
			return err
		},
	}
}

// newToken makes static tokens.
func newToken(out io.Writer) *cobra.Command {
	token, expires := auth.Token{}, time.Duration(0)
	cmd := &cobra.Command{
		Use: "token --name NAME --role ROLE", Short: "Make a static token, and the entry for the file of tokens", Args: usage(cobra.NoArgs),
		Long: "Make a static token. The first line is the token, for whoever is to use it: it is not shown again. The rest is the entry for the " +
			"file of tokens, which holds its hash alone.",
		RunE: func(*cobra.Command, []string) error {
			secret, hash := auth.NewToken()
			token.SHA256 = hash
			if expires > 0 {
				token.Expires = time.Now().Add(expires).UTC().Truncate(time.Second)
			}
			entry, err := yaml.Marshal(map[string][]auth.Token{"tokens": {token}})
			if err != nil {
				return errors.Wrap(err, "write the entry")
			}
			if _, err := auth.ParseTokens(entry); err != nil {
				return &usageError{err}
			}
			_, err = fmt.Fprintf(out, "%s\n%s", secret, entry)
			return errors.Wrap(err, "write the token")
		},
	}
	cmd.Flags().StringVar(&token.Name, "name", "", "whose token it is: an email address, or the name of a service")
	cmd.Flags().StringVar((*string)(&token.Role), "role", string(auth.Editor), "viewer, editor, admin or controller")
	cmd.Flags().StringSliceVar(&token.Platforms, "platforms", nil, "platforms that a controller may see; all when not given")
	cmd.Flags().StringSliceVar(&token.Controllers, "controllers", nil, "names that a controller may report under; all when not given")
	cmd.Flags().DurationVar(&expires, "expires-in", 0, "after how long it ends, such as 2160h; never when not given")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}
