package provision

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// StackSummary is what the backend tells of a stack without an operation on it.
type StackSummary struct {
	// Identity is the stack.
	Identity stackidentity.Identity
	// Resources count what stands in the cloud. Backends that are not in files count the stack and its providers too.
	Resources int
	// Pending count the operations that had begun and not ended when the state was written.
	Pending int
	// LastUpdate is when the state was written last, zero when it never was.
	LastUpdate time.Time
	// Locks are the locks on it. Backends that are not in files do not tell.
	Locks []Lock
	// Damage says why the state cannot be read; empty when it can.
	Damage string
}

// AllStacks are the stacks of the backend in the order of their names. One whose state is damaged is among them. So is one that has a
// lock and no state: whoever made it was killed.
func (e *Engine) AllStacks(ctx context.Context) ([]StackSummary, error) {
	directory, ok := e.options.State.folder()
	var stacks []StackSummary
	var err error
	if ok {
		stacks, err = stacksIn(directory)
	} else {
		stacks, err = e.listedStacks(ctx)
	}
	slices.SortFunc(stacks, func(a, b StackSummary) int { return strings.Compare(a.Identity.String(), b.Identity.String()) })
	return stacks, err
}

// The places of Pulumi's file backend.
const (
	stackFolder  = ".pulumi/stacks"
	backupFolder = ".pulumi/backups"
	metaFile     = ".pulumi/meta.yaml"
)

// stacksIn reads the states in a folder. The Pulumi CLI could list them too, but not when one of them is damaged, nor their locks.
func stacksIn(directory string) ([]StackSummary, error) {
	if _, err := os.Stat(directory); err != nil {
		return nil, errors.Wrap(err, "open the backend's folder")
	}
	stored, err := storedStacks(directory)
	if err != nil {
		return nil, err
	}
	var stacks []StackSummary
	found := map[stackidentity.Identity]bool{}
	for _, stack := range stored {
		summary := summaryOf(stack.file)
		summary.Identity = stack.identity
		stacks = append(stacks, summary)
		found[stack.identity] = true
	}
	locked, err := lockedIn(directory)
	if err != nil {
		return nil, err
	}
	for _, identity := range locked {
		if !found[identity] {
			stacks = append(stacks, StackSummary{Identity: identity})
		}
	}
	for i := range stacks {
		if stacks[i].Locks, err = locksIn(directory, stacks[i].Identity); err != nil {
			return nil, err
		}
	}
	return stacks, nil
}

// lockedIn are the stacks that have locks in a folder, each once.
func lockedIn(directory string) ([]stackidentity.Identity, error) {
	files, err := fs.Glob(os.DirFS(directory), path.Join(lockFolder, "*", "*", "*", "*.json"))
	if err != nil {
		return nil, errors.Wrap(err, "look for locks")
	}
	var locked []stackidentity.Identity
	for _, name := range files {
		parts := strings.Split(path.Dir(name), "/")
		parts = parts[len(parts)-3:]
		identity := stackidentity.Identity{Organization: parts[0], Project: parts[1], Stack: parts[2]}
		if !slices.Contains(locked, identity) {
			locked = append(locked, identity)
		}
	}
	return locked, nil
}

// storedStack is a stack whose state is a file.
type storedStack struct {
	identity stackidentity.Identity
	file     string
}

// storedStacks are the stacks that have a state in a folder.
func storedStacks(directory string) ([]storedStack, error) {
	var stacks []storedStack
	found := map[stackidentity.Identity]bool{}
	for _, extension := range []string{".json", ".json.gz"} {
		files, err := fs.Glob(os.DirFS(directory), path.Join(stackFolder, "*", "*"+extension))
		if err != nil {
			return nil, errors.Wrap(err, "look through the backend's folder")
		}
		for _, name := range files {
			identity := stackidentity.Identity{
				Organization: "organization", Project: path.Base(path.Dir(name)), Stack: strings.TrimSuffix(path.Base(name), extension),
			}
			if !found[identity] {
				stacks = append(stacks, storedStack{identity: identity, file: filepath.Join(directory, filepath.FromSlash(name))})
			}
			found[identity] = true
		}
	}
	return stacks, nil
}

// storedCheckpoint is a state as Pulumi's file backend keeps it.
type storedCheckpoint struct {
	Version    int      `json:"version"`
	Features   []string `json:"features"`
	Checkpoint *struct {
		Latest json.RawMessage `json:"latest"`
	} `json:"checkpoint"`
}

// deployment is what stands in the cloud; empty for a stack that nothing was ever done with.
func (c *storedCheckpoint) deployment() json.RawMessage { return c.Checkpoint.Latest }

// stackFile is the file of a stack in a folder of Pulumi's file backend, as long as it is not compressed.
func stackFile(directory string, identity stackidentity.Identity) string {
	return filepath.Join(directory, filepath.FromSlash(stackFolder), identity.Project, identity.Stack+".json")
}

// readStored reads a file of Pulumi's file backend.
func readStored(file string) (*storedCheckpoint, error) {
	content, err := os.ReadFile(file)
	if err == nil && strings.HasSuffix(file, ".gz") {
		content, err = unzipped(content)
	}
	stored := &storedCheckpoint{}
	if err == nil {
		err = json.Unmarshal(content, stored)
	}
	if err == nil && stored.Checkpoint == nil {
		err = errors.New("there is no checkpoint in it")
	}
	if err != nil {
		return nil, errors.Wrap(err, "read "+file)
	}
	return stored, nil
}

// readDeployment reads what a file of Pulumi's file backend says of the cloud.
func readDeployment(file string) (deployment apitype.DeploymentV3, err error) {
	stored, err := readStored(file)
	if err == nil && len(stored.deployment()) > 0 {
		err = errors.Wrap(json.Unmarshal(stored.deployment(), &deployment), "read "+file)
	}
	return deployment, err
}

func unzipped(content []byte) ([]byte, error) {
	reader, err := gzip.NewReader(strings.NewReader(string(content)))
	if err != nil {
		return nil, errors.Wrap(err, "uncompress it")
	}
	content, err = io.ReadAll(reader)
	return content, errors.Wrap(err, "uncompress it")
}

func summaryOf(file string) StackSummary {
	deployment, err := readDeployment(file)
	if err != nil {
		return StackSummary{Damage: err.Error()}
	}
	summary := StackSummary{Pending: len(deployment.PendingOperations), LastUpdate: deployment.Manifest.Time}
	for _, r := range deployment.Resources {
		if inCloud(r) {
			summary.Resources++
		}
	}
	return summary
}

// inCloud tells whether a resource of a state is an object in the cloud, and not the stack or a provider.
func inCloud(r apitype.ResourceV3) bool {
	return r.Custom && !strings.HasPrefix(string(r.Type), "pulumi:")
}

// listedStacks are the stacks that the Pulumi CLI lists.
func (e *Engine) listedStacks(ctx context.Context) ([]StackSummary, error) {
	out, err := e.pulumi(ctx, "stack", "ls", "--all", "--json")
	if err != nil {
		return nil, e.backendFailure(ctx, "list the stacks", err)
	}
	var listed []struct {
		Name          string    `json:"name"`
		LastUpdate    time.Time `json:"lastUpdate"`
		ResourceCount int       `json:"resourceCount"`
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		return nil, errors.Wrap(err, "read the list of stacks")
	}
	var stacks []StackSummary
	for _, stack := range listed {
		parts := strings.Split(stack.Name, "/")
		if len(parts) < 3 {
			parts = append([]string{"organization"}, parts...) // Pulumi Cloud leaves the user's own out
		}
		if len(parts) != 3 {
			continue // of a backend that knows no projects: none of ours
		}
		stacks = append(stacks, StackSummary{
			Identity:  stackidentity.Identity{Organization: parts[0], Project: parts[1], Stack: parts[2]},
			Resources: stack.ResourceCount, LastUpdate: stack.LastUpdate,
		})
	}
	return stacks, nil
}

// backendFailure is the error of something that was asked of the backend and is about no stack.
func (e *Engine) backendFailure(ctx context.Context, operation string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := e.secrets.redact(cliWords(err.Error()))
	return &Error{Kind: kindOfText(text), Operation: operation, Message: text, cause: err}
}

// StackNames are the stacks whose states are in files, by the names of the files alone: of the backend of PULUMI_BACKEND_URL, else under
// the directory, as OpenState has it; with local set, as OpenLocalState has it. It creates nothing and reads no state, so that a shell can
// ask for it at each press of a key. Of other backends, and where nothing can be read, there are none.
func StackNames(directory string, getenv func(string) string, local bool) []stackidentity.Identity {
	folder := filepath.Join(directory, "backend")
	if backend := getenv(environmentBackend); backend != "" && !local {
		if folder = folderOf(backend); folder == "" {
			return nil
		}
	}
	files, _ := fs.Glob(os.DirFS(folder), path.Join(stackFolder, "*", "*.json*"))
	var names []stackidentity.Identity
	for _, name := range files {
		stack, ok := strings.CutSuffix(strings.TrimSuffix(path.Base(name), ".gz"), ".json")
		if !ok {
			continue // a backup, or attributes
		}
		names = append(names, stackidentity.Identity{Organization: "organization", Project: path.Base(path.Dir(name)), Stack: stack})
	}
	return names
}
