package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/urn"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// StateResource is a resource as the state of a stack has it, without its properties.
type StateResource struct {
	// Resource is the name of the resource in its module, such as "cluster".
	Resource string `json:"resource"`
	// Type is its type token, such as "civo:index/kubernetesCluster:KubernetesCluster".
	Type string `json:"type"`
	// ID is the cloud's id of it; empty where it has none, as for a resource that is being created.
	ID string `json:"id,omitempty"`
	// URN is the engine's name of it.
	URN string `json:"urn"`
	// Pending is what was begun with it and not ended when the state was written, such as "creating".
	Pending string `json:"pending,omitempty"`
	// Replaced tells that another resource has taken its place, and that it is to be deleted.
	Replaced bool `json:"replaced,omitempty"`
}

// ExportState is the state of a stack as JSON, with its secrets encrypted: what `pulumi stack export` writes. The error is of kind
// NotFound when there is no such stack.
func (e *Engine) ExportState(ctx context.Context, identity stackidentity.Identity) ([]byte, error) {
	return e.exportState(ctx, "export the state of", identity)
}

// exportState is ExportState for an operation that errors are to name.
func (e *Engine) exportState(ctx context.Context, operation string, identity stackidentity.Identity) ([]byte, error) {
	if err := e.options.State.mend(); err != nil {
		return nil, err
	}
	out, err := e.pulumi(ctx, "stack", "export", "--stack", identity.String())
	switch {
	case err != nil && isMissing(err):
		return nil, noStack(operation, identity, err)
	case err != nil:
		return nil, e.failure(ctx, operation, identity, err, nil, nil)
	}
	return []byte(out), nil
}

// StateResources are the resources in the state of a stack, in the order of the state, without the stack itself and its providers.
func (e *Engine) StateResources(ctx context.Context, identity stackidentity.Identity) ([]StateResource, error) {
	text, err := e.ExportState(ctx, identity)
	if err != nil {
		return nil, err
	}
	state, err := readCheckpoint(string(text))
	if err != nil {
		return nil, err
	}
	resources := []StateResource{}
	pending := map[urn.URN]string{}
	for _, operation := range state.PendingOperations {
		pending[operation.Resource.URN] = string(operation.Type)
	}
	add := func(r apitype.ResourceV3) {
		if inCloud(r) {
			resources = append(resources, StateResource{
				Resource: nameOf(string(r.URN)), Type: string(r.Type), ID: string(r.ID), URN: string(r.URN), Pending: pending[r.URN], Replaced: r.Delete,
			})
		}
		delete(pending, r.URN)
	}
	for _, r := range state.Resources {
		add(r)
	}
	for _, operation := range state.PendingOperations {
		if _, left := pending[operation.Resource.URN]; left {
			add(operation.Resource)
		}
	}
	return resources, nil
}

// ImportedState tells what ImportState did.
type ImportedState struct {
	// Backup is the file that has the state from before; empty where there was none.
	Backup string
	// Created tells that there was no such stack.
	Created bool
	// Dropped are the operations that the file says had begun and not ended: the engine takes no such state.
	Dropped []string
}

// ImportState makes a text the state of a stack: what ExportState returned, or a file of Pulumi's file backend, such as one of its
// backups. A stack that does not exist is made. The text is checked first, and the state from before is kept in a file. The error is of
// kind Invalid for a text that is no state of this stack; the state is then as it was.
func (e *Engine) ImportState(ctx context.Context, identity stackidentity.Identity, text []byte) (ImportedState, error) {
	const operation = "import the state of"
	var imported ImportedState
	deployment, err := checkState(identity, text)
	if err != nil {
		return imported, &Error{Kind: Invalid, Stack: identity, Operation: operation, Message: err.Error(), cause: err}
	}
	document, err := readCheckpoint(string(deployment))
	if err != nil {
		return imported, err
	}
	for _, pending := range document.PendingOperations {
		imported.Dropped = append(imported.Dropped, string(pending.Type)+" "+nameOf(string(pending.Resource.URN)))
	}
	if err := e.options.State.mend(); err != nil {
		return imported, err
	}
	if imported.Backup, imported.Created, err = e.backUp(ctx, identity); err != nil {
		return imported, err
	}
	if imported.Created {
		if err := e.makeStack(ctx, operation, identity); err != nil {
			return imported, err
		}
	}
	if err := e.load(ctx, identity, deployment); err != nil {
		if imported.Created { // an empty stack is no better than none
			_, _ = e.pulumi(context.WithoutCancel(ctx), "stack", "rm", "--yes", "--stack", identity.String())
		}
		return imported, err
	}
	return imported, nil
}

// heedChanges takes out of a state that changes of imported resources are ignored: the engine records it, and a refresh would find
// nothing that differs, until the next update.
func (e *Engine) heedChanges(ctx context.Context, identity stackidentity.Identity, ids map[string]string) error {
	text, err := e.ExportState(ctx, identity)
	if err != nil {
		return err
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // numbers stay as they are written
	if err := decoder.Decode(&document); err != nil {
		return errors.Wrap(err, "read the state of the stack")
	}
	deployment, _ := document["deployment"].(map[string]any)
	resources, _ := deployment["resources"].([]any)
	for _, r := range resources {
		fields, _ := r.(map[string]any)
		name, _ := fields["urn"].(string)
		ignored, _ := fields["ignoreChanges"].([]any)
		if ids[nameOf(name)] != "" {
			fields["ignoreChanges"] = slices.DeleteFunc(ignored, func(path any) bool { return path == ignoreAll })
		}
	}
	if text, err = json.Marshal(document); err != nil {
		return errors.Wrap(err, "write the state of the stack")
	}
	return e.load(ctx, identity, text)
}

// load has the engine take a text as the state of a stack. It checks the text before it writes.
func (e *Engine) load(ctx context.Context, identity stackidentity.Identity, text []byte) error {
	const operation = "import the state of"
	directory, err := os.MkdirTemp("", "planton-state-")
	if err != nil {
		return errors.Wrap(err, "create a folder for the state")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	file := filepath.Join(directory, "state.json")
	if err := WritePrivate(file, string(text)); err != nil {
		return err
	}
	take := func() error {
		_, err := e.pulumi(ctx, "stack", "import", "--stack", identity.String(), "--file", file)
		return err
	}
	err = take()
	if _, stale := staleLockOf(err); stale {
		if _, err = e.Unlock(ctx, identity, false); err == nil {
			err = take()
		}
	}
	if err != nil {
		return e.failure(ctx, operation, identity, err, nil, nil)
	}
	return nil
}

// checkState makes the text what `pulumi stack import` takes, and finds out whether it is a state of the stack.
func checkState(identity stackidentity.Identity, text []byte) ([]byte, error) {
	var document struct {
		Version    int             `json:"version"`
		Features   []string        `json:"features,omitempty"`
		Deployment json.RawMessage `json:"deployment"`
	}
	var stored storedCheckpoint
	err := json.Unmarshal(text, &document)
	if err == nil && document.Deployment == nil {
		err = json.Unmarshal(text, &stored)
		if stored.Checkpoint != nil {
			document.Deployment = stored.deployment()
		}
	}
	if err != nil {
		return nil, errors.Wrap(err, "it is no JSON")
	}
	var deployment apitype.DeploymentV3
	if document.Version == 0 || !bytes.HasPrefix(bytes.TrimSpace(document.Deployment), []byte("{")) {
		return nil, errors.New("it is no state of a stack: there is no version, or no deployment in it")
	}
	if err := json.Unmarshal(document.Deployment, &deployment); err != nil {
		return nil, errors.Wrap(err, "it is no state of a stack")
	}
	resources := deployment.Resources
	for _, operation := range deployment.PendingOperations {
		resources = append(resources, operation.Resource)
	}
	for _, r := range resources {
		if !r.URN.IsValid() {
			return nil, errors.Errorf("it has a resource without a proper URN: %q", r.URN)
		}
		if string(r.URN.Stack()) != identity.Stack || string(r.URN.Project()) != identity.Project {
			return nil, errors.Errorf("it is the state of another stack: %s/%s", r.URN.Project(), r.URN.Stack())
		}
	}
	encoded, err := json.Marshal(document)
	return encoded, errors.Wrap(err, "write the state")
}

// backUp writes the state of a stack to a file that only its owner can read, and tells where it is, or that there is no such stack. One
// that is damaged is kept as it is.
func (e *Engine) backUp(ctx context.Context, identity stackidentity.Identity) (file string, missing bool, err error) {
	var text []byte
	if stored, found := e.storedFile(identity); found {
		if text, err = os.ReadFile(stored); err != nil {
			return "", false, errors.Wrap(err, "back up the state")
		}
	} else if text, err = e.ExportState(ctx, identity); KindOf(err) == NotFound {
		return "", true, nil
	} else if err != nil {
		return "", false, err
	}
	directory := e.options.State.backups
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", false, onDisk(err, "create the folder of backups")
	}
	name := url.PathEscape(identity.String()) + "." + time.Now().UTC().Format("20060102T150405.000000000Z") + ".json"
	file = filepath.Join(directory, name)
	return file, false, WritePrivate(file, string(text))
}

// storedFile is the file of a stack in a backend of plain files.
func (e *Engine) storedFile(identity stackidentity.Identity) (string, bool) {
	directory, ok := e.options.State.folder()
	if !ok {
		return "", false
	}
	file := stackFile(directory, identity)
	_, err := os.Stat(file)
	return file, err == nil
}

// Backups are the files in which the engine keeps earlier states of a stack, the newest first; those that cannot be read are left out.
// Only backends in files have them.
func (e *Engine) Backups(identity stackidentity.Identity) []string {
	directory, ok := e.options.State.folder()
	if !ok {
		return nil
	}
	files, err := fs.Glob(os.DirFS(directory), path.Join(backupFolder, identity.Project, identity.Stack, "*.json"))
	if err != nil {
		return nil
	}
	slices.Sort(files) // by the time in their names
	slices.Reverse(files)
	// From before the last write, perhaps in the middle of an operation.
	files = append(files, path.Join(stackFolder, identity.Project, identity.Stack+".json.bak"))
	var backups []string
	for _, name := range files {
		file := filepath.Join(directory, filepath.FromSlash(name))
		if stored, err := readStored(file); err == nil && len(stored.deployment()) > 0 {
			backups = append(backups, file)
		}
	}
	return backups
}

// String says what was imported.
func (i ImportedState) String() string {
	text := "imported"
	if i.Backup != "" {
		text += fmt.Sprintf("; the state from before is in %s", i.Backup)
	}
	if len(i.Dropped) > 0 {
		text += "; left out, because it had begun and not ended: " + strings.Join(i.Dropped, ", ")
	}
	return text
}
