package options_test

import (
	"context"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

// parse reads options as core does: flags are added to the set of all, and then parsed.
func parse(t *testing.T, args ...string) (*options.Options, error) {
	t.Helper()
	fs := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("test", flag.ContinueOnError)}
	fs.SetOutput(new(strings.Builder))
	o := &options.Options{}
	o.AddFlags(fs)
	err := o.Parse(fs, args...)
	return o, err
}

// clean unsets the variables of the options for a test: a developer's shell may have some.
func clean(t *testing.T) {
	t.Helper()
	for _, one := range options.References() {
		if _, ok := os.LookupEnv(one.Environment); ok {
			t.Setenv(one.Environment, "") // restored at the end
			if err := os.Unsetenv(one.Environment); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	clean(t)
	o, err := parse(t, "--cluster-name=one")
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]bool{
		"certificates are verified":          o.VerifySSL,
		"garbage is deleted":                 !o.GC.DryRun,
		"grace":                              o.GC.Grace == 5*time.Minute,
		"the format is that of the CCM":      o.ProviderIDFormat == "ccm",
		"user data is as long as delivered":  o.UserDataMaxBytes == 32768,
		"overhead of memory":                 o.VMMemoryOverheadPercent == 7.5,
		"the time to launch is that of core": o.LaunchTimeout == 5*time.Minute,
		"nodes have ten minutes":             o.NodeRepairToleration == 10*time.Minute,
		"the name":                           o.ClusterName == "one",
	} {
		if !is {
			t.Errorf("not so by default: %s (%+v)", name, o)
		}
	}
}

// Each option is read from its flag and from its variable, the flag counts, and both break the same rules.
func TestEachOptionIsAFlagAndAVariable(t *testing.T) {
	good := map[string][2]string{ // two values that are allowed, none of them the default
		"cluster-name": {"one", "two.2"}, "system-namespace": {"kube-system", "other"},
		"cloudstack-credentials-dir": {"/a", "/b"}, "cloudstack-credentials-period": {"1s", "2s"},
		"cloudstack-api-url":    {"https://a.example.com/client/api", "http://10.0.0.1:8080/client/api"},
		"cloudstack-verify-ssl": {"false", "0"}, "cloudstack-ca-bundle-file": {os.DevNull, "/dev/zero"},
		"cloudstack-proxy":    {"http://user:word@proxy:3128", "socks5://proxy:1080"},
		"cloudstack-api-rate": {"0.5", "100"}, "cloudstack-api-burst": {"1", "7"}, "cloudstack-api-timeout": {"1s", "1m"},
		"cloudstack-check-period": {"5s", "1m"}, "provider-id-format": {"capc", "mycloud://"}, "vm-memory-overhead-percent": {"0", "12.5"},
		"region": {"here", "there.1"}, "deploy-concurrency": {"1", "7"}, "launch-timeout": {"1m", "1h"},
		"node-repair-toleration": {"1s", "1h"}, "user-data-max-bytes": {"1024", "1048576"},
		"gc-grace": {"1m", "1h"}, "gc-dry-run": {"true", "1"}, "gc-max-deletions": {"1", "7"},
	}
	bad := map[string][]string{ // each breaks one rule
		"cluster-name":                  {"-one", "one/two", "one two", strings.Repeat("a", 64), "é"},
		"system-namespace":              {"", "Kube", "a.b"},
		"cloudstack-credentials-dir":    {""},
		"cloudstack-credentials-period": {"", "0s", "-1s", "5"},
		"cloudstack-api-url":            {"cloudstack.example.com", "ftp://a/b", "https://user:word@a/b", "https://", "://"},
		"cloudstack-verify-ssl":         {"", "yes", "2"},
		"cloudstack-proxy":              {"proxy:3128", "ftp://proxy", "http://"},
		"cloudstack-api-rate":           {"", "0", "-1", "NaN", "Inf", "10001"},
		"cloudstack-api-burst":          {"", "0", "1.5"},
		"cloudstack-api-timeout":        {"0s", "11m", "soon"},
		"cloudstack-check-period":       {"0s", "2h"},
		"provider-id-format":            {"", "CCM", "other", "other:/", "an other://", "other:////"},
		"vm-memory-overhead-percent":    {"-1", "51", "NaN", "7.5%"},
		"region":                        {"over there", "-here"},
		"deploy-concurrency":            {"0", "-1", "5001"},
		"launch-timeout":                {"59s", "3h"},
		"node-repair-toleration":        {"", "0s", "-1m", "25h", "10"},
		"user-data-max-bytes":           {"1023", "1048577", "32Ki"},
		"gc-grace":                      {"0s", "999ms", "25h"},
		"gc-dry-run":                    {"maybe"},
		"gc-max-deletions":              {"0", "1001"},
	}
	for _, one := range options.References() {
		t.Run(one.Flag, func(t *testing.T) {
			values, ok := good[one.Flag]
			if !ok {
				t.Fatal("the test does not know the option")
			}
			other := []string{"--cluster-name=one"}
			if one.Flag == "cluster-name" {
				other = nil
			}
			read := func(flagged, variable string) (*options.Options, error) {
				clean(t)
				if variable != "" {
					t.Setenv(one.Environment, variable)
				}
				args := other
				if flagged != "" {
					args = append(args[:len(args):len(args)], "--"+one.Flag+"="+flagged)
				}
				return parse(t, args...)
			}
			byFlag, err := read(values[0], "")
			if err != nil {
				t.Fatal(err)
			}
			byVariable, err := read("", values[0])
			if err != nil {
				t.Fatal(err)
			}
			both, err := read(values[0], values[1])
			if err != nil {
				t.Fatal(err)
			}
			// With two values for verify-ssl and dry-run that mean the same, nothing tells which counts.
			second, err := read("", values[1])
			if err != nil {
				t.Fatal(err)
			}
			defaults := *options.Defaults()
			defaults.ClusterName = "one"
			if text(byFlag) != text(byVariable) {
				t.Errorf("by flag %s, by variable %s", text(byFlag), text(byVariable))
			}
			if one.Flag != "cluster-name" && text(byFlag) == text(&defaults) {
				t.Errorf("%q changes nothing", values[0])
			}
			if text(both) != text(byFlag) {
				t.Errorf("with both, the flag does not count: %s", text(both))
			}
			if one.Flag != "cloudstack-verify-ssl" && one.Flag != "gc-dry-run" && text(second) == text(byFlag) {
				t.Errorf("%q and %q mean the same", values[0], values[1])
			}
			for _, value := range bad[one.Flag] {
				clean(t)
				t.Setenv(one.Environment, value)
				_, byVariable := parse(t, other...)
				clean(t)
				_, byFlag := parse(t, append(other[:len(other):len(other)], "--"+one.Flag+"="+value)...)
				for from, err := range map[string]error{"variable": byVariable, "flag": byFlag} {
					switch {
					case err == nil:
						t.Errorf("%s: %q is taken", from, value)
					case !strings.Contains(err.Error(), "--"+one.Flag) || !strings.Contains(err.Error(), one.Environment) || !strings.Contains(err.Error(), "want"):
						t.Errorf("%s: the error names neither option nor rule: %v", from, err)
					case len(value) > 4 && strings.Contains(err.Error(), value):
						t.Errorf("%s: the error repeats the value: %v", from, err)
					}
				}
			}
		})
	}
}

// text has all fields that are exported.
func text(o *options.Options) string {
	return strings.Join([]string{
		o.ClusterName, o.SystemNamespace, o.CredentialsDirectory, o.CredentialsPeriod.String(), o.APIURL, boolean(o.VerifySSL), o.CABundleFile, o.Proxy,
		number(o.APIRate), number(float64(o.APIBurst)), o.APITimeout.String(), o.CheckPeriod.String(), o.ProviderIDFormat, o.Region,
		number(o.VMMemoryOverheadPercent), number(float64(o.DeployConcurrency)), o.LaunchTimeout.String(), o.NodeRepairToleration.String(),
		number(float64(o.UserDataMaxBytes)),
		o.GC.Grace.String(), boolean(o.GC.DryRun), number(float64(o.GC.MaxDeletions)),
	}, "|")
}

func boolean(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func number(n float64) string { return time.Duration(math.Round(n * 1000)).String() }

func TestRulesOfSeveralOptions(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string // part of the error; empty for none
	}{
		"no name of the cluster":            {nil, "--cluster-name (CLUSTER_NAME) is needed"},
		"a bundle":                          {[]string{"--cluster-name=a", "--cloudstack-ca-bundle-file=" + bundle}, ""},
		"a bundle that is not there":        {[]string{"--cluster-name=a", "--cloudstack-ca-bundle-file=" + bundle + "x"}, "no such file"},
		"a bundle that nothing is held to":  {[]string{"--cluster-name=a", "--cloudstack-ca-bundle-file=" + bundle, "--cloudstack-verify-ssl=false"}, "leave one of them out"},
		"all that is wrong is told at once": {[]string{"--gc-grace=x", "--cloudstack-api-rate=x"}, "--gc-grace"},
		"an option that there is not":       {[]string{"--cluster-name=a", "--nonsense"}, "nonsense"},
		"a boolean alone is true":           {[]string{"--cluster-name=a", "--gc-dry-run"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			_, err := parse(t, test.args...)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
			if name == "all that is wrong is told at once" && (!strings.Contains(err.Error(), "--cloudstack-api-rate") || !strings.Contains(err.Error(), "--cluster-name")) {
				t.Errorf("only a part: %v", err)
			}
		})
	}
}

// A flag counts, so what is wrong with the variable that it takes the place of is no mistake.
func TestAFlagMendsAVariable(t *testing.T) {
	clean(t)
	t.Setenv("GC_GRACE", "soon")
	o, err := parse(t, "--cluster-name=one", "--gc-grace=1m")
	if err != nil || o.GC.Grace != time.Minute {
		t.Errorf("%s, %v", o.GC.Grace, err)
	}
}

// Core reads the options anew into the same Injectable for every context that it makes, while others use those from before.
func TestContextsHaveTheirOwnOptions(t *testing.T) {
	clean(t)
	o, err := parse(t, "--cluster-name=one")
	if err != nil {
		t.Fatal(err)
	}
	ctx := o.ToContext(context.Background())
	o.AddFlags(&coreoptions.FlagSet{FlagSet: flag.NewFlagSet("again", flag.ContinueOnError)})
	if got := options.FromContext(ctx).ClusterName; got != "one" {
		t.Errorf("the name is %q after the options were read again", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a context without options is no mistake")
		}
	}()
	options.FromContext(context.Background())
}

func TestCheckReadsTheOptionsOfCoreToo(t *testing.T) {
	clean(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"right":                  {[]string{"--cluster-name=a", "--log-level=debug"}, ""},
		"wrong for core":         {[]string{"--cluster-name=a", "--log-level=loud"}, "LOG_LEVEL"},
		"wrong for the provider": {[]string{"--log-level=debug"}, "--cluster-name"},
		"help":                   {[]string{"--help"}, ""},
		"unknown":                {[]string{"--cluster-nam=a"}, "cluster-nam"},
	} {
		err := options.Check(test.args)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// The names of options are the provider's alone: two flags of one name would be a panic, and two variables a riddle.
func TestNamesDifferFromThoseOfCore(t *testing.T) {
	clean(t)
	fs := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("core", flag.ContinueOnError)}
	(&coreoptions.Options{}).AddFlags(fs)
	seen := map[string]bool{}
	for _, one := range options.References() {
		if fs.Lookup(one.Flag) != nil {
			t.Errorf("core has the flag %s", one.Flag)
		}
		if seen[one.Environment] || seen[one.Flag] {
			t.Errorf("%s is there twice", one.Flag)
		}
		seen[one.Environment], seen[one.Flag] = true, true
		if want := strings.ToUpper(strings.ReplaceAll(one.Flag, "-", "_")); one.Environment != want {
			t.Errorf("the variable of %s is %s, want %s", one.Flag, one.Environment, want)
		}
		if !strings.HasSuffix(one.Usage, ".") {
			t.Errorf("the usage of %s is no sentence: %s", one.Flag, one.Usage)
		}
	}
}
