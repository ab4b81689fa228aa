package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

// version is set by the linker for releases.
var version = ""

func newVersion(streams Streams) *cobra.Command {
	output := &outputFlags{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if output.format == outputJSON {
				return writeJSON(streams, map[string]string{
					"version": buildVersion(), "go": runtime.Version(), "minimumPulumi": pulumicli.MinimumVersion,
				})
			}
			_, _ = fmt.Fprintf(streams.Out, "planton %s (%s, works with Pulumi %s or newer)\n",
				buildVersion(), runtime.Version(), pulumicli.MinimumVersion)
			return nil
		},
	}
	output.bind(cmd)
	return cmd
}

// buildVersion is the version of this build: the linker's, else the module's.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// The versions that the native plugins give: those of the SDKs that the modules are written against, which the engine expects. A test
// keeps them in step with go.mod.
const (
	civoSDKVersion         = "2.4.8"
	digitalOceanSDKVersion = "4.57.0"
)
