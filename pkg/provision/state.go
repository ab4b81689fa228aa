package provision

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumiworkspace "github.com/pulumi/pulumi/sdk/v3/go/common/workspace"

	"github.com/plantonhq/project-planton/pkg/filelock"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Environment variables that choose where states are kept.
const (
	// EnvironmentStateDirectory names the state directory.
	EnvironmentStateDirectory = "PLANTON_STATE_DIR"
	// EnvironmentSecretsProvider names a Pulumi secrets provider, such as awskms://alias/pulumi.
	EnvironmentSecretsProvider = "PLANTON_SECRETS_PROVIDER"

	environmentBackend        = "PULUMI_BACKEND_URL"
	environmentHome           = "PULUMI_HOME"
	environmentPassphrase     = "PULUMI_CONFIG_PASSPHRASE"
	environmentPassphraseFile = "PULUMI_CONFIG_PASSPHRASE_FILE"
	// fileOrganization is the only organization that backends of files know.
	fileOrganization = "organization"
	// environmentFallback has the engine encrypt secrets with what the state says where there is no Pulumi.<stack>.yaml. Without it
	// each operation, in a folder of its own, would begin a new passphrase's key, or fail for want of one.
	// https://github.com/pulumi/pulumi/pull/17236
	environmentFallback = "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER"
)

// State is where the states of stacks are kept, and how their secrets are encrypted.
type State struct {
	// BackendURL is the Pulumi backend, such as file:///home/me/.local/state/planton/backend or s3://bucket.
	BackendURL string
	// Home is PULUMI_HOME: plugins and logins. Empty for the user's own, ~/.pulumi.
	Home string
	// SecretsProvider encrypts the secrets of new stacks; empty for the backend's default, which is a passphrase for all but
	// Pulumi Cloud.
	SecretsProvider string
	// PassphraseFile holds the passphrase; empty when the environment has one, or none is needed.
	PassphraseFile string
	// Creates is the folder in which native plugins remember what they asked a cloud for, see package
	// pkg/nativeprovider/journal: one a backend, because two backends may have stacks of the same name. Empty for none.
	Creates string
	// Shared is where processes of several machines, which work on the stacks of one backend, remember together what they asked a cloud
	// for and which operations run: what one of them had begun when it died, another finds. Nil for the folders of this machine.
	Shared journal.Files

	marks   string // the folder of the marks of running operations; empty for none
	files   string // the folder of the states, where they are files that planton alone has chosen; empty otherwise
	backups string // the folder of states that were overwritten
}

// StateDirectory is the folder that states are kept in when nothing else is chosen: PLANTON_STATE_DIR, or planton in the folder
// that the operating system means for it ($XDG_STATE_HOME or ~/.local/state, on Windows %LocalAppData%).
func StateDirectory(getenv func(string) string) (string, error) {
	if directory := getenv(EnvironmentStateDirectory); directory != "" {
		absolute, err := filepath.Abs(directory)
		return absolute, errors.Wrap(err, "make "+EnvironmentStateDirectory+" absolute")
	}
	if directory := getenv("XDG_STATE_HOME"); filepath.IsAbs(directory) {
		return filepath.Join(directory, "planton"), nil
	}
	if directory := getenv("LocalAppData"); runtime.GOOS == "windows" && directory != "" {
		return filepath.Join(directory, "planton"), nil
	}
	home := getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", errors.Wrap(err, "find the home directory (set "+EnvironmentStateDirectory+")")
		}
	}
	return filepath.Join(home, ".local", "state", "planton"), nil
}

// OpenState tells where states are kept: in the backend that PULUMI_BACKEND_URL names, else in files under the directory. The
// passphrase is that of the environment (PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE); where it has none, and no
// secrets provider, one is made up and kept in the directory, readable by its owner alone.
//
// PULUMI_HOME is the environment's. Without it, the user's own ~/.pulumi serves a backend that the user chose, because their
// login is there; files under the directory get a home there too, so that nothing outside of it is touched.
func OpenState(directory string, getenv func(string) string) (*State, error) {
	state := &State{
		BackendURL:      getenv(environmentBackend),
		Home:            getenv(environmentHome),
		SecretsProvider: getenv(EnvironmentSecretsProvider),
		marks:           filepath.Join(directory, "running"),
		backups:         filepath.Join(directory, "backups"),
	}
	if state.BackendURL == "" {
		return state, state.useFiles(directory, getenv)
	}
	state.Creates = createsOf(directory, state.BackendURL)
	// Pulumi Cloud keeps the keys itself.
	if strings.HasPrefix(state.BackendURL, "https://") || strings.HasPrefix(state.BackendURL, "http://") {
		return state, nil
	}
	return state, state.usePassphrase(directory, getenv)
}

// OpenLocalState is OpenState for what belongs to this machine alone, such as an emulated cloud: it takes no notice of
// PULUMI_BACKEND_URL.
func OpenLocalState(directory string, getenv func(string) string) (*State, error) {
	state := &State{Home: getenv(environmentHome), marks: filepath.Join(directory, "running"), backups: filepath.Join(directory, "backups")}
	return state, state.useFiles(directory, getenv)
}

// useFiles keeps states in files under the directory.
func (s *State) useFiles(directory string, getenv func(string) string) error {
	backend := filepath.Join(directory, "backend")
	if err := checkBackend(directory, backend); err != nil {
		return err
	}
	if err := os.MkdirAll(backend, 0o700); err != nil {
		return onDisk(err, "create the folder of the stacks' states")
	}
	s.files = backend
	s.Creates = createsOf(directory, fileURL(backend))
	// No attributes in files of their own: see dropEmptyAttributes.
	s.BackendURL = fileURL(backend) + "?metadata=skip"
	if s.Home == "" {
		s.Home = filepath.Join(directory, "pulumi")
		if err := os.MkdirAll(s.Home, 0o700); err != nil {
			return onDisk(err, "create the folder for plugins")
		}
	}
	return s.usePassphrase(directory, getenv)
}

// The files that tell the folder of the states from every other one: a name that is made up, once in the folder and once beside it. The
// folder may be moved away, or its disk be unmounted, while an operation runs; Pulumi makes a new one then, and says nothing.
const (
	nameInBackend     = ".planton-name"
	nameBesideBackend = "backend.name"
)

// checkBackend refuses to begin a new backend where there was one: whoever moved it, or forgot to mount its disk, would have everything
// created a second time.
func checkBackend(directory, backend string) error {
	beside := filepath.Join(directory, nameBesideBackend)
	_, missing := os.Stat(backend)
	message := "the folder " + backend + " is gone, and stacks were kept in it"
	switch want, err := os.ReadFile(beside); {
	case err == nil:
		got, err := os.ReadFile(filepath.Join(backend, nameInBackend))
		if err == nil && string(got) == string(want) {
			return nil
		}
		if err != nil && !os.IsNotExist(err) {
			return onDisk(err, "open the stacks' states")
		}
		if !os.IsNotExist(missing) {
			message = "the folder " + backend + " is not the one that stacks were kept in: that was moved away, or its disk is not mounted"
		}
	case !os.IsNotExist(missing):
		return nil // whatever else is wrong, whoever uses it will say
	default:
		if _, err := os.Stat(createsOf(directory, fileURL(backend))); err != nil {
			return nil //nolint:nilerr // it was never used
		}
	}
	return &Error{
		Kind: StateTrouble, Operation: "open the stacks' states", Message: message,
		Hint: "put it back in its place, or mount its disk, and run the command again: it looks what became of what was begun; to begin " +
			"anew, without what was in it, make an empty folder there, and remove " + beside,
	}
}

// checkFolder tells whether the folder of the states is still the one that it was.
func (s *State) checkFolder() error {
	if s.files == "" {
		return nil
	}
	return checkBackend(filepath.Dir(s.files), s.files)
}

// nameFolder gives the folder of the states its name, unless it has one.
func (s *State) nameFolder() error {
	if s.files == "" {
		return nil
	}
	inside, beside := filepath.Join(s.files, nameInBackend), filepath.Join(filepath.Dir(s.files), nameBesideBackend)
	if _, err := os.Stat(beside); !os.IsNotExist(err) {
		return nil // whatever is wrong, checkBackend says it
	}
	lock, err := filelock.Acquire(context.Background(), beside+".lock", nil)
	if err != nil {
		return onDisk(err, "lock the name of the folder of the states")
	}
	defer func() { _ = lock.Unlock() }()
	name, err := os.ReadFile(inside)
	if os.IsNotExist(err) {
		name, err = []byte(rand.Text()+"\n"), nil
		if err := WritePrivate(inside, string(name)); err != nil {
			return err
		}
	}
	if err != nil {
		return onDisk(err, "read the name of the folder of the states")
	}
	return WritePrivate(beside, string(name))
}

// createsOf is the folder for the creates of one backend.
func createsOf(directory, backendURL string) string {
	return filepath.Join(directory, "creates", fingerprint(backendURL))
}

// fingerprint tells one text from another without saying what it is.
func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Fingerprint tells a stack from every other one, also from those of the same name in other backends. It says nothing of the backend's
// URL, which may hold a password.
func (e *Engine) Fingerprint(identity stackidentity.Identity) string {
	return identity.String() + "@" + fingerprint(e.options.State.BackendURL)
}

// fileURL is the URL of a folder as Pulumi's file backend takes it.
func fileURL(directory string) string {
	slashed := filepath.ToSlash(directory)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/state on Windows
	}
	return (&url.URL{Scheme: "file", Path: slashed}).String()
}

// mend removes what a write that was cut off left in a backend in files, and what keeps stacks from being worked on.
func (s *State) mend() error {
	if err := s.dropEmptyAttributes(); err != nil {
		return err
	}
	return s.dropTornLocks()
}

// tornAfter is how long a part of a lock has not changed that nobody writes any more: one is written at once.
const tornAfter = time.Second

// dropTornLocks removes locks that were never written to their end, because the disk was full or the process was killed. Pulumi's file
// backend would fail to read them in every operation on the stack. Nobody holds such a lock: it has no effect before it has its name.
//
// Whether one is still being written is told by looking twice: the time of the file is of a clock that may differ from this machine's.
func (s *State) dropTornLocks() error {
	directory, ok := s.folder()
	if !ok {
		return nil
	}
	found, err := fs.Glob(os.DirFS(directory), path.Join(lockFolder, "*", "*", "*", "*.tmp"))
	if err != nil {
		return errors.Wrap(err, "look for the locks of stacks")
	}
	torn := map[string]fs.FileInfo{}
	for _, name := range found {
		file := filepath.Join(directory, filepath.FromSlash(name))
		// One that cannot be read has its name by now; another tells whose it is.
		if lock, err := readLock(file); err == nil && lock.Holder == Unreadable {
			if info, err := os.Stat(file); err == nil {
				torn[file] = info
			}
		}
	}
	if len(torn) == 0 {
		return nil
	}
	time.Sleep(tornAfter)
	for file, before := range torn {
		after, err := os.Stat(file)
		if err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
			continue
		}
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return onDisk(err, "remove a lock that was not written to its end")
		}
	}
	return nil
}

// dropEmptyAttributes removes what makes a stack in files unreadable ("failed to load checkpoint: EOF"): Pulumi's file backend writes
// the attributes of each file into a second one, not in one step, and a process that is killed in between leaves it empty. The
// attributes (a checksum and the like) are of no use to Pulumi; without them it reads the state.
// https://github.com/google/go-cloud/blob/master/blob/fileblob/attrs.go
func (s *State) dropEmptyAttributes() error {
	directory, ok := s.folder()
	if !ok {
		return nil
	}
	for _, pattern := range []string{"*.attrs", "stacks/*.attrs", "stacks/*/*.attrs"} {
		found, err := fs.Glob(os.DirFS(directory), ".pulumi/"+pattern)
		if err != nil {
			return errors.Wrap(err, "look through the backend's folder")
		}
		for _, name := range found {
			path := filepath.Join(directory, filepath.FromSlash(name))
			if info, err := os.Stat(path); err != nil || info.Size() > 0 {
				continue
			}
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				return errors.Wrap(err, "remove the attributes that a killed process left empty")
			}
		}
	}
	return nil
}

func (s *State) usePassphrase(directory string, getenv func(string) string) error {
	// A passphrase that is set to nothing is one, too: Pulumi takes it, and so must the next run. Getenv cannot tell it from
	// one that is not set, so the process's environment is asked as well.
	_, set := os.LookupEnv(environmentPassphrase)
	if set || getenv(environmentPassphrase) != "" || getenv(environmentPassphraseFile) != "" {
		return nil
	}
	file := filepath.Join(directory, "passphrase")
	if s.SecretsProvider != "" {
		// Stacks that were made before it was chosen still have theirs.
		if _, err := os.Stat(file); err == nil {
			s.PassphraseFile = file
		}
		return nil
	}
	if err := makePassphrase(file); err != nil {
		return err
	}
	s.PassphraseFile = file
	return nil
}

// makePassphrase writes a passphrase of 160 random bits, unless there is one. The lock keeps two processes from making two: the
// states of the first would be lost to everybody.
func makePassphrase(file string) error {
	lock, err := filelock.Acquire(context.Background(), file+".lock", nil)
	if err != nil {
		return onDisk(err, "lock the passphrase")
	}
	defer func() { _ = lock.Unlock() }()
	content, err := os.ReadFile(file)
	if err == nil {
		if len(strings.TrimSpace(string(content))) == 0 {
			return errors.Errorf("the passphrase file %s is empty; put the passphrase back from a copy, or remove the state directory", file)
		}
		return nil
	}
	if !os.IsNotExist(err) {
		return onDisk(err, "read the passphrase")
	}
	return WritePrivate(file, rand.Text()+rand.Text()+"\n")
}

// WritePrivate writes a file of the state directory that only its owner can read, whole or not at all, and on the disk when it returns. The
// error is of kind StateTrouble when the disk is full or may not be written.
func WritePrivate(file, content string) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // CreateTemp makes it 0600
	if err != nil {
		return onDisk(err, "write "+file)
	}
	_, err = temporary.WriteString(content)
	err = firstError(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return onDisk(err, "write "+file)
	}
	return onDisk(syncFolder(filepath.Dir(file)), "write "+file)
}

// syncFolder has the names in a folder on the disk. Windows has no such call, and needs none.
func syncFolder(directory string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(directory)
	if err != nil {
		return err
	}
	return firstError(folder.Sync(), folder.Close())
}

// environment is what the CLI is told about the state.
func (s *State) environment() map[string]string {
	environment := map[string]string{
		environmentBackend:         s.BackendURL,
		environmentFallback:        "true",
		"PULUMI_SKIP_UPDATE_CHECK": "true",
	}
	if s.PassphraseFile != "" {
		environment[environmentPassphraseFile] = s.PassphraseFile
	}
	return environment
}

// projectOf is the project settings of an inline program.
func projectOf(identity stackidentity.Identity) pulumiworkspace.Project {
	return pulumiworkspace.Project{
		Name:    tokens.PackageName(identity.Project),
		Runtime: pulumiworkspace.NewProjectRuntimeInfo("go", nil),
	}
}
