package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pkg/errors"
)

// The programs of a control plane.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	scheduler         = "kube-scheduler"
	controllerManager = "kube-controller-manager"
	kwok              = "kwok"
)

// assetsVariable names a folder with the programs, as setup-envtest has it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// MissingError tells that programs have not been built.
type MissingError struct {
	// Names are the names of the programs.
	Names []string
}

// Error says how to get the programs.
func (e *MissingError) Error() string {
	return fmt.Sprintf("no control plane can be started, because %s was not found: `make tools` builds what is missing (kube-apiserver takes "+
		"about ten minutes on two cores, once a machine), and so does `for t in %s; do tools/tool $t; done`; "+
		"or %s names a folder with the programs", strings.Join(e.Names, ", "), strings.Join(e.Names, " "), assetsVariable)
}

// IsMissing tells whether programs have not been built: a test without them says so loudly and is skipped.
func IsMissing(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}

// Check returns a MissingError when a program that Start needs for these options has not been built.
func Check(o Options) error {
	_, err := find(o)
	return err
}

// find returns the paths of the programs by name.
func find(o Options) (map[string]string, error) {
	names := []string{etcd, apiServer}
	for name, wanted := range map[string]bool{scheduler: o.Scheduler, controllerManager: o.ControllerManager, kwok: o.Kwok} {
		if wanted {
			names = append(names, name)
		}
	}
	found, missing := map[string]string{}, &MissingError{}
	for _, name := range names {
		path, err := Binary(name)
		switch {
		case err == nil:
			found[name] = path
		case IsMissing(err):
			missing.Names = append(missing.Names, name)
		default:
			return nil, err
		}
	}
	if len(missing.Names) > 0 {
		return nil, missing
	}
	return found, nil
}

// Binary returns the path of a program: one in the folder that KUBEBUILDER_ASSETS names, else the one that tools/tool built. It returns
// a MissingError where there is none, and never builds.
func Binary(name string) (string, error) {
	if folder := os.Getenv(assetsVariable); folder != "" {
		if path := filepath.Join(folder, name); executable(path) {
			return path, nil
		}
	}
	tool, err := toolScript()
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cmd := exec.Command("sh", tool, "--where", name)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return strings.TrimSpace(string(out)), nil
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return "", &MissingError{Names: []string{name}}
	default:
		return "", errors.Wrapf(err, "asking %s for %s: %s", tool, name, strings.TrimSpace(stderr.String()))
	}
}

// toolScript is tools/tool of the checkout that the working directory, or this source, is in.
func toolScript() (string, error) {
	var from []string
	if wd, err := os.Getwd(); err == nil {
		from = append(from, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		from = append(from, filepath.Dir(file))
	}
	for _, folder := range from {
		for ; ; folder = filepath.Dir(folder) {
			if tool := filepath.Join(folder, "tools", "tool"); executable(tool) && executable(filepath.Join(folder, "tools", "kubernetes")) {
				return tool, nil
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return "", errors.Errorf("no checkout with tools/tool above the working directory: run this inside one, or name a folder with %s, %s and "+
		"what else is needed in %s", etcd, apiServer, assetsVariable)
}

// executable tells whether there is something that may be executed, or entered.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}
