package credentials_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/testing/protocmp"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// secret looks like the tokens that DigitalOcean gives.
const secret = "dop_v1_4f7c2a9e0b6d8135f7c2a9e0b6d81354f7c2a9e0b6d81354f7c2a9e0b6d81354"

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

const profiles = `
profiles:
  default:
    civo: {apiToken: of-default, defaultRegion: lon1, apiEndpoint: http://default.example}
  work:
    civo: {apiToken: of-work, defaultRegion: nyc1}
  half:
    civo: {defaultRegion: phx1}
`

// The places are looked at in the documented order, and each gives what those before it leave out.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	config := func(token string, region civov1.CivoRegion, endpoint string) *civov1.CivoProviderConfig {
		return &civov1.CivoProviderConfig{ApiToken: token, DefaultRegion: region, ApiEndpoint: endpoint}
	}
	tests := []struct {
		reason      string
		file        string // the provider config file
		given       *civov1.CivoProviderConfig
		profile     string
		environment map[string]string
		noProfiles  bool
		want        *civov1.CivoProviderConfig
		source      string // THE_FILE and PROFILES stand for the paths
		err         string // a part of the error
	}{
		{
			reason: "the default profile is used where there is nothing else",
			want:   config("of-default", civov1.CivoRegion_lon1, "http://default.example"), source: "profile default of PROFILES",
		},
		{
			reason:      "the environment stands before the default profile, which then gives neither region nor endpoint",
			environment: map[string]string{"CIVO_TOKEN": "of-environment"},
			want:        config("of-environment", 0, ""), source: "CIVO_TOKEN",
		},
		{
			reason:      "the default profile does not take away what the environment says beside the token",
			environment: map[string]string{"CIVO_API_URL": "http://environment.example", "CIVO_REGION": "FRA1"},
			want:        config("of-default", civov1.CivoRegion_fra1, "http://environment.example"), source: "profile default of PROFILES",
		},
		{
			reason:  "a profile that the caller names stands before the environment",
			profile: "work", environment: map[string]string{"CIVO_TOKEN": "of-environment", "CIVO_API_URL": "http://environment.example"},
			want: config("of-work", civov1.CivoRegion_nyc1, "http://environment.example"), source: "profile work of PROFILES",
		},
		{
			reason:      "so does one that PLANTON_PROFILE names",
			environment: map[string]string{"CIVO_TOKEN": "of-environment", "PLANTON_PROFILE": "work"},
			want:        config("of-work", civov1.CivoRegion_nyc1, ""), source: "profile work of PROFILES",
		},
		{
			reason:  "the caller's profile stands before that of PLANTON_PROFILE",
			profile: "work", environment: map[string]string{"PLANTON_PROFILE": "elsewhere"},
			want: config("of-work", civov1.CivoRegion_nyc1, ""), source: "profile work of PROFILES",
		},
		{
			reason:  "what a named profile leaves out comes from the environment, and never from the default profile",
			profile: "half", environment: map[string]string{"CIVO_TOKEN": "of-environment", "CIVO_REGION": "fra1"},
			want: config("of-environment", civov1.CivoRegion_phx1, ""), source: "CIVO_TOKEN",
		},
		{
			reason:  "a named profile without a token is not made up for by the default one",
			profile: "half", err: "there is no API token for Civo: set CIVO_TOKEN",
		},
		{
			reason: "a provider config file stands before all profiles and the environment",
			file:   "apiToken: of-file", profile: "work", environment: map[string]string{"CIVO_TOKEN": "of-environment", "CIVO_REGION": "fra1"},
			want: config("of-file", civov1.CivoRegion_nyc1, ""), source: "THE_FILE",
		},
		{
			reason: "a provider config file stands before a stack input",
			file:   "apiToken: of-file", given: config("of-input", civov1.CivoRegion_mum1, ""),
			want: config("of-file", civov1.CivoRegion_mum1, ""), source: "THE_FILE",
		},
		{
			reason: "a stack input stands before profiles and the environment",
			given:  config("of-input", 0, ""), profile: "work", environment: map[string]string{"CIVO_TOKEN": "of-environment"},
			want: config("of-input", civov1.CivoRegion_nyc1, ""), source: "the stack input",
		},
		{
			reason: "a profile that does not exist is an error, although there is a token elsewhere", profile: "nowhere",
			environment: map[string]string{"CIVO_TOKEN": "of-environment"},
			err:         "there is no profile nowhere in PROFILES; it has default, half, work",
		},
		{
			reason: "so is one of a file that does not exist", noProfiles: true,
			environment: map[string]string{"CIVO_TOKEN": "of-environment", "PLANTON_PROFILE": "work"},
			err:         "there is no profile work: the credentials file PROFILES does not exist",
		},
		{
			reason: "nothing anywhere is an error that names each place", noProfiles: true,
			err: "there is no API token for Civo: set CIVO_TOKEN, or pass --civo-provider-config FILE with an apiToken in it, " +
				"or put one into the credentials file PROFILES, or try --cloud emulated",
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			path, file := filepath.Join(directory, "credentials"), ""
			if !test.noProfiles {
				write(t, path, profiles, 0o600)
			}
			if test.file != "" {
				file = filepath.Join(directory, "civo.yaml")
				write(t, file, test.file, 0o600)
			}
			place := strings.NewReplacer("PROFILES", path, "THE_FILE", file)
			environment := map[string]string{credentials.EnvironmentFile: path}
			for name, value := range test.environment {
				environment[name] = value
			}
			config, source, err := credentials.NewResolver(credentials.Options{
				Getenv:  func(name string) string { return environment[name] },
				Profile: test.profile, Civo: test.given, CivoFile: file,
				Warn: func(message string) { t.Errorf("warning: %s", message) },
			}).Civo()
			if test.err != "" {
				var failure *credentials.Error
				if !errors.As(err, &failure) || !strings.Contains(err.Error(), place.Replace(test.err)) {
					t.Fatalf("error %v, want %s", err, place.Replace(test.err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, config, protocmp.Transform()); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if want := place.Replace(test.source); string(source) != want {
				t.Errorf("source %q, want %q", source, want)
			}
		})
	}
}

// DigitalOcean has two variables for its token.
func TestDigitalOcean(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	write(t, path, "profiles: {work: {digitalOcean: {apiToken: of-work}}}", 0o600)
	environment := map[string]string{
		credentials.EnvironmentFile: path, "DIGITALOCEAN_ACCESS_TOKEN": "of-environment", "DIGITALOCEAN_API_URL": "http://environment.example",
	}
	for profile, want := range map[string]*digitaloceanv1.DigitalOceanProviderConfig{
		"":     {ApiToken: "of-environment", ApiEndpoint: "http://environment.example"},
		"work": {ApiToken: "of-work", ApiEndpoint: "http://environment.example"},
	} {
		config, source, err := credentials.NewResolver(credentials.Options{
			Getenv: func(name string) string { return environment[name] }, Profile: profile,
		}).DigitalOcean()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, config, protocmp.Transform()); diff != "" {
			t.Errorf("profile %q (-want +got):\n%s", profile, diff)
		}
		if profile == "" && source != "DIGITALOCEAN_ACCESS_TOKEN" {
			t.Errorf("source %q", source)
		}
	}
}

// Where the credentials file is.
func TestPath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	for _, test := range []struct {
		reason      string
		environment map[string]string
		want        string
	}{
		{"the variable of its own counts first", map[string]string{"PLANTON_CREDENTIALS": "/a/b", "XDG_CONFIG_HOME": "/xdg", "HOME": "/home/me"}, "/a/b"},
		{"then the folder for settings", map[string]string{"XDG_CONFIG_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/planton/credentials"},
		{"a relative one is none, as its specification says", map[string]string{"XDG_CONFIG_HOME": "xdg", "HOME": "/home/me"}, "/home/me/.config/planton/credentials"},
		{"then that of the home directory", map[string]string{"HOME": "/home/me"}, "/home/me/.config/planton/credentials"},
	} {
		got, err := credentials.Path(func(name string) string { return test.environment[name] })
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.reason, got, err, test.want)
		}
	}
}

// A credentials file that others can read is refused with the command that mends it, but only when it is needed.
func TestPermissions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes on Windows")
	}
	for _, test := range []struct {
		mode    os.FileMode
		refused bool
	}{{0o600, false}, {0o400, false}, {0o640, true}, {0o604, true}, {0o644, true}, {0o620, true}, {0o602, true}} {
		path := filepath.Join(t.TempDir(), "my credentials")
		write(t, path, profiles, test.mode)
		resolve := func(environment map[string]string) error {
			_, _, err := credentials.NewResolver(credentials.Options{Getenv: func(name string) string {
				if name == credentials.EnvironmentFile {
					return path
				}
				return environment[name]
			}}).Civo()
			return err
		}
		err := resolve(nil)
		if !test.refused {
			if err != nil {
				t.Errorf("mode %o: %v", test.mode, err)
			}
			continue
		}
		if err == nil || !strings.HasSuffix(err.Error(), ": chmod 600 '"+path+"'") || strings.Contains(err.Error(), "of-default") {
			t.Errorf("mode %o: %v", test.mode, err)
		}
		if err := resolve(map[string]string{"PLANTON_PROFILE": "work", "CIVO_TOKEN": "x"}); err == nil {
			t.Errorf("mode %o: a profile that is named is taken from it", test.mode)
		}
		if err := resolve(map[string]string{"CIVO_TOKEN": "x"}); err != nil {
			t.Errorf("mode %o: it is not needed, and yet: %v", test.mode, err)
		}
	}
}

// A provider config file that others can read is used with a warning, which has no token in it.
func TestProviderConfigOfOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes on Windows")
	}
	file := filepath.Join(t.TempDir(), "civo.yaml")
	for _, test := range []struct {
		reason, content string
		mode            os.FileMode
		warned          bool
	}{
		{"a token for everybody", "apiToken: " + secret, 0o644, true},
		{"a token for its owner", "apiToken: " + secret, 0o600, false},
		{"no token", "defaultRegion: fra1", 0o644, false},
	} {
		var warnings []string
		write(t, file, test.content, test.mode)
		_, _, err := credentials.NewResolver(credentials.Options{
			CivoFile: file, Warn: func(message string) { warnings = append(warnings, message) },
			Getenv: func(name string) string { return map[string]string{"CIVO_TOKEN": "x"}[name] },
		}).Civo()
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		want := file + " has a token in it, and others can read it: chmod 600 " + file
		if got := strings.Join(warnings, "\n"); (got == want) != test.warned || (got != "" && got != want) {
			t.Errorf("%s: warnings %q", test.reason, got)
		}
	}
}

// No error of a broken file has the token in it, however it is broken, and each tells the line.
func TestBrokenFilesDoNotTellTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, content, want string }{
		{"the token alone", secret, "credentials:1:1: a mapping is expected, not a single value"},
		{"the token as a key", "profiles:\n  default:\n    civo: {" + secret + "}", "credentials:3:12: profiles[\"default\"].civo: there is no such field; the fields are apiToken, "},
		{"the token as the name of a cloud", "profiles:\n  default:\n    " + secret + ": {}", "credentials:3:5: profiles[\"default\"]: there is no such field; the fields are civo, digitalOcean"},
		{"the token as the name of a profile", "profiles:\n  " + secret + ": {}", `credentials:2:3: profiles["…"]: the name of a profile`},
		{"and twice", "profiles:\n  " + secret + ": {}\n  " + secret + ": {}", `credentials:3:3: profiles["…"]: it is given already in line 2`},
		{"the token as a region", "profiles:\n  default:\n    civo: {defaultRegion: " + secret + "}", "default_region: one of lon1, lon2, fra1, nyc1, phx1, mum1 is expected"},
		{"the token as an endpoint", "profiles:\n  default:\n    civo:\n      apiEndpoint: " + secret, "credentials:4:7: profiles[\"default\"].civo.api_endpoint: "},
		{"the token as an alias", "profiles:\n  default:\n    civo: {apiToken: *" + secret + "}", "this is no YAML: unknown anchor referenced"},
		{"a quote that does not end", "profiles:\n  default:\n    civo: {apiToken: \"" + secret, "this is no YAML: "},
		{"an escape that is none", `profiles: {default: {civo: {apiToken: "\` + secret + `"}}}`, "credentials:1"},
		{"a colon too many", "profiles:\n  default:\n    civo: apiToken: " + secret, "credentials:3: this is no YAML: mapping values are not allowed"},
		{"a tab", "profiles:\n\tdefault: {civo: {apiToken: " + secret + "}}", "credentials:2"},
		{"a tag that is none", "profiles: {default: {civo: {apiToken: !" + secret + " x}}}", ""},
		{"a list for a mapping", "profiles: [" + secret + "]", "credentials:1:11: profiles: a mapping is expected, not a list"},
		{"a text for a mapping", "profiles: {default: " + secret + "}", `credentials:1:21: profiles["default"]: `},
		{"a list for the token", "profiles: {default: {civo: {apiToken: [" + secret + "]}}}", "a text is expected"},
		{"a misspelt key", "profiles: {default: {civo: {apitoken: " + secret + "}}}", "did you mean apiToken?"},
		{"the file of another program", "[default]\ncivo_token = " + secret, "credentials:"},
		{"two documents", "profiles: {}\n---\n" + secret, "one document is expected"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "credentials")
			write(t, path, test.content, 0o600)
			_, err := credentials.Read(path)
			if err == nil {
				if test.want != "" {
					t.Fatal("it is read")
				}
				return
			}
			var broken *manifest.Error
			if !errors.As(err, &broken) {
				t.Errorf("%T: %v", err, err)
			}
			for _, problem := range broken.Problems {
				if problem.Excerpt != "" {
					t.Errorf("the line is shown: %s", problem.Excerpt)
				}
			}
			if strings.Contains(strings.ToLower(err.Error()), secret) {
				t.Errorf("the token is told: %v", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}

// FuzzRead breaks a credentials file at any place: no error of it has the token, or half of it.
func FuzzRead(f *testing.F) {
	f.Add("profiles:\n  default:\n    civo:\n      apiToken: ", "\n      defaultRegion: fra1\n")
	f.Add("profiles: {default: {civo: {", ": x}}}")
	f.Add("profiles: {default: {civo: {defaultRegion: ", "}}}")
	f.Add("profiles: {default: {digitalOcean: {apiToken: *", "}}}")
	f.Add("&", " : *x")
	f.Add("profiles: {", ": {}, x: ")
	f.Add("%TAG !", "\n--- !x y")
	f.Add("profiles: {default: !<", "> {}}")
	f.Add("profiles:\n default:\n  civo: {", ": x, .0: x}")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, secret[10:20]) {
			return
		}
		path := filepath.Join(t.TempDir(), "credentials")
		write(t, path, before+secret+after, 0o600)
		if _, err := credentials.Read(path); err != nil && strings.Contains(err.Error(), secret[10:20]) {
			t.Errorf("the token is told: %v", err)
		}
	})
}
