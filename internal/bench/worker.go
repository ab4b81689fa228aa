package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/provision"
)

const (
	workerArgument = "worker"
	pluginArgument = "plugin"

	pluginNative  = "native"
	pluginNothing = "do-nothing"

	operationUp      = "up"
	operationAgain   = "up again" // of stacks that exist
	operationPreview = "preview"
	operationRefresh = "refresh"
	operationDestroy = "destroy"
)

// usage is what the processes of a part took.
type usage struct {
	// CPU is user and system time.
	CPU time.Duration
	// RSS is the largest resident set of one process, in bytes.
	RSS int64
}

func (u *usage) add(other usage) {
	u.CPU += other.CPU
	u.RSS = max(u.RSS, other.RSS)
}

func usageOf(state *os.ProcessState) usage {
	return usage{CPU: state.UserTime() + state.SystemTime(), RSS: residentSet(state)}
}

// job is what a worker does.
type job struct {
	Operation, Manifests, Plugin string
	// Plain has the plain engine do the operation, one stack after the other, without planton; see plain.go.
	Plain bool
	// CLI, Directory and the URLs are the world's.
	CLI, Directory, CivoURL, DigitalOceanURL string
}

// report is what a worker tells of the processes that it started.
type report struct {
	Engine, Program, Plugin usage
	Commands                int
}

// measured is what one operation took.
type measured struct {
	wall                    time.Duration
	engine, program, plugin usage
	commands                int
	together                int64 // the most memory that all processes took at once, in bytes; 0 where it cannot be told
}

func (m measured) cpu() time.Duration { return m.engine.CPU + m.program.CPU + m.plugin.CPU }

// harness makes worlds.
type harness struct {
	cli, directory string
	made           int
}

// world is a state, and clouds.
type world struct {
	cli, directory string
	clouds         *clouds
}

func (w *world) close(err error) error {
	if closeErr := w.clouds.close(); err == nil {
		err = closeErr
	}
	return err
}

// do runs a job in a worker.
func (w *world) do(ctx context.Context, j job) (measured, error) {
	j.CLI, j.Directory, j.CivoURL, j.DigitalOceanURL = w.cli, w.directory, w.clouds.civoURL, w.clouds.digitaloceanURL
	input, err := json.Marshal(j)
	if err != nil {
		return measured{}, errors.Wrap(err, "write the job")
	}
	self, err := os.Executable()
	if err != nil {
		return measured{}, errors.Wrap(err, "find the bench itself")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	worker := exec.CommandContext(ctx, self, workerArgument)
	var output, log bytes.Buffer
	worker.Stdin, worker.Stdout, worker.Stderr = bytes.NewReader(input), &output, &log
	var m measured
	start := time.Now()
	err = worker.Start()
	if err == nil {
		watched := watch(worker.Process.Pid)
		err = worker.Wait()
		m.together = watched.end()
	}
	m.wall = time.Since(start)
	if err != nil {
		return m, errors.Wrap(err, log.String())
	}
	var r report
	if err := json.Unmarshal(output.Bytes(), &r); err != nil {
		return m, errors.Wrap(err, "read the worker's report")
	}
	m.engine, m.program, m.plugin, m.commands = r.Engine, r.Program, r.Plugin, r.Commands
	return m, nil
}

// work does a job, as planton would.
func work(ctx context.Context, in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return errors.Wrap(err, "read the job")
	}
	manifests, err := manifest.Parse("bench.yaml", []byte(j.Manifests))
	if err != nil {
		return err
	}
	state, err := provision.OpenLocalState(j.Directory, func(string) string { return "" })
	if err != nil {
		return err
	}
	processes := &processes{}
	cli, err := pulumicli.Find(ctx, pulumicli.Options{Getenv: func(name string) string {
		if name == pulumicli.Environment {
			return j.CLI
		}
		return os.Getenv(name)
	}})
	if err != nil {
		return err
	}
	measuredCLI := &measuredCLI{PulumiCommand: cli, path: j.CLI, processes: processes}
	engine, err := provision.New(provision.Options{
		CLI: measuredCLI, State: state, Plugins: provision.Native,
		Native: map[string]provision.NativePlugin{
			kinds.Civo:         &pluginProcess{provider: kinds.Civo, plugin: j.Plugin, processes: processes},
			kinds.DigitalOcean: &pluginProcess{provider: kinds.DigitalOcean, plugin: j.Plugin, processes: processes},
		},
		Modules: func(kinds.Kind) (provision.Module, bool) {
			return func(ctx *pulumi.Context, stackInput proto.Message) error { return modules.Resources(ctx, stackInput) }, true
		},
	})
	if err != nil {
		return err
	}
	set, err := engine.NewSet(manifests, configs(j.CivoURL, j.DigitalOceanURL))
	if err != nil {
		return err
	}
	if j.Plain {
		return plain(ctx, j, measuredCLI, state, processes, set, out)
	}
	operation := map[string]func(context.Context) ([]*provision.Result, error){
		operationUp: set.Up, operationAgain: set.Up, operationPreview: set.Preview, operationRefresh: set.Refresh, operationDestroy: set.Destroy,
	}[j.Operation]
	if operation == nil {
		return errors.Errorf("there is no operation %q", j.Operation)
	}
	if _, err := operation(ctx); err != nil {
		return err
	}
	return processes.tell(out)
}

// tell writes the report.
func (p *processes) tell(out io.Writer) error {
	r, err := p.wait()
	if err != nil {
		return err
	}
	r.Program = ownUsage()
	return errors.Wrap(json.NewEncoder(out).Encode(r), "write the report")
}

// configs are how to reach the clouds of the bench.
func configs(civoURL, digitaloceanURL string) provision.ProviderConfigs {
	return provision.ProviderConfigs{
		Civo: &civov1.CivoProviderConfig{ApiToken: token, ApiEndpoint: civoURL, DefaultRegion: civov1.CivoRegion_lon1},
		DigitalOcean: &digitaloceanv1.DigitalOceanProviderConfig{
			ApiToken: token, ApiEndpoint: digitaloceanURL,
		},
	}
}

// processes are those that a worker started.
type processes struct {
	plugins sync.WaitGroup

	mu     sync.Mutex
	report report
	err    error
}

// wait is what all of them took, once the plugins have ended.
func (p *processes) wait() (report, error) {
	p.plugins.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report, p.err
}

// measuredCLI is the Pulumi CLI, with the usage of each process.
type measuredCLI struct {
	auto.PulumiCommand
	path      string
	processes *processes
}

// Run implements auto.PulumiCommand, with the environment that the Automation API's own command gives.
func (c *measuredCLI) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	command := exec.CommandContext(ctx, c.path, append([]string{"--non-interactive"}, args...)...)
	command.Dir, command.Stdin = workdir, stdin
	command.Env = append(append(os.Environ(), environment...), "PULUMI_AUTOMATION_API=true")
	var out, errs bytes.Buffer
	command.Stdout = io.MultiWriter(append(stdout, &out)...)
	command.Stderr = io.MultiWriter(append(stderr, &errs)...)
	err := command.Run()
	code := -1
	if command.ProcessState != nil {
		code = command.ProcessState.ExitCode()
		c.processes.mu.Lock()
		c.processes.report.Engine.add(usageOf(command.ProcessState))
		c.processes.report.Commands++
		c.processes.mu.Unlock()
	}
	return out.String(), errs.String(), code, err
}

// pluginProcess is a plugin that runs in a process of its own.
type pluginProcess struct {
	provider, plugin string
	processes        *processes
}

// Serve implements provision.NativePlugin.
func (p *pluginProcess) Serve(ctx context.Context) (int, error) { return p.serve(ctx, "") }

// ServeJournaled lets the plugin remember its creates in a folder.
func (p *pluginProcess) ServeJournaled(ctx context.Context, creates *journal.Journal) (int, error) {
	return p.serve(ctx, creates.String())
}

func (p *pluginProcess) serve(ctx context.Context, directory string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, errors.Wrap(err, "find the bench itself")
	}
	command := exec.Command(self, pluginArgument, p.provider, p.plugin, directory)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return 0, errors.Wrap(err, "connect to the plugin")
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return 0, errors.Wrap(err, "connect to the plugin")
	}
	if err := command.Start(); err != nil {
		return 0, errors.Wrap(err, "start the plugin")
	}
	told := bufio.NewReader(output)
	line, err := told.ReadString('\n')
	var port int
	if err == nil {
		port, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		_ = input.Close()
		_ = command.Wait()
		return 0, errors.Wrap(err, "read the plugin's port")
	}
	p.processes.plugins.Add(1)
	go func() {
		defer p.processes.plugins.Done()
		<-ctx.Done()
		_ = input.Close() // the plugin ends with its standard input, and tells what it took
		var took usage
		err := firstError(json.NewDecoder(told).Decode(&took), command.Wait())
		p.processes.mu.Lock()
		defer p.processes.mu.Unlock()
		p.processes.report.Plugin.add(took)
		if err != nil && p.processes.err == nil {
			p.processes.err = errors.Wrap(err, "run the plugin")
		}
	}()
	return port, nil
}

// servePlugin is the process of a plugin. It ends with its standard input.
func servePlugin(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("a plugin process is told its provider, its plugin and its folder")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	port, err := startPlugin(ctx, args[0], args[1], args[2])
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, port); err != nil {
		return errors.Wrap(err, "tell the port")
	}
	if _, err = io.Copy(io.Discard, in); err != nil {
		return errors.Wrap(err, "wait for the end")
	}
	return errors.Wrap(json.NewEncoder(out).Encode(ownUsage()), "tell the usage")
}

func startPlugin(ctx context.Context, provider, plugin, directory string) (int, error) {
	if plugin == pluginNothing {
		return serveNothing(ctx)
	}
	native, err := nativePlugin(provider)
	if err != nil {
		return 0, err
	}
	journaled, ok := any(native).(interface {
		ServeJournaled(ctx context.Context, creates *journal.Journal) (int, error)
	})
	if ok && directory != "" {
		return journaled.ServeJournaled(ctx, journal.Open(filepath.Clean(directory)))
	}
	return native.Serve(ctx)
}
