//go:build unix

// Command small is what the bench needs a small program for: to measure others, because a process is said to have taken at least the
// memory of the one that started it, and to be a baseline.
//
//	small nothing               ends
//	small yaml FOLDER           parses the documents of the folder's files, on all cores, and does nothing with them
//	small run PROGRAM [ARG...]  runs a program, and tells what it took as JSON
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plantonhq/project-planton/internal/bench/files"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "small:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "nothing":
		return nil
	case len(args) == 2 && args[0] == "yaml":
		return files.Each(args[1], parse)
	case len(args) > 1 && args[0] == "run":
		return measure(args[1:])
	}
	return errors.New("want nothing, yaml FOLDER or run PROGRAM")
}

func parse(content []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func measure(args []string) error {
	command := exec.Command(args[0], args[1:]...)
	command.Stdout, command.Stderr = nil, os.Stderr
	start := time.Now()
	if err := command.Run(); err != nil {
		return err
	}
	wall := time.Since(start)
	state := command.ProcessState
	var memory int64
	if rusage, ok := state.SysUsage().(*syscall.Rusage); ok {
		memory = int64(rusage.Maxrss) //nolint:unconvert // 32 bits wide on some platforms
		if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
			memory <<= 10 // in KiB there
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"wall": int64(wall), "cpu": int64(state.UserTime() + state.SystemTime()), "memory": memory,
	})
}
