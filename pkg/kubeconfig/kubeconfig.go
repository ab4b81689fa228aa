// Package kubeconfig puts the kubeconfig of a cluster into the file that kubectl reads, beside what others keep there.
//
// Start with Merge. The cluster, the user and the context that it writes have one name, and carry a mark that tells whose they are: an
// extension, which kubectl keeps and takes no notice of. An entry of that name without the mark, or with that of another cluster, is
// somebody else's and stays as it is. The file is edited as YAML, so that comments and fields that are not known here stay, and what was
// made is compared with what was there before it is written.
//
// Errors never carry any of the text of a kubeconfig, which is a secret from end to end.
package kubeconfig

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// Extension is the name of the extension that marks what Merge wrote.
const Extension = "kubeconfig.project-planton.org/owner"

// ownerKey is the field of the extension that tells whose an entry is.
const ownerKey = "owner"

// Entry is a cluster to be put into a kubeconfig.
type Entry struct {
	// Name is what the context, the cluster and the user are called. Required.
	Name string
	// Owner tells one cluster from every other, and stays the same for it. It is written into the file, so it holds no secret. Required.
	Owner string
	// Kubeconfig is the cluster's own: its current context, or its first one, is what is taken over. A secret.
	Kubeconfig []byte
	// SetCurrent makes the context the current one. A kubeconfig that has none gets this one in any case.
	SetCurrent bool
}

// ForeignError is the error of a name that is taken by an entry that is not this cluster's.
type ForeignError struct {
	// File is the kubeconfig.
	File string
	// Section is "context", "cluster" or "user".
	Section string
	// Name is the name of the entry.
	Name string
}

// Error names the entry.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("there is a %s %q already, which is not this cluster's", e.Section, e.Name)
}

// section is a list of named entries in a kubeconfig.
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
type section struct{ list, entry string }

var (
	clusters = section{"clusters", "cluster"}
	contexts = section{"contexts", "context"}
	users    = section{"users", "user"}
)

const currentContext = "current-context"

// merge returns a kubeconfig with the entry in it: the text as it is, where the entry is there already.
func merge(old []byte, entry Entry) ([]byte, error) {
	into, err := parse(old)
	if err != nil {
		return nil, err
	}
	from, err := parse(entry.Kubeconfig)
	if err != nil {
		return nil, errors.Wrap(err, "the kubeconfig of the cluster")
	}
	context, cluster, user, err := current(from)
	if err != nil {
		return nil, errors.Wrap(err, "the kubeconfig of the cluster")
	}
	if err := put(into, clusters, entry, cluster, false); err != nil {
		return nil, err
	}
	if err := put(into, users, entry, user, false); err != nil {
		return nil, err
	}
	set(context, clusters.entry, text(entry.Name))
	set(context, users.entry, text(entry.Name))
	// What the user added to the context, such as a namespace, stays.
	if err := put(into, contexts, entry, context, true); err != nil {
		return nil, err
	}
	if at := get(into, currentContext); entry.SetCurrent || at == nil || at.Value == "" {
		set(into, currentContext, text(entry.Name))
	}
	var merged bytes.Buffer
	encoder := yaml.NewEncoder(&merged)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(into); err != nil {
		return nil, errors.New("write the kubeconfig as YAML")
	}
	if same(old, merged.Bytes()) {
		return old, nil
	}
	return merged.Bytes(), compare(old, merged.Bytes(), entry.Name)
}

// same tells whether two texts hold the same, however it is written. Writing YAML anew can move its comments and blank lines each time.
func same(old, merged []byte) bool {
	var before, after any
	if yaml.Unmarshal(old, &before) != nil || yaml.Unmarshal(merged, &after) != nil {
		return false
	}
	one, errBefore := yaml.Marshal(before)
	other, errAfter := yaml.Marshal(after)
	return errBefore == nil && errAfter == nil && bytes.Equal(one, other)
}

// parse reads a kubeconfig into the mapping that it is; an empty text is an empty kubeconfig.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := decoder.Decode(&document)
	empty := errors.Is(err, io.EOF)
	if err != nil && !empty {
		// The YAML library quotes what it read, which may be a credential.
		return nil, errors.New("it is not valid YAML")
	}
	if empty || document.Content[0].Tag == "!!null" {
		root := &yaml.Node{Kind: yaml.MappingNode}
		set(root, "apiVersion", text("v1"))
		set(root, "kind", text("Config"))
		return root, nil
	}
	root := document.Content[0]
	if kind := get(root, "kind"); root.Kind != yaml.MappingNode || kind != nil && kind.Value != "Config" {
		return nil, errors.New("it is not a kubeconfig")
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds several YAML documents, of which kubectl reads the first alone")
	}
	return root, nil
}

// current are the current context of a kubeconfig, and its cluster and user.
func current(root *yaml.Node) (context, cluster, user *yaml.Node, err error) {
	name := ""
	if at := get(root, currentContext); at != nil {
		name = at.Value
	}
	if context, err = named(root, contexts, name); err != nil {
		return nil, nil, nil, err
	}
	part := func(s section) *yaml.Node {
		name := get(context, s.entry)
		if name == nil || err != nil {
			return nil
		}
		var found *yaml.Node
		found, err = named(root, s, name.Value)
		return found
	}
	cluster, user = part(clusters), part(users)
	if err == nil && (cluster == nil || user == nil) {
		err = errors.New("its context names no cluster or no user")
	}
	return context, cluster, user, err
}

// named is what an entry of a section holds; the first one's where the name is empty.
func named(root *yaml.Node, s section, name string) (*yaml.Node, error) {
	list := get(root, s.list)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil, errors.Errorf("it has no %s", s.list)
	}
	for _, entry := range list.Content {
		if inner := get(entry, s.entry); inner != nil && inner.Kind == yaml.MappingNode && (name == "" || nameOf(entry) == name) {
			return inner, nil
		}
	}
	return nil, errors.Errorf("it has no %s of the name that it speaks of", s.entry)
}

// put writes an entry, with its mark, into a section. The error is a *ForeignError where there is one of that name that is not the
// owner's. With keep, what the old entry has and the new one has not stays.
func put(root *yaml.Node, s section, entry Entry, value *yaml.Node, keep bool) error {
	list := get(root, s.list)
	switch {
	case list == nil || list.Tag == "!!null":
		list = &yaml.Node{Kind: yaml.SequenceNode}
		set(root, s.list, list)
	case list.Kind != yaml.SequenceNode:
		return errors.Errorf("its %s are no list", s.list)
	}
	list.Style &^= yaml.FlowStyle // [] of an empty list
	mark(value, entry.Owner)
	for _, other := range list.Content {
		if nameOf(other) != entry.Name {
			continue
		}
		inner := get(other, s.entry)
		if inner == nil || ownerOf(inner) != entry.Owner {
			return &ForeignError{Section: s.entry, Name: entry.Name}
		}
		if keep {
			for i := 0; i+1 < len(inner.Content); i += 2 {
				if key := inner.Content[i].Value; get(value, key) == nil {
					set(value, key, inner.Content[i+1])
				}
			}
		}
		set(other, s.entry, value)
		return nil
	}
	added := &yaml.Node{Kind: yaml.MappingNode}
	set(added, s.entry, value)
	set(added, "name", text(entry.Name))
	list.Content = append(list.Content, added)
	return nil
}

// mark says whose an entry is.
func mark(value *yaml.Node, owner string) {
	extension := &yaml.Node{Kind: yaml.MappingNode}
	set(extension, ownerKey, text(owner))
	marked := &yaml.Node{Kind: yaml.MappingNode}
	set(marked, "extension", extension)
	set(marked, "name", text(Extension))
	extensions := get(value, "extensions")
	if extensions == nil || extensions.Kind != yaml.SequenceNode {
		extensions = &yaml.Node{Kind: yaml.SequenceNode}
		set(value, "extensions", extensions)
	}
	extensions.Content = append(extensions.Content, marked)
}

// ownerOf is whose an entry is, "" where it is somebody else's.
func ownerOf(value *yaml.Node) string {
	extensions := get(value, "extensions")
	if extensions == nil {
		return ""
	}
	for _, extension := range extensions.Content {
		if nameOf(extension) != Extension {
			continue
		}
		if owner := get(get(extension, "extension"), ownerKey); owner != nil {
			return owner.Value
		}
	}
	return ""
}

// compare looks whether all but the entries of a name, and the current context, mean what they meant before.
func compare(before, after []byte, name string) error {
	was, err := others(before, name)
	if err != nil || was == nil {
		return err
	}
	is, err := others(after, name)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("it would not keep everything else that is in it")
	}
	return nil
}

// others is what a kubeconfig says of all but the entries of a name; nil when it says nothing.
func others(data []byte, name string) (map[string]any, error) {
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, errors.New("it cannot be read back")
	}
	if config == nil {
		return nil, nil
	}
	delete(config, currentContext)
	for _, s := range []section{clusters, contexts, users} {
		list, _ := config[s.list].([]any)
		config[s.list] = slices.DeleteFunc(append([]any{}, list...), func(entry any) bool {
			fields, _ := entry.(map[string]any)
			return fields["name"] == name
		})
	}
	return config, nil
}

// get is the value of a key of a mapping, nil where there is none.
func get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set sets the value of a key of a mapping.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, text(key), value)
}

// text is a string; the YAML library quotes it where it would be read as something else.
func text(value string) *yaml.Node {
	var node yaml.Node
	node.SetString(value)
	return &node
}

func nameOf(entry *yaml.Node) string {
	if name := get(entry, "name"); name != nil {
		return name.Value
	}
	return ""
}
