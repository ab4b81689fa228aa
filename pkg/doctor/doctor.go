// Package doctor looks whether a machine has what provisioning needs, and says what to do about what is missing.
//
// Checks run side by side, with a time limit each. None makes anything that lasts: no folder, no passphrase, no build of a Pulumi CLI.
// No result has a secret in it; a token is sent to its cloud, which is asked whether it accepts it, and nowhere else.
package doctor

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// Status is how a check came out.
type Status string

// The outcomes of a check.
const (
	// OK: it is there and works.
	OK Status = "ok"
	// Note: it works as it is, but there is something to know.
	Note Status = "note"
	// Missing: something that is needed is not there, or does not work.
	Missing Status = "missing"
)

// Check is the result of one check.
type Check struct {
	// Name is what was looked at, such as "pulumi" or "credentials/civo".
	Name string `json:"name"`
	// Status is how it came out.
	Status Status `json:"status"`
	// Message says what was found.
	Message string `json:"message"`
	// Fix says what to do; empty where there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// Options say what to look at.
type Options struct {
	// Getenv reads the environment; os.Getenv when nil.
	Getenv func(string) string
	// Emulated looks at what the emulated clouds need: no credentials, no cloud that is reached.
	Emulated bool
	// StateDirectory is where states are kept where no backend is named.
	StateDirectory string
	// Plugins is the choice of plugins.
	Plugins provision.Choice
	// Native are the clouds that have a native plugin in this process, and its version.
	Native map[string]string
	// Credentials finds the credentials of the real clouds. Required unless Emulated.
	Credentials *credentials.Resolver
	// Pulumi are the options of the search for the Pulumi CLI, which never builds one here.
	Pulumi pulumicli.Options
	// Timeout bounds each check; 10 seconds when 0.
	Timeout time.Duration
}

// Examine runs the checks, and returns their results in the order in which a person would mend things.
func Examine(ctx context.Context, options Options) []Check {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	inspection := provision.InspectState(options.StateDirectory, options.Getenv)
	if options.Emulated {
		inspection = provision.InspectLocalState(options.StateDirectory, options.Getenv)
	}
	state := &state{Inspection: inspection, backendURL: options.Getenv("PULUMI_BACKEND_URL")}
	// The CLI comes first: what Go is needed for, and how a backend is asked, depends on it.
	cli, pulumi := options.pulumi(ctx)
	groups := []func(context.Context) []Check{
		func(ctx context.Context) []Check { return []Check{options.golang(ctx, cli != nil)} },
		func(context.Context) []Check { return []Check{pulumi} },
		func(context.Context) []Check { return options.plugins(inspection.Home) },
		func(ctx context.Context) []Check { return state.check(ctx, cli) },
	}
	if options.Emulated {
		groups = append(groups, func(context.Context) []Check { return []Check{loopback()} })
	} else {
		groups = append(groups, options.clouds)
	}
	found := make([][]Check, len(groups))
	var wait sync.WaitGroup
	for i, group := range groups {
		wait.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, options.Timeout)
			defer cancel()
			found[i] = group(bounded)
		})
	}
	wait.Wait()
	var checks []Check
	for _, group := range found {
		checks = append(checks, group...)
	}
	return checks
}

// Healthy tells that nothing that is needed is missing.
func Healthy(checks []Check) bool {
	for _, check := range checks {
		if check.Status == Missing {
			return false
		}
	}
	return true
}
