package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// golang looks for Go, which builds the Pulumi CLI where there is none, and runs programs for plain Pulumi. planton needs it for nothing
// else.
func (o Options) golang(ctx context.Context, havePulumi bool) Check {
	check := Check{Name: "go", Status: Note, Fix: "install Go (https://go.dev/doc/install) to run the programs of iac/pulumi with plain Pulumi"}
	if !havePulumi {
		check.Fix = "install Go (https://go.dev/doc/install): the Pulumi CLI can be built with it from a checkout of the repository"
	}
	path, ok := lookPath(o.Getenv("PATH"), "go")
	if !ok {
		check.Message = "there is no Go on PATH; it is not needed where there is a Pulumi CLI"
		return check
	}
	command := exec.CommandContext(ctx, path, "env", "GOVERSION")
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local") // a folder's go.mod must not have another Go fetched
	out, err := command.Output()
	if err != nil {
		check.Message = path + " does not run: " + reason(err)
		return check
	}
	return Check{Name: "go", Status: OK, Message: strings.TrimSpace(string(out)) + " at " + path}
}

// lookPath is exec.LookPath for a PATH that is not the process's own.
func lookPath(path, name string) (string, bool) {
	for _, folder := range strings.Split(path, string(os.PathListSeparator)) {
		if folder == "" {
			continue
		}
		if found, err := exec.LookPath(folder + string(os.PathSeparator) + name); err == nil {
			return found, true
		}
	}
	return "", false
}

// pulumi looks for the Pulumi CLI.
func (o Options) pulumi(ctx context.Context) (*pulumicli.CLI, Check) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	options := o.Pulumi
	options.NoBuild = true
	if options.Getenv == nil {
		options.Getenv = o.Getenv
	}
	cli, err := pulumicli.Find(ctx, options)
	if err != nil {
		check := Check{
			Name: "pulumi", Status: Missing, Message: err.Error(),
			Fix: "install the Pulumi CLI (https://www.pulumi.com/docs/iac/download-install/), or run make pulumi-cli in a checkout of the repository",
		}
		var none *pulumicli.NotFoundError
		if errors.As(err, &none) {
			check.Message = "no Pulumi CLI " + pulumicli.MinimumVersion + " or newer: " + strings.Join(none.Reasons, "; ")
		}
		return nil, check
	}
	return cli, Check{Name: "pulumi", Status: OK, Message: fmt.Sprintf("%s at %s (%s)", cli.Version(), cli.Path, cli.Origin)}
}

// plugins tells which plugins would provision.
func (o Options) plugins(home string) []Check {
	var checks []Check
	for _, cloud := range []string{kinds.Civo, kinds.DigitalOcean} {
		version, native := o.Native[cloud]
		check := Check{Name: "plugin/" + cloud, Status: OK}
		plugin, err := provision.ChoosePlugin(cloud, o.Plugins, native, home)
		if err != nil {
			check.Status, check.Message, check.Fix = Missing, err.Error(), "choose other plugins with --plugins"
			checks = append(checks, check)
			continue
		}
		installed, isInstalled := provision.InstalledPlugin(cloud, home)
		switch {
		case plugin.Choice == provision.Native:
			check.Message = fmt.Sprintf("native, in this process, version %s (%s)", version, plugin.Reason)
			if isInstalled && o.Plugins == provision.Automatic {
				check.Message += "; the official " + installed + " is installed too"
			}
		case isInstalled:
			check.Message = fmt.Sprintf("official, version %s in %s (%s)", installed, home, plugin.Reason)
		default:
			check.Status = Note
			check.Message = fmt.Sprintf("official (%s), which is not installed in %s: Pulumi downloads it when it is needed", plugin.Reason, home)
			check.Fix = "on a machine without a network: --plugins native"
		}
		checks = append(checks, check)
	}
	return checks
}

// reason is what an error of a process says, the last line of what it wrote where it wrote something.
func reason(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n"); lines[len(lines)-1] != "" {
			return lines[len(lines)-1]
		}
	}
	return err.Error()
}
