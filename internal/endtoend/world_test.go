package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optimport"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	civoconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/internal/vaultemulator"
	"github.com/plantonhq/project-planton/pkg/emulator"
	civocloud "github.com/plantonhq/project-planton/pkg/emulator/civo"
	digitaloceancloud "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	civoplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	digitaloceanplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

const (
	// The tokens are marked, so that a search of everything that a run wrote down tells whether one leaked.
	civoToken         = "marked-civo-token-8f1e"
	digitaloceanToken = "marked-digitalocean-token-3c7a"

	pluginsEnvironment = "PLANTON_TEST_PLUGINS"
	official           = "official"

	operationTimeout = 5 * time.Minute
)

// world is two emulated clouds, a Pulumi backend of its own, and the plugins.
type world struct {
	t            *testing.T
	cli          *pulumicli.CLI
	civo         *civocloud.Cloud
	digitalocean *digitaloceancloud.Cloud
	civoURL      string
	doURL        string
	dir          string
	env          map[string]string
	// vault keeps the keys of the stacks.
	vault map[string]string

	mu sync.Mutex
	// secrets are values that must not stand in clear in anything that a run writes down.
	secrets []string
}

// secret remembers a value that must not stand in clear anywhere.
func (w *world) secret(value any) {
	text, ok := value.(string)
	if !ok || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.secrets, text)
	// The credentials inside a kubeconfig are secrets of their own.
	for _, line := range strings.Split(text, "\n") {
		for _, key := range []string{"token: ", "client-key-data: "} {
			if _, credential, found := strings.Cut(line, key); found {
				w.secrets = append(w.secrets, credential)
			}
		}
	}
}

// pulumiCLI finds the Pulumi CLI once for all tests.
var pulumiCLI = sync.OnceValues(func() (*pulumicli.CLI, error) {
	return pulumicli.Find(context.Background(), pulumicli.Options{Progress: os.Stderr})
})

// newWorld makes a world that ends with the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("the end-to-end tests need the Pulumi CLI, and %v", err)
	}
	w := &world{t: t, cli: cli, dir: t.TempDir(), secrets: []string{civoToken, digitaloceanToken}}
	w.vault = vaultemulator.Environment(serve(t, &vaultemulator.Vault{}))
	if w.civo, err = civocloud.New(emulator.Options{Token: civoToken}); err != nil {
		t.Fatal(err)
	}
	if w.digitalocean, err = digitaloceancloud.New(emulator.Options{Token: digitaloceanToken}); err != nil {
		t.Fatal(err)
	}
	w.civoURL, w.doURL = serve(t, w.civo), serve(t, w.digitalocean)
	w.env = map[string]string{
		"PULUMI_BACKEND_URL":       "file://" + filepath.Join(w.dir, "state"),
		"PULUMI_CONFIG_PASSPHRASE": "for tests only",
		"PULUMI_SKIP_UPDATE_CHECK": "true",
		"PULUMI_HOME":              filepath.Join(w.dir, "home"),
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	maps.Copy(w.env, w.vault)
	w.languageHost()
	w.plugins()
	t.Cleanup(w.checkSecrets)
	return w
}

// languageHost puts this binary on the PATH of the Pulumi CLI as the language host of Go programs, see TestMain.
func (w *world) languageHost() {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	bin := filepath.Join(w.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "pulumi-language-go")); err != nil {
		w.t.Fatal(err)
	}
	w.env["PATH"] = bin + string(os.PathListSeparator) + os.Getenv("PATH")
}

// plugins makes the chosen provider plugins known to the engine.
func (w *world) plugins() {
	w.t.Helper()
	if os.Getenv(pluginsEnvironment) == official {
		home := os.Getenv("PULUMI_HOME")
		if home == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				w.t.Fatal(err)
			}
			home = filepath.Join(user, ".pulumi")
		}
		w.env["PULUMI_HOME"] = home
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.t.Cleanup(stop)
	civoPort, err := civoplugin.New("2.4.8").Serve(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	digitaloceanPort, err := digitaloceanplugin.New("4.57.0").Serve(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.env["PULUMI_DEBUG_PROVIDERS"] = fmt.Sprintf("civo:%d,digitalocean:%d", civoPort, digitaloceanPort)
	// For a stack that exists, the engine looks for the plugins that its state names on the network, though these ones serve it.
	w.env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// checkSecrets fails the test when a token, a kubeconfig or a credential of one stands in clear in anything that a run wrote down.
func (w *world) checkSecrets() {
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, secret := range w.secrets {
			if bytes.Contains(text, []byte(secret)) {
				w.t.Errorf("%s has a secret in clear, one that begins with %.8q", path, secret)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}

// call asks the emulated cloud for something as its owner would, and decodes the answer.
func (w *world) call(provider, method, path string, body, answer any) {
	w.t.Helper()
	url, token := w.civoURL, "bearer "+civoToken
	if provider == kinds.DigitalOcean {
		url, token = w.doURL, "Bearer "+digitaloceanToken
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), method, url+path, bytes.NewReader(encoded))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		w.t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text.String())
	}
	if answer != nil {
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
			w.t.Fatal(err)
		}
	}
}

// stackInput is what the module of a manifest is given.
func (w *world) stackInput(target proto.Message) proto.Message {
	w.t.Helper()
	kind, ok := kinds.Of(target)
	if !ok {
		w.t.Fatalf("%T is no manifest", target)
	}
	input := kind.NewStackInput()
	fields := input.ProtoReflect().Descriptor().Fields()
	var config proto.Message = &civoconfig.CivoProviderConfig{
		ApiToken: civoToken, ApiEndpoint: w.civoURL, DefaultRegion: civoconfig.CivoRegion_lon1,
	}
	if kind.Provider == kinds.DigitalOcean {
		config = &digitaloceanconfig.DigitalOceanProviderConfig{ApiToken: digitaloceanToken, ApiEndpoint: w.doURL}
	}
	input.ProtoReflect().Set(fields.ByName("target"), protoreflect.ValueOfMessage(target.ProtoReflect()))
	input.ProtoReflect().Set(fields.ByName("provider_config"), protoreflect.ValueOfMessage(config.ProtoReflect()))
	return input
}

// parse reads a manifest.
func parse(t *testing.T, text string) proto.Message {
	t.Helper()
	for _, kind := range kinds.All() {
		if strings.Contains(text, "kind: "+kind.Name+"\n") {
			target := kind.NewTarget()
			if err := protoyaml.Unmarshal([]byte(text), target); err != nil {
				t.Fatal(err)
			}
			return target
		}
	}
	t.Fatalf("no kind in %s", text)
	return nil
}

// stack is the stack of one manifest.
type stack struct {
	*world
	auto     auto.Stack
	identity stackidentity.Identity
	kind     kinds.Kind
	// target is the manifest as of the latest operation.
	target proto.Message
}

// oneRead is the Pulumi CLI for one stack of this world.
func (w *world) oneRead() *oneRead {
	return &oneRead{CLI: w.cli, backend: filepath.Join(w.dir, "state")}
}

// stack opens the stack of a manifest.
func (w *world) stack(text string) *stack {
	w.t.Helper()
	s := &stack{world: w, target: parse(w.t, text)}
	s.kind, _ = kinds.Of(s.target)
	var err error
	if s.identity, err = stackidentity.For(s.kind, kinds.Metadata(s.target)); err != nil {
		w.t.Fatal(err)
	}
	s.auto, err = auto.UpsertStackInlineSource(w.t.Context(), s.identity.String(), s.identity.Project, s.program,
		auto.Pulumi(w.oneRead()), auto.EnvVars(w.env), auto.SecretsProvider(vaultemulator.SecretsProvider))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (s *stack) program(ctx *pulumi.Context) error {
	return modules.Resources(ctx, s.stackInput(s.target))
}

// changes are the numbers of steps by operation, without those that change nothing.
type changes map[string]int

func changesOf[K ~string](summary map[K]int) changes {
	counted := changes{}
	for operation, n := range summary {
		switch string(operation) {
		case "same", "read", "refresh", "discard-replaced":
		default:
			counted[string(operation)] = n
		}
	}
	return counted
}

func (s *stack) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *stack) tryUp(opts ...optup.Option) (auto.UpResult, string, error) {
	var log bytes.Buffer
	// Up asks for the history of the stack after it. Without the secrets of its configuration, of which there are none, the CLI need
	// not derive the key from the passphrase, which takes most of its time.
	opts = append(opts, optup.ProgressStreams(&log), optup.ErrorProgressStreams(&log), optup.ShowSecrets(false))
	result, err := s.auto.Up(s.context(), opts...)
	for _, cluster := range s.civo.Clusters() {
		s.secret(cluster.Kubeconfig)
	}
	for _, output := range result.Outputs {
		if output.Secret {
			s.secret(output.Value)
		}
	}
	s.checkLog(log.String())
	return result, log.String(), err
}

// up applies the manifest and returns what that changed.
func (s *stack) up(opts ...optup.Option) (changes, auto.OutputMap) {
	s.t.Helper()
	result, log, err := s.tryUp(opts...)
	if err != nil {
		s.t.Fatalf("up %s: %v\n%s", s.identity, err, log)
	}
	if result.Summary.ResourceChanges == nil {
		return changes{}, result.Outputs
	}
	return changesOf(*result.Summary.ResourceChanges), result.Outputs
}

func (s *stack) tryPreview() (changes, string, error) {
	var log bytes.Buffer
	result, err := s.auto.Preview(s.context(), optpreview.ProgressStreams(&log), optpreview.ErrorProgressStreams(&log))
	s.checkLog(log.String())
	return changesOf(result.ChangeSummary), log.String(), err
}

// preview plans the manifest and returns what it would change.
func (s *stack) preview() changes {
	s.t.Helper()
	planned, log, err := s.tryPreview()
	if err != nil {
		s.t.Fatalf("preview %s: %v\n%s", s.identity, err, log)
	}
	return planned
}

// refresh brings the state up to the cloud and returns what that changed.
func (s *stack) refresh() changes {
	s.t.Helper()
	var log bytes.Buffer
	result, err := s.auto.Refresh(s.context(), optrefresh.ProgressStreams(&log), optrefresh.ErrorProgressStreams(&log),
		optrefresh.ShowSecrets(false))
	s.checkLog(log.String())
	if err != nil {
		s.t.Fatalf("refresh %s: %v\n%s", s.identity, err, log.String())
	}
	if result.Summary.ResourceChanges == nil {
		return changes{}
	}
	return changesOf(*result.Summary.ResourceChanges)
}

// destroy takes everything of the stack down.
func (s *stack) destroy() {
	s.t.Helper()
	var log bytes.Buffer
	_, err := s.auto.Destroy(s.context(), optdestroy.ProgressStreams(&log), optdestroy.ErrorProgressStreams(&log),
		optdestroy.ShowSecrets(false))
	s.checkLog(log.String())
	if err != nil {
		s.t.Fatalf("destroy %s: %v\n%s", s.identity, err, log.String())
	}
}

// importResource adopts an existing object into the stack.
func (s *stack) importResource(token, name, id, provider string) {
	s.t.Helper()
	urn := fmt.Sprintf("urn:pulumi:%s::%s::pulumi:providers:%s::%s", s.identity.Stack, s.identity.Project, provider, provider)
	s.up(optup.Target([]string{urn}))
	var log bytes.Buffer
	_, err := s.auto.ImportResources(s.context(),
		optimport.Resources([]*optimport.ImportResource{{Type: token, Name: name, ID: id, Provider: provider}}),
		optimport.NameTable(map[string]string{provider: urn}),
		optimport.Protect(false), optimport.GenerateCode(false),
		optimport.ProgressStreams(&log), optimport.ErrorProgressStreams(&log))
	s.checkLog(log.String())
	if err != nil {
		s.t.Fatalf("import %s %s: %v\n%s", token, id, err, log.String())
	}
}

func (s *stack) checkLog(log string) {
	s.t.Helper()
	s.checkText("the log of "+s.identity.String(), log)
}

// checkText fails the test when a text shows a secret.
func (w *world) checkText(what, text string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, secret := range w.secrets {
		if strings.Contains(text, secret) {
			w.t.Errorf("%s has a secret in clear, one that begins with %.8q", what, secret)
		}
	}
}

// expectSettled fails the test unless another apply would change nothing.
func (s *stack) expectSettled() {
	s.t.Helper()
	if planned := s.preview(); len(planned) != 0 {
		s.t.Errorf("%s: another apply would change %v", s.identity, planned)
	}
}

// step is one edit of a manifest.
type step struct {
	name string
	// edit holds pairs of old and new text of the manifest.
	edit []string
	want changes
	// check holds the cloud against the manifest; nil where want says it all.
	check func(t *testing.T)
	// refused is a part of the error of a change that must not be planned; nothing is applied then.
	refused string
	// nativeOnly is why the official plugin cannot take this step; it is left out there. Such steps come last, so that the
	// others find the manifest the same with either plugin.
	nativeOnly string
}

// live runs a manifest through its life: created, edited step by step, destroyed. After each step another apply must change
// nothing.
func (s *stack) live(text string, created changes, check func(t *testing.T), steps []step) {
	s.t.Helper()
	got, _ := s.up()
	if diff := cmp.Diff(created, got); diff != "" {
		s.t.Errorf("create: -want +got:\n%s", diff)
	}
	s.expectSettled()
	check(s.t)
	for _, step := range steps {
		if step.nativeOnly != "" && pluginsUnderTest() == official {
			s.t.Logf("%s: left out: %s", step.name, step.nativeOnly)
			continue
		}
		edited := text
		for i := 0; i < len(step.edit); i += 2 {
			if strings.Count(edited, step.edit[i]) != 1 {
				s.t.Fatalf("%s: the manifest has not exactly one %q:\n%s", step.name, step.edit[i], edited)
			}
			edited = strings.Replace(edited, step.edit[i], step.edit[i+1], 1)
		}
		if step.refused != "" {
			before := s.target
			s.target = parse(s.t, edited)
			if _, log, err := s.tryPreview(); err == nil || !strings.Contains(log+err.Error(), step.refused) {
				s.t.Errorf("%s: want a preview refused with %q, got %v\n%s", step.name, step.refused, err, log)
			}
			s.target = before
			continue
		}
		text = edited
		s.target = parse(s.t, text)
		got, _ := s.up()
		if diff := cmp.Diff(step.want, got); diff != "" {
			s.t.Errorf("%s: -want +got:\n%s", step.name, diff)
		}
		s.expectSettled()
		if step.check != nil {
			step.check(s.t)
		}
	}
	// What the cloud says is what the state says, and what the manifest says.
	if got := s.refresh(); len(got) != 0 {
		s.t.Errorf("refresh found %v", got)
	}
	s.expectSettled()
}

// pluginsUnderTest is what the environment asks for: native or official.
func pluginsUnderTest() string {
	if os.Getenv(pluginsEnvironment) == official {
		return official
	}
	return "native"
}
