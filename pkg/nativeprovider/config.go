package nativeprovider

import (
	"context"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
)

// engineConfig are keys among a provider's configuration that are the engine's own.
var engineConfig = map[resource.PropertyKey]bool{
	"version": true, "pluginDownloadURL": true, "pluginChecksums": true, "parameterization": true,
}

// CheckConfig implements plugin.Provider. Secrets of the table are marked, so that they are encrypted in the state whatever the program said.
func (p *Provider) CheckConfig(_ context.Context, request plugin.CheckConfigRequest) (plugin.CheckConfigResponse, error) {
	ours, engines := resource.PropertyMap{}, resource.PropertyMap{}
	for key, value := range request.News {
		if engineConfig[key] || reserved(key) {
			engines[key] = value
		} else {
			ours[key] = value
		}
	}
	c := &checker{lenient: true}
	// Defaults are not written into the configuration: they may come from the environment, which is not the state's business.
	checked := c.object(nil, withoutDefaults(p.spec.Config), ours, nil)
	if len(c.failures) > 0 {
		return plugin.CheckConfigResponse{Failures: c.failures}, nil
	}
	for key, value := range checked {
		if property := find(p.spec.Config, string(key)); property.Secret && !value.IsSecret() {
			value = resource.MakeSecret(value)
		}
		engines[key] = value
	}
	return plugin.CheckConfigResponse{Properties: engines}, nil
}

func withoutDefaults(table []Property) []Property {
	bare := make([]Property, len(table))
	for i, property := range table {
		property.Default = nil
		property.Required = false
		bare[i] = property
	}
	return bare
}

// DiffConfig implements plugin.Provider. No change of configuration replaces a provider, for that would replace everything made with it: a
// resource that lives elsewhere (a region) knows so itself.
func (p *Provider) DiffConfig(_ context.Context, request plugin.DiffConfigRequest) (plugin.DiffConfigResponse, error) {
	old, new := plainMap(request.OldInputs), plainMap(request.NewInputs)
	changes := map[string]plugin.PropertyDiff{}
	var keys []resource.PropertyKey
	for i := range p.spec.Config {
		key := resource.PropertyKey(p.spec.Config[i].Name)
		before, after := old[key], new[key]
		if before.IsNull() && after.IsNull() || !after.ContainsUnknowns() && before.DeepEquals(after) {
			continue
		}
		kind := plugin.DiffUpdate
		switch {
		case before.IsNull():
			kind = plugin.DiffAdd
		case after.IsNull():
			kind = plugin.DiffDelete
		}
		changes[string(key)] = plugin.PropertyDiff{Kind: kind, InputDiff: true}
		keys = append(keys, key)
	}
	if len(changes) == 0 {
		return plugin.DiffResult{Changes: plugin.DiffNone}, nil
	}
	return plugin.DiffResult{Changes: plugin.DiffSome, ChangedKeys: keys, DetailedDiff: changes}, nil
}

// Configure implements plugin.Provider. A configuration with values that are not known yet (a preview) is taken as it is: only an operation
// that needs the cloud fails then.
func (p *Provider) Configure(ctx context.Context, request plugin.ConfigureRequest) (plugin.ConfigureResponse, error) {
	c := &checker{lenient: true}
	known := resource.PropertyMap{}
	for i := range p.spec.Config {
		key := resource.PropertyKey(p.spec.Config[i].Name)
		if value, ok := request.Inputs[key]; ok {
			known[key] = value
		}
	}
	config := plainMap(c.object(nil, p.spec.Config, known, nil))
	if len(c.failures) > 0 {
		return plugin.ConfigureResponse{}, errors.Errorf("configure provider %s: %s", p.spec.Name, c.failures[0].Reason)
	}
	p.mu.Lock()
	p.config, p.client, p.clientMade = config, nil, false
	p.mu.Unlock()
	if containsUnknowns(config) {
		return plugin.ConfigureResponse{}, nil
	}
	if _, err := p.makeClient(ctx); err != nil {
		return plugin.ConfigureResponse{}, err
	}
	return plugin.ConfigureResponse{}, nil
}

// configuration is what the instance was configured with, nil before.
func (p *Provider) configuration() resource.PropertyMap {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config
}

// makeClient returns the client of the cloud, made once a configuration.
func (p *Provider) makeClient(ctx context.Context) (any, error) {
	if p.configuration() == nil && p.shared != nil {
		// Asked without the lock: the answer takes a look at the other instances, which may be asking too.
		if config, ok := p.shared(); ok {
			p.mu.Lock()
			if p.config == nil {
				p.config = config
			}
			p.mu.Unlock()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.clientMade:
		return p.client, nil
	case p.config == nil:
		return nil, errors.Errorf("provider %s is not configured", p.spec.Name)
	case containsUnknowns(p.config):
		return nil, errors.Errorf("the configuration of provider %s has values that are not known yet", p.spec.Name)
	case p.spec.Configure == nil:
		return nil, nil
	}
	client, err := p.spec.Configure(ctx, p.config)
	if err != nil {
		return nil, errors.Wrapf(err, "configure provider %s", p.spec.Name)
	}
	p.client, p.clientMade = client, true
	return client, nil
}
