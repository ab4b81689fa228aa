package cli

import (
	"context"
	"fmt"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/doctor"
	"github.com/plantonhq/project-planton/pkg/kinds"
	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	nativedigitalocean "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/provision"
)

type doctorOptions struct {
	cloud  cloudFlags
	output outputFlags
}

func newDoctor(streams Streams) *cobra.Command {
	options := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether this machine has what is needed, and tell what to do",
		Long: "Look for Go, the Pulumi CLI, the plugins, the place where states are kept, the passphrase, the credentials of each cloud\n" +
			"and whether it accepts them, and tell what to do about what is missing. Nothing is built, made or changed. One cloud that\n" +
			"can be used is enough. The exit code is 1 when something that is needed is missing.",
		Example: "  planton doctor\n  planton doctor --cloud emulated\n  planton doctor --profile work -o json",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.cloud.bind(cmd)
	_ = cmd.Flags().MarkHidden("time-scale")
	options.output.bind(cmd)
	return cmd
}

func (o *doctorOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	emulated := o.cloud.cloud == cloudEmulated
	directory, err := provision.StateDirectory(streams.Getenv)
	if emulated {
		directory, err = emulatedDirectory(streams)
	}
	if err != nil {
		return err
	}
	checks := doctor.Examine(ctx, doctor.Options{
		Getenv:         streams.Getenv,
		Emulated:       emulated,
		StateDirectory: directory,
		Plugins:        provision.Choice(o.cloud.plugins),
		Native:         map[string]string{kinds.Civo: nativecivo.SDKVersion, kinds.DigitalOcean: nativedigitalocean.SDKVersion},
		Credentials:    credentialsOf(streams, o.cloud),
	})
	for i := range checks {
		checks[i].Fix = streams.commands(checks[i].Fix)
	}
	healthy := doctor.Healthy(checks)
	if o.output.format == outputJSON {
		if err := writeJSON(streams, map[string]any{"ok": healthy, "checks": checks}); err != nil {
			return err
		}
	} else {
		writeChecks(streams, checks)
	}
	if !healthy {
		return &toldError{errors.New("something that is needed is missing")}
	}
	return nil
}

// writeChecks writes a line for each check, and one for what to do.
func writeChecks(streams Streams, checks []doctor.Check) {
	paint := painter(streams.OutTerminal, streams.Getenv)
	colors := map[doctor.Status]color{doctor.OK: green, doctor.Note: yellow, doctor.Missing: red}
	for _, check := range checks {
		_, _ = fmt.Fprintf(streams.Out, "%s %-25s %s\n",
			paint(colors[check.Status], fmt.Sprintf("%-8s", check.Status)), check.Name, check.Message)
		if check.Fix != "" {
			_, _ = fmt.Fprintf(streams.Out, "%8s %-25s -> %s\n", "", "", check.Fix)
		}
	}
}
