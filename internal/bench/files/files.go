// Package files reads the manifests that the baselines of the bench parse.
package files

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// Each reads the folder's files whose names end in .yaml and calls parse with the content of each, on all cores. It returns the first
// failure.
func Each(folder string, parse func(content []byte) error) error {
	found, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	work := make(chan string, len(found))
	for _, file := range found {
		work <- file
	}
	close(work)
	failures := make(chan error, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for range cap(failures) {
		group.Go(func() {
			for file := range work {
				content, err := os.ReadFile(file)
				if err == nil {
					err = parse(content)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}
