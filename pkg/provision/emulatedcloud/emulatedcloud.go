// Package emulatedcloud runs the emulated clouds inside of this process, with objects that outlive it: a cloud to try things on
// without an account.
package emulatedcloud

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/filelock"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// LockedError says that another process runs the emulated clouds of the directory.
type LockedError struct {
	// Process is its id; 0 when it is not known.
	Process int
}

// Error implements error.
func (e *LockedError) Error() string {
	who := "another process"
	if e.Process != 0 {
		who = "process " + strconv.Itoa(e.Process)
	}
	return "the emulated clouds are in use by " + who + "; wait until it has ended, or choose another state directory (" +
		provision.EnvironmentStateDirectory + ")"
}

// Clouds are the emulated clouds.
type Clouds struct {
	// Civo and DigitalOcean are the clouds, for those who want to look inside.
	Civo         *civo.Cloud
	DigitalOcean *digitalocean.Cloud

	settings settings
	servers  []*emulator.Server
	urls     map[string]string
	lock     *filelock.Lock
}

// settings are what stays the same from one run to the next: the states of stacks have them in their provider configs.
type settings struct {
	Token            string `json:"token"`
	CivoPort         int    `json:"civoPort"`
	DigitalOceanPort int    `json:"digitalOceanPort"`
}

// Options of the clouds.
type Options struct {
	// Directory is where the clouds' objects are kept; it is made where it is missing.
	Directory string
	// TimeScale is how long things take: 1 as long as in the real clouds, 0 no time at all.
	TimeScale float64
	// LockTimeout is how long to wait for another process that runs the clouds; 0 for not at all.
	LockTimeout time.Duration
	// OnWait, which may be nil, is told when there is such a process, before it is waited for.
	OnWait func(*LockedError)
}

// Start runs the clouds on the loopback interface until Close. The error is a *LockedError when another process runs them.
func Start(ctx context.Context, options Options) (*Clouds, error) {
	if err := os.MkdirAll(options.Directory, 0o700); err != nil {
		return nil, errors.Wrap(err, "create the folder of the emulated clouds")
	}
	lockFile := filepath.Join(options.Directory, "lock")
	lock, err := acquire(ctx, lockFile, options)
	if err != nil {
		return nil, err
	}
	clouds := &Clouds{lock: lock, urls: map[string]string{}}
	if err := clouds.start(options); err != nil {
		_ = clouds.Close()
		return nil, err
	}
	return clouds, nil
}

// acquire takes the lock of the clouds.
func acquire(ctx context.Context, lockFile string, options Options) (*filelock.Lock, error) {
	lock, err := filelock.Try(lockFile)
	if errors.Is(err, filelock.ErrLocked) && options.LockTimeout > 0 {
		if options.OnWait != nil {
			options.OnWait(&LockedError{Process: filelock.Holder(lockFile)})
		}
		waiting, cancel := context.WithTimeout(ctx, options.LockTimeout)
		defer cancel()
		lock, err = filelock.Acquire(waiting, lockFile, nil)
		if err != nil && ctx.Err() == nil && waiting.Err() != nil {
			err = filelock.ErrLocked
		}
	}
	if errors.Is(err, filelock.ErrLocked) {
		return nil, &LockedError{Process: filelock.Holder(lockFile)}
	}
	return lock, errors.Wrap(err, "lock the emulated clouds")
}

func (c *Clouds) start(options Options) error {
	file := filepath.Join(options.Directory, "settings.json")
	if err := c.load(file); err != nil {
		return err
	}
	before := c.settings
	if c.settings.Token == "" {
		c.settings.Token = rand.Text()
	}

	cloud := func(name string) emulator.Options {
		return emulator.Options{
			Token: c.settings.Token, TimeScale: options.TimeScale, StateFile: filepath.Join(options.Directory, name+".json"),
		}
	}
	var err error
	if c.Civo, err = civo.New(cloud("civo")); err != nil {
		return errors.Wrap(err, "start the emulated civo")
	}
	if c.DigitalOcean, err = digitalocean.New(cloud("digitalocean")); err != nil {
		return errors.Wrap(err, "start the emulated digitalocean")
	}
	if c.settings.CivoPort, err = c.serve("civo", c.settings.CivoPort, c.Civo); err != nil {
		return err
	}
	if c.settings.DigitalOceanPort, err = c.serve("digitalocean", c.settings.DigitalOceanPort, c.DigitalOcean); err != nil {
		return err
	}
	if c.settings == before {
		return nil
	}
	return c.save(file)
}

// serve listens on the port of the last run, or on a free one when somebody else has taken it.
func (c *Clouds) serve(name string, port int, handler http.Handler) (int, error) {
	server, err := emulator.Listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), handler)
	if err != nil && port != 0 {
		server, err = emulator.Listen("127.0.0.1:0", handler)
	}
	if err != nil {
		return 0, errors.Wrapf(err, "serve the emulated %s", name)
	}
	c.servers = append(c.servers, server)
	c.urls[name] = server.URL()
	_, text, err := net.SplitHostPort(server.Addr())
	if err != nil {
		return 0, errors.Wrapf(err, "tell the port of the emulated %s", name)
	}
	taken, err := strconv.Atoi(text)
	return taken, errors.Wrapf(err, "tell the port of the emulated %s", name)
}

func (c *Clouds) load(file string) error {
	content, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return errors.Wrap(err, "read the settings of the emulated clouds")
	}
	return errors.Wrapf(json.Unmarshal(content, &c.settings), "read %s (remove it to start anew)", file)
}

func (c *Clouds) save(file string) error {
	content, err := json.MarshalIndent(c.settings, "", "  ")
	if err != nil {
		return errors.Wrap(err, "write the settings of the emulated clouds")
	}
	return provision.WritePrivate(file, string(content)+"\n")
}

// ProviderConfigs tell how to reach the clouds.
func (c *Clouds) ProviderConfigs() provision.ProviderConfigs {
	return provision.ProviderConfigs{
		Civo:         &civov1.CivoProviderConfig{ApiToken: c.settings.Token, ApiEndpoint: c.urls["civo"]},
		DigitalOcean: &digitaloceanv1.DigitalOceanProviderConfig{ApiToken: c.settings.Token, ApiEndpoint: c.urls["digitalocean"]},
	}
}

// Close stops the clouds. Their objects stay.
func (c *Clouds) Close() error {
	var first error
	for _, server := range c.servers {
		if err := server.Close(); err != nil && first == nil {
			first = err
		}
	}
	if err := c.lock.Unlock(); err != nil && first == nil {
		first = err
	}
	return first
}
