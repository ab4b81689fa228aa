package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/credentials"
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
			Directory: filepath.Join(directory, "clouds"), TimeScale: flags.timeScale, LockTimeout: flags.lockTimeout,
			OnWait: func(locked *emulatedcloud.LockedError) {
				_, _ = fmt.Fprintf(streams.Err, "%s\nwaiting up to %s for that\n", locked, flags.lockTimeout)
			},
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
		_, _ = fmt.Fprintln(streams.at(levelInfo), plugin)
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

// openState tells where the states of the cloud's stacks are.
func openState(streams Streams, flags cloudFlags) (*provision.State, error) {
	if flags.cloud == cloudEmulated {
		directory, err := emulatedDirectory(streams)
		if err != nil {
			return nil, err
		}
		return provision.OpenLocalState(directory, streams.Getenv)
	}
	directory, err := provision.StateDirectory(streams.Getenv)
	if err != nil {
		return nil, err
	}
	return provision.OpenState(directory, streams.Getenv)
}

// openEngine makes the engine, with the Pulumi CLI that is found or built.
func openEngine(ctx context.Context, streams Streams, flags cloudFlags, progress *progress) (*provision.Engine, error) {
	cli, err := pulumicli.Find(ctx, pulumicli.Options{Getenv: streams.Getenv, Progress: streams.at(levelInfo)})
	if err != nil {
		return nil, err
	}
	cli.Kill = streams.Kill
	state, err := openState(streams, flags)
	if err != nil {
		return nil, err
	}
	return provision.New(provision.Options{
		CLI:     cli,
		State:   state,
		Plugins: provision.Choice(flags.plugins),
		Native: map[string]provision.NativePlugin{
			kinds.Civo:         nativecivo.New(nativecivo.SDKVersion),
			kinds.DigitalOcean: nativedigitalocean.New(nativedigitalocean.SDKVersion),
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

// credentialsOf finds out how to reach the real clouds, from what a command was given and the environment.
func credentialsOf(streams Streams, flags cloudFlags) *credentials.Resolver {
	return credentials.NewResolver(credentials.Options{
		Getenv:           streams.Getenv,
		Profile:          flags.profile,
		Civo:             flags.given.Civo,
		DigitalOcean:     flags.given.DigitalOcean,
		CivoFile:         flags.civoConfig,
		DigitalOceanFile: flags.digitalOceanConfig,
		Warn: func(message string) {
			_, _ = fmt.Fprintf(streams.Err, "%s %s\n", painter(streams.ErrTerminal, streams.Getenv)(yellow, "warning:"), message)
		},
	})
}

// realConfigs are the provider configs of the clouds that the manifests live on.
func realConfigs(streams Streams, flags cloudFlags, manifests []*manifest.Manifest) (configs provision.ProviderConfigs, err error) {
	resolver := credentialsOf(streams, flags)
	for _, provider := range providersOf(manifests) {
		switch provider {
		case kinds.Civo:
			configs.Civo, _, err = resolver.Civo()
		case kinds.DigitalOcean:
			configs.DigitalOcean, _, err = resolver.DigitalOcean()
		}
		var missing *credentials.Error
		var broken *manifest.Error
		if err != nil && !errors.As(err, &missing) && !errors.As(err, &broken) {
			return configs, usageError(err.Error())
		}
		if err != nil {
			return configs, err
		}
	}
	return configs, nil
}
