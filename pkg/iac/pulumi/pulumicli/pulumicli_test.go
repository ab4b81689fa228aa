package pulumicli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
)

// fakeCLI writes a script that answers `version`, and returns its folder.
func fakeCLI(t *testing.T, version string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake CLI of this test is a shell script")
	}
	directory := t.TempDir()
	writeFile(t, filepath.Join(directory, "pulumi"), "#!/bin/sh\necho "+version+"\n", 0o755)
	return directory
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A program that is forked meanwhile would hold the file open for writing, and what is written to cannot be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(content), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// environment is a Getenv of fixed values.
func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestFind(t *testing.T) {
	t.Parallel()
	outside := t.TempDir() // a folder that is in no checkout

	cases := map[string]struct {
		reason      string
		env         func(t *testing.T) map[string]string
		cache       []string // versions that were built before
		wantVersion string
		wantOrigin  Origin
		wantErr     string
	}{
		"Environment": {
			reason: "what the user names explicitly comes before PATH",
			env: func(t *testing.T) map[string]string {
				return map[string]string{
					Environment: filepath.Join(fakeCLI(t, "v3.250.0"), "pulumi"),
					"PATH":      fakeCLI(t, "v3.251.0"),
				}
			},
			wantVersion: "3.250.0",
			wantOrigin:  OriginEnvironment,
		},
		"EnvironmentTooOld": {
			reason: "what the user names explicitly is never passed over in silence",
			env: func(t *testing.T) map[string]string {
				return map[string]string{
					Environment: filepath.Join(fakeCLI(t, "v3.100.0"), "pulumi"),
					"PATH":      fakeCLI(t, "v3.251.0"),
				}
			},
			wantErr: "older than 3.183.0",
		},
		"Path": {
			reason:      "a CLI on PATH that is new enough is used",
			env:         func(t *testing.T) map[string]string { return map[string]string{"PATH": fakeCLI(t, "v3.183.0")} },
			cache:       []string{"3.250.0"},
			wantVersion: "3.183.0",
			wantOrigin:  OriginPath,
		},
		"PathTooOld": {
			reason:      "a CLI on PATH that is too old gives way to the cache",
			env:         func(t *testing.T) map[string]string { return map[string]string{"PATH": fakeCLI(t, "v3.182.0")} },
			cache:       []string{"3.190.0", "3.250.0", "3.100.0"},
			wantVersion: "3.250.0",
			wantOrigin:  OriginCache,
		},
		"PathNotPulumi": {
			reason:  "a thing that is no Pulumi CLI is named in the error",
			env:     func(t *testing.T) map[string]string { return map[string]string{"PATH": fakeCLI(t, "hello")} },
			wantErr: `its version "hello" cannot be understood`,
		},
		"Nothing": {
			reason:  "the error names the ways out",
			env:     func(*testing.T) map[string]string { return nil },
			cache:   []string{"3.100.0"},
			wantErr: "there is none on PATH",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			for _, version := range tc.cache {
				writeFile(t, filepath.Join(cache, version, executable()), "", 0o755)
			}
			got, err := Find(t.Context(), Options{
				Getenv: environment(tc.env(t)), Directory: outside, CacheDirectory: cache,
			})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s: got error %v, want one with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if got.Version().String() != tc.wantVersion || got.Origin != tc.wantOrigin {
				t.Errorf("%s: got %s from %s, want %s from %s", tc.reason, got.Version(), got.Origin, tc.wantVersion, tc.wantOrigin)
			}
		})
	}
}

func TestFindNotFoundError(t *testing.T) {
	t.Parallel()
	_, err := Find(t.Context(), Options{
		Getenv: environment(nil), Directory: t.TempDir(), CacheDirectory: t.TempDir(),
	})
	var notFound *NotFoundError
	if !errors.As(err, &notFound) || len(notFound.Reasons) != 2 {
		t.Errorf("got %#v, want a NotFoundError with a reason for PATH and one for the cache", err)
	}
}

// TestBuild builds a small stand-in for the CLI, in a checkout of its own: the real one takes minutes.
func TestBuild(t *testing.T) {
	t.Parallel()
	checkout, cache := fakeCheckout(t), t.TempDir()
	var progress bytes.Buffer
	options := Options{
		Getenv:    environment(nil),
		Directory: filepath.Join(checkout, "deep", "inside"), CacheDirectory: cache, Progress: &progress,
	}

	built, err := Find(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if built.Origin != OriginBuild || built.Version().String() != "3.999.0" {
		t.Errorf("got %s from %s, want 3.999.0 from a build", built.Version(), built.Origin)
	}
	if !strings.Contains(progress.String(), "Building the Pulumi CLI 3.999.0") {
		t.Errorf("progress %q does not say what takes so long", progress.String())
	}
	stdout, _, code, err := built.Run(t.Context(), t.TempDir(), nil, nil, nil, nil, "version")
	if err != nil || code != 0 || stdout != "v3.999.0\n" {
		t.Errorf("the version that was linked in: got %q, code %d, error %v", stdout, code, err)
	}

	again, err := Find(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if again.Origin != OriginCache || again.Path != built.Path {
		t.Errorf("the second time: got %s from %s, want the first build from the cache", again.Path, again.Origin)
	}
}

func TestBuildFails(t *testing.T) {
	t.Parallel()
	checkout, cache := fakeCheckout(t), t.TempDir()
	writeFile(t, filepath.Join(checkout, "fake", "cmd", "pulumi", "main.go"), "package main\nfunc main() { nonsense }\n", 0o644)
	_, err := Find(t.Context(), Options{Getenv: environment(nil), Directory: checkout, CacheDirectory: cache})
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Fatalf("got error %v, want the compiler's words", err)
	}
	if entries, _ := filepath.Glob(filepath.Join(cache, "3.999.0", "*")); len(entries) != 0 {
		t.Errorf("a failed build left %v", entries)
	}
}

// fakeCheckout makes a folder that looks like a checkout of the repository whose CLI is a program of a few lines.
func fakeCheckout(t *testing.T) string {
	t.Helper()
	checkout := t.TempDir()
	writeFile(t, filepath.Join(checkout, "tools", "go.mod"), `module github.com/plantonhq/project-planton/tools

go 1.24

require (
	github.com/pulumi/pulumi/pkg/v3 v3.999.0
	github.com/pulumi/pulumi/sdk/v3 v3.999.0
)

replace (
	github.com/pulumi/pulumi/pkg/v3 => ../fake
	github.com/pulumi/pulumi/sdk/v3 => ../sdk
)
`, 0o644)
	writeFile(t, filepath.Join(checkout, "fake", "go.mod"),
		"module github.com/pulumi/pulumi/pkg/v3\n\ngo 1.24\n\nrequire github.com/pulumi/pulumi/sdk/v3 v3.999.0\n", 0o644)
	writeFile(t, filepath.Join(checkout, "fake", "cmd", "pulumi", "main.go"), `package main

import "github.com/pulumi/pulumi/sdk/v3/go/common/version"

func main() { println2("v" + version.Version) }
`, 0o644)
	writeFile(t, filepath.Join(checkout, "fake", "cmd", "pulumi", "print.go"), `package main

import "os"

func println2(s string) { _, _ = os.Stdout.WriteString(s + "\n") }
`, 0o644)
	writeFile(t, filepath.Join(checkout, "sdk", "go.mod"), "module github.com/pulumi/pulumi/sdk/v3\n\ngo 1.24\n", 0o644)
	writeFile(t, filepath.Join(checkout, "sdk", "go", "common", "version", "version.go"),
		"package version\n\nvar Version string\n", 0o644)
	if err := os.MkdirAll(filepath.Join(checkout, "deep", "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	return checkout
}

// TestFindToolsOfThisRepository keeps the patterns in step with the tools module that they read.
func TestFindToolsOfThisRepository(t *testing.T) {
	t.Parallel()
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tools, ok := findTools(directory)
	if !ok || filepath.Base(tools.directory) != "tools" {
		t.Fatalf("got %v, %t: want the tools module of the repository", tools, ok)
	}
}

// script makes a CLI of a shell script.
func script(t *testing.T, body string) *CLI {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake CLI of this test is a shell script")
	}
	path := filepath.Join(t.TempDir(), "pulumi")
	writeFile(t, path, "#!/bin/sh\n"+body, 0o755)
	return &CLI{Path: path}
}

func TestRun(t *testing.T) {
	t.Parallel()
	cli := script(t, `echo "$*|$EXTRA|$PULUMI_SKIP_UPDATE_CHECK"; echo oh >&2; exit 3`+"\n")
	var extra bytes.Buffer
	stdout, stderr, code, err := cli.Run(t.Context(), t.TempDir(), nil, nil, []io.Writer{&extra}, []string{"EXTRA=yes"}, "up", "--yes")
	if err == nil {
		t.Error("got no error, want one for the exit code")
	}
	if want := "--non-interactive up --yes|yes|true\n"; stdout != want {
		t.Errorf("stdout: got %q, want %q", stdout, want)
	}
	if stderr != "oh\n" || extra.String() != "oh\n" || code != 3 {
		t.Errorf("got stderr %q, copy %q, code %d; want oh, oh, 3", stderr, extra.String(), code)
	}
}

func TestRunMissing(t *testing.T) {
	t.Parallel()
	_, _, code, err := (&CLI{Path: filepath.Join(t.TempDir(), "none")}).Run(t.Context(), t.TempDir(), nil, nil, nil, nil)
	if err == nil || code != unknownExitCode {
		t.Errorf("got code %d, error %v; want %d and an error", code, err, unknownExitCode)
	}
}

func TestRunCanceled(t *testing.T) {
	t.Parallel()
	// `wait` in a shell returns at once on a trapped signal, other than a foreground sleep.
	const trapping = "trap 'kill $child; exit 7' INT\necho ready\nsleep 60 >/dev/null 2>&1 &\nchild=$!\nwait\n"
	const ignoring = "trap '' INT\necho ready\nexec sleep 60\n"

	cases := map[string]struct {
		reason   string
		body     string
		grace    time.Duration
		kill     bool
		wantCode int
	}{
		"Graceful": {reason: "a canceled command is interrupted, and ends by itself", body: trapping, wantCode: 7},
		"Grace":    {reason: "one that does not end is killed after the grace period", body: ignoring, grace: 50 * time.Millisecond, wantCode: -1},
		"Kill":     {reason: "one that does not end can be killed at once", body: ignoring, kill: true, wantCode: -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cli := script(t, tc.body)
			cli.GracePeriod = tc.grace
			kill := make(chan struct{})
			cli.Kill = kill
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ready := writerFunc(func() {
				cancel()
				if tc.kill {
					close(kill)
				}
			})
			_, _, code, err := cli.Run(ctx, t.TempDir(), nil, []io.Writer{ready}, nil, nil)
			if err == nil || code != tc.wantCode {
				t.Errorf("%s: got code %d, error %v; want code %d and an error", tc.reason, code, err, tc.wantCode)
			}
		})
	}
}

// writerFunc calls back at the first write.
func writerFunc(f func()) *firstWrite { return &firstWrite{f: f} }

type firstWrite struct{ f func() }

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.f != nil {
		w.f()
		w.f = nil
	}
	return len(p), nil
}

func ExampleFind() {
	cli, err := Find(context.Background(), Options{Progress: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("using", cli.Path)
}
