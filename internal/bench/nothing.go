package main

import (
	"context"

	"github.com/blang/semver"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

// nothing is a provider that takes every type and makes nothing: what an operation costs with it is what the engine and the program
// cost.
type nothing struct{ plugin.UnimplementedProvider }

// serveNothing runs it until the context ends.
func serveNothing(ctx context.Context) (int, error) {
	cancel := make(chan bool)
	context.AfterFunc(ctx, func() { close(cancel) })
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterResourceProviderServer(server, plugin.NewProviderServer(&nothing{}))
			return nil
		},
	})
	if err != nil {
		return 0, errors.Wrap(err, "serve the do-nothing plugin")
	}
	return handle.Port, nil
}

// CheckConfig implements plugin.Provider.
func (*nothing) CheckConfig(_ context.Context, r plugin.CheckConfigRequest) (plugin.CheckConfigResponse, error) {
	return plugin.CheckConfigResponse{Properties: r.News}, nil
}

// DiffConfig implements plugin.Provider.
func (*nothing) DiffConfig(context.Context, plugin.DiffConfigRequest) (plugin.DiffConfigResponse, error) {
	return plugin.DiffConfigResponse{Changes: plugin.DiffNone}, nil
}

// Configure implements plugin.Provider.
func (*nothing) Configure(context.Context, plugin.ConfigureRequest) (plugin.ConfigureResponse, error) {
	return plugin.ConfigureResponse{}, nil
}

// Check implements plugin.Provider.
func (*nothing) Check(_ context.Context, r plugin.CheckRequest) (plugin.CheckResponse, error) {
	return plugin.CheckResponse{Properties: r.News}, nil
}

// Diff implements plugin.Provider.
func (*nothing) Diff(_ context.Context, r plugin.DiffRequest) (plugin.DiffResponse, error) {
	if r.OldInputs.DeepEquals(r.NewInputs) {
		return plugin.DiffResponse{Changes: plugin.DiffNone}, nil
	}
	return plugin.DiffResponse{Changes: plugin.DiffSome}, nil
}

// Create implements plugin.Provider.
func (*nothing) Create(_ context.Context, r plugin.CreateRequest) (plugin.CreateResponse, error) {
	return plugin.CreateResponse{ID: "nothing", Properties: r.Properties, Status: resource.StatusOK}, nil
}

// Read implements plugin.Provider.
func (*nothing) Read(_ context.Context, r plugin.ReadRequest) (plugin.ReadResponse, error) {
	return plugin.ReadResponse{
		ReadResult: plugin.ReadResult{ID: r.ID, Inputs: r.Inputs, Outputs: r.State}, Status: resource.StatusOK,
	}, nil
}

// Update implements plugin.Provider.
func (*nothing) Update(_ context.Context, r plugin.UpdateRequest) (plugin.UpdateResponse, error) {
	return plugin.UpdateResponse{Properties: r.NewInputs, Status: resource.StatusOK}, nil
}

// Delete implements plugin.Provider.
func (*nothing) Delete(context.Context, plugin.DeleteRequest) (plugin.DeleteResponse, error) {
	return plugin.DeleteResponse{Status: resource.StatusOK}, nil
}

// Invoke implements plugin.Provider.
func (*nothing) Invoke(context.Context, plugin.InvokeRequest) (plugin.InvokeResponse, error) {
	return plugin.InvokeResponse{Properties: resource.PropertyMap{}}, nil
}

// SignalCancellation implements plugin.Provider.
func (*nothing) SignalCancellation(context.Context) error { return nil }

// Close implements plugin.Provider.
func (*nothing) Close() error { return nil }

// Attach implements plugin.Provider: the engine is told the port of this plugin and did not start it.
func (*nothing) Attach(string) error { return nil }

// GetPluginInfo implements plugin.Provider.
func (*nothing) GetPluginInfo(context.Context) (plugin.PluginInfo, error) {
	return plugin.PluginInfo{Version: &semver.Version{Major: 1}}, nil
}
