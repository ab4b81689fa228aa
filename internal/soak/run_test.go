//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
)

const (
	// The tokens are marked, so that a search of everything that a run wrote down tells whether one leaked.
	civoToken         = "marked-civo-token-5b0c"
	digitalOceanToken = "marked-digitalocean-token-9d2e"

	// stepLimit bounds a step that does not end: each fault ends within seconds.
	stepLimit = 5 * time.Minute
)

// run is one seed on its way.
type run struct {
	schedule     Schedule
	directory    string
	pulumi       string
	civo         *civo.Cloud
	digitalOcean *digitalocean.Cloud
	faults       map[string]*fault.Injector
	urls         map[string]string
	vault        string // where it is

	log bytes.Buffer // what the processes wrote

	mu      sync.Mutex
	process *process
	kill    *Kill
	counted int
	kills   int
	mended  int
	trouble error // of a kill
	secrets []string
}

// result is what a run tells.
type result struct {
	Problems []string
	Kills    int
	Strikes  int
	Requests int
	// Mended is how many files were mended by hand.
	Mended int
	// Clouds and States are what was compared at the last apply.
	Clouds Clouds
	States States
}

// play plays a schedule in a folder. The error is one of the runner itself; what is wrong with what was tested are problems.
func play(t *testing.T, schedule Schedule, directory, pulumi string) (_ *run, _ result, err error) {
	t.Helper()
	r := &run{
		schedule: schedule, directory: directory, pulumi: pulumi, faults: map[string]*fault.Injector{}, urls: map[string]string{},
		secrets: []string{civoToken, digitalOceanToken},
	}
	var outcome result
	if r.civo, r.faults[kinds.Civo], err = fault.New(civo.New, emulator.Options{Token: civoToken}, fault.Plan{}); err != nil {
		return r, outcome, err
	}
	if r.digitalOcean, r.faults[kinds.DigitalOcean], err = fault.New(
		digitalocean.New, emulator.Options{Token: digitalOceanToken}, fault.Plan{},
	); err != nil {
		return r, outcome, err
	}
	for name, cloud := range map[string]http.Handler{kinds.Civo: r.civo, kinds.DigitalOcean: r.digitalOcean} {
		server := httptest.NewServer(r.watched(cloud))
		defer server.Close()
		r.urls[name] = server.URL
	}
	keys := httptest.NewServer(&vaultemulator.Vault{})
	defer keys.Close()
	r.vault = keys.URL
	for _, folder := range []string{"state/backend", "home", "tmp", "first", "last"} {
		if err := os.MkdirAll(filepath.Join(directory, folder), 0o700); err != nil {
			return r, outcome, err
		}
	}
	if err := errors.Wrap(writeManifests(filepath.Join(directory, "first"), schedule.First), "write manifests"); err != nil {
		return r, outcome, err
	}
	if err := errors.Wrap(writeManifests(filepath.Join(directory, "last"), schedule.Last), "write manifests"); err != nil {
		return r, outcome, err
	}
	err = r.play(&outcome)
	outcome.Mended = r.mended
	outcome.Kills, outcome.Requests = r.kills, len(r.civo.Requests())+len(r.digitalOcean.Requests())
	if err != nil {
		return r, outcome, err
	}
	r.keepSecrets()
	if err := os.WriteFile(filepath.Join(directory, "log"), r.log.Bytes(), 0o600); err != nil {
		return r, outcome, err
	}
	requests := fmt.Sprintf("%+v %+v", r.civo.Requests(), r.digitalOcean.Requests())
	if err := os.WriteFile(filepath.Join(directory, "requests"), []byte(requests), 0o600); err != nil {
		return r, outcome, err
	}
	leaks, err := Leaks(directory, r.secrets)
	outcome.Problems = append(outcome.Problems, leaks...)
	return r, outcome, err
}

func writeManifests(folder string, manifests []proto.Message) error {
	for i, target := range manifests {
		text, err := manifest.Marshal(target)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.yaml", i)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) play(outcome *result) error {
	for _, step := range r.schedule.Disturbed {
		if err := r.disturbed(step, outcome); err != nil {
			return err
		}
	}
	// The clouds are well: one more apply, and everything is as declared.
	if err := r.undisturbed(Step{Command: Apply, Last: true}, outcome); err != nil {
		return err
	}
	if err := r.compare(r.schedule.Last, outcome); err != nil || len(outcome.Problems) > 0 {
		return err
	}
	var err error
	if !r.schedule.Brief {
		err = r.undisturbed(Step{Command: settled, Last: true}, outcome)
	}
	if err != nil || len(outcome.Problems) > 0 || len(r.schedule.Destroying) == 0 {
		return err
	}

	clouds, states := outcome.Clouds, outcome.States
	for _, step := range r.schedule.Destroying {
		if err := r.disturbed(step, outcome); err != nil {
			return err
		}
	}
	if err := r.undisturbed(Step{Command: Destroy, Last: true}, outcome); err != nil {
		return err
	}
	err = r.compare(nil, outcome)
	outcome.Clouds, outcome.States = clouds, states
	return err
}

// compare compares what there is with manifests.
func (r *run) compare(manifests []proto.Message, outcome *result) error {
	states, err := ReadStates(filepath.Join(r.directory, "state", "backend"))
	if err != nil {
		return err
	}
	outcome.Clouds, outcome.States = Look(r.civo, r.digitalOcean), states
	outcome.Problems = append(outcome.Problems, Problems(manifests, outcome.Clouds, states)...)
	return nil
}

// disturbed takes a step that may fail, and heals the clouds.
func (r *run) disturbed(step Step, outcome *result) error {
	for name, injector := range r.faults {
		if err := injector.Set(step.Faults[name]); err != nil {
			return err
		}
	}
	code, err := r.take(step)
	if err != nil {
		return err
	}
	r.note("step %s ended with code %d", step.Command, code)
	r.keepSecrets()
	for _, name := range []string{kinds.Civo, kinds.DigitalOcean} {
		for _, strike := range r.faults[name].Strikes() {
			outcome.Strikes++
			r.note("%s was struck: %s at %s %s", name, strike.Kind, strike.Method, strike.Path)
		}
		if err := r.faults[name].Lift(); err != nil {
			return err
		}
	}
	return nil
}

// undisturbed takes a step on clouds that are well. It is a problem when that fails.
func (r *run) undisturbed(step Step, outcome *result) error {
	code, err := r.take(step)
	if err == nil && code != 0 {
		outcome.Problems = append(outcome.Problems, fmt.Sprintf("%s ended with code %d although the clouds are well", step.Command, code))
	}
	r.keepSecrets()
	return err
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(&r.log, "--- "+format+"\n", args...)
}

// take runs the process of a step until it ends or is killed.
func (r *run) take(step Step) (code int, err error) {
	manifests := filepath.Join(r.directory, "first")
	if step.Last {
		manifests = filepath.Join(r.directory, "last")
	}
	r.note("step %s of the last manifests: %t", step.Command, step.Last)
	if err := r.mend(); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	cmd := exec.Command(self, string(step.Command), manifests)
	cmd.Dir = r.directory
	cmd.Env = r.environment()
	output := &lines{run: r}
	cmd.Stdout, cmd.Stderr = output, output

	r.mu.Lock()
	r.kill, r.counted = step.Kill, 0
	started, err := start(cmd)
	r.process = started
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() {
		r.note("the step took longer than %v", stepLimit)
		r.strikeDead(0)
	})
	waitErr := cmd.Wait()
	stop()
	r.mu.Lock()
	r.process, r.kill = nil, nil
	trouble := r.trouble
	r.mu.Unlock()
	// Nothing may go on, whatever way the process ended.
	if err := started.kill(); trouble == nil {
		trouble = err
	}
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) && !errors.Is(waitErr, exec.ErrWaitDelay) {
		return 0, errors.Wrap(waitErr, "wait for the process under test")
	}
	return cmd.ProcessState.ExitCode(), trouble
}

// mend removes what makes a stack unreadable ("failed to load checkpoint: EOF") and can only be mended by hand: beside each file,
// Pulumi's file backend writes one of attributes, not in one step, and a kill between creating and filling it leaves it empty.
// https://github.com/google/go-cloud/blob/master/blob/fileblob/attrs.go
func (r *run) mend() error {
	if r.schedule.Way != WayProgram {
		return nil // planton does it by itself
	}
	return filepath.WalkDir(filepath.Join(r.directory, "state", "backend"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".attrs") {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() > 0 {
			return err
		}
		r.mended++
		r.note("mended: %s was empty", entry.Name())
		return os.Remove(path)
	})
}

// environment is what the process finds. Nothing of it is in its arguments, which everybody can read.
func (r *run) environment() []string {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "PULUMI_") || strings.HasPrefix(name, "PLANTON_") || strings.HasPrefix(name, "CIVO_") ||
			strings.HasPrefix(name, "DIGITALOCEAN_")
	})
	state := filepath.Join(r.directory, "state")
	environment = append(environment,
		wayEnvironment+"="+string(r.schedule.Way), directoryEnvironment+"="+state,
		"HOME="+filepath.Join(r.directory, "home"), "TMPDIR="+filepath.Join(r.directory, "tmp"),
		pulumicli.Environment+"="+r.pulumi, "PLANTON_STATE_DIR="+state, "PULUMI_HOME="+filepath.Join(r.directory, "home"),
		"PULUMI_SKIP_UPDATE_CHECK=true",
		"CIVO_TOKEN="+civoToken, "CIVO_API_URL="+r.urls[kinds.Civo],
		"DIGITALOCEAN_TOKEN="+digitalOceanToken, "DIGITALOCEAN_API_URL="+r.urls[kinds.DigitalOcean],
	)
	if r.schedule.Passphrase {
		environment = append(environment, "PULUMI_CONFIG_PASSPHRASE=for tests only")
	} else {
		environment = append(environment, provision.EnvironmentSecretsProvider+"="+vaultemulator.SecretsProvider)
		for name, value := range vaultemulator.Environment(r.vault) {
			environment = append(environment, name+"="+value)
		}
	}
	if r.schedule.Way == WayProgram {
		environment = append(environment, "PULUMI_BACKEND_URL=file://"+filepath.Join(state, "backend"))
	}
	return environment
}

// lines is what the process writes. Each line is a sign of where the engine is.
type lines struct{ run *run }

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.run.mu.Lock()
	l.run.log.Write(text)
	l.run.mu.Unlock()
	for range bytes.Count(text, []byte("\n")) {
		if kill, due := l.run.count(AtEvent); due {
			go l.run.strikeDead(kill.Delay)
		}
	}
	return len(text), nil
}

// count counts what happened, and tells whether it is the moment of the kill.
func (r *run) count(what Moment) (Kill, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kill == nil || r.kill.At != what {
		return Kill{}, false
	}
	r.counted++
	return *r.kill, r.counted == r.kill.N
}

// strikeDead kills what runs.
func (r *run) strikeDead(delay time.Duration) {
	r.mu.Lock()
	running := r.process
	r.mu.Unlock()
	time.Sleep(delay)
	r.mu.Lock()
	done := running == nil || r.process != running // the process of a later step is another's to kill
	r.mu.Unlock()
	if done {
		return
	}
	err := running.kill()
	r.note("killed with -9")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills++
	if r.trouble == nil {
		r.trouble = err
	}
}

// watched is a cloud whose requests are counted.
func (r *run) watched(cloud http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		kill, due := r.count(AtRequest)
		if !due && request.Method != http.MethodGet {
			kill, due = r.count(AtWrite)
		}
		if !due {
			cloud.ServeHTTP(w, request)
			return
		}
		if kill.Answered {
			body, err := io.ReadAll(request.Body)
			if err == nil {
				request.Body = io.NopCloser(bytes.NewReader(body))
				func() {
					defer func() {
						// A fault that drops the connection says so by this panic, as there is none to drop here.
						if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // panics with this very value
							panic(p)
						}
					}()
					cloud.ServeHTTP(httptest.NewRecorder(), request)
				}()
			}
		}
		r.note("the moment has come: %s %s", request.Method, request.URL.Path)
		r.strikeDead(0)
		panic(http.ErrAbortHandler)
	})
}

// keepSecrets remembers the credentials of the clusters that there are.
func (r *run) keepSecrets() {
	for _, cluster := range r.civo.Clusters() {
		r.secrets = append(r.secrets, base64.StdEncoding.EncodeToString([]byte(cluster.Kubeconfig)))
		for _, line := range strings.Split(cluster.Kubeconfig, "\n") {
			for _, key := range []string{"token: ", "client-key-data: "} {
				if _, credential, found := strings.Cut(line, key); found && !slices.Contains(r.secrets, credential) {
					r.secrets = append(r.secrets, credential)
				}
			}
		}
	}
}
