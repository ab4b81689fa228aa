package credentials

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// File is a credentials file that was read.
type File struct {
	// Path is where it is.
	Path string
	// Missing tells that there is no such file.
	Missing bool
	// Profiles are its profiles by their names.
	Profiles map[string]*provider.CredentialsProfile
}

// Names are the names of the profiles, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Profiles)) }

// Path is where the credentials file is: PLANTON_CREDENTIALS, or planton/credentials in the folder that the operating system means for
// a person's settings ($XDG_CONFIG_HOME or ~/.config, on Windows %AppData%).
func Path(getenv func(string) string) (string, error) {
	if path := getenv(EnvironmentFile); path != "" {
		absolute, err := filepath.Abs(path)
		return absolute, errors.Wrap(err, "make "+EnvironmentFile+" absolute")
	}
	if directory := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(directory) {
		return filepath.Join(directory, "planton", "credentials"), nil
	}
	if directory := getenv("AppData"); runtime.GOOS == "windows" && directory != "" {
		return filepath.Join(directory, "planton", "credentials"), nil
	}
	home := getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", errors.Wrap(err, "find the home directory (set "+EnvironmentFile+")")
		}
	}
	return filepath.Join(home, ".config", "planton", "credentials"), nil
}

// Read reads a credentials file. One that does not exist has no profiles. The error is an *Error when others can read the file, and a
// *manifest.Error when it is broken.
func Read(path string) (*File, error) {
	data, mode, err := readFile(path)
	if os.IsNotExist(err) {
		return &File{Path: path, Missing: true}, nil
	}
	if err != nil {
		return nil, failure("the credentials file cannot be read: %v", err)
	}
	if readableByOthers(mode) {
		return nil, failure("the credentials file %s is not used, because others can read it (its mode is %04o): %s",
			path, mode.Perm(), makePrivate(path))
	}
	content := &provider.CredentialsFile{}
	if err := manifest.Decode(path, data, content); err != nil && !isEmpty(err) {
		return nil, err
	}
	return &File{Path: path, Profiles: content.GetProfiles()}, nil
}

// isEmpty tells that a file has only comments, if anything.
func isEmpty(err error) bool {
	var broken *manifest.Error
	return errors.As(err, &broken) && len(broken.Problems) == 1 && broken.Problems[0].RuleID == manifest.RuleNoDocument
}

// readFile reads a file, and tells the mode of what it read.
func readFile(path string) ([]byte, fs.FileMode, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(file)
	return data, info.Mode(), err
}

// readableByOthers tells whether anyone but its owner can do something with a file. Pipes are nobody else's, and Windows has no modes.
func readableByOthers(mode fs.FileMode) bool {
	return runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&0o077 != 0
}

// makePrivate is the command that makes a file private.
func makePrivate(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+@%:,=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return "chmod 600 " + path
}
