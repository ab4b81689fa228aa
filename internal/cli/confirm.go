package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// confirmFlags are those of commands that ask before they change anything.
type confirmFlags struct {
	yes bool
}

func (f *confirmFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.yes, "auto-approve", false, "the same as --yes")
}

// check refuses to ask where nobody can answer, before anything is done.
func (f *confirmFlags) check(streams Streams, cmd *cobra.Command, manifests manifestFlags) error {
	switch {
	case f.yes:
		return nil
	case manifests.readsStdin():
		return usageError(cmd.Name() + " asks before it changes anything, and stdin holds manifests; pass --yes, or look with planton preview")
	case !streams.InTerminal:
		return usageError(cmd.Name() + " asks before it changes anything, and stdin is not a terminal; pass --yes, or look with planton preview")
	}
	return nil
}

// ask shows what will be done and asks. It asks nothing when nothing will.
func (f *confirmFlags) ask(
	ctx context.Context, streams Streams, question string, operation operation, set *provision.Set, results []*provision.Result,
) error {
	view := resultView{operation: operation, set: set, results: results, diff: streams.settings != nil && streams.settings.diff}
	streams.settle()
	writeText(streams.Err, painter(streams.ErrTerminal, streams.Getenv), view)
	if !view.changed() {
		return nil
	}
	_, _ = fmt.Fprintf(streams.Err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(streams.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-answers:
		if answer != "y" && answer != "yes" {
			return &canceledError{cause: usageError("canceled: nothing was changed")}
		}
		return nil
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
