package nodepoolsserver

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	nativedigitalocean "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/nodepools/reconcile"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/provision/emulatedcloud"
)

// The clouds that can be provisioned in.
const (
	cloudEmulated = "emulated"
	cloudReal     = "real"
)

// clouds are the engine and the clouds that it provisions in.
type clouds struct {
	provisioner reconcile.Provisioner
	progress    *reconcile.Progress
	// provisioned are the platforms that can be provisioned in, with the names of their controllers.
	provisioned map[string]string
	emulated    *emulatedcloud.Clouds
}

// openClouds starts the emulated clouds, or finds out how to reach the real ones, and opens the engine.
//
// Real clouds are shared by all processes on the database: where those may be on several machines, what one of them began is remembered in
// the database, for the others to go on with.
func openClouds(ctx context.Context, c config, db *store.DB, getenv func(string) string, out io.Writer) (_ *clouds, err error) {
	opened := &clouds{progress: reconcile.NewProgress(), provisioned: map[string]string{}}
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	var configs provision.ProviderConfigs
	directory := c.stateDirectory
	if c.cloud == cloudEmulated {
		directory = filepath.Join(directory, "emulated")
		opened.emulated, err = emulatedcloud.Start(ctx, emulatedcloud.Options{
			Directory: filepath.Join(directory, "clouds"), TimeScale: c.timeScale,
		})
		if err != nil {
			return nil, err
		}
		configs = opened.emulated.ProviderConfigs()
	} else if configs, err = realConfigs(c, getenv, out); err != nil {
		return nil, err
	}
	if configs.Civo != nil {
		opened.provisioned[kinds.Civo] = reconcile.Controllers[kinds.Civo]
	}
	if configs.DigitalOcean != nil {
		opened.provisioned[kinds.DigitalOcean] = reconcile.Controllers[kinds.DigitalOcean]
	}

	cli, err := pulumicli.Find(ctx, pulumicli.Options{Getenv: getenv, Progress: out})
	if err != nil {
		return nil, err
	}
	open := provision.OpenState
	if c.cloud == cloudEmulated {
		open = provision.OpenLocalState
	}
	state, err := open(directory, getenv)
	if err != nil {
		return nil, err
	}
	if c.cloud == cloudReal && shared(databaseAddress(getenv, c.stateDirectory)) {
		state.Shared = db.Files()
	}
	engine, err := provision.New(provision.Options{
		CLI:     cli,
		State:   state,
		Plugins: provision.Choice(c.plugins),
		Native: map[string]provision.NativePlugin{
			kinds.Civo:         nativecivo.New(nativecivo.SDKVersion),
			kinds.DigitalOcean: nativedigitalocean.New(nativedigitalocean.SDKVersion),
		},
		Modules: func(kinds.Kind) (provision.Module, bool) {
			return func(ctx *pulumi.Context, stackInput proto.Message) error { return modules.Resources(ctx, stackInput) }, true
		},
		OnEvent: opened.progress.Take,
	})
	if err != nil {
		return nil, err
	}
	opened.provisioner = reconcile.NewProvisioner(engine, configs, c.parallel, opened.progress)
	return opened, nil
}

// realConfigs are the configs of the clouds that there is a token for. There must be one.
func realConfigs(c config, getenv func(string) string, out io.Writer) (configs provision.ProviderConfigs, err error) {
	resolver := credentials.NewResolver(credentials.Options{
		Getenv: getenv, Profile: c.profile, CivoFile: c.civoConfig, DigitalOceanFile: c.digitalOceanConfig,
		Warn: func(message string) { _, _ = fmt.Fprintln(out, "warning:", message) },
	})
	var missing []error
	without := func(err error) error {
		var none *credentials.Error
		if errors.As(err, &none) && none.NoToken != "" {
			missing = append(missing, err)
			return nil
		}
		return err
	}
	if configs.Civo, _, err = resolver.Civo(); err != nil {
		if err = without(err); err != nil {
			return configs, err
		}
		configs.Civo = nil
	}
	if configs.DigitalOcean, _, err = resolver.DigitalOcean(); err != nil {
		if err = without(err); err != nil {
			return configs, err
		}
		configs.DigitalOcean = nil
	}
	if len(missing) == 2 {
		return configs, errors.Errorf("no cloud can be provisioned in: %s; %s; or try it with --cloud %s", missing[0], missing[1], cloudEmulated)
	}
	return configs, nil
}

// close stops what was started.
func (c *clouds) close() {
	if c.emulated != nil {
		_ = c.emulated.Close()
	}
}
