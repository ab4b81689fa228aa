package nativeprovider

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// EnvironmentJournal names the folder in which a plugin binary remembers creates.
const EnvironmentJournal = "PLANTON_CREATES_DIR"

// defaultJournal is where a plugin binary remembers creates: the folder that the environment names, or planton/creates in PULUMI_HOME
// (~/.pulumi). scope tells the backends apart that are used on one machine: a URN names stack, project and resource, and not the backend. It is a hash, for the address of a backend may hold a password.
func defaultJournal(getenv func(string) string) (directory, scope string, err error) {
	home := getenv("PULUMI_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil && getenv(EnvironmentJournal) == "" {
			return "", "", errors.Wrapf(err, "find a folder to remember creates in (set %s)", EnvironmentJournal)
		}
		home = filepath.Join(user, ".pulumi")
	}
	if directory, err = filepath.Abs(home); err == nil {
		directory = filepath.Join(directory, "planton", "creates")
		if asked := getenv(EnvironmentJournal); asked != "" {
			directory, err = filepath.Abs(asked)
		}
	}
	return directory, journal.Hash(backend(getenv("PULUMI_BACKEND_URL"), home)), errors.Wrap(err, "find a folder to remember creates in")
}

// backend is the address of the Pulumi backend in use: of the environment, or the one that the user is logged in to.
func backend(fromEnvironment, home string) string {
	if fromEnvironment != "" {
		return fromEnvironment
	}
	content, err := os.ReadFile(filepath.Join(home, "credentials.json"))
	if err != nil {
		return "" // not logged in: pulumi says so itself
	}
	var login struct {
		Current string `json:"current"`
	}
	if json.Unmarshal(content, &login) != nil {
		return ""
	}
	return login.Current
}
