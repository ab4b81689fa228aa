// Package cloudemulator is the command cloud-emulator: the emulated clouds of pkg/emulator, each on a loopback address of its
// own, until the process is told to stop.
package cloudemulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/filelock"
)

// tokenVariable is where the token is read from when there is no --token-file. There is no flag for the token itself: every
// user of the machine can read the arguments of a process.
const tokenVariable = "CLOUD_EMULATOR_TOKEN"

type flags struct {
	civo, digitalOcean string
	timeScale          float64
	stateDir           string
	tokenFile          string
	output             string
	logRequests        bool
	faults             string
}

// Command is the command cloud-emulator. It serves until its context ends.
func Command() *cobra.Command {
	f := flags{}
	command := &cobra.Command{
		Use:   "cloud-emulator",
		Short: "Serve emulated clouds on this machine",
		Long: `Serve emulations of the Civo and DigitalOcean APIs on this machine, for trying out and testing what provisions
Kubernetes clusters. Nothing is built: the clusters exist in the emulator alone, and their kubeconfigs lead nowhere.

Clients are pointed at the emulator by the environment variables that the command prints. With a token in the environment
variable ` + tokenVariable + ` or in --token-file, only that one is accepted; without, any is.

With --faults, the clouds fail as a plan says. ` + fault.AdminPath + `faults on each cloud's address shows the plan, replaces it (PUT) and lifts
it (DELETE); ` + fault.AdminPath + `requests shows what the cloud was asked.`,
		Example: `  cloud-emulator
  cloud-emulator --civo 127.0.0.1:8400 --digitalocean "" --time-scale 1
  cloud-emulator --state-dir ~/.local/state/cloud-emulator --token-file token
  cloud-emulator --faults faults.yaml`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), f, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	command.Flags().StringVar(&f.civo, "civo", "127.0.0.1:8400", `address to serve Civo on, port 0 for a free one, "" not to serve it`)
	command.Flags().StringVar(&f.digitalOcean, "digitalocean", "127.0.0.1:8401", `address to serve DigitalOcean on, port 0 for a free one, "" not to serve it`)
	command.Flags().Float64Var(&f.timeScale, "time-scale", 0.01, "how long things take: 1 as in the real cloud (a cluster two minutes), 0 no time")
	command.Flags().StringVar(&f.stateDir, "state-dir", "", "folder to keep the clouds' objects in; in memory only without")
	command.Flags().StringVar(&f.tokenFile, "token-file", "", "file that holds the API token to accept")
	command.Flags().StringVarP(&f.output, "output", "o", "text", "how to print the addresses: text or json")
	command.Flags().BoolVar(&f.logRequests, "log-requests", false, "print each request to stderr as a line of JSON, without secrets")
	command.Flags().StringVar(&f.faults, "faults", "", "file with a plan of faults, YAML")
	return command
}

// cloud is one emulated cloud that is to be served.
type cloud struct {
	name string
	addr string
	// variable is what its clients read the API's address from.
	variable string
	new      func(emulator.Options, fault.Plan) (http.Handler, error)
}

// faulty makes a cloud that fails as a plan says, with the admin route beside it.
func faulty[C fault.Cloud](newCloud func(emulator.Options) (C, error)) func(emulator.Options, fault.Plan) (http.Handler, error) {
	return func(options emulator.Options, plan fault.Plan) (http.Handler, error) {
		_, injector, err := fault.New(newCloud, options, plan)
		if err != nil {
			return nil, err
		}
		return injector.Handler(), nil
	}
}

// address is what the command prints of a cloud.
type address struct {
	Cloud string `json:"cloud"`
	URL   string `json:"url"`
	// Environment is what to set for the cloud's clients.
	Environment map[string]string `json:"environment"`
}

func run(ctx context.Context, f flags, stdout, stderr io.Writer) (failure error) {
	if f.output != "text" && f.output != "json" {
		return errors.Errorf("output %q: want text or json", f.output)
	}
	clouds := []cloud{
		{name: "civo", addr: f.civo, variable: "CIVO_API_URL", new: faulty(civo.New)},
		{name: "digitalocean", addr: f.digitalOcean, variable: "DIGITALOCEAN_API_URL", new: faulty(digitalocean.New)},
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return err
	}
	var plan fault.Plan
	if f.faults != "" {
		if plan, err = fault.Read(f.faults); err != nil {
			return err
		}
	}
	options := emulator.Options{Token: token, TimeScale: f.timeScale}
	if f.logRequests {
		options.OnRequest = requestPrinter(stderr)
	}
	if f.stateDir != "" {
		// Two emulators that keep their objects in one place would undo each other's changes.
		lock, err := filelock.Try(filepath.Join(f.stateDir, "lock"))
		if errors.Is(err, filelock.ErrLocked) {
			return errors.Wrapf(err, "another cloud-emulator uses %s", f.stateDir)
		}
		if err != nil {
			return errors.Wrap(err, "lock the state folder")
		}
		defer func() { _ = lock.Unlock() }()
	}

	addresses := []address{}
	for _, cloud := range clouds {
		if cloud.addr == "" {
			continue
		}
		if f.stateDir != "" {
			options.StateFile = filepath.Join(f.stateDir, cloud.name+".json")
		}
		handler, err := cloud.new(options, plan)
		if err != nil {
			return err
		}
		server, err := emulator.Listen(cloud.addr, handler)
		if err != nil {
			return errors.Wrapf(err, "serve %s", cloud.name)
		}
		defer func() {
			if err := server.Close(); err != nil && failure == nil {
				failure = err
			}
		}()
		addresses = append(addresses, address{
			Cloud: cloud.name, URL: server.URL(), Environment: map[string]string{cloud.variable: server.URL()},
		})
	}
	if len(addresses) == 0 {
		return errors.New("nothing to serve: both --civo and --digitalocean are empty")
	}
	if err := printAddresses(stdout, f.output, addresses); err != nil {
		return err
	}
	if f.output == "text" {
		if _, err := fmt.Fprintf(stderr, "Serving until interrupted (Ctrl+C).%s\n", tokenHint(token)); err != nil {
			return errors.Wrap(err, "print the hint")
		}
	}
	<-ctx.Done()
	return nil
}

// readToken is the token that is accepted, "" for any.
func readToken(path string) (string, error) {
	if path == "" {
		return os.Getenv(tokenVariable), nil
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		return "", errors.Wrap(err, "read the token")
	}
	token := strings.TrimSpace(string(contents))
	if token == "" {
		return "", errors.Errorf("read the token: %s is empty", path)
	}
	return token, nil
}

func tokenHint(token string) string {
	if token == "" {
		return " Any API token is accepted: CIVO_TOKEN and DIGITALOCEAN_TOKEN can hold any text."
	}
	return ""
}

// printAddresses prints shell commands to stdout, so that the output can be evaluated, or one JSON document.
func printAddresses(w io.Writer, format string, addresses []address) error {
	var text strings.Builder
	if format == "json" {
		encoded, err := json.MarshalIndent(addresses, "", "  ")
		if err != nil {
			return errors.Wrap(err, "encode the addresses")
		}
		text.Write(encoded)
		text.WriteByte('\n')
	} else {
		for _, address := range addresses {
			fmt.Fprintf(&text, "# %s listens on %s\n", address.Cloud, address.URL)
			for name, value := range address.Environment {
				fmt.Fprintf(&text, "export %s=%s\n", name, value)
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return errors.Wrap(err, "print the addresses")
}

// requestPrinter writes one line a request.
func requestPrinter(w io.Writer) func(emulator.Request) {
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return func(request emulator.Request) {
		mu.Lock()
		defer mu.Unlock()
		request.Time = request.Time.UTC().Truncate(time.Millisecond)
		// A log that cannot be written is no reason to fail a request.
		_ = encoder.Encode(request)
	}
}
