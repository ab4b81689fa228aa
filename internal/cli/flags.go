package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/kustomize"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

const (
	cloudReal     = "real"
	cloudEmulated = "emulated"

	outputText = "text"
	outputJSON = "json"
	outputYAML = "yaml"
	outputEnv  = "env"

	// environmentCloud is the cloud, where no flag says so.
	environmentCloud = "PLANTON_CLOUD"
	// environmentTimeScale is how long things take on the emulated clouds, where no flag says so.
	environmentTimeScale = "PLANTON_CLOUD_TIME_SCALE"
)

// manifestFlags choose manifests, and what is set in them.
type manifestFlags struct {
	files        []string
	inputDir     string
	kustomizeDir string
	overlay      string
	set          []string
	stackInput   string
	stack        string
}

func (f *manifestFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "manifest", "f", nil, "file, folder or glob ('env/**/*.yaml') of manifests, or - for stdin (repeatable)")
	flags.StringVar(&f.inputDir, "input-dir", "", "folder of manifests; the same as -f FOLDER")
	flags.StringVar(&f.kustomizeDir, "kustomize-dir", "", "folder of a kustomization that is built into manifests; local files only")
	flags.StringVar(&f.overlay, "overlay", "", "with --kustomize-dir: build the overlay of that name, in its folder overlays/NAME")
	flags.StringArrayVar(&f.set, "set", nil,
		"PATH=VALUE of a field of the manifests that have it, or KIND/NAME:PATH=VALUE of one (repeatable), such as spec.region=fra1")
	flags.StringVarP(&f.stackInput, "stack-input", "i", "", "a stack input, with target and provider_config, instead of manifests")
	for _, name := range []string{"input-dir", "kustomize-dir"} {
		_ = cmd.MarkFlagDirname(name)
	}
}

// bindStack is for commands that work on stacks: it adds the flag that names the stack of a manifest, and answers flags of before.
func (f *manifestFlags) bindStack(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.stack, "stack", "",
		"organization/project/stack of the one manifest, as its label "+stackidentity.LabelStackFQDN+" says it")
	oldFlags(cmd)
}

// load reads the manifests, see each.
func (f *manifestFlags) load(streams Streams, cloud *cloudFlags) ([]*manifest.Manifest, error) {
	var manifests []*manifest.Manifest
	err := f.each(streams, cloud, func(m *manifest.Manifest) { manifests = append(manifests, m) })
	if err != nil {
		return nil, err
	}
	return manifests, nil
}

// each reads the manifests and hands them on one after the other, and looks whether they can be put in order, which finds circles. A
// provider config that stands beside a manifest goes to the cloud's flags, which may be nil.
func (f *manifestFlags) each(streams Streams, cloud *cloudFlags, visit func(*manifest.Manifest)) error {
	checker, count := provision.NewChecker(), 0
	err := f.read(streams, cloud, func(m *manifest.Manifest) {
		count++
		checker.Add(m)
		visit(m)
	})
	var invalid *manifest.Error
	var usage *usageFailure
	switch {
	case err == nil && f.stack != "" && count > 1:
		return usageError(fmt.Sprintf("--stack is the stack of one manifest, and there are %d", count))
	case err == nil:
		return checker.Err()
	case errors.As(err, &invalid) || errors.As(err, &usage):
		return err
	default:
		return usageError(err.Error())
	}
}

func (f *manifestFlags) read(streams Streams, cloud *cloudFlags, visit func(*manifest.Manifest)) error {
	given := len(f.files) > 0 || f.inputDir != "" || f.kustomizeDir != ""
	switch {
	case f.overlay != "" && f.kustomizeDir == "":
		return usageError("--overlay is one of a kustomization: give its folder with --kustomize-dir")
	case !given && f.stackInput == "":
		return usageError("no manifest is given: pass -f FILE")
	case len(f.files) > 0 && f.stackInput != "":
		return usageError("-f and -i cannot be given together: a stack input holds its manifest")
	case given && f.stackInput != "":
		return usageError("-i cannot be given together with --input-dir or --kustomize-dir: a stack input holds its manifest")
	}
	input := manifest.Input{Paths: f.files, Stdin: streams.In}
	set := f.set
	if f.stack != "" {
		if _, err := stackidentity.Parse(f.stack); err != nil {
			return usageError("--stack: " + err.Error())
		}
		set = append(slices.Clone(set), fmt.Sprintf("metadata.labels[%q]=%s", stackidentity.LabelStackFQDN, f.stack))
	}
	for _, text := range set {
		setting, err := manifest.ParseSetting(text)
		if err != nil {
			return usageError("--set " + text + ": " + err.Error())
		}
		input.Settings = append(input.Settings, setting)
	}
	if f.stackInput != "" {
		return f.readStackInput(input, cloud, visit)
	}
	if f.inputDir != "" {
		if info, err := os.Stat(f.inputDir); err == nil && !info.IsDir() {
			return usageError("--input-dir " + f.inputDir + " is a file, not a folder: give it with -f")
		}
		input.Paths = append(slices.Clone(input.Paths), f.inputDir)
	}
	if f.kustomizeDir != "" {
		built, err := kustomize.Build(f.kustomizeDir, f.overlay)
		if err != nil {
			return err
		}
		input.Texts = []manifest.Text{{File: built.File, Data: built.Data}}
	}
	return input.Each(visit)
}

func (f *manifestFlags) readStackInput(input manifest.Input, cloud *cloudFlags, visit func(*manifest.Manifest)) error {
	m, config, err := input.LoadStackInput(f.stackInput)
	if err != nil {
		return err
	}
	if cloud != nil {
		switch config := config.(type) {
		case *civov1.CivoProviderConfig:
			cloud.given.Civo = config
		case *digitaloceanv1.DigitalOceanProviderConfig:
			cloud.given.DigitalOcean = config
		}
	}
	visit(m)
	return nil
}

// readsStdin tells whether the manifests come from where an answer would come from, too.
func (f *manifestFlags) readsStdin() bool {
	return f.stackInput == manifest.Stdin || slices.Contains(f.files, manifest.Stdin)
}

// outputFlags choose the form of results.
type outputFlags struct {
	format string
	forms  []string // what the command can write, the default first
}

// bind adds the flag; the forms are text and json, unless others are given.
func (f *outputFlags) bind(cmd *cobra.Command, forms ...string) {
	if f.forms = forms; len(forms) == 0 {
		f.forms = []string{outputText, outputJSON}
	}
	cmd.Flags().StringVarP(&f.format, "output", "o", f.forms[0], "form of the result: "+f.list("or"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.forms, cobra.ShellCompDirectiveNoFileComp))
}

// bindEvents is bind for commands whose JSON is events.
func (f *outputFlags) bindEvents(cmd *cobra.Command) {
	f.bind(cmd)
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[annotationEvents] = "true"
}

func (f *outputFlags) check() error {
	if !slices.Contains(f.forms, f.format) {
		format := f.format
		f.format = f.forms[0]
		return usageError("-o " + format + ": the forms are " + f.list("and"))
	}
	return nil
}

// list names the forms, with a word before the last one.
func (f *outputFlags) list(before string) string {
	last := len(f.forms) - 1
	if last == 0 {
		return f.forms[0]
	}
	return strings.Join(f.forms[:last], ", ") + " " + before + " " + f.forms[last]
}

// cloudFlags choose the cloud and the plugins.
type cloudFlags struct {
	cloud              string
	timeScale          float64
	plugins            string
	civoConfig         string
	digitalOceanConfig string
	profile            string

	given       provision.ProviderConfigs // what a stack input holds
	lockTimeout time.Duration             // how long to wait for another process that runs the emulated clouds
}

// bindCloud is for commands that only need to know whose stacks are meant.
func (f *cloudFlags) bindCloud(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cloud, "cloud", cloudReal,
		"real, or emulated: clouds on this machine to try things on ("+environmentCloud+")")
}

func (f *cloudFlags) bind(cmd *cobra.Command) {
	f.bindCloud(cmd)
	cmd.Flags().Float64Var(&f.timeScale, "time-scale", 0,
		"with --cloud emulated: 1 is as slow as the real cloud, 0 immediate ("+environmentTimeScale+")")
	cmd.Flags().StringVar(&f.plugins, "plugins", string(provision.Automatic), "provider plugins: native, official or automatic")
	f.bindCredentials(cmd)
}

// bindCredentials is for commands that need to know how to reach the clouds, and reach none.
func (f *cloudFlags) bindCredentials(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.civoConfig, "civo-provider-config", "", "YAML file of a CivoProviderConfig (CIVO_TOKEN)")
	cmd.Flags().StringVar(&f.digitalOceanConfig, "digital-ocean-provider-config", "",
		"YAML file of a DigitalOceanProviderConfig (DIGITALOCEAN_TOKEN)")
	cmd.Flags().StringVar(&f.profile, "profile", "", "profile of the credentials file ("+credentials.EnvironmentProfile+")")
	_ = cmd.RegisterFlagCompletionFunc("profile", completeProfiles)
}

func (f *cloudFlags) check(streams Streams, cmd *cobra.Command) error {
	if chosen := streams.Getenv(environmentCloud); chosen != "" && !cmd.Flags().Changed("cloud") {
		if chosen != cloudReal && chosen != cloudEmulated {
			return usageError(environmentCloud + "=" + chosen + ": the clouds are real and emulated")
		}
		f.cloud = chosen
	}
	if f.cloud != cloudReal && f.cloud != cloudEmulated {
		return usageError("--cloud " + f.cloud + ": the clouds are real and emulated")
	}
	if flag := cmd.Flags().Lookup("plugins"); flag != nil {
		if _, err := provision.ParseChoice(f.plugins); err != nil {
			return usageError("--plugins: " + err.Error())
		}
	}
	if flag := cmd.Flags().Lookup("time-scale"); flag != nil {
		text := strings.TrimSpace(streams.Getenv(environmentTimeScale))
		if !flag.Changed && text != "" {
			scale, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return usageError(environmentTimeScale + "=" + text + " is no number")
			}
			f.timeScale = scale
		}
		if f.timeScale < 0 {
			return usageError("--time-scale must not be negative")
		}
	}
	return nil
}

// completeProfiles are the names of the profiles of the credentials file; none where it cannot be read.
func completeProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	path, err := credentials.Path(os.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	file, err := credentials.Read(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}
