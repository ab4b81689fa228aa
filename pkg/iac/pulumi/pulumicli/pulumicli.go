// Package pulumicli finds the Pulumi CLI that the Automation API drives, and runs it.
//
// The CLI is, in this order: the one that PLANTON_PULUMI names; the one on PATH, where it is new enough; the one that was
// built before into the user's cache; and one that is built now, from the tools module of a checkout of this repository,
// into that cache. A build takes about five minutes, once.
package pulumicli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/blang/semver"
	"github.com/pkg/errors"
)

const (
	// Environment is the environment variable that holds the path of a Pulumi CLI to use.
	Environment = "PLANTON_PULUMI"
	// MinimumVersion is the oldest version of the CLI that works. 3.182.0 brought the resource hooks in which modules refuse
	// changes that would do harm (https://github.com/pulumi/pulumi/pull/20037); 3.183.0 lets refresh and destroy run an
	// inline program (https://github.com/pulumi/pulumi/pull/20064), so that they use today's credentials and not those of the
	// last update.
	MinimumVersion = "3.183.0"
)

// Origin tells where a CLI was found.
type Origin string

// The places where a CLI is looked for.
const (
	// OriginEnvironment is the path in PLANTON_PULUMI.
	OriginEnvironment Origin = "PLANTON_PULUMI"
	// OriginPath is a folder of PATH.
	OriginPath Origin = "PATH"
	// OriginCache is a build of before in the user's cache.
	OriginCache Origin = "cache"
	// OriginBuild is a build of now.
	OriginBuild Origin = "build"
)

// Options tell Find where to look. The zero value looks at this process's environment and working directory.
type Options struct {
	// Getenv reads the environment; os.Getenv when nil.
	Getenv func(string) string
	// Directory is where the search for a checkout of the repository starts, upwards; the working directory when empty.
	Directory string
	// CacheDirectory is where built CLIs are kept; planton/pulumi in the user's cache directory when empty.
	CacheDirectory string
	// NoBuild leaves out the build: a CLI that is not there yet is not found.
	NoBuild bool
	// Progress is told, in one line, what takes long; nil for silence.
	Progress io.Writer
}

// CLI is a Pulumi CLI. It is the PulumiCommand of the Automation API.
type CLI struct {
	// Path is the absolute path of the executable.
	Path string
	// Origin tells where it was found.
	Origin Origin
	// GracePeriod is how long a command may take to end after its context was canceled, before it is killed. The engine needs
	// it to let requests in flight end and to write their results down: a killed engine leaves a locked stack, and resources
	// that nobody remembers. 10 minutes when 0.
	GracePeriod time.Duration
	// Kill, when it is closed, ends a running command at once; nil when there is no such need.
	Kill <-chan struct{}

	version semver.Version
}

// NotFoundError says that there is no Pulumi CLI to be had.
type NotFoundError struct {
	// Reasons are what is wrong with each place that was looked at, in order.
	Reasons []string
}

// Error names each place and the ways out.
func (e *NotFoundError) Error() string {
	return "no Pulumi CLI " + MinimumVersion + " or newer: " + strings.Join(e.Reasons, "; ") +
		"; install it (https://www.pulumi.com/docs/iac/download-install/), set " + Environment +
		" to its path, or run this command inside a checkout of the repository, where it is built once"
}

// Find finds the Pulumi CLI, and builds it where there is none and a checkout of the repository is at hand. The error is a
// *NotFoundError when there is none to be had.
func Find(ctx context.Context, options Options) (*CLI, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}

	if path := options.Getenv(Environment); path != "" {
		cli, err := open(ctx, path, OriginEnvironment)
		return cli, errors.Wrapf(err, "%s=%s", Environment, path)
	}

	var reasons []string
	if path, ok := lookPath(options.Getenv("PATH")); ok {
		cli, err := open(ctx, path, OriginPath)
		if err == nil {
			return cli, nil
		}
		reasons = append(reasons, path+": "+err.Error())
	} else {
		reasons = append(reasons, "there is none on PATH")
	}

	tools, inCheckout := findTools(options.Directory)
	if !inCheckout {
		if cli, ok := newestCached(options.CacheDirectory); ok {
			return cli, nil
		}
		reasons = append(reasons, "there is none in "+options.CacheDirectory)
		return nil, &NotFoundError{Reasons: reasons}
	}
	if options.NoBuild {
		if cli, ok := cached(options.CacheDirectory, tools.version); ok {
			return cli, nil
		}
		reasons = append(reasons, "version "+tools.version.String()+" is not built yet")
		return nil, &NotFoundError{Reasons: reasons}
	}
	return tools.build(ctx, options)
}

// withDefaults fills in what the caller left out.
func (o Options) withDefaults() (Options, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Directory == "" {
		directory, err := os.Getwd()
		if err != nil {
			return o, errors.Wrap(err, "get the working directory")
		}
		o.Directory = directory
	}
	if o.CacheDirectory == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, errors.Wrap(err, "find the user's cache directory")
		}
		o.CacheDirectory = filepath.Join(cache, "planton", "pulumi")
	}
	return o, nil
}

// executable is the file name of the CLI.
func executable() string {
	if runtime.GOOS == "windows" {
		return "pulumi.exe"
	}
	return "pulumi"
}

// lookPath is exec.LookPath for a PATH that is not the process's own.
func lookPath(path string) (string, bool) {
	for _, directory := range filepath.SplitList(path) {
		if directory == "" {
			continue // Unlike a shell, never run what happens to lie in the working directory.
		}
		candidate := filepath.Join(directory, executable())
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() || (runtime.GOOS != "windows" && info.Mode()&0o111 == 0) {
			continue
		}
		if absolute, err := filepath.Abs(candidate); err == nil {
			return absolute, true
		}
	}
	return "", false
}

// open asks the CLI at a path for its version, and refuses one that is too old.
func open(ctx context.Context, path string, origin Origin) (*CLI, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.Wrap(err, "make the path absolute")
	}
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = append(os.Environ(), "PULUMI_SKIP_UPDATE_CHECK=true")
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Wrap(err, "ask for its version")
	}
	text := strings.TrimSpace(string(out))
	version, err := semver.ParseTolerant(text)
	if err != nil {
		return nil, errors.Errorf("its version %q cannot be understood", text)
	}
	// A development build of a release counts as that release: 3.200.0-alpha.1 has what 3.183.0 has.
	if version.LT(semver.MustParse(MinimumVersion)) {
		return nil, errors.Errorf("its version %s is older than %s", version, MinimumVersion)
	}
	return &CLI{Path: path, Origin: origin, version: version}, nil
}
