package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/filelock"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/provision"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"planton": func() { os.Exit(Main()) }})
}

// pulumiCLI finds the Pulumi CLI once for all scripts.
var pulumiCLI = sync.OnceValues(func() (*pulumicli.CLI, error) {
	return pulumicli.Find(context.Background(), pulumicli.Options{Progress: os.Stderr})
})

// clouds are the emulated clouds that scripts start with `cloud`.
type clouds struct {
	civo         *civo.Cloud
	digitalOcean *digitalocean.Cloud
}

const cloudsKey = "clouds"

// TestScripts runs the scripts of testdata/script, and TestEngineScripts those that need the Pulumi engine.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scriptParams("testdata/script", nil))
}

// TestEngineScripts runs the scripts of testdata/engine on the real Pulumi engine.
func TestEngineScripts(t *testing.T) {
	t.Parallel()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("these scripts run the Pulumi engine: %v", err)
	}
	testscript.Run(t, scriptParams("testdata/engine", cli))
}

// engineVariable is the environment variable, and its value, with which planton finds the Pulumi CLI: in a folder of caches, as a link, or by
// its path. Of one in a cache planton knows the version; others it asks, which costs each command as much CPU time as all else but the
// engine.
func engineVariable(cli *pulumicli.CLI, caches string) (name, value string, err error) {
	if runtime.GOOS != "linux" || !isCached(cli) {
		return pulumicli.Environment, cli.Path, nil
	}
	folder := filepath.Join(caches, "planton", "pulumi", cli.Version().String())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", "", err
	}
	return "XDG_CACHE_HOME", caches, os.Symlink(cli.Path, filepath.Join(folder, filepath.Base(cli.Path)))
}

func isCached(cli *pulumicli.CLI) bool {
	return cli.Origin == pulumicli.OriginCache || cli.Origin == pulumicli.OriginBuild
}

// withEngine adds to the environment of commands that run in this process what they find the Pulumi CLI with, if they need anything: they
// look into the same cache as the tests.
func withEngine(cli *pulumicli.CLI, environment map[string]string) map[string]string {
	if !isCached(cli) {
		environment[pulumicli.Environment] = cli.Path
	}
	return environment
}

// scriptParams are how the scripts of a folder are run, with a Pulumi CLI or without.
func scriptParams(directory string, cli *pulumicli.CLI) testscript.Params {
	return testscript.Params{
		Dir: directory,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("PLANTON_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			// The folder of planton alone, for scripts that want nothing else on PATH.
			env.Setenv("ONLY_PLANTON", filepath.SplitList(env.Getenv("PATH"))[0])
			if cli != nil {
				name, value, err := engineVariable(cli, filepath.Join(env.WorkDir, "cache"))
				if err != nil {
					return err
				}
				env.Setenv(name, value)
				env.Setenv("ENGINE", cli.Path)
			}
			env.Values[cloudsKey] = &clouds{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "cloud": cloudCommand, "keys": keys, "hold": hold, "until": until, "count": count, "lock": lockStack, "rename": renameNetwork, "made": made,
			"events": events,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	}
}

// exits runs a command and checks its exit code: `exits 3 planton validate -f bad.yaml`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// cloudCommand starts emulated clouds that accept one token, `cloud start TOKEN`, and points the environment at them; `cloud empty`
// checks that nothing was made there.
func cloudCommand(ts *testscript.TestScript, neg bool, args []string) {
	state, _ := ts.Value(cloudsKey).(*clouds)
	switch {
	case !neg && len(args) == 2 && args[0] == "start":
		var err error
		options := emulator.Options{Token: args[1]}
		state.civo, err = civo.New(options)
		ts.Check(err)
		state.digitalOcean, err = digitalocean.New(options)
		ts.Check(err)
		serve := func(variable string, handler http.Handler) {
			server, err := emulator.Listen("127.0.0.1:0", handler)
			ts.Check(err)
			ts.Defer(func() { _ = server.Close() })
			ts.Setenv(variable, server.URL())
		}
		serve("CIVO_API_URL", state.civo)
		serve("DIGITALOCEAN_API_URL", state.digitalOcean)
	case !neg && len(args) == 1 && args[0] == "empty":
		made := len(state.civo.Clusters()) + len(state.digitalOcean.Clusters())
		for _, network := range state.civo.Networks() {
			if !network.Default {
				made++
			}
		}
		if made > 0 {
			ts.Fatalf("%d objects were made", made)
		}
	default:
		ts.Fatalf("usage: cloud start TOKEN | cloud empty")
	}
}

// keys starts a key management service, `keys start`, and has planton keep the keys of new stacks there.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || args[0] != "start" {
		ts.Fatalf("usage: keys start")
	}
	server := httptest.NewServer(&vaultemulator.Vault{})
	ts.Defer(server.Close)
	ts.Setenv(provision.EnvironmentSecretsProvider, vaultemulator.SecretsProvider)
	for name, value := range vaultemulator.Environment(server.URL) {
		ts.Setenv(name, value)
	}
}

// hold takes a lock as another process would.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold FILE")
	}
	lock, err := filelock.Try(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { _ = lock.Unlock() })
}

// renameNetwork gives the Civo network whose id is in a file another name, behind planton's back: `rename FILE NAME`.
func renameNetwork(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rename FILE NAME")
	}
	address := ts.Getenv("CIVO_API_URL") + "/v2/networks/" + strings.TrimSpace(ts.ReadFile(args[0]))
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, address, strings.NewReader(`{"label":"`+args[1]+`","region":"FRA1"}`))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+ts.Getenv("CIVO_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("rename the network: %s", response.Status)
	}
}

// made makes an object in a cloud by hand, and puts its id into a variable: `made VARIABLE civo|digitalocean PATH BODY`.
func made(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: made VARIABLE civo|digitalocean PATH BODY")
	}
	token := ts.Getenv(strings.ToUpper(args[1]) + "_TOKEN")
	address := ts.Getenv(strings.ToUpper(args[1])+"_API_URL") + args[2]
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, strings.NewReader(args[3]))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	ts.Check(err)
	id := regexp.MustCompile(`^{("[a-z_]+":\{)?"id":"([^"]+)"`).FindSubmatch(content)
	if response.StatusCode >= http.StatusMultipleChoices || id == nil {
		ts.Fatalf("%s: %s %s", args[2], response.Status, content)
	}
	ts.Setenv(args[0], string(id[2]))
}

// lockStack leaves a lock on a stack as Pulumi's file backend does: `lock ended|alive|elsewhere STACK`, in the backend of the real clouds.
func lockStack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lock ended|alive|elsewhere STACK")
	}
	host, err := os.Hostname()
	ts.Check(err)
	pid := os.Getpid()
	switch args[0] {
	case "elsewhere":
		host = "elsewhere"
	case "ended":
		ended := exec.Command(os.Args[0], "-test.run=^$")
		ts.Check(ended.Run())
		pid = ended.Process.Pid
	}
	folder := ts.MkAbs("state/backend/.pulumi/locks/" + args[1])
	ts.Check(os.MkdirAll(folder, 0o700))
	// The clock of whoever took it was a day ahead.
	text := fmt.Sprintf(`{"pid":%d,"username":"me","hostname":%q,"timestamp":%q}`, pid, host, time.Now().Add(24*time.Hour).Format(time.RFC3339))
	ts.Check(os.WriteFile(filepath.Join(folder, args[0]+".json"), []byte(text), 0o600))
}

// until waits until a file holds a text: `until FILE TEXT`.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE TEXT")
	}
	for range 600 {
		if content, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(content), args[1]) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("%s never held %q", args[0], args[1])
}

// count checks how often a file matches a pattern: `count N PATTERN FILE`.
func count(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: count N PATTERN FILE")
	}
	if got := strconv.Itoa(len(regexp.MustCompile(args[1]).FindAllString(ts.ReadFile(args[2]), -1))); got != args[0] {
		ts.Fatalf("%s matches %s times, want %s", args[2], got, args[0])
	}
}

// events checks that each line of a file is an event as the schema says, and that events of these types are among them, in this order; the
// last one of all is the last one of these: `events stdout stackStarted result`.
func events(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: events FILE TYPE...")
	}
	types, err := checkEvents(ts.ReadFile(args[0]))
	ts.Check(err)
	want := args[1:]
	for _, name := range types {
		if name == want[0] && len(want) > 1 {
			want = want[1:]
		}
	}
	if len(want) > 1 || types[len(types)-1] != want[0] {
		ts.Fatalf("the events are %v, want %v", types, args[1:])
	}
}
