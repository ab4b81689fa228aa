package cli

import (
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
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
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

// manifestFlags choose manifests.
type manifestFlags struct {
	files      []string
	stackInput string
}

func (f *manifestFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.files, "manifest", "f", nil, "file or folder of manifests, or - for stdin (repeatable)")
	cmd.Flags().StringVarP(&f.stackInput, "stack-input", "i", "",
		"a stack input, with target and provider_config, instead of manifests")
}

// load reads the manifests and puts them in order, which finds circles. A provider config that stands beside a manifest goes to the
// cloud's flags, which may be nil.
func (f *manifestFlags) load(streams Streams, cloud *cloudFlags) ([]*manifest.Manifest, error) {
	manifests, err := f.read(streams, cloud)
	if err != nil {
		var invalid *manifest.Error
		var usage *usageFailure
		if errors.As(err, &invalid) || errors.As(err, &usage) {
			return nil, err
		}
		return nil, usageError(err.Error())
	}
	if _, err := provision.Order(manifests); err != nil {
		return nil, err
	}
	return manifests, nil
}

func (f *manifestFlags) read(streams Streams, cloud *cloudFlags) ([]*manifest.Manifest, error) {
	switch {
	case len(f.files) == 0 && f.stackInput == "":
		return nil, usageError("no manifest is given: pass -f FILE")
	case len(f.files) > 0 && f.stackInput != "":
		return nil, usageError("-f and -i cannot be given together: a stack input holds its manifest")
	case f.stackInput == "":
		return manifest.Load(f.files, streams.In)
	}
	m, config, err := manifest.LoadStackInput(f.stackInput, streams.In)
	if err != nil {
		return nil, err
	}
	if cloud != nil {
		switch config := config.(type) {
		case *civov1.CivoProviderConfig:
			cloud.given.Civo = config
		case *digitaloceanv1.DigitalOceanProviderConfig:
			cloud.given.DigitalOcean = config
		}
	}
	return []*manifest.Manifest{m}, nil
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
