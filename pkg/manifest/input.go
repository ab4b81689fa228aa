package manifest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/pkg/errors"
)

// Stdin is the path that means the standard input.
const Stdin = "-"

// Input is where manifests come from, and what is changed in them.
type Input struct {
	// Paths are files, folders (their .yaml, .yml and .json files, not the folders in them), globs and "-" for the standard input, in
	// this order. In a glob, ** stands for any folders; of what it matches, the .yaml, .yml and .json files count, in the order of
	// their names.
	Paths []string
	// Stdin is the standard input; nil where there is none.
	Stdin io.Reader
	// Texts are what something else made. They come after the paths.
	Texts []Text
	// Settings are applied to every manifest that has their fields, in this order.
	Settings []Setting
}

// Text is YAML that was made from a file, such as by kustomize.
type Text struct {
	// File names it in problems.
	File string
	Data []byte
}

// Load reads the manifests of several files, folders, globs and of the standard input: see Input.
func Load(paths []string, stdin io.Reader) ([]*Manifest, error) {
	return Input{Paths: paths, Stdin: stdin}.Load()
}

// Load reads the manifests, with all cores. The error is an *Error when what was read is wrong: then it holds the problems of all files.
// It is another one when a file cannot be read, and when a glob matches nothing.
func (in Input) Load() ([]*Manifest, error) {
	var manifests []*Manifest
	if err := in.Each(func(m *Manifest) { manifests = append(manifests, m) }); err != nil {
		return nil, err
	}
	return manifests, nil
}

// Each reads the manifests as Load does, hands them on in their order, one after the other, and keeps none of them: so many can be read as
// there are. Those that are handed on are good each for itself; whether all are, the error tells, which is that of Load.
func (in Input) Each(visit func(*Manifest)) error {
	return newCollector(in.Settings, visit).collect(strings.Join(in.Paths, ", "), in.feed)
}

// feed reads the files.
func (in Input) feed(f *feeder) error {
	for _, path := range in.Paths {
		files, err := filesOf(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			some, err := in.feedFile(f, file)
			if err != nil {
				return err
			}
			// A file that someone names is meant to declare something; one that lies in a folder need not.
			if !some && file == path {
				f.fail(emptyProblem(file))
			}
		}
	}
	for _, text := range in.Texts {
		f.generated = true
		some, err := f.feed(text.File, bytes.NewReader(text.Data))
		if err != nil {
			return err
		}
		if !some {
			f.fail(emptyProblem(text.File))
		}
	}
	return nil
}

func (in Input) feedFile(f *feeder, file string) (some bool, err error) {
	opened, err := openFile(file, in.Stdin)
	if err != nil {
		return false, err
	}
	defer func() { _ = opened.Close() }()
	some, err = f.feed(file, opened)
	return some, errors.Wrap(err, readingOf(file))
}

func emptyProblem(file string) Problem {
	return Problem{File: file, RuleID: RuleNoDocument, Message: "there is no manifest in it"}
}

// extensions are those of files with manifests.
var extensions = []string{".yaml", ".yml", ".json"}

func isManifestFile(name string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
}

// filesOf are the files that a path stands for.
func filesOf(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && strings.ContainsAny(path, "*?[{"):
		return matchesOf(path)
	case err != nil:
		return nil, errors.Wrap(err, "read manifests")
	case !info.IsDir():
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, errors.Wrap(err, "read the folder of manifests")
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && isManifestFile(entry.Name()) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// matchesOf are the files that a glob matches.
func matchesOf(pattern string) ([]string, error) {
	found, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors())
	if err != nil {
		return nil, errors.Wrapf(err, "read manifests: the glob %s", pattern)
	}
	files := slices.DeleteFunc(slices.Clone(found), func(file string) bool { return !isManifestFile(file) })
	switch {
	case len(found) == 0:
		return nil, errors.Errorf("read manifests: the glob %s matches no file", pattern)
	case len(files) == 0:
		return nil, errors.Errorf("read manifests: the glob %s matches no file that ends in %s", pattern, strings.Join(extensions, ", "))
	}
	slices.Sort(files)
	return files, nil
}

func readFile(file string, stdin io.Reader) ([]byte, error) {
	opened, err := openFile(file, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	data, err := io.ReadAll(opened)
	return data, errors.Wrap(err, readingOf(file))
}

func openFile(file string, stdin io.Reader) (io.ReadCloser, error) {
	switch {
	case file != Stdin:
		opened, err := os.Open(file)
		return opened, errors.Wrap(err, readingOf(file))
	case stdin == nil:
		return nil, errors.New(readingOf(file) + ": there is none")
	default:
		return io.NopCloser(stdin), nil
	}
}

// readingOf says what is being done, for errors.
func readingOf(file string) string {
	if file == Stdin {
		return "read manifests from the standard input"
	}
	return "read manifests"
}
