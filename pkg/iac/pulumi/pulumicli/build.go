package pulumicli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/blang/semver"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/filelock"
)

const (
	// repositoryModule is the module that the checkout to build in is recognised by.
	repositoryModule = "module github.com/plantonhq/project-planton/tools"
	// cliPackage is the Go package of the Pulumi CLI.
	cliPackage = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
)

// cliRequirement is the line of the tools module that pins the version of the CLI.
var cliRequirement = regexp.MustCompile(`(?m)^\s*(?:require\s+)?github\.com/pulumi/pulumi/pkg/v3 v(\S+)`)

// toolsModule is the tools module of a checkout of the repository.
type toolsModule struct {
	directory string
	version   semver.Version
}

// findTools looks for the tools module in a folder and those above it.
func findTools(directory string) (toolsModule, bool) {
	for {
		content, err := os.ReadFile(filepath.Join(directory, "tools", "go.mod"))
		if err == nil && strings.HasPrefix(strings.TrimSpace(string(content)), repositoryModule) {
			if match := cliRequirement.FindSubmatch(content); match != nil {
				if version, err := semver.Parse(string(match[1])); err == nil {
					return toolsModule{directory: filepath.Join(directory, "tools"), version: version}, true
				}
			}
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return toolsModule{}, false
		}
		directory = parent
	}
}

// cachedPath is where the CLI of a version is kept.
func cachedPath(cache string, version semver.Version) string {
	return filepath.Join(cache, version.String(), executable())
}

// cached is the CLI of a version in the cache. A file that is there is whole, because it was renamed into place.
func cached(cache string, version semver.Version) (*CLI, bool) {
	path := cachedPath(cache, version)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	return &CLI{Path: path, Origin: OriginCache, version: version}, true
}

// newestCached is the newest CLI in the cache that is new enough.
func newestCached(cache string) (*CLI, bool) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return nil, false
	}
	newest := semver.MustParse(MinimumVersion)
	var found *CLI
	for _, entry := range entries {
		version, err := semver.Parse(entry.Name())
		if err != nil || version.LT(newest) {
			continue
		}
		if cli, ok := cached(cache, version); ok {
			newest, found = version, cli
		}
	}
	return found, found != nil
}

// build gives the CLI of the tools module's version: the one in the cache, or one that it builds into it. Two processes
// never build at once: the second waits, and finds the first one's.
func (m toolsModule) build(ctx context.Context, options Options) (*CLI, error) {
	if cli, ok := cached(options.CacheDirectory, m.version); ok {
		return cli, nil
	}

	lockPath := filepath.Join(options.CacheDirectory, "build.lock")
	lock, err := filelock.Acquire(ctx, lockPath, func() {
		_, _ = fmt.Fprintf(options.Progress, "Waiting for process %d, which builds the Pulumi CLI\n", filelock.Holder(lockPath))
	})
	if err != nil {
		return nil, errors.Wrap(err, "wait to build the pulumi cli")
	}
	defer func() { _ = lock.Unlock() }()
	if cli, ok := cached(options.CacheDirectory, m.version); ok {
		return cli, nil
	}

	path := cachedPath(options.CacheDirectory, m.version)
	_, _ = fmt.Fprintf(options.Progress, "Building the Pulumi CLI %s into %s: about 5 minutes, this once\n",
		m.version, filepath.Dir(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, errors.Wrap(err, "create the folder of the pulumi cli")
	}
	unfinished := path + ".unfinished"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath",
		// Without a version linked in, the Automation API cannot tell what the CLI can do.
		"-ldflags", "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version="+m.version.String(),
		"-o", unfinished, cliPackage)
	cmd.Dir = m.directory
	// A workspace or flags of the caller's own project must not change what is built here.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		_ = os.Remove(unfinished)
		if ctx.Err() != nil {
			return nil, errors.Wrap(ctx.Err(), "build the pulumi cli")
		}
		return nil, errors.Wrapf(err, "build the pulumi cli in %s: %s", m.directory, lastLines(stderr.String(), 5))
	}
	if err := os.Rename(unfinished, path); err != nil {
		return nil, errors.Wrap(err, "put the pulumi cli into its place")
	}
	return &CLI{Path: path, Origin: OriginBuild, version: m.version}, nil
}

// lastLines are the last lines of a compiler's output: the ones that say what failed.
func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > count {
		lines = lines[len(lines)-count:]
	}
	return strings.Join(lines, " | ")
}
