// Package quietterminal keeps a terminal from being asked for its color when a program starts.
//
// github.com/charmbracelet/bubbletea v1, which the Pulumi SDK brings along, asks the terminal in an init function: the question shows on
// terminals that do not know it, a start waits five seconds for one that does not answer, and whatever was typed ahead is swallowed with
// the answer. It does not ask where the environment says CI. So CI says so while packages are initialized, and not any more when Restore
// has run.
//
// Packages are initialized in the order of their import paths, each as soon as what it imports is (https://go.dev/ref/spec#Package_initialization):
// this one, which imports os alone, long before bubbletea. internal/cli/testdata/script/terminal.txt looks whether that holds.
package quietterminal

import "os"

const environment = "CI"

var changed = os.Getenv(environment) == "" && os.Setenv(environment, "true") == nil

// Restore gives the environment back as it was. Call it from an init function of a package that imports what must not ask.
func Restore() {
	if changed {
		_ = os.Unsetenv(environment)
		changed = false
	}
}
