// Package options has the options of the provider: what core's options do not know of. Each is a flag and a variable of the environment;
// the flag counts where both are given.
package options

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"go.uber.org/multierr"
	"k8s.io/apimachinery/pkg/util/validation"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// Names of the files in the directory of the credentials, which are the keys of the Secret that is mounted there.
const (
	FileAPIURL    = "api-url"
	FileAPIKey    = "api-key"
	FileSecretKey = "secret-key"
)

// The options of the provider are read with those of core, by core.
func init() { coreoptions.Injectables = append(coreoptions.Injectables, &Options{}) }

// Options are the options of the provider. The names of flags and variables, defaults and bounds are in References.
type Options struct {
	// ClusterName is the name by which machines in CloudStack are known as those of this cluster.
	ClusterName string
	// SystemNamespace is the namespace of the controller, where Secrets without a namespace are.
	SystemNamespace string

	// CredentialsDirectory is the directory with the files api-url, api-key and secret-key.
	CredentialsDirectory string
	// CredentialsPeriod is the time between two looks at them.
	CredentialsPeriod time.Duration
	// APIURL is the address of the API; empty for that in the directory.
	APIURL string
	// VerifySSL has the certificate of the API verified.
	VerifySSL bool
	// CABundleFile is a file of certificates in PEM that are trusted beside those of the system; empty for none.
	CABundleFile string
	// Proxy is the URL of a proxy; empty for that of HTTPS_PROXY and NO_PROXY. It may have a password in it, and is never logged.
	Proxy string
	// APIRate is how many requests a second are made at most, APIBurst how many at once.
	APIRate  float64
	APIBurst int
	// APITimeout bounds a request.
	APITimeout time.Duration
	// CheckPeriod is the time between two checks whether the API can be reached.
	CheckPeriod time.Duration

	// ProviderIDFormat is "ccm", "capc" or a prefix, see cloudprovider.ProviderID.
	ProviderIDFormat string
	// VMMemoryOverheadPercent is what of the memory of an offering the system of a machine does not see, in percent.
	VMMemoryOverheadPercent float64
	// Region is the topology.kubernetes.io/region of nodes; empty for none.
	Region string
	// DeployConcurrency is how many requests for a machine are made at a time.
	DeployConcurrency int
	// LaunchTimeout is how long a NodeClaim without a machine lives.
	LaunchTimeout time.Duration
	// NodeRepairToleration is how long a node may be not ready before it is replaced, with core's feature gate NodeRepair.
	NodeRepairToleration time.Duration
	// UserDataMaxBytes is how long user data is at most, base64 encoded.
	UserDataMaxBytes int
	// GC bounds the garbage collection.
	GC GC

	// wrong says what is wrong with values of the environment and the flags, by the name of the flag.
	wrong map[string]error
}

// GC bounds the collection of machines that no NodeClaim is for.
type GC struct {
	// Grace is how old a machine is at least before it can be taken for garbage.
	Grace time.Duration
	// DryRun has garbage reported, and not deleted.
	DryRun bool
	// MaxDeletions is how many machines are deleted in a cycle at most.
	MaxDeletions int
}

// Reference describes an option.
type Reference struct {
	// Flag is the name of the flag, without dashes.
	Flag string
	// Environment is the name of the variable.
	Environment string
	// Default is the value where neither is given; empty for none.
	Default string
	// Usage says what the option is for.
	Usage string
}

// option is a Reference, and how its value is read. The error of set says which rule a value breaks.
type option struct {
	Reference
	isBool bool
	set    func(string) error
}

var (
	// Cluster names are values of tags, and parts of display names and names of affinity groups.
	clusterNamePattern = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?$`)
	namespacePattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	prefixPattern      = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:///?$`)
)

// all are the options, each with where its value goes.
func (o *Options) all() []option {
	return []option{
		{Reference{"cluster-name", "CLUSTER_NAME", "", "Name of this cluster, by which its machines in CloudStack are known. Never change it: machines with the old name are no longer this cluster's. Needed."},
			false, text(&o.ClusterName, func(s string) error {
				if s != "" && !clusterNamePattern.MatchString(s) {
					return errors.New("up to 63 letters, digits, dashes, underscores and dots, a letter or digit first and last")
				}
				return nil
			})},
		{Reference{"system-namespace", "SYSTEM_NAMESPACE", "karpenter", "Namespace of the controller, where Secrets are that a CloudStackNodeClass names without a namespace."},
			false, text(&o.SystemNamespace, func(s string) error {
				if !namespacePattern.MatchString(s) {
					return errors.New("the name of a namespace")
				}
				return nil
			})},
		{Reference{"cloudstack-credentials-dir", "CLOUDSTACK_CREDENTIALS_DIR", "/etc/cloudstack", "Directory with the files " + FileAPIURL + ", " + FileAPIKey + " and " + FileSecretKey + ", such as a mounted Secret. A change counts without a restart."},
			false, text(&o.CredentialsDirectory, func(s string) error {
				if s == "" {
					return errors.New("a directory")
				}
				return nil
			})},
		{Reference{"cloudstack-credentials-period", "CLOUDSTACK_CREDENTIALS_PERIOD", "5s", "Time between two looks at the credentials and at the file of certificates."},
			false, duration(&o.CredentialsPeriod, 10*time.Millisecond, time.Hour)},
		{Reference{"cloudstack-api-url", "CLOUDSTACK_API_URL", "", "Address of the API, such as https://cloudstack.example.com/client/api. Without it, the file " + FileAPIURL + " tells it."},
			false, text(&o.APIURL, func(s string) error {
				return absent(s, "an http or https URL without user and password", "http", "https")
			})},
		{Reference{"cloudstack-verify-ssl", "CLOUDSTACK_VERIFY_SSL", "true", "Whether the certificate of the API is verified. With false, whoever is between here and CloudStack can act as you."},
			true, boolean(&o.VerifySSL)},
		{Reference{"cloudstack-ca-bundle-file", "CLOUDSTACK_CA_BUNDLE_FILE", "", "File of certificates in PEM that are trusted beside those of the system. A change counts without a restart."},
			false, text(&o.CABundleFile, nil)},
		{Reference{"cloudstack-proxy", "CLOUDSTACK_PROXY", "", "URL of the proxy to the API. Without it, HTTPS_PROXY, HTTP_PROXY and NO_PROXY count."},
			false, text(&o.Proxy, proxy)},
		{Reference{"cloudstack-api-rate", "CLOUDSTACK_API_RATE", "20", "Requests to the API a second at most. A lower limit that CloudStack tells counts instead."},
			false, number(&o.APIRate, 0.1, 10000)},
		{Reference{"cloudstack-api-burst", "CLOUDSTACK_API_BURST", "40", "Requests to the API at once at most."},
			false, integer(&o.APIBurst, 1, 10000)},
		{Reference{"cloudstack-api-timeout", "CLOUDSTACK_API_TIMEOUT", "30s", "Time that a request to the API may take."},
			false, duration(&o.APITimeout, time.Second, 10*time.Minute)},
		{Reference{"cloudstack-check-period", "CLOUDSTACK_CHECK_PERIOD", "30s", "Time between two checks whether the API can be reached."},
			false, duration(&o.CheckPeriod, 10*time.Millisecond, time.Hour)},
		{Reference{"provider-id-format", "PROVIDER_ID_FORMAT", "ccm", "Form of spec.providerID of nodes: ccm for external-cloudstack://<id>, capc for cloudstack:///<id>, or another prefix such as mycloud://. It has to be that which kubelets or the cloud controller manager set."},
			false, text(&o.ProviderIDFormat, func(s string) error {
				if s != "ccm" && s != "capc" && !prefixPattern.MatchString(s) {
					return errors.New("ccm, capc or a prefix such as mycloud://")
				}
				return nil
			})},
		{Reference{"vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT", "7.5", "Share of the memory of an offering that the system of a machine does not see, in percent."},
			false, number(&o.VMMemoryOverheadPercent, 0, 50)},
		{Reference{"region", "REGION", "", "Region that the cloud controller manager labels nodes with (topology.kubernetes.io/region), where it does."},
			false, text(&o.Region, func(s string) error {
				if len(validation.IsValidLabelValue(s)) > 0 {
					return errors.New("the value of a label: up to 63 letters, digits, dashes, underscores and dots, a letter or digit first and last")
				}
				return nil
			})},
		{Reference{"deploy-concurrency", "DEPLOY_CONCURRENCY", "20", "Requests for a machine that are made at a time at most. CloudStack queues the jobs that follow."},
			false, integer(&o.DeployConcurrency, 1, 5000)},
		{Reference{"launch-timeout", "LAUNCH_TIMEOUT", "5m", "Time after which a NodeClaim is given up that no machine was deployed for. Longer for templates that take long to be copied."},
			false, duration(&o.LaunchTimeout, time.Minute, 2*time.Hour)},
		{Reference{"node-repair-toleration", "NODE_REPAIR_TOLERATION", "10m", "Time that a node may be not ready before it is replaced. It counts with Karpenter's feature gate NodeRepair."},
			false, duration(&o.NodeRepairToleration, time.Second, 24*time.Hour)},
		{Reference{"user-data-max-bytes", "USER_DATA_MAX_BYTES", "32768", "Length of user data at most, base64 encoded: vm.userdata.max.length of CloudStack."},
			false, integer(&o.UserDataMaxBytes, 1024, 1<<20)},
		{Reference{"gc-grace", "GC_GRACE", "5m", "Age of a machine before it can be taken for garbage."},
			false, duration(&o.GC.Grace, time.Second, 24*time.Hour)},
		{Reference{"gc-dry-run", "GC_DRY_RUN", "false", "Whether garbage is only reported."},
			true, boolean(&o.GC.DryRun)},
		{Reference{"gc-max-deletions", "GC_MAX_DELETIONS", "10", "Machines that are deleted as garbage in a cycle at most."},
			false, integer(&o.GC.MaxDeletions, 1, 1000)},
	}
}

// References describes all options, in the order in which they are documented.
func References() []Reference {
	options := (&Options{}).all()
	references := make([]Reference, len(options))
	for i, one := range options {
		references[i] = one.Reference
	}
	return references
}

// Defaults are the options where neither a flag nor a variable is given. The name of the cluster has none.
func Defaults() *Options {
	o := &Options{}
	for _, one := range o.all() {
		if err := one.set(one.Default); err != nil {
			panic("the default of " + one.Flag + " breaks its own rule: " + err.Error())
		}
	}
	return o
}

// AddFlags implements Injectable of core. It reads the environment; Parse reports what is wrong with that.
func (o *Options) AddFlags(fs *coreoptions.FlagSet) {
	*o = *Defaults()
	o.wrong = map[string]error{}
	for _, one := range o.all() {
		read := func(value string) error {
			// The flag package repeats a value that it is told is wrong, and a proxy has a password. So the rule is kept for Parse.
			delete(o.wrong, one.Flag)
			if err := one.set(value); err != nil {
				o.wrong[one.Flag] = errors.Errorf("--%s (%s): want %s", one.Flag, one.Environment, err)
			}
			return nil
		}
		if value, ok := os.LookupEnv(one.Environment); ok {
			_ = read(value)
		}
		usage := fmt.Sprintf("%s Variable: %s.", one.Usage, one.Environment)
		if one.Default != "" {
			usage += fmt.Sprintf(" Default: %s.", one.Default)
		}
		if one.isBool {
			fs.BoolFunc(one.Flag, usage, read)
		} else {
			fs.Func(one.Flag, usage, read)
		}
	}
}

// Parse implements Injectable of core. The error names all options that are wrong, and what is right, but no value: it may be a secret
// that landed in the wrong place.
func (o *Options) Parse(fs *coreoptions.FlagSet, args ...string) error {
	if err := fs.Parse(args); err != nil {
		return errors.Wrap(err, "the flags")
	}
	return o.validate()
}

// validate checks what one value alone does not tell.
func (o *Options) validate() error {
	var wrong error
	for _, one := range o.all() {
		wrong = multierr.Append(wrong, o.wrong[one.Flag])
	}
	if o.ClusterName == "" && o.wrong["cluster-name"] == nil {
		wrong = multierr.Append(wrong, errors.New("--cluster-name (CLUSTER_NAME) is needed: a name for this cluster that no other cluster with the same CloudStack account has"))
	}
	if o.CABundleFile != "" {
		if !o.VerifySSL {
			wrong = multierr.Append(wrong, errors.New("--cloudstack-ca-bundle-file and --cloudstack-verify-ssl=false: no certificate is verified, so leave one of them out"))
		}
		if _, err := os.Stat(o.CABundleFile); err != nil {
			wrong = multierr.Append(wrong, errors.Wrap(err, "--cloudstack-ca-bundle-file (CLOUDSTACK_CA_BUNDLE_FILE)"))
		}
	}
	return errors.WithMessage(wrong, "options of the provider")
}

// Check reads all options, core's too, and says what is wrong with them: core panics over it.
func Check(args []string) error {
	fs := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	// The flag package prints what is wrong besides returning it.
	fs.SetOutput(io.Discard)
	for _, one := range coreoptions.Injectables {
		one.AddFlags(fs)
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		// Core shows the help.
		return nil
	case err != nil:
		return errors.Wrap(err, "the flags")
	}
	var wrong error
	for _, one := range coreoptions.Injectables {
		wrong = multierr.Append(wrong, one.Parse(fs, args...))
	}
	return wrong
}

type key struct{}

// ToContext implements Injectable of core. Core reads the options anew whenever it makes a context, into the same Injectable: what a
// context has is a copy, which nothing writes to.
func (o *Options) ToContext(ctx context.Context) context.Context {
	copied := *o
	return ToContext(ctx, &copied)
}

// ToContext is a context with options.
func ToContext(ctx context.Context, o *Options) context.Context {
	return context.WithValue(ctx, key{}, o)
}

// FromContext has the options of a context. They must not be changed. It panics where there are none, which is a mistake in the program.
func FromContext(ctx context.Context) *Options {
	o, ok := ctx.Value(key{}).(*Options)
	if !ok {
		panic("the context has no options of the provider")
	}
	return o
}

func text(into *string, check func(string) error) func(string) error {
	return func(value string) error {
		if check != nil {
			if err := check(value); err != nil {
				return err
			}
		}
		*into = value
		return nil
	}
}

func boolean(into *bool) func(string) error {
	return func(value string) error {
		parsed, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("true or false")
		}
		*into = parsed
		return nil
	}
}

func integer(into *int, least, most int) func(string) error {
	return func(value string) error {
		parsed, err := strconv.Atoi(value)
		if err != nil || parsed < least || parsed > most {
			return errors.Errorf("a whole number from %d to %d", least, most)
		}
		*into = parsed
		return nil
	}
}

func number(into *float64, least, most float64) func(string) error {
	return func(value string) error {
		parsed, err := strconv.ParseFloat(value, 64)
		// Written so that NaN, which compares with nothing, is refused.
		if err != nil || !(parsed >= least && parsed <= most) {
			return errors.Errorf("a number from %g to %g", least, most)
		}
		*into = parsed
		return nil
	}
}

func duration(into *time.Duration, least, most time.Duration) func(string) error {
	return func(value string) error {
		parsed, err := time.ParseDuration(value)
		if err != nil || parsed < least || parsed > most {
			return errors.Errorf("a duration such as 90s or 5m, from %s to %s", least, most)
		}
		*into = parsed
		return nil
	}
}

// absent checks a URL that may be absent. Errors of net/url repeat the URL, and so are not used.
func absent(value, want string, schemes ...string) error {
	if value == "" {
		return nil
	}
	parsed, err := url.Parse(value)
	if err == nil && parsed.Host != "" && parsed.User == nil {
		for _, scheme := range schemes {
			if parsed.Scheme == scheme {
				return nil
			}
		}
	}
	return errors.New(want)
}

// proxy checks the URL of a proxy, which may have a user and a password.
func proxy(value string) error {
	if value == "" {
		return nil
	}
	parsed, err := url.Parse(value)
	if err == nil && parsed.Host != "" {
		switch parsed.Scheme {
		case "http", "https", "socks5", "socks5h":
			return nil
		}
	}
	return errors.New("an http, https or socks5 URL")
}
