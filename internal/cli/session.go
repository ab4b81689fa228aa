package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	nativedigitalocean "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/provision/emulatedcloud"
)

// session is what a command needs to provision: where states are, which cloud, and the engine.
type session struct {
	engine   *provision.Engine
	configs  provision.ProviderConfigs
	progress *progress
	clouds   *emulatedcloud.Clouds
}

// openSession makes a session for manifests. Close it. Credentials are looked for before anything else is.
func openSession(
	ctx context.Context, streams Streams, flags cloudFlags, manifests []*manifest.Manifest,
) (_ *session, err error) {
	s := &session{progress: newProgress(streams, manifests)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if flags.cloud == cloudReal {
		if s.configs, err = realConfigs(streams, flags, manifests); err != nil {
			return nil, err
		}
	}
	if s.engine, err = openEngine(ctx, streams, flags, s.progress); err != nil {
		return nil, err
	}
	if flags.cloud == cloudEmulated {
		directory, err := emulatedDirectory(streams)
		if err != nil {
			return nil, err
		}
		clouds, err := emulatedcloud.Start(ctx, emulatedcloud.Options{
			Directory: filepath.Join(directory, "clouds"), TimeScale: flags.timeScale,
		})
		if err != nil {
			return nil, err
		}
		s.clouds = clouds
		s.configs = s.clouds.ProviderConfigs()
	}
	return s, s.tellPlugins(streams, manifests)
}

// tellPlugins prints which plugins are used: it is the user's choice, and must never be a silent one.
func (s *session) tellPlugins(streams Streams, manifests []*manifest.Manifest) error {
	for _, provider := range providersOf(manifests) {
		plugin, err := s.engine.Plugin(provider)
		if err != nil {
			return usageError(err.Error())
		}
		_, _ = fmt.Fprintln(streams.Err, plugin)
	}
	return nil
}

// close stops what the session runs.
func (s *session) close() {
	s.progress.close()
	if s.clouds != nil {
		_ = s.clouds.Close()
	}
}

// emulatedDirectory is where everything of the emulated clouds is kept: their objects, and the states of their stacks. The states are
// kept apart from those of the real clouds, so that a resource of the one is never taken for one of the other.
func emulatedDirectory(streams Streams) (string, error) {
	directory, err := provision.StateDirectory(streams.Getenv)
	return filepath.Join(directory, "emulated"), err
}

// openEngine makes the engine, with the Pulumi CLI that is found or built.
func openEngine(ctx context.Context, streams Streams, flags cloudFlags, progress *progress) (*provision.Engine, error) {
	cli, err := pulumicli.Find(ctx, pulumicli.Options{Getenv: streams.Getenv, Progress: streams.Err})
	if err != nil {
		return nil, err
	}
	cli.Kill = streams.Kill
	var state *provision.State
	if flags.cloud == cloudEmulated {
		directory, err := emulatedDirectory(streams)
		if err != nil {
			return nil, err
		}
		if state, err = provision.OpenLocalState(directory, streams.Getenv); err != nil {
			return nil, err
		}
	} else {
		directory, err := provision.StateDirectory(streams.Getenv)
		if err != nil {
			return nil, err
		}
		if state, err = provision.OpenState(directory, streams.Getenv); err != nil {
			return nil, err
		}
	}
	return provision.New(provision.Options{
		CLI:     cli,
		State:   state,
		Plugins: provision.Choice(flags.plugins),
		Native: map[string]provision.NativePlugin{
			kinds.Civo:         nativecivo.New(civoSDKVersion),
			kinds.DigitalOcean: nativedigitalocean.New(digitalOceanSDKVersion),
		},
		Modules: func(kinds.Kind) (provision.Module, bool) {
			return func(ctx *pulumi.Context, stackInput proto.Message) error { return modules.Resources(ctx, stackInput) }, true
		},
		OnEvent: progress.take,
	})
}

// providersOf are the clouds that manifests live on, in the order of their names.
func providersOf(manifests []*manifest.Manifest) []string {
	var providers []string
	for _, provider := range []string{kinds.Civo, kinds.DigitalOcean} {
		for _, m := range manifests {
			if m.Kind.Provider == provider {
				providers = append(providers, provider)
				break
			}
		}
	}
	return providers
}

// realConfigs are the provider configs of the clouds that the manifests live on: those of the files, with what they leave out taken
// from the environment. The error is a *credentialsError when there is no token.
func realConfigs(streams Streams, flags cloudFlags, manifests []*manifest.Manifest) (provision.ProviderConfigs, error) {
	var configs provision.ProviderConfigs
	for _, provider := range providersOf(manifests) {
		switch provider {
		case kinds.Civo:
			config := &civov1.CivoProviderConfig{}
			proto.Merge(config, flags.given.Civo)
			if err := readConfig(flags.civoConfig, config); err != nil {
				return configs, err
			}
			fill(&config.ApiToken, streams, "CIVO_TOKEN")
			fill(&config.ApiEndpoint, streams, "CIVO_API_URL")
			if config.DefaultRegion == 0 {
				config.DefaultRegion = civov1.CivoRegion(civov1.CivoRegion_value[strings.ToLower(streams.Getenv("CIVO_REGION"))])
			}
			if config.ApiToken == "" {
				return configs, noCredentials("Civo", "CIVO_TOKEN", "--civo-provider-config")
			}
			configs.Civo = config
		case kinds.DigitalOcean:
			config := &digitaloceanv1.DigitalOceanProviderConfig{}
			proto.Merge(config, flags.given.DigitalOcean)
			if err := readConfig(flags.digitalOceanConfig, config); err != nil {
				return configs, err
			}
			fill(&config.ApiToken, streams, "DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN")
			fill(&config.ApiEndpoint, streams, "DIGITALOCEAN_API_URL")
			if config.ApiToken == "" {
				return configs, noCredentials("DigitalOcean", "DIGITALOCEAN_TOKEN", "--digital-ocean-provider-config")
			}
			configs.DigitalOcean = config
		}
	}
	return configs, nil
}

func noCredentials(cloud, variable, flag string) error {
	return &credentialsError{message: fmt.Sprintf(
		"there is no API token for %s: set %s, or pass %s FILE with an apiToken in it, or try --cloud emulated", cloud, variable, flag)}
}

// readConfig reads a provider config; no file is an empty one.
func readConfig(file string, into proto.Message) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return usageError("read the provider config: " + err.Error())
	}
	return manifest.Decode(file, data, into)
}

// fill takes a value that is missing from the environment.
func fill(value *string, streams Streams, variables ...string) {
	for _, variable := range variables {
		if *value == "" {
			*value = streams.Getenv(variable)
		}
	}
}
