package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// pocketEngine is as much of an engine as it takes to run a module with its real plugin: resources in the order of their
// registration, and no state but this.
type pocketEngine struct {
	t         *testing.T
	plugin    *nativeprovider.Provider
	resources []*pocketResource
}

type pocketResource struct {
	urn             resource.URN
	kind            tokens.Type
	id              resource.ID
	inputs, outputs resource.PropertyMap
}

func (e *pocketEngine) up(clouds *clouds, text string) {
	e.t.Helper()
	manifests, err := manifest.Parse("bench.yaml", []byte(text))
	if err != nil {
		e.t.Fatal(err)
	}
	input, err := provision.NewStackInput(manifests[0].Target, configs(clouds.civoURL, clouds.digitaloceanURL))
	if err != nil {
		e.t.Fatal(err)
	}
	err = pulumi.RunErr(func(ctx *pulumi.Context) error { return modules.Resources(ctx, input) },
		pulumi.WithMocksWithOrganization("organization", "project", "stack", e))
	if err != nil {
		e.t.Fatal(err)
	}
}

// NewResource implements pulumi.MockResourceMonitor.
func (e *pocketEngine) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	ctx := context.Background()
	if strings.HasPrefix(args.TypeToken, "pulumi:providers:") {
		checked, err := e.plugin.CheckConfig(ctx, plugin.CheckConfigRequest{News: args.Inputs})
		if err != nil {
			return "", nil, err
		}
		_, err = e.plugin.Configure(ctx, plugin.ConfigureRequest{Inputs: checked.Properties})
		return "provider-id", args.Inputs, err
	}
	if !args.Custom {
		return "", args.Inputs, nil
	}
	kind := tokens.Type(args.TypeToken)
	urn := resource.NewURN("stack", "project", "", kind, args.Name)
	i := slices.IndexFunc(e.resources, func(r *pocketResource) bool { return r.urn == urn })
	before := &pocketResource{urn: urn, kind: kind}
	if i >= 0 {
		before = e.resources[i]
	}
	checked, err := e.plugin.Check(ctx, plugin.CheckRequest{URN: urn, Type: kind, Olds: before.inputs, News: args.Inputs})
	if err == nil && len(checked.Failures) > 0 {
		err = errors.New(checked.Failures[0].Reason)
	}
	if err != nil {
		return "", nil, err
	}
	if i < 0 {
		created, err := e.plugin.Create(ctx, plugin.CreateRequest{URN: urn, Type: kind, Properties: checked.Properties})
		if err != nil {
			return "", nil, err
		}
		before.id, before.inputs, before.outputs = created.ID, checked.Properties, created.Properties
		e.resources = append(e.resources, before)
		return string(before.id), before.outputs, nil
	}
	diff, err := e.plugin.Diff(ctx, plugin.DiffRequest{
		URN: urn, Type: kind, ID: before.id, OldInputs: before.inputs, OldOutputs: before.outputs, NewInputs: checked.Properties,
	})
	switch {
	case err != nil:
		return "", nil, err
	case len(diff.ReplaceKeys) > 0:
		return "", nil, fmt.Errorf("%s would be replaced for %v", urn, diff.ReplaceKeys)
	case diff.Changes == plugin.DiffSome:
		updated, err := e.plugin.Update(ctx, plugin.UpdateRequest{
			URN: urn, Type: kind, ID: before.id, OldInputs: before.inputs, OldOutputs: before.outputs, NewInputs: checked.Properties,
		})
		if err != nil {
			return "", nil, err
		}
		before.outputs = updated.Properties
	}
	before.inputs = checked.Properties
	return string(before.id), before.outputs, nil
}

// Call implements pulumi.MockResourceMonitor.
func (e *pocketEngine) Call(args pulumi.MockCallArgs) (resource.PropertyMap, error) {
	answer, err := e.plugin.Invoke(context.Background(), plugin.InvokeRequest{Tok: tokens.ModuleMember(args.Token), Args: args.Args})
	if err == nil && len(answer.Failures) > 0 {
		err = errors.New(answer.Failures[0].Reason)
	}
	return answer.Properties, err
}

func (e *pocketEngine) refresh() {
	e.t.Helper()
	for _, r := range e.resources {
		read, err := e.plugin.Read(context.Background(), plugin.ReadRequest{
			URN: r.urn, Type: r.kind, ID: r.id, Inputs: r.inputs, State: r.outputs,
		})
		if err != nil || read.ID != r.id {
			e.t.Fatalf("read %s %s: %v, %v", r.urn, r.id, read.ID, err)
		}
		r.inputs, r.outputs = read.Inputs, read.Outputs
	}
}

func (e *pocketEngine) destroy() {
	e.t.Helper()
	for _, r := range slices.Backward(e.resources) {
		_, err := e.plugin.Delete(context.Background(), plugin.DeleteRequest{
			URN: r.urn, Type: r.kind, ID: r.id, Inputs: r.inputs, Outputs: r.outputs,
		})
		if err != nil {
			e.t.Fatalf("delete %s: %v", r.urn, err)
		}
	}
}

// Every request counts against the limits of an account, and costs a round trip. This fails when an operation makes another number of
// them than the table says; one that makes fewer is welcome there, one that makes more needs a reason.
func TestRequestsOfEachKind(t *testing.T) {
	t.Parallel()
	for _, life := range lives() {
		t.Run(life.kind, func(t *testing.T) {
			t.Parallel()
			clouds, err := startClouds()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = clouds.close() })
			kind, ok := kinds.ByName(life.kind)
			if !ok {
				t.Fatalf("there is no kind %s", life.kind)
			}
			native, err := nativePlugin(kind.Provider)
			if err != nil {
				t.Fatal(err)
			}
			engine := &pocketEngine{t: t, plugin: native}
			text, err := life.prepare(clouds)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range life.stages {
				if text, err = stage.apply(text); err != nil {
					t.Fatal(err)
				}
				clouds.forget()
				switch stage.operation {
				case operationUp:
					engine.up(clouds, text)
				case operationRefresh:
					engine.refresh()
				case operationDestroy:
					engine.destroy()
				}
				requests := clouds.requests()
				if diff := cmp.Diff(stage.requests, len(requests)); diff != "" {
					t.Errorf("%s: requests: -want +got:\n%s%s", stage.name, diff, summary(requests))
				}
				if stage.requests < stage.fewest || stage.why == "" {
					t.Errorf("%s: %d requests are fewer than the fewest, %d (%s)", stage.name, stage.requests, stage.fewest, stage.why)
				}
			}
		})
	}
}

// Each way to read manifests reads all of them.
func TestReadings(t *testing.T) {
	t.Parallel()
	ways, err := readings(perFile + 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range ways {
		if _, err := way.read(); err != nil {
			t.Errorf("%s: %v", way.name, err)
		}
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	if got := (samples{3, 1, 2}).text("%.0f"); got != "2 (1-3)" {
		t.Errorf("got %q", got)
	}
}
