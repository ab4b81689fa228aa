package provision

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Deployed is what the state of a stack says of its resource. It is read without a cloud, and without the key of the secrets.
type Deployed struct {
	// Identity names the stack.
	Identity stackidentity.Identity
	// Kind is the kind of the resource.
	Kind kinds.Kind
	// Org, Env and Name are those of the manifest as the stack's name has them: lowered, see package stackidentity.
	Org, Env, Name string
	// Status is the cloud's own word from when the state was written last, where the kind has one; else StatusApplied. It is
	// StatusInterrupted where a run ended in the middle, StatusEmpty where nothing was made, and
	// StatusDamaged where the state cannot be read: AllStacks tells why.
	Status string
	// Created is when the resource was made; zero when that is not known.
	Created time.Time
	// Outputs are the outputs of the stack, without the values of secrets.
	Outputs Outputs
	// Drift is what the last refresh found.
	Drift Drift
}

// Words for the status of a resource, beside those of the clouds.
const (
	StatusApplied     = "applied"
	StatusInterrupted = "interrupted"
	StatusEmpty       = "empty"
	StatusDamaged     = "damaged"
)

// Drift is how the cloud differed from the state when somebody looked last.
type Drift struct {
	// Known is false when nobody looked since the last apply, or when the backend does not tell.
	Known bool
	// Changed counts the resources that differed. The state says since then what the cloud said.
	Changed int
	// Time is when somebody looked.
	Time time.Time
}

// String returns "none", "2 changed" or "unknown".
func (d Drift) String() string {
	switch {
	case !d.Known:
		return "unknown"
	case d.Changed == 0:
		return "none"
	default:
		return strconv.Itoa(d.Changed) + " changed"
	}
}

// readers is how many states are read at a time where each is a process.
const readers = 4

// Deployed are the resources that stacks of the backend hold, in the order of their stacks. Only stacks whose project is that of a kind
// are looked at. It needs no engine where states are files; elsewhere the CLI exports each state, a few at a time.
func (e *Engine) Deployed(ctx context.Context) ([]Deployed, error) {
	if all, ok, err := e.options.State.Deployed(); ok {
		return all, err
	}
	stacks, err := e.listedStacks(ctx)
	if err != nil {
		return nil, err
	}
	return exported(ctx, stacks, func(identity stackidentity.Identity) (apitype.DeploymentV3, error) {
		text, err := e.ExportState(ctx, identity)
		if err != nil {
			return apitype.DeploymentV3{}, err
		}
		state, err := readCheckpoint(string(text))
		if err != nil {
			return apitype.DeploymentV3{}, errors.Wrapf(err, "stack %s", identity)
		}
		return state.DeploymentV3, nil
	})
}

// exported reads the states of the stacks of kinds.
func exported(
	ctx context.Context, stacks []StackSummary, read func(stackidentity.Identity) (apitype.DeploymentV3, error),
) ([]Deployed, error) {
	var all []Deployed
	for _, stack := range stacks {
		if kind, ok := kinds.ByName(stack.Identity.Project); ok {
			all = append(all, Deployed{Kind: kind, Identity: stack.Identity})
		}
	}
	failures := make([]error, len(all))
	free := make(chan struct{}, readers)
	var running sync.WaitGroup
	for i := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			if failures[i] = ctx.Err(); failures[i] != nil {
				return
			}
			var deployment apitype.DeploymentV3
			if deployment, failures[i] = read(all[i].Identity); failures[i] == nil {
				all[i].fill(deployment)
			}
		})
	}
	running.Wait()
	sortDeployed(all)
	return all, firstError(failures...)
}

// Deployed are the resources that stacks hold, where states are files: ok is false where they are not, and an Engine has to look.
func (s *State) Deployed() (all []Deployed, ok bool, err error) {
	directory, ok := s.folder()
	if !ok {
		return nil, false, nil
	}
	all, err = deployedFiles(directory)
	return all, true, err
}

// deployedFiles reads the files of Pulumi's file backend.
func deployedFiles(directory string) ([]Deployed, error) {
	stacks, err := storedStacks(directory)
	if err != nil {
		return nil, err
	}
	var all []Deployed
	for _, stack := range stacks {
		kind, ok := kinds.ByName(stack.identity.Project)
		if !ok {
			continue
		}
		d := Deployed{Kind: kind, Identity: stack.identity}
		deployment, err := readDeployment(stack.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was destroyed while we looked
		}
		d.fill(deployment)
		if err != nil {
			d.Status = StatusDamaged
		}
		d.Drift = driftIn(filepath.Join(directory, historyFolder, stack.identity.Project, stack.identity.Stack))
		all = append(all, d)
	}
	sortDeployed(all)
	return all, nil
}

// historyFolder is where Pulumi's file backend notes each operation.
const historyFolder = ".pulumi/history"

// driftIn is what the history of a stack in files says of its last operation, where that was a refresh. Nothing is known where there is
// no history, or none that can be read.
func driftIn(directory string) Drift {
	files, err := os.ReadDir(directory)
	if err != nil {
		return Drift{}
	}
	for _, file := range slices.Backward(files) { // their names end in the time
		if !strings.HasSuffix(strings.TrimSuffix(file.Name(), ".gz"), ".history.json") {
			continue
		}
		var last struct {
			Kind            apitype.UpdateKind     `json:"kind"`
			Result          apitype.UpdateResult   `json:"result"`
			EndTime         int64                  `json:"endTime"`
			ResourceChanges map[apitype.OpType]int `json:"resourceChanges"`
		}
		content, err := os.ReadFile(filepath.Join(directory, file.Name()))
		if err == nil && strings.HasSuffix(file.Name(), ".gz") {
			content, err = unzipped(content)
		}
		if err == nil {
			err = json.Unmarshal(content, &last)
		}
		if err != nil || last.Kind != apitype.RefreshUpdate || last.Result != apitype.SucceededResult {
			return Drift{}
		}
		drift := Drift{Known: true, Time: time.Unix(last.EndTime, 0).UTC()}
		for op, count := range last.ResourceChanges {
			if op != apitype.OpSame {
				drift.Changed += count
			}
		}
		return drift
	}
	return Drift{}
}

// fill reads a state. Values of secrets in it are encrypted, and stay so.
func (d *Deployed) fill(deployment apitype.DeploymentV3) {
	d.Org, d.Env, d.Name = stackidentity.Split(d.Identity.Stack)
	d.Outputs, d.Status = Outputs{}, StatusEmpty
	for _, resource := range deployment.Resources {
		if resource.Type == "pulumi:pulumi:Stack" {
			d.Outputs = outputsOf(resource.Outputs)
			continue
		}
		if !inCloud(resource) {
			continue
		}
		d.Status = StatusApplied
		if resource.Created != nil && (d.Created.IsZero() || resource.Created.Before(d.Created)) {
			d.Created = *resource.Created
		}
	}
	if text, _ := d.Outputs["created_at_rfc3339"].Value.(string); text != "" {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			d.Created = at
		}
	}
	status, _ := d.Outputs["status"].Value.(string)
	switch {
	case len(deployment.PendingOperations) > 0:
		d.Status = StatusInterrupted
	case d.Status == StatusApplied && status != "":
		d.Status = status
	}
}

func sortDeployed(all []Deployed) {
	slices.SortFunc(all, func(a, b Deployed) int { return strings.Compare(a.Identity.String(), b.Identity.String()) })
}

// Uses tells for each of several deployed resources the indices of those that it uses, in the order of the fields of its kind. The state
// does not hold the manifest, so this is what the cloud told: a field of a kind takes an output of another kind by default, such as a
// cluster the network_id of a network, and both have an output of that name with the same id.
func Uses(all []Deployed) [][]int {
	type id struct{ kind, output, value string }
	owners := map[id]int{}
	text := func(d Deployed, output string) string {
		value, _ := d.Outputs[output].Value.(string)
		return value
	}
	for i, d := range all {
		for _, output := range d.Kind.OutputFields() {
			owners[id{d.Kind.Name, output, text(d, output)}] = i
		}
	}
	uses := make([][]int, len(all))
	for i, d := range all {
		for _, takes := range foreignkey.Defaults(d.Kind) {
			value := text(d, takes.OutputKey)
			owner, ok := owners[id{takes.Kind.Name, takes.OutputKey, value}]
			if value != "" && ok && owner != i && !slices.Contains(uses[i], owner) {
				uses[i] = append(uses[i], owner)
			}
		}
	}
	return uses
}
