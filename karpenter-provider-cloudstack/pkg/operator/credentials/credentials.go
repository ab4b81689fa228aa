// Package credentials reads the credentials of CloudStack from a directory, and the certificates that are trusted from a file, and reads
// them again when they change.
package credentials

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

const (
	// maxFile bounds a file: keys of CloudStack have 86 characters.
	maxFile = 4096
	// maxBundle bounds the file of certificates: all that a system trusts are a quarter of that.
	maxBundle = 1 << 20
)

var (
	valid = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "credentials_valid",
		Help: "Whether the credentials in the directory are complete and well-formed (1) or not (0). Where not, those from before are in use.",
	})
	bundleValid = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "ca_bundle_valid",
		Help: "Whether the file of trusted certificates can be read and has one (1) or not (0). Where not, those from before are in use.",
	})
	reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "credentials_reloads_total",
		Help: "Changes of the credentials in the directory, by result: used, or refused because they are not complete or not well-formed.",
	}, []string{"result"})
)

func init() { metrics.Registry.MustRegister(valid, bundleValid, reloads) }

// Read reads the credentials. An error names the file and the rule that it breaks, and nothing of what is in it.
//
// address takes the place of the file api-url where it is not empty.
func Read(directory, address string) (cloudstack.Credentials, error) {
	var read cloudstack.Credentials
	into := map[string]*string{options.FileAPIURL: &read.URL, options.FileAPIKey: &read.APIKey, options.FileSecretKey: &read.SecretKey}
	for _, name := range []string{options.FileAPIURL, options.FileAPIKey, options.FileSecretKey} {
		if name == options.FileAPIURL && address != "" {
			read.URL = address
			continue
		}
		text, err := readFile(filepath.Join(directory, name))
		if err != nil {
			return cloudstack.Credentials{}, err
		}
		*into[name] = text
	}
	return read, nil
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", errors.Errorf("there is no file %s: the Secret needs the key %s", path, filepath.Base(path))
		}
		return "", errors.WithStack(err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", errors.WithStack(err)
	}
	text := strings.TrimSpace(string(content))
	switch {
	case len(content) > maxFile:
		return "", errors.Errorf("the file %s is longer than %d bytes", path, maxFile)
	case text == "":
		return "", errors.Errorf("the file %s is empty", path)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }):
		return "", errors.Errorf("the file %s has blanks, line breaks or control characters in it", path)
	}
	return text, nil
}

// Client takes the credentials, and the certificates in PEM that are trusted.
type Client interface {
	SetCredentials(cloudstack.Credentials) error
	SetCABundle([]byte) error
}

// Watcher looks at the directory and the file, and hands a change to the client. What is not complete is not used: those from before stay.
type Watcher struct {
	client     Client
	directory  string
	address    string
	bundleFile string
	period     time.Duration
	changed    func()

	used, candidate cloudstack.Credentials
	problem         string

	bundle, bundleCandidate string
	bundleProblem           string
}

// NewWatcher makes a watcher. changed is called after each exchange; nil for nobody.
func NewWatcher(client Client, o *options.Options, changed func()) *Watcher {
	return &Watcher{
		client: client, directory: o.CredentialsDirectory, address: o.APIURL, bundleFile: o.CABundleFile, period: o.CredentialsPeriod,
		changed: changed,
	}
}

// Load looks at the directory and the file for the first time, and uses what is there at once. An error is also logged and counted: the
// controller goes on without credentials, and uses them when they are there.
func (w *Watcher) Load(ctx context.Context) error {
	w.lookAtBundle(ctx, true)
	read, err := Read(w.directory, w.address)
	if err == nil {
		err = w.use(ctx, read)
	}
	w.report(ctx, err)
	return err
}

// Start implements manager.Runnable: it looks at the directory and the file until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(w.period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.look(ctx)
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: whoever waits to lead has the credentials too.
func (*Watcher) NeedLeaderElection() bool { return false }

// look looks at the directory once. Files that are written one after the other are a mix of old and new for a while, so a change counts
// when two looks have found the same.
func (w *Watcher) look(ctx context.Context) {
	w.lookAtBundle(ctx, false)
	read, err := Read(w.directory, w.address)
	switch {
	case err != nil:
	case read == w.used:
	case read != w.candidate:
		w.candidate = read
		return
	default:
		err = w.use(ctx, read)
	}
	w.report(ctx, err)
}

func (w *Watcher) use(ctx context.Context, read cloudstack.Credentials) error {
	if err := w.client.SetCredentials(read); err != nil {
		return err
	}
	if strings.HasPrefix(strings.ToLower(read.URL), "http://") {
		log.FromContext(ctx).Info("requests to CloudStack are not encrypted: the address of the API begins with http://")
	}
	first := w.used == cloudstack.Credentials{}
	w.used, w.candidate = read, cloudstack.Credentials{}
	if !first {
		log.FromContext(ctx).Info("using the credentials of CloudStack that have changed")
	}
	reloads.WithLabelValues("used").Inc()
	if w.changed != nil {
		w.changed()
	}
	return nil
}

// report logs and counts what is wrong once, not at each look.
func (w *Watcher) report(ctx context.Context, err error) {
	if err == nil {
		w.problem = ""
		valid.Set(1)
		return
	}
	valid.Set(0)
	if w.problem == err.Error() {
		return
	}
	w.problem = err.Error()
	reloads.WithLabelValues("refused").Inc()
	message := "the credentials of CloudStack cannot be used, those from before stay"
	if (w.used == cloudstack.Credentials{}) {
		message = "the credentials of CloudStack cannot be used, and there are none from before"
	}
	log.FromContext(ctx).Error(errors.New(w.problem), message)
}

// lookAtBundle looks at the file of certificates once. Like credentials, a change counts when two looks have found the same, but for the
// first of all looks.
func (w *Watcher) lookAtBundle(ctx context.Context, first bool) {
	if w.bundleFile == "" {
		return
	}
	read, err := readBundle(w.bundleFile)
	switch {
	case err != nil:
	case read == w.bundle:
	case !first && read != w.bundleCandidate:
		w.bundleCandidate = read
		return
	default:
		if err = w.client.SetCABundle([]byte(read)); err != nil {
			err = errors.Wrapf(err, "the file %s", w.bundleFile)
			break
		}
		w.bundle = read
		if !first {
			log.FromContext(ctx).Info("trusting the certificates that have changed", "file", w.bundleFile)
			if w.changed != nil {
				w.changed()
			}
		}
	}
	if err == nil {
		w.bundleProblem = ""
		bundleValid.Set(1)
		return
	}
	bundleValid.Set(0)
	if w.bundleProblem == err.Error() {
		return
	}
	w.bundleProblem = err.Error()
	log.FromContext(ctx).Error(errors.New(w.bundleProblem), "the certificates to trust cannot be used, those from before stay")
}

func readBundle(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.WithStack(err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxBundle+1))
	if err != nil {
		return "", errors.WithStack(err)
	}
	if len(content) > maxBundle {
		return "", errors.Errorf("the file %s is longer than %d bytes", path, maxBundle)
	}
	return string(content), nil
}
