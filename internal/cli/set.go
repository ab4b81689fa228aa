package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// setFlags say how a command works on several manifests.
type setFlags struct {
	parallel         int
	targets          []string
	detailedExitCode bool
	lockTimeout      time.Duration
}

// bind adds the flags; which says what else is taken beside a target.
func (f *setFlags) bind(cmd *cobra.Command, which string) {
	cmd.Flags().IntVarP(&f.parallel, "parallel", "p", provision.DefaultParallel(),
		"how many manifests are worked on side by side; by itself twice the cores, at least 4 and at most 10")
	cmd.Flags().StringArrayVar(&f.targets, "target", nil, "KIND/NAME of a manifest, to work on that and "+which+" alone (repeatable)")
	cmd.Flags().BoolVar(&f.detailedExitCode, "detailed-exitcode", false,
		fmt.Sprintf("exit with %d where it worked and there are changes, and with 0 where there are none", ExitChanged))
	cmd.Flags().DurationVar(&f.lockTimeout, "lock-timeout", 0,
		"how long to wait for another process that works on the same stacks, such as 5m; 0 fails at once")
}

// check looks whether the flags make sense, and hands on what the cloud's flags must know.
func (f *setFlags) check(cloud *cloudFlags) error {
	cloud.lockTimeout = f.lockTimeout
	switch {
	case f.parallel < 1:
		return usageError(fmt.Sprintf("--parallel %d: at least one manifest has to be worked on", f.parallel))
	case f.lockTimeout < 0:
		return usageError("--lock-timeout must not be negative")
	}
	return nil
}

// closure adds to manifests what goes with them, see provision.Needed and provision.Dependent.
type closure func([]provision.Member, []*manifest.Manifest) []*manifest.Manifest

// choose are the manifests that the command works on: all of them, or those of the targets and what goes with them.
func (f *setFlags) choose(manifests []*manifest.Manifest, with closure) ([]*manifest.Manifest, error) {
	if len(f.targets) == 0 {
		return manifests, nil
	}
	members, err := provision.Order(manifests)
	if err != nil {
		return nil, err
	}
	var chosen []*manifest.Manifest
	for _, target := range f.targets {
		m, err := targeted(members, target)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, m)
	}
	return with(members, chosen), nil
}

// targeted is the manifest that a target means: KIND/NAME, or KIND/ENV/NAME or KIND/ORG/ENV/NAME where there are several of the name.
func targeted(members []provision.Member, target string) (*manifest.Manifest, error) {
	kind, rest, err := parseResource(target)
	if err != nil {
		return nil, usageError("--target: " + err.Error())
	}
	parts := strings.Split(rest, "/")
	var found []*manifest.Manifest
	var others []string
	for _, member := range members {
		m := member.Manifest
		metadata := kinds.Metadata(m.Target)
		full := []string{metadata.GetOrg(), metadata.GetEnv(), metadata.GetName()}
		if m.Kind.Name == kind.Name && len(parts) <= len(full) && slices.Equal(full[len(full)-len(parts):], parts) {
			found = append(found, m)
		}
		others = append(others, m.Kind.Name+"/"+metadata.GetName())
	}
	switch len(found) {
	case 0:
		slices.Sort(others)
		return nil, usageError(fmt.Sprintf("--target %s: there is no such manifest; there are %s", target,
			strings.Join(slices.Compact(others), ", ")))
	case 1:
		return found[0], nil
	}
	var names []string
	for _, m := range found {
		metadata := kinds.Metadata(m.Target)
		names = append(names, strings.Join([]string{m.Kind.Name, metadata.GetOrg(), metadata.GetEnv(), metadata.GetName()}, "/"))
	}
	return nil, usageError(fmt.Sprintf("--target %s means several manifests: give one of %s", target, strings.Join(names, ", ")))
}

// newSet is the set of all manifests, of which the command works on some.
func (f *setFlags) newSet(s *session, manifests, chosen []*manifest.Manifest) (*provision.Set, error) {
	set, err := s.engine.NewSet(manifests, s.configs)
	if err != nil {
		return nil, err
	}
	set.Only(chosen)
	set.Parallel(f.parallel)
	set.LockTimeout(f.lockTimeout)
	return set, nil
}

// changedError is no failure: it says by the exit code that there are changes.
type changedError struct{}

func (*changedError) Error() string { return "there are changes" }

// exit is the error of a command that has told its results.
func (f *setFlags) exit(err error, view resultView) error {
	if err == nil && f.detailedExitCode && view.changed() {
		return &changedError{}
	}
	return err
}

// writeStatus tells what became of a manifest that did not succeed. It tells whether that is all there is to tell.
func writeStatus(out io.Writer, paint func(color, string) string, view resultView, result *provision.Result) (all bool) {
	switch result.Status {
	case provision.StatusFailed:
		_, _ = fmt.Fprintf(out, "  %s\n", paint(red, "failed")) // stderr says why
		return len(result.Resources) == 0
	case provision.StatusSkipped:
		_, _ = fmt.Fprintf(out, "  %s because of %s\n", paint(yellow, "skipped"), strings.Join(view.because(result), ", "))
		return true
	case provision.StatusCanceled:
		_, _ = fmt.Fprintf(out, "  %s\n", paint(yellow, "canceled"))
		return len(result.Resources) == 0
	}
	return false
}

// because names the manifests for which one was skipped.
func (v resultView) because(result *provision.Result) []string {
	var names []string
	for _, stack := range result.Because {
		if m := v.member(stack); m != nil {
			names = append(names, m.String())
		}
	}
	return names
}

// statuses are in the order in which they are counted.
var statuses = []provision.Status{
	provision.StatusSucceeded, provision.StatusFailed, provision.StatusSkipped, provision.StatusCanceled,
}

// statusCounts tells how many manifests have each status, those that none has left out.
func (v resultView) statusCounts() map[provision.Status]int {
	counts := map[provision.Status]int{}
	for _, result := range v.results {
		if result.Status != "" {
			counts[result.Status]++
		}
	}
	return counts
}

// statusSummary counts the manifests by what became of them; it is empty where all succeeded.
func (v resultView) statusSummary() string {
	counts := v.statusCounts()
	if counts[provision.StatusSucceeded] == len(v.results) {
		return ""
	}
	var parts []string
	for _, status := range statuses {
		if counts[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
		}
	}
	return "Manifests: " + strings.Join(parts, ", ")
}
