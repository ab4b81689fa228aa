package nativeprovider

import (
	"context"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil/rpcerror"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
)

// Create implements plugin.Provider.
func (p *Provider) Create(ctx context.Context, request plugin.CreateRequest) (plugin.CreateResponse, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.CreateResponse{}, err
	}
	inputs := plainMap(request.Properties)
	secrets := secretKeys(request.Properties)
	if request.Preview {
		state := declared.finish(planned(declared.Properties, nil, inputs, func(*Property) bool { return true }), nil, secrets, "")
		return plugin.CreateResponse{Properties: state, Status: resource.StatusOK}, nil
	}
	if containsUnknowns(inputs) {
		return plugin.CreateResponse{}, errors.New("create with values that are not known")
	}

	ctx, op, done := p.operation(ctx, request.URN, request.Timeout, declared.Timeouts.Create)
	defer done()
	if op.Client, err = p.makeClient(ctx); err != nil {
		return plugin.CreateResponse{}, err
	}
	if op.creating, err = p.beginCreate(op, declared, inputs, secrets); err != nil {
		return plugin.CreateResponse{}, errors.Wrap(err, "nothing was created, because it is not known what an earlier run asked for")
	}
	if op.creating != nil && op.creating.entry != nil && op.creating.entry.ID != "" {
		if response, done, err := p.adopt(ctx, op, secrets); done {
			return response, err
		}
	}
	id, state, err := declared.Create(ctx, op, inputs)
	if id == "" {
		if errors.Is(err, errAdopt) {
			response, done, err := p.adopt(ctx, op, secrets)
			if !done && err == nil {
				err = errors.Errorf("%s was found and is gone again: run again", op.creating.entry.Name)
			}
			return response, err
		}
		if err == nil {
			err = errors.New("the cloud returned no id")
		}
		if IsNotFound(err) && op.looking != nil {
			op.goneWith(inputs[declared.Parent])
		}
		return plugin.CreateResponse{}, err
	}
	state = fill(declared.Properties, state, inputs)
	state = declared.finish(state, resource.PropertyMap{metaKey: metaOf(declared)}, secrets, id)
	if err != nil {
		return plugin.CreateResponse{}, notReady(id, state, nil, err)
	}
	return plugin.CreateResponse{ID: resource.ID(id), Properties: state, Status: resource.StatusOK}, nil
}

func metaOf(r *Resource) resource.PropertyValue {
	if r.Meta == "" {
		return resource.NewNullProperty()
	}
	return resource.NewStringProperty(r.Meta)
}

// Read implements plugin.Provider.
func (p *Provider) Read(ctx context.Context, request plugin.ReadRequest) (plugin.ReadResponse, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.ReadResponse{}, err
	}
	fallback := declared.Timeouts.Read
	if fallback == 0 {
		fallback = defaultReadTimeout
	}
	ctx, op, done := p.operation(ctx, request.URN, request.Timeout, fallback)
	defer done()
	if op.Client, err = p.makeClient(ctx); err != nil {
		return plugin.ReadResponse{}, err
	}

	old := plainMap(request.State)
	delete(old, "id")
	if len(old) > 0 { // else an import, which may end before anything is recorded
		if err := p.recorded(declared, request.URN, request.ID, old); err != nil {
			op.Warn(err.Error())
		}
	}
	id, state, err := declared.Read(ctx, op, string(request.ID), old)
	if IsNotFound(err) {
		return plugin.ReadResponse{Status: resource.StatusOK}, nil
	}
	if err != nil && state == nil {
		return plugin.ReadResponse{}, err
	}
	if id == "" {
		id = string(request.ID)
	}
	// What the cloud does not tell keeps its recorded value; without a record it is the default.
	state = fill(declared.Properties, state, old)
	for i := range declared.Properties {
		property := &declared.Properties[i]
		key := resource.PropertyKey(property.Name)
		if _, told := state[key]; !told && property.Default != nil && property.input() {
			state[key] = resource.NewPropertyValue(property.Default)
		}
	}
	var inputs resource.PropertyMap
	if len(plainMap(request.Inputs)) == 0 {
		inputs = importedInputs(declared.Properties, state)
	} else {
		inputs = refreshedInputs(declared.Properties, request.Inputs, state)
	}
	meta := request.State
	if len(meta) == 0 {
		meta = resource.PropertyMap{metaKey: metaOf(declared)}
	}
	outputs := declared.finish(state, meta, secretKeys(request.State), id)
	if err != nil {
		return plugin.ReadResponse{}, notReady(id, outputs, inputs, err)
	}
	return plugin.ReadResponse{
		ReadResult: plugin.ReadResult{ID: resource.ID(id), Inputs: inputs, Outputs: outputs},
		Status:     resource.StatusOK,
	}, nil
}

// Update implements plugin.Provider.
func (p *Provider) Update(ctx context.Context, request plugin.UpdateRequest) (plugin.UpdateResponse, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.UpdateResponse{}, err
	}
	wanted, err := ignoreChanges(request.OldOutputs, request.NewInputs, request.IgnoreChanges)
	if err != nil {
		return plugin.UpdateResponse{}, err
	}
	inputs, old := plainMap(wanted), plainMap(request.OldOutputs)
	delete(old, "id")
	secrets := secretKeys(request.OldOutputs)
	for key := range secretKeys(request.NewInputs) {
		secrets[key] = true
	}
	id := string(request.ID)

	diff := declared.Compare(id, old, inputs)
	if diff.refusal != nil {
		return plugin.UpdateResponse{}, diff.refusal
	}
	if request.Preview {
		state := planned(declared.Properties, old, inputs, func(property *Property) bool {
			for _, path := range property.ChangesWith {
				if diff.Changed(path) {
					return true
				}
			}
			return false
		})
		return plugin.UpdateResponse{
			Properties: declared.finish(state, request.OldOutputs, secrets, id), Status: resource.StatusOK,
		}, nil
	}
	if containsUnknowns(inputs) {
		return plugin.UpdateResponse{}, errors.New("update with values that are not known")
	}

	ctx, op, done := p.operation(ctx, request.URN, request.Timeout, declared.Timeouts.Update)
	defer done()
	if op.Client, err = p.makeClient(ctx); err != nil {
		return plugin.UpdateResponse{}, err
	}
	if op.looking != nil {
		op.looking(id)
		return plugin.UpdateResponse{Properties: request.OldOutputs, Status: resource.StatusOK}, nil
	}
	if err := p.recorded(declared, request.URN, request.ID, old); err != nil {
		op.Warn(err.Error())
	}
	state, err := declared.Update(ctx, op, id, old, inputs)
	if err != nil && state == nil {
		return plugin.UpdateResponse{}, err
	}
	if err != nil {
		// What was not told was not applied either: the record stays, so that the next plan sees the difference.
		state = declared.finish(fill(declared.Properties, state, old), request.OldOutputs, secrets, id)
		return plugin.UpdateResponse{}, notReady(id, state, nil, err)
	}
	state = declared.finish(fill(declared.Properties, state, inputs), request.OldOutputs, secrets, id)
	return plugin.UpdateResponse{Properties: state, Status: resource.StatusOK}, nil
}

// Delete implements plugin.Provider.
func (p *Provider) Delete(ctx context.Context, request plugin.DeleteRequest) (plugin.DeleteResponse, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.DeleteResponse{}, err
	}
	ctx, op, done := p.operation(ctx, request.URN, request.Timeout, declared.Timeouts.Delete)
	defer done()
	if op.Client, err = p.makeClient(ctx); err != nil {
		return plugin.DeleteResponse{}, err
	}
	if err := declared.Delete(ctx, op, string(request.ID), plainMap(request.Outputs)); err != nil && !IsNotFound(err) {
		return plugin.DeleteResponse{}, err
	}
	if err := p.recorded(declared, request.URN, request.ID, plainMap(request.Outputs)); err != nil {
		op.Warn(err.Error())
	}
	return plugin.DeleteResponse{Status: resource.StatusOK}, nil
}

// notReady is the answer for an object that exists (or was changed) although the operation failed: the engine records the id and the state
// and comes back to it with the next update.
func notReady(id string, state, inputs resource.PropertyMap, cause error) error {
	options := plugin.MarshalOptions{KeepSecrets: true, KeepUnknowns: true}
	properties, err := plugin.MarshalProperties(state, options)
	if err != nil {
		return errors.Wrapf(cause, "object %s exists but its state cannot be recorded (%s)", id, err.Error())
	}
	detail := &pulumirpc.ErrorResourceInitFailed{Id: id, Properties: properties, Reasons: []string{cause.Error()}}
	if inputs != nil {
		if detail.Inputs, err = plugin.MarshalProperties(inputs, options); err != nil {
			return errors.Wrapf(cause, "object %s exists but its inputs cannot be recorded (%s)", id, err.Error())
		}
	}
	return rpcerror.WithDetails(rpcerror.New(codes.Unknown, cause.Error()), detail)
}

// fill completes state with the inputs (or the recorded values) that it does not name. Outputs are not filled: a stale one is worse than none.
func fill(table []Property, state, from resource.PropertyMap) resource.PropertyMap {
	filled := make(resource.PropertyMap, len(state))
	for key, value := range state {
		filled[key] = value
	}
	for i := range table {
		key := resource.PropertyKey(table[i].Name)
		if _, told := filled[key]; told || !table[i].input() {
			continue
		}
		if value, ok := from[key]; ok {
			filled[key] = value
		}
	}
	return filled
}

// finish makes a plain state what the engine records: secrets marked, the id and the bridge's __meta kept. The rest of the bridge's fields
// goes: it describes the exact state that it was written with.
func (r *Resource) finish(
	state, previous resource.PropertyMap, secrets map[resource.PropertyKey]bool, id string,
) resource.PropertyMap {
	finished := markSecrets(r.Properties, state)
	for key := range secrets {
		if value, ok := finished[key]; ok && !value.IsSecret() && !value.IsNull() {
			finished[key] = resource.MakeSecret(value)
		}
	}
	if meta := plainValue(previous[metaKey]); meta.IsString() && meta.StringValue() != "" {
		finished[metaKey] = meta
	}
	if id != "" {
		finished["id"] = resource.NewStringProperty(id)
	}
	return finished
}

// markSecrets wraps the values that the table calls secret, at any depth of objects.
func markSecrets(table []Property, values resource.PropertyMap) resource.PropertyMap {
	marked := make(resource.PropertyMap, len(values))
	for key, value := range values {
		property := find(table, string(key))
		switch {
		case property == nil || value.IsNull():
			marked[key] = value
		case property.Secret:
			marked[key] = resource.MakeSecret(value)
		case property.Type == Object && value.IsObject():
			marked[key] = resource.NewObjectProperty(markSecrets(property.Fields, value.ObjectValue()))
		case (property.Type == List || property.Type == Set) && property.Elem.Type == Object && value.IsArray():
			elements := make([]resource.PropertyValue, len(value.ArrayValue()))
			for i, element := range value.ArrayValue() {
				if element.IsObject() {
					element = resource.NewObjectProperty(markSecrets(property.Elem.Fields, element.ObjectValue()))
				}
				elements[i] = element
			}
			marked[key] = resource.NewArrayProperty(elements)
		default:
			marked[key] = value
		}
	}
	return marked
}

// secretKeys are the keys with a secret anywhere in their value.
func secretKeys(m resource.PropertyMap) map[resource.PropertyKey]bool {
	keys := map[resource.PropertyKey]bool{}
	for key, value := range m {
		if value.ContainsSecrets() && !reserved(key) {
			keys[key] = true
		}
	}
	return keys
}

// planned is the state that a preview expects: the inputs over the old state, and unknown where the cloud will decide. changes tells whether
// an output (or an input left to the cloud) gets a new value.
func planned(
	table []Property, old, inputs resource.PropertyMap, changes func(p *Property) bool,
) resource.PropertyMap {
	state := make(resource.PropertyMap, len(table))
	for i := range table {
		property := &table[i]
		key := resource.PropertyKey(property.Name)
		given, isGiven := inputs[key]
		recorded, isRecorded := old[key]
		switch {
		case property.input() && isGiven && property.Type == Object && given.IsObject():
			state[key] = resource.NewObjectProperty(planned(property.Fields, objectOf(recorded), given.ObjectValue(), changes))
		case property.input() && isGiven:
			state[key] = given
		case property.Output || property.Computed:
			switch {
			case changes(property):
				state[key] = unknown()
			case isRecorded:
				state[key] = recorded
			}
		}
	}
	return state
}

// importedInputs are the inputs of a program that describes the state: everything that an input can say and that is not empty.
func importedInputs(table []Property, state resource.PropertyMap) resource.PropertyMap {
	inputs := resource.PropertyMap{}
	for i := range table {
		property := &table[i]
		key := resource.PropertyKey(property.Name)
		value := plainValue(state[key])
		if !property.input() || property.Deprecated != "" || value.IsNull() {
			continue
		}
		if !property.Required && property.Default == nil && isEmpty(value) {
			continue
		}
		inputs[key] = inputOf(property, value)
	}
	inputs[defaultsKey] = Strings(nil)
	return inputs
}

// inputOf is what a program would write for a recorded value: outputs inside it left out.
func inputOf(p *Property, value resource.PropertyValue) resource.PropertyValue {
	switch {
	case p.Type == Object && value.IsObject():
		return resource.NewObjectProperty(importedInputs(p.Fields, value.ObjectValue()))
	case (p.Type == List || p.Type == Set) && value.IsArray():
		elements := make([]resource.PropertyValue, len(value.ArrayValue()))
		for i, element := range value.ArrayValue() {
			elements[i] = inputOf(p.Elem, element)
		}
		return resource.NewArrayProperty(elements)
	default:
		return value
	}
}

// refreshedInputs are the recorded inputs with the values that the cloud has now. Nothing is added that the program did not give.
func refreshedInputs(table []Property, inputs, state resource.PropertyMap) resource.PropertyMap {
	refreshed := make(resource.PropertyMap, len(inputs))
	for key, input := range inputs {
		refreshed[key] = input
		property := find(table, string(key))
		if property == nil || !property.input() {
			continue
		}
		given, present := plainValue(input), plainValue(state[key])
		if given.ContainsUnknowns() || property.Same(present, given) {
			continue
		}
		value := inputOf(property, present)
		if property.Type == Object && given.IsObject() && present.IsObject() && !input.IsSecret() {
			value = resource.NewObjectProperty(refreshedInputs(property.Fields, input.ObjectValue(), present.ObjectValue()))
		}
		if value.IsNull() {
			delete(refreshed, key)
			continue
		}
		if input.ContainsSecrets() || property.Secret {
			value = resource.MakeSecret(value)
		}
		refreshed[key] = value
	}
	return refreshed
}

// Invoke implements plugin.Provider.
func (p *Provider) Invoke(ctx context.Context, request plugin.InvokeRequest) (plugin.InvokeResponse, error) {
	function, ok := p.spec.Functions[request.Tok]
	if !ok {
		return plugin.InvokeResponse{}, errors.Errorf(
			"the native %s plugin has no function %s; use the official plugin for it", p.spec.Name, request.Tok)
	}
	c := &checker{}
	args := plainMap(c.object(nil, function.Inputs, request.Args, nil))
	if len(c.failures) > 0 {
		return plugin.InvokeResponse{Failures: c.failures}, nil
	}
	if containsUnknowns(args) {
		return plugin.InvokeResponse{}, errors.Errorf("call %s with arguments that are not known yet", request.Tok)
	}
	ctx, op, done := p.operation(ctx, "", 0, defaultReadTimeout)
	defer done()
	if !function.Offline {
		var err error
		if op.Client, err = p.makeClient(ctx); err != nil {
			return plugin.InvokeResponse{}, err
		}
	}
	result, err := function.Invoke(ctx, op, args)
	if err != nil {
		return plugin.InvokeResponse{}, err
	}
	return plugin.InvokeResponse{Properties: markSecrets(function.Outputs, result)}, nil
}
