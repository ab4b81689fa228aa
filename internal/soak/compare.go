package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
)

// States are what the state files of a run say.
type States struct {
	// Resources are those of the clouds, of all stacks.
	Resources []Resource
	// Pending are the operations that began and were not recorded as ended, as "creating URN".
	Pending []string
	// Locks are the lock files.
	Locks []string
}

// Resource is a resource in a state.
type Resource struct {
	URN  string `json:"urn"`
	Type string `json:"type"`
	ID   string `json:"id"`
	// Delete tells that it is still to be deleted.
	Delete bool `json:"delete"`
	// InitErrors say why it was not finished.
	InitErrors []string `json:"initErrors"`
}

// ReadStates reads the files of a Pulumi file backend.
func ReadStates(backend string) (States, error) {
	var states States
	root := filepath.Join(backend, ".pulumi")
	err := filepath.WalkDir(filepath.Join(root, "locks"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			relative, _ := filepath.Rel(root, path) // it stands below
			states.Locks = append(states.Locks, relative)
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return states, errors.Wrap(err, "look for locks")
	}
	err = filepath.WalkDir(filepath.Join(root, "stacks"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".json" {
			return ignoreMissing(err)
		}
		return states.read(path)
	})
	return states, errors.Wrap(err, "read the states")
}

// ignoreMissing passes over what is not there: a stack, with its files, may have been removed.
func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func (s *States) read(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Checkpoint struct {
			Latest struct {
				Resources  []Resource `json:"resources"`
				Operations []struct {
					Resource Resource `json:"resource"`
					Type     string   `json:"type"`
				} `json:"pending_operations"`
			} `json:"latest"`
		} `json:"checkpoint"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return errors.Wrapf(err, "decode %s", path)
	}
	for _, resource := range file.Checkpoint.Latest.Resources {
		if strings.HasPrefix(resource.Type, "civo:") || strings.HasPrefix(resource.Type, "digitalocean:") {
			s.Resources = append(s.Resources, resource)
		}
	}
	for _, operation := range file.Checkpoint.Latest.Operations {
		s.Pending = append(s.Pending, operation.Type+" "+operation.Resource.URN)
	}
	return nil
}

// Problems compares the clouds with the manifests, and the states with the clouds. Nothing is lost and nothing left behind when there
// are none.
func Problems(manifests []proto.Message, clouds Clouds, states States) []string {
	found := clouds.found()
	problems := compareClouds(declared(manifests), found)
	for _, other := range clouds.Other {
		problems = append(problems, "nobody declared the "+other)
	}
	problems = append(problems, compareStates(found, states)...)
	for _, lock := range states.Locks {
		problems = append(problems, "a lock is left: "+lock)
	}
	for _, operation := range states.Pending {
		problems = append(problems, "an operation is pending: "+operation)
	}
	return problems
}

// compareClouds tells where the clouds are not what the manifests say.
func compareClouds(wanted, found []object) []string {
	var problems []string
	byKey := map[string][]object{}
	for _, is := range found {
		byKey[is.key()] = append(byKey[is.key()], is)
	}
	for _, want := range wanted {
		all := byKey[want.key()]
		delete(byKey, want.key())
		if len(all) != 1 {
			problems = append(problems, fmt.Sprintf("the cloud has %d of %s, want exactly one (%s)", len(all), want.key(), list(ids(all))))
			continue
		}
		if want.Part != all[0].Part {
			problems = append(problems, fmt.Sprintf("%s is a cluster's first pool: %t, want %t", want.key(), all[0].Part, want.Part))
		}
		for _, name := range slices.Sorted(maps.Keys(want.Attributes)) {
			if is := all[0].Attributes[name]; is != want.Attributes[name] {
				problems = append(problems, fmt.Sprintf("%s has %s %q, want %q", want.key(), name, is, want.Attributes[name]))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		problems = append(problems, fmt.Sprintf("the cloud has %s (%s), which nobody declared", key, list(ids(byKey[key]))))
	}
	return problems
}

// compareStates tells where the states are not what the clouds hold.
func compareStates(found []object, states States) []string {
	var problems []string
	inCloud, inState := map[string]int{}, map[string]int{}
	for _, is := range found {
		if !is.Part {
			inCloud[is.Type+" "+is.ID]++
		}
	}
	for _, resource := range states.Resources {
		inState[resource.Type+" "+resource.ID]++
		if resource.Delete {
			problems = append(problems, "the state still has to delete "+resource.URN)
		}
		if len(resource.InitErrors) > 0 {
			problems = append(problems, fmt.Sprintf("the state says that %s was not finished: %q", resource.URN, resource.InitErrors))
		}
	}
	all := maps.Clone(inCloud)
	maps.Copy(all, inState)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if inCloud[key] != inState[key] {
			problems = append(problems, fmt.Sprintf("the cloud has %d of %s, the states have %d", inCloud[key], key, inState[key]))
		}
	}
	return problems
}

func ids(objects []object) []string {
	all := make([]string, len(objects))
	for i, one := range objects {
		all[i] = "id " + one.ID
	}
	return all
}

// Leaks names the files below a folder that have one of the secrets in clear.
func Leaks(directory string, secrets []string) ([]string, error) {
	var leaks []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return ignoreMissing(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return ignoreMissing(err)
		}
		for _, secret := range secrets {
			if secret != "" && bytes.Contains(content, []byte(secret)) {
				relative, _ := filepath.Rel(directory, path) // it stands below
				leaks = append(leaks, fmt.Sprintf("%s has a secret in clear, one that begins with %.8q", relative, secret))
			}
		}
		return nil
	})
	return leaks, errors.Wrap(err, "look for secrets")
}
