package lab

import (
	"net"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/process"
)

// Replica is a provider beside that of StartProvider.
type Replica struct {
	// Log is the file of its log.
	Log string

	process *process.Process
}

// StartReplica starts a provider beside that of StartProvider, with variables that count before those of the lab, name=value. Its name is in
// errors, and that of its log; a replica that is started again goes on with one log. It ends with the lab.
func (l *Lab) StartReplica(name string, environment ...string) (*Replica, error) {
	r := &Replica{Log: filepath.Join(l.Directory, name+".log")}
	var err error
	r.process, err = process.Start(process.Options{
		Name: name, Path: l.options.Provider, Env: append(l.environment(), environment...), LogFile: r.Log,
	})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas = append(l.replicas, r)
	return r, nil
}

// Kill ends a replica as kill -9 does.
func (r *Replica) Kill() { r.process.Kill() }

// Err tells of a replica that has ended on its own, with the end of its log.
func (r *Replica) Err() error { return r.process.Err() }

// Tail has the last lines of its log.
func (r *Replica) Tail() string { return process.Tail(r.Log) }

// FreePort is a port that nobody listens on.
func FreePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", errors.Wrap(err, "finding a port")
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Wrap(err, "finding a port")
}
