// Package journal remembers which objects a provider plugin has asked a cloud for, so that a create whose process was killed is gone on
// with by the next one, and not repeated.
//
// A [Journal] is a folder, or other [Files], with one small file an [Entry]. A plugin writes the entry before it sends the request that creates, and adds the
// id as soon as the cloud has told it. The entry stays until the resource is seen with that id as recorded state: until then the engine may
// have lost it. docs/reliability.md tells what an entry proves.
//
// Others look up what became of a create with [Journal.ID]:
//
//	id, found, err := journal.Open(directory).ID(urn)
//	switch {
//	case err != nil:      // the journal cannot be read
//	case !found:          // nothing was asked for, or it is recorded: a pending create of the engine can be cleared
//	case id == "":        // asked for, and the answer was never learned: only the resource's Create can find out
//	default:              // it exists or existed under this id, in the form that an import takes
//	}
//
// An entry holds no secret: no token, and of what was asked for a hash, and those values by which the object is known again.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Entry is one create that was asked for.
type Entry struct {
	// URN of the resource.
	URN string `json:"urn"`
	// Endpoint is the address of the API, without user and query.
	Endpoint string `json:"endpoint"`
	// Scope tells users of one folder apart, for example their Pulumi backends, because a URN does not name those.
	Scope string `json:"scope,omitempty"`
	// Kind of the object, in words: "kubernetes cluster".
	Kind string `json:"kind"`
	// Name that the object was asked for by.
	Name string `json:"name"`
	// Parent is what the name is unique in: a region, the id of a cluster; "" for the account.
	Parent string `json:"parent,omitempty"`
	// AskedAt and LastAskedAt are when the object was asked for first and last, by the cloud's own clock. Zero when the cloud told no time.
	AskedAt     time.Time `json:"asked_at,omitzero"`
	LastAskedAt time.Time `json:"last_asked_at,omitzero"`
	// Attributes are the values that were asked for and that the object has from then on, by the path of the input ("pools.size"): nil for
	// one that was left to the cloud. A value that is a secret is not among them.
	Attributes map[string]any `json:"attributes,omitempty"`
	// Request is a hash of the request, see [Hash].
	Request string `json:"request,omitempty"`
	// ID of the object; "" until the cloud has told it.
	ID string `json:"id,omitempty"`
	// ImportID is the id in the form that an import takes, "" when that is ID.
	ImportID string `json:"import_id,omitempty"`
}

// Key says which entry is meant: a resource has one at each endpoint.
type Key struct{ URN, Endpoint, Scope string }

// Key is the key of the entry.
func (e *Entry) Key() Key { return Key{URN: e.URN, Endpoint: e.Endpoint, Scope: e.Scope} }

// ErrDamaged is in the chain of an error about an entry that cannot be understood: it proves nothing.
var ErrDamaged = errors.New("damaged entry")

const (
	// format is the version of the files.
	format = 1
	suffix = ".json"
	// longest is far more than an entry has.
	longest = 1 << 20
)

// file is an entry as it is written.
type file struct {
	Version int `json:"version"`
	Entry
}

// Journal keeps entries. Several processes may use it at once, each for resources of its own.
type Journal struct{ files Files }

// Open is the journal in a folder. The folder is made by the first [Journal.Write].
func Open(directory string) *Journal { return On(folder(directory)) }

// On is the journal in files of any kind.
func On(files Files) *Journal { return &Journal{files: files} }

// String says where the journal is: of one in a folder, the folder.
func (j *Journal) String() string { return j.files.String() }

// ID tells what became of a create: the id of its object, in the form that an import takes. found tells whether there is an entry; with an
// empty id the answer of the cloud was never learned. Entries of several endpoints or scopes are an error, for they are several objects.
func (j *Journal) ID(urn string) (id string, found bool, err error) {
	entries, err := j.Entries(urn)
	if err != nil || len(entries) == 0 {
		return "", false, err
	}
	if len(entries) > 1 {
		return "", true, errors.Errorf("%s was asked for at %d places; look at %s", urn, len(entries), j)
	}
	if entries[0].ImportID != "" {
		return entries[0].ImportID, true, nil
	}
	return entries[0].ID, true, nil
}

// Entries are all entries of a resource, at whatever endpoint. ErrDamaged is in the chain of the error about one that cannot be understood.
func (j *Journal) Entries(urn string) ([]Entry, error) {
	files, err := j.files.Read(hash(urn) + "-")
	if err != nil {
		return nil, errors.Wrap(err, "read the journal of creates")
	}
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry, err := j.decode(name, files[name])
		if err != nil {
			return nil, err
		}
		if entry != nil && entry.URN == urn {
			entries = append(entries, *entry)
		}
	}
	return entries, nil
}

// URNs are the resources that the files tell of, each once, also where [Journal.Entries] cannot understand the rest of an entry.
func (j *Journal) URNs() ([]string, error) {
	files, err := j.files.Read("")
	if err != nil {
		return nil, errors.Wrap(err, "read the journal of creates")
	}
	var urns []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var told struct {
			URN string `json:"urn"`
		}
		if json.Unmarshal(files[name], &told) != nil || !strings.HasPrefix(name, hash(told.URN)+"-") || slices.Contains(urns, told.URN) {
			continue // it is no entry
		}
		urns = append(urns, told.URN)
	}
	return urns, nil
}

// Load is the entry of that key, nil when there is none. ErrDamaged is in the chain of the error about one that cannot be understood.
func (j *Journal) Load(key Key) (*Entry, error) {
	key = key.normal()
	files, err := j.files.Read(key.name())
	if err != nil {
		return nil, errors.Wrap(err, "read the journal of creates")
	}
	content, ok := files[key.name()]
	if !ok {
		return nil, nil
	}
	entry, err := j.decode(key.name(), content)
	if err != nil {
		return nil, err
	}
	if entry.Key().normal() != key {
		return nil, errors.Wrapf(ErrDamaged, "%s in %s is of another resource", key.name(), j)
	}
	return entry, nil
}

// decode reads the entry in a file.
func (j *Journal) decode(name string, content []byte) (*Entry, error) {
	entry, err := decode(content)
	return entry, errors.Wrapf(err, "%s in %s", name, j)
}

func decode(content []byte) (*Entry, error) {
	var read file
	if len(content) > longest {
		return nil, errors.Wrap(ErrDamaged, "too long")
	}
	if err := json.Unmarshal(content, &read); err != nil {
		return nil, errors.Wrap(ErrDamaged, err.Error())
	}
	switch {
	case read.Version != format:
		return nil, errors.Wrapf(ErrDamaged, "format %d, of another version of this program", read.Version)
	case read.URN == "" || read.Name == "":
		return nil, errors.Wrap(ErrDamaged, "without urn or name")
	case read.ImportID != "" && read.ID == "":
		return nil, errors.Wrap(ErrDamaged, "without id")
	}
	return &read.Entry, nil
}

// Write writes an entry in place of the one of the same key: whole or not at all, and on the disk when it returns.
func (j *Journal) Write(entry Entry) error {
	key := entry.Key().normal()
	entry.Endpoint = key.Endpoint
	content, err := json.MarshalIndent(file{Version: format, Entry: entry}, "", "  ")
	if err != nil {
		return errors.Wrap(err, "encode an entry of the journal of creates")
	}
	if _, err := decode(content); err != nil {
		return errors.Wrap(err, "write the journal of creates")
	}
	return errors.Wrapf(j.files.Write(key.name(), append(content, '\n')), "write the journal of creates in %s", j)
}

// Remove removes the entry of that key and what a killed process left of it. That there is none is a success.
func (j *Journal) Remove(key Key) error {
	return errors.Wrap(j.files.Remove(key.normal().name()), "remove from the journal of creates")
}

// Recorded removes the entries of a resource that belong to the object of that id, because the engine is known to have recorded it. same,
// if given, is asked whether an entry of that id is of the very object: an id may be unique in its parent only.
func (j *Journal) Recorded(urn, id string, same func(Entry) bool) error {
	entries, err := j.Entries(urn)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.ID == "" || e.ID != id || same != nil && !same(e) })
	for _, entry := range entries {
		if err := j.Remove(entry.Key()); err != nil {
			return err
		}
	}
	return nil
}

// Hash is a short hash of what is asked for, as JSON.
func Hash(request any) string {
	content, err := json.Marshal(request)
	if err != nil {
		return ""
	}
	return hash(string(content))
}

// normal is the key with the endpoint in one form and without a password in it.
func (k Key) normal() Key {
	if address, err := url.Parse(k.Endpoint); err == nil && address.Host != "" {
		bare := url.URL{Scheme: strings.ToLower(address.Scheme), Host: strings.ToLower(address.Host), Path: address.Path}
		k.Endpoint = strings.TrimRight(bare.String(), "/")
	}
	return k
}

func (k Key) name() string {
	return hash(k.URN) + "-" + hash(k.Endpoint + "\x00" + k.Scope)[:16] + suffix
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
