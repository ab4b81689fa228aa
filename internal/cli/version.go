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

// build is what is known of how this planton was built. Fields that are empty are not known: a build of a folder without git has no
// commit, one of a release that was fetched neither.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"commitTime,omitempty"`
	// Modified tells that files differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// MinimumPulumi is the oldest Pulumi CLI that works.
	MinimumPulumi string `json:"minimumPulumi"`
	// Modules are the versions of the SDKs and clients inside, by module path.
	Modules map[string]string `json:"modules"`
}

// versionModules are the modules whose versions tell what planton can do, and what people call them.
var versionModules = []struct{ path, name string }{
	{"github.com/pulumi/pulumi/sdk/v3", "Pulumi SDK"},
	{"github.com/pulumi/pulumi-civo/sdk/v2", "Pulumi Civo SDK"},
	{"github.com/pulumi/pulumi-digitalocean/sdk/v4", "Pulumi DigitalOcean SDK"},
	{"github.com/civo/civogo", "Civo client"},
	{"github.com/digitalocean/godo", "DigitalOcean client"},
}

func newVersion(streams Streams) *cobra.Command {
	output := &outputFlags{}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Tell the version, and what is inside",
		Example: "  planton version\n  planton version -o json",
		Args:    arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := output.check(); err != nil {
				return err
			}
			b := readBuild()
			if output.format == outputJSON {
				return writeJSON(streams, b)
			}
			b.write(streams)
			return nil
		},
	}
	output.bind(cmd)
	return cmd
}

func (b build) write(streams Streams) {
	_, _ = fmt.Fprintf(streams.Out, "planton %s (%s, works with Pulumi %s or newer)\n", b.Version, b.Go, b.MinimumPulumi)
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(streams.Out, "  %-24s %s\n", name, value)
		}
	}
	commit := b.Commit
	if commit != "" && b.Modified {
		commit += ", modified"
	}
	line("commit", commit)
	line("committed at", b.Time)
	line("platform", b.Platform)
	for _, module := range versionModules {
		line(module.name, b.Modules[module.path])
	}
}

// readBuild reads what Go wrote into the executable.
func readBuild() build {
	b := build{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		MinimumPulumi: pulumicli.MinimumVersion, Modules: map[string]string{},
	}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.fill(info)
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func (b *build) fill(info *debug.BuildInfo) {
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	for _, module := range versionModules {
		for _, dependency := range info.Deps {
			if dependency.Path == module.path {
				b.Modules[module.path] = dependency.Version
			}
		}
	}
}
