package provision

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Inspection tells where states are kept, or would be, and what protects the secrets in them. To inspect makes nothing.
type Inspection struct {
	// BackendURL is the backend's, without a password in it.
	BackendURL string
	// Folder is the folder of a backend in files; empty for another one.
	Folder string
	// Stacks tells that a backend in files holds stacks.
	Stacks bool
	// Gone is what OpenState would refuse with, because the folder is not the one that stacks were kept in; nil when it is.
	Gone error
	// Locked are the stacks of a backend in files that have locks, with nothing else of them than that.
	Locked []StackSummary
	// Home is PULUMI_HOME, in which plugins are looked for; empty where that cannot be told.
	Home string
	// PassphraseFrom is the variable or the file that the passphrase comes from; empty when none is needed, or there is none yet.
	PassphraseFrom string
	// PassphraseFile is that file; empty when it is none.
	PassphraseFile string
	// PassphraseMade tells that the file is the one that is made up when it is missing.
	PassphraseMade bool
	// SecretsProvider encrypts the secrets of new stacks; empty for the backend's default.
	SecretsProvider string
}

// InspectState tells what OpenState would do, and InspectLocalState what OpenLocalState would.
func InspectState(directory string, getenv func(string) string) Inspection {
	return inspect(directory, getenv(environmentBackend), getenv(EnvironmentSecretsProvider), getenv)
}

// InspectLocalState tells what OpenLocalState would do.
func InspectLocalState(directory string, getenv func(string) string) Inspection {
	return inspect(directory, "", "", getenv)
}

func inspect(directory, backend, secretsProvider string, getenv func(string) string) Inspection {
	found := Inspection{Home: getenv(environmentHome), SecretsProvider: secretsProvider, BackendURL: withoutPassword(backend)}
	if backend == "" {
		found.Folder = filepath.Join(directory, "backend")
		found.BackendURL = fileURL(found.Folder)
		found.Gone = checkBackend(directory, found.Folder)
		if found.Home == "" {
			found.Home = filepath.Join(directory, "pulumi")
		}
	} else {
		found.Folder = folderOf(backend)
		if home, err := os.UserHomeDir(); err == nil && found.Home == "" {
			found.Home = filepath.Join(home, ".pulumi")
		}
	}
	if found.Folder != "" {
		stacks, err := fs.Glob(os.DirFS(found.Folder), ".pulumi/stacks/*/*.json")
		found.Stacks = err == nil && len(stacks) > 0
		if identities, err := lockedIn(found.Folder); err == nil {
			for _, identity := range identities {
				if locks, err := locksIn(found.Folder, identity); err == nil && len(locks) > 0 {
					found.Locked = append(found.Locked, StackSummary{Identity: identity, Locks: locks})
				}
			}
		}
	}
	_, set := os.LookupEnv(environmentPassphrase)
	switch {
	case strings.HasPrefix(backend, "https://") || strings.HasPrefix(backend, "http://"):
	case set || getenv(environmentPassphrase) != "":
		found.PassphraseFrom = environmentPassphrase
	case getenv(environmentPassphraseFile) != "":
		found.PassphraseFrom, found.PassphraseFile = environmentPassphraseFile, getenv(environmentPassphraseFile)
	case secretsProvider == "":
		found.PassphraseFile, found.PassphraseMade = filepath.Join(directory, "passphrase"), true
		found.PassphraseFrom = found.PassphraseFile
	}
	return found
}

// withoutPassword is a URL without the password in it.
func withoutPassword(backend string) string {
	parsed, err := url.Parse(backend)
	if err != nil {
		scheme, _, _ := strings.Cut(backend, ":")
		return scheme + ":..." // it may hold a password, and cannot be taken apart
	}
	parsed.RawQuery = ""
	return parsed.Redacted()
}

// folderOf is the folder of a backend in files, empty for another one.
func folderOf(backend string) string {
	parsed, err := url.Parse(backend)
	if err != nil || parsed.Scheme != "file" || parsed.Host != "" {
		return ""
	}
	folder := filepath.FromSlash(parsed.Path)
	if runtime.GOOS == "windows" {
		folder = strings.TrimPrefix(folder, `\`)
	}
	return folder
}
