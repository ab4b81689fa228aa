package nodepoolsserver

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases.
var version = ""

// readBuild reads which version this is, and of which commit where Go wrote that into the executable; "" where it did not.
func readBuild() (name, commit string) {
	name = version
	if info, ok := debug.ReadBuildInfo(); ok {
		name = cmp.Or(name, info.Main.Version)
		modified := ""
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				commit = setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				modified = ", modified"
			}
		}
		if commit != "" {
			commit += modified
		}
	}
	return cmp.Or(name, "(devel)"), commit
}

// versionText is what --version prints.
func versionText() string {
	name, commit := readBuild()
	if commit != "" {
		commit = ", commit " + commit
	}
	return fmt.Sprintf("nodepools-server %s (%s, %s/%s%s)\n", name, runtime.Version(), runtime.GOOS, runtime.GOARCH, commit)
}
