// Package kustomize builds manifests from a kustomization: a base, and overlays that change it, one for each environment.
//
// Only local files are read. A base on another machine is refused, and so are Helm charts and plugins: nothing is downloaded, and no
// program is run. Apart from that, what Build returns is what `kustomize build` prints.
package kustomize

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlays is the folder of overlays, as the field lays its folders out: base beside overlays/dev, overlays/prod.
const overlays = "overlays"

// Built is what a kustomization was built into.
type Built struct {
	// File is the kustomization that was built.
	File string
	// Data are the manifests, as YAML documents.
	Data []byte
}

// Build builds the kustomization of a folder; with an overlay, the one in its folder overlays/NAME. Every error names the kustomization
// that it is about.
func Build(directory, overlay string) (Built, error) {
	if err := isFolder(directory); err != nil {
		return Built{}, err
	}
	root := directory
	if overlay != "" {
		root = filepath.Join(directory, overlays, overlay)
		if !filepath.IsLocal(overlay) {
			return Built{}, errors.Errorf("the overlay %q is not the name of a folder in %s", overlay, filepath.Join(directory, overlays))
		}
		if isFolder(root) != nil {
			return Built{}, errors.Errorf("there is no overlay %q in %s%s", overlay, filepath.Join(directory, overlays), listed(directory))
		}
	}
	file, err := kustomizationOf(root)
	if err != nil {
		if overlay == "" && listed(directory) != "" {
			return Built{}, errors.Wrapf(err, "choose an overlay%s", listed(directory))
		}
		return Built{}, err
	}
	if err := checkLocal(file, map[string]bool{}); err != nil {
		return Built{}, err
	}
	// A relative path could be taken for a repository, too.
	absolute, err := filepath.Abs(root)
	if err != nil {
		return Built{}, errors.Wrapf(err, "build %s", file)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), absolute)
	if err != nil {
		return Built{}, errors.Wrapf(err, "build %s", file)
	}
	data, err := resources.AsYaml()
	return Built{File: file, Data: data}, errors.Wrapf(err, "build %s", file)
}

func isFolder(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return errors.Wrap(err, "read the kustomization")
	case !info.IsDir():
		return errors.Errorf("%s is no folder: name the one that the kustomization stands in", path)
	}
	return nil
}

// listed names the overlays of a folder, for messages; empty when there is none.
func listed(directory string) string {
	entries, err := os.ReadDir(filepath.Join(directory, overlays))
	if err != nil {
		return ""
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": there is " + strings.Join(names, ", ")
}

// kustomizationOf finds the kustomization of a folder.
func kustomizationOf(directory string) (string, error) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(directory, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file, nil
		}
	}
	return "", errors.Errorf("there is no %s in %s", konfig.DefaultKustomizationFileName(), directory)
}

// refused are the keys of a kustomization that run programs or load charts.
var refused = []string{"helmCharts", "helmChartInflationGenerator", "helmGlobals", "generators", "transformers", "validators"}

// kustomization is the part of a kustomization that names files.
type kustomization struct {
	Resources             []string          `yaml:"resources"`
	Bases                 []string          `yaml:"bases"`
	Components            []string          `yaml:"components"`
	CRDs                  []string          `yaml:"crds"`
	Configurations        []string          `yaml:"configurations"`
	OpenAPI               map[string]string `yaml:"openapi"`
	PatchesStrategicMerge []string          `yaml:"patchesStrategicMerge"`
	PatchesJSON6902       []withPath        `yaml:"patchesJson6902"`
	Patches               []withPath        `yaml:"patches"`
	Replacements          []withPath        `yaml:"replacements"`
	ConfigMapGenerator    []withFiles       `yaml:"configMapGenerator"`
	SecretGenerator       []withFiles       `yaml:"secretGenerator"`
}

type withPath struct {
	Path string `yaml:"path"`
}

type withFiles struct {
	Files []string `yaml:"files"`
	Env   string   `yaml:"env"`
	Envs  []string `yaml:"envs"`
}

// checkLocal refuses what a kustomization, or one that it builds on, would load from elsewhere: kustomize itself would take whatever
// looks like a URL, or like a repository.
func checkLocal(file string, seen map[string]bool) error {
	if seen[filepath.Clean(file)] {
		return nil // a circle, which kustomize tells of
	}
	seen[filepath.Clean(file)] = true
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Wrap(err, "read the kustomization")
	}
	var keys map[string]yaml.Node
	var k kustomization
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&keys); err != nil {
		return errors.Wrapf(err, "read %s", file)
	}
	for _, key := range refused {
		if node, ok := keys[key]; ok {
			return errors.Errorf("%s:%d: %s is not supported: no program is run, and no chart is loaded", file, node.Line, key)
		}
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return errors.Wrapf(err, "read %s", file)
	}
	for _, path := range k.files() {
		if isRemote(path) {
			return errors.Errorf("%s: %s is not on this machine: copy it into a folder, and name that", file, path)
		}
	}
	for _, path := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if isRemote(path) {
			return errors.Errorf("%s: %s is not on this machine: copy it into a folder, and name that", file, path)
		}
		below := filepath.Join(filepath.Dir(file), path)
		info, err := os.Stat(below)
		switch {
		case err != nil:
			return errors.Errorf("%s: there is no %s", file, path)
		case !info.IsDir():
			continue
		}
		inner, err := kustomizationOf(below)
		if err != nil {
			return errors.Wrap(err, file)
		}
		if err := checkLocal(inner, seen); err != nil {
			return err
		}
	}
	return nil
}

// files are the files that a kustomization names, other than those of resources.
func (k kustomization) files() []string {
	files := slices.Concat(k.CRDs, k.Configurations, k.PatchesStrategicMerge)
	for _, path := range k.OpenAPI {
		files = append(files, path)
	}
	for _, one := range slices.Concat(k.PatchesJSON6902, k.Patches, k.Replacements) {
		files = append(files, one.Path)
	}
	for _, one := range slices.Concat(k.ConfigMapGenerator, k.SecretGenerator) {
		for _, path := range slices.Concat(one.Files, one.Envs, []string{one.Env}) {
			// KEY=PATH, or a path alone.
			files = append(files, path[strings.Index(path, "=")+1:])
		}
	}
	// A patch may stand in the list itself.
	return slices.DeleteFunc(files, func(path string) bool { return strings.Contains(path, "\n") })
}

// remote matches what kustomize takes for a URL or a repository: a scheme, user@host:, gh:, git::, and github.com with or without one.
var remote = regexp.MustCompile(`(?i)://|^git::|^gh:|^(www\.)?github\.com[/:]|^[^/]*@[^/]*[:/]|\?ref=|^file:`)

func isRemote(path string) bool { return remote.MatchString(strings.TrimSpace(path)) }
