package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/schema"
)

// Completion is told by the shell's scripts (planton completion SHELL), which ask planton itself at each press of a key. So nothing here
// starts an engine, creates a file or fails: what cannot be told is not offered.

// addCompletion gives arguments and flags their completion, by the words of the commands' usage and by the flags' names.
func addCompletion(root *cobra.Command, streams Streams) {
	root.InitDefaultCompletionCmd()
	c := &completer{streams: streams}
	for _, cmd := range root.Commands() {
		c.add(cmd)
	}
}

// completer knows where to look.
type completer struct{ streams Streams }

func (c *completer) add(cmd *cobra.Command) {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	if first, _, _ := strings.Cut(arguments, " "); cmd.ValidArgsFunction == nil && cmd.Name() != "completion" {
		switch first {
		case "KIND":
			cmd.ValidArgsFunction = firstOf(completeKinds)
		case "KIND[.FIELD.PATH]":
			cmd.ValidArgsFunction = firstOf(completeFieldPath)
		case "KIND/NAME", "[KIND[/NAME]]":
			cmd.ValidArgsFunction = c.resource
		case "", "-f":
			if !cmd.HasSubCommands() {
				cmd.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
	}
	for name, complete := range map[string]cobra.CompletionFunc{
		"cloud":     cobra.FixedCompletions([]string{cloudReal, cloudEmulated}, cobra.ShellCompDirectiveNoFileComp),
		"plugins":   cobra.FixedCompletions([]string{"automatic", "native", "official"}, cobra.ShellCompDirectiveNoFileComp),
		"log-level": cobra.FixedCompletions(levels[:], cobra.ShellCompDirectiveNoFileComp),
		"org":       c.part(0),
		"env":       c.part(1),
		"target":    c.target,
		"set":       c.set,
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // an error says that the command has its own
		}
	}
	for _, inner := range cmd.Commands() {
		c.add(inner)
	}
}

// firstOf completes the first argument alone.
func firstOf(complete func(string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(begun)
	}
}

// completeKinds offers kinds in the case that was begun.
func completeKinds(begun string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	for _, kind := range kinds.All() {
		name := strings.ToLower(kind.Name)
		if begun != "" && begun[0] >= 'A' && begun[0] <= 'Z' {
			name = kind.Name
		}
		if strings.HasPrefix(name, begun) {
			// The short name tells kinds apart: zsh puts those of one description into one row.
			offered = append(offered, name+"\t"+kind.IDPrefix+", "+kind.APIVersion)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// completeFieldPath offers KIND, and then the fields of what was begun.
func completeFieldPath(begun string) ([]string, cobra.ShellCompDirective) {
	name, path, found := strings.Cut(begun, ".")
	if !found {
		offered, _ := completeKinds(begun)
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	kind, ok := kinds.ByName(name)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	offered, deeper := fieldsAt(kind, name+".", path, "")
	directive := cobra.ShellCompDirectiveNoFileComp
	if deeper { // else the path is at its end
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return offered, directive
}

// fieldsAt offers the fields of the last object of a path that was begun, each after a prefix, and one that has no fields of its own
// before an end. It tells whether one of them has.
func fieldsAt(kind kinds.Kind, prefix, begun, end string) (offered []string, deeper bool) {
	parent, last := "", begun
	if i := strings.LastIndex(begun, "."); i >= 0 {
		parent, last = begun[:i], begun[i+1:]
		prefix += parent + "."
	}
	object, err := schema.Find(kind, parent)
	if err != nil {
		return nil, false
	}
	for _, field := range object.Fields {
		if !strings.HasPrefix(strings.ToLower(field.Name), strings.ToLower(last)) {
			continue
		}
		name := prefix + field.Name
		switch {
		case len(field.Fields) > 0:
			deeper = true
		case !strings.HasPrefix(field.Type, "map"): // what comes after a map may be a key
			name += end
		}
		offered = append(offered, name+"\t"+firstSentence(field.Description))
	}
	return offered, deeper
}

func firstSentence(text string) string {
	sentence, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// resource offers KIND/NAME of what is deployed, and then, for a command that takes one, an output.
func (c *completer) resource(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		kind, _, err := parseResource(args[0])
		if err != nil || len(args) > 1 || !strings.Contains(cmd.Use, "OUTPUT") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return kind.OutputFields(), cobra.ShellCompDirectiveNoFileComp
	}
	word, _, slash := strings.Cut(begun, "/")
	org, _ := cmd.Flags().GetString("org")
	env, _ := cmd.Flags().GetString("env")
	var offered []string
	for _, stack := range c.stacks(cmd) {
		name := stack.kind.Plural()
		if typed, ok := kinds.ByName(word); slash && ok && typed.Name == stack.kind.Name {
			name = word
		}
		if org != "" && org != stack.org || env != "" && env != stack.env {
			continue
		}
		place := strings.Trim(stack.org+" "+stack.env, " _")
		if offer := name + "/" + stack.name; strings.HasPrefix(offer, begun) {
			offered = append(offered, strings.TrimSuffix(offer+"\t"+place, "\t"))
		}
	}
	slices.Sort(offered)
	return slices.Compact(offered), cobra.ShellCompDirectiveNoFileComp
}

// part offers the orgs (0) or envs (1) of what is deployed.
func (c *completer) part(which int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var offered []string
		for _, stack := range c.stacks(cmd) {
			if part := []string{stack.org, stack.env}[which]; part != "" && part != "_" {
				offered = append(offered, part)
			}
		}
		slices.Sort(offered)
		return slices.Compact(offered), cobra.ShellCompDirectiveNoFileComp
	}
}

// deployed is a stack whose name says what is in it.
type deployed struct {
	kind           kinds.Kind
	org, env, name string
}

// stacks are those of the cloud that the command line names, as far as they are in files.
func (c *completer) stacks(cmd *cobra.Command) []deployed {
	directory, err := provision.StateDirectory(c.streams.Getenv)
	if err != nil {
		return nil
	}
	cloud, _ := cmd.Flags().GetString("cloud")
	if cloud == cloudEmulated {
		directory = filepath.Join(directory, "emulated")
	}
	var found []deployed
	for _, identity := range provision.StackNames(directory, c.streams.Getenv, cloud == cloudEmulated) {
		kind, ok := kinds.ByName(identity.Project)
		if !ok {
			continue
		}
		switch parts := strings.Split(identity.Stack, "."); len(parts) {
		case 1:
			found = append(found, deployed{kind: kind, name: parts[0]})
		case 3:
			found = append(found, deployed{kind: kind, org: parts[0], env: parts[1], name: parts[2]})
		}
	}
	return found
}

// manifests are those of the command line that can be read.
func (c *completer) manifests(cmd *cobra.Command) []*manifest.Manifest {
	files, _ := cmd.Flags().GetStringArray("manifest")
	if folder, _ := cmd.Flags().GetString("input-dir"); folder != "" {
		files = append(files, folder)
	}
	files = slices.Compact(slices.Sorted(slices.Values(files))) // cobra reads the flags twice before it asks
	if len(files) == 0 || slices.Contains(files, manifest.Stdin) {
		return nil
	}
	loaded, _ := manifest.Load(files, nil)
	return loaded
}

// target offers KIND/NAME of the manifests.
func (c *completer) target(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	for _, m := range c.manifests(cmd) {
		if offer := m.Kind.Plural() + "/" + m.Name(); strings.HasPrefix(offer, begun) {
			offered = append(offered, offer)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// set offers PATH=VALUE: the fields of the manifests' kinds, or of all, with the = where a value must follow, and after it the values of an
// enum or of a boolean.
func (c *completer) set(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var of []kinds.Kind
	for _, m := range c.manifests(cmd) {
		of = append(of, m.Kind)
	}
	if len(of) == 0 {
		of = kinds.All()
	}
	path, value, valued := strings.Cut(begun, "=")
	var offered []string
	for _, kind := range of {
		if !valued {
			fields, _ := fieldsAt(kind, "", path, "=")
			offered = append(offered, fields...)
			continue
		}
		field, err := schema.Find(kind, path)
		if err != nil {
			continue
		}
		var values []string
		for _, v := range field.Values {
			values = append(values, v.Name)
		}
		if field.Type == "boolean" {
			values = []string{"true", "false"}
		}
		for _, v := range values {
			if strings.HasPrefix(v, value) {
				offered = append(offered, path+"="+v)
			}
		}
	}
	slices.Sort(offered)
	directive := cobra.ShellCompDirectiveNoFileComp
	if !valued {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	// Kinds describe a field of one name differently.
	return slices.CompactFunc(offered, func(a, b string) bool { return fieldOf(a) == fieldOf(b) }), directive
}

// fieldOf is what is offered, without its description.
func fieldOf(offered string) string {
	field, _, _ := strings.Cut(offered, "\t")
	return field
}
