// Package credentials finds out how to reach the clouds: which token, endpoint and default region, and where they come from.
//
// The places are looked at in this order, and each gives what those before it leave out:
//
//  1. what the caller was given: the provider config of a stack input, and the provider config files of the flags;
//  2. the profile that is named, by the caller or by PLANTON_PROFILE;
//  3. the environment: CIVO_TOKEN, DIGITALOCEAN_TOKEN and so on;
//  4. the profile "default", where none is named.
//
// A profile that is named stands before the environment, so that a token that was left there is not used instead of it without a word.
// The default profile is looked at only for a cloud whose token is still missing, and then a file that is broken or readable by others
// is an error: a token of another place is never sent to an endpoint of the default profile.
//
// No error of this package has a token in it, nor any other text of a file with one.
package credentials

import (
	"fmt"
	"os"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider"
	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

const (
	// EnvironmentFile names the credentials file.
	EnvironmentFile = "PLANTON_CREDENTIALS"
	// EnvironmentProfile names a profile of it.
	EnvironmentProfile = "PLANTON_PROFILE"
	// DefaultProfile is the profile that is used where none is named.
	DefaultProfile = "default"
)

// The environment variables of the clouds, the one that counts first.
var (
	civoTokens            = []string{"CIVO_TOKEN"}
	civoEndpoints         = []string{"CIVO_API_URL"}
	digitalOceanTokens    = []string{"DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"}
	digitalOceanEndpoints = []string{"DIGITALOCEAN_API_URL"}
)

const civoRegion = "CIVO_REGION"

// Error says that there is no token, or that the place that should hold it cannot be used. Its message says what to do.
type Error struct {
	// Message says what is wrong and what to do about it.
	Message string
	// NoToken is what to do alone, where nothing else is wrong than that no place has a token; else it is empty.
	NoToken string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func failure(format string, args ...any) error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Options are the places to look at. The zero value has none.
type Options struct {
	// Getenv reads the environment; os.Getenv when nil.
	Getenv func(string) string
	// Profile is the profile that the caller names; empty for the one that PLANTON_PROFILE names.
	Profile string
	// Civo and DigitalOcean are what the caller was given; nil for nothing.
	Civo         *civov1.CivoProviderConfig
	DigitalOcean *digitaloceanv1.DigitalOceanProviderConfig
	// CivoFile and DigitalOceanFile are provider config files; empty for none.
	CivoFile, DigitalOceanFile string
	// Warn is told what is not as it should be, and no reason to stop; nil for nobody.
	Warn func(message string)
}

// Resolver finds credentials in the places of its options. It reads the credentials file once, and only when it has to.
type Resolver struct {
	options Options
	file    *File
	err     error
	read    bool
}

// NewResolver makes a resolver.
func NewResolver(options Options) *Resolver {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	if options.Warn == nil {
		options.Warn = func(string) {}
	}
	return &Resolver{options: options}
}

// Source tells where a token comes from, for people: "CIVO_TOKEN", "profile work of /home/me/.config/planton/credentials".
type Source string

// Civo returns how to reach Civo, and where the token comes from. The error is an *Error, or a *manifest.Error for a file that is
// broken.
func (r *Resolver) Civo() (*civov1.CivoProviderConfig, Source, error) {
	config := &civov1.CivoProviderConfig{}
	source, err := r.resolve(cloud{
		name: "Civo", flag: "--civo-provider-config", tokens: civoTokens,
		given: r.options.Civo, file: r.options.CivoFile,
		inProfile:   func(p *provider.CredentialsProfile) proto.Message { return p.GetCivo() },
		environment: r.civoEnvironment,
	}, config)
	return config, source, err
}

// DigitalOcean is Civo for DigitalOcean.
func (r *Resolver) DigitalOcean() (*digitaloceanv1.DigitalOceanProviderConfig, Source, error) {
	config := &digitaloceanv1.DigitalOceanProviderConfig{}
	source, err := r.resolve(cloud{
		name: "DigitalOcean", flag: "--digital-ocean-provider-config", tokens: digitalOceanTokens,
		given: r.options.DigitalOcean, file: r.options.DigitalOceanFile,
		inProfile: func(p *provider.CredentialsProfile) proto.Message { return p.GetDigitalOcean() },
		environment: func() proto.Message {
			return &digitaloceanv1.DigitalOceanProviderConfig{
				ApiToken: r.environment(digitalOceanTokens), ApiEndpoint: r.environment(digitalOceanEndpoints),
			}
		},
	}, config)
	return config, source, err
}

func (r *Resolver) civoEnvironment() proto.Message {
	region := civov1.CivoRegion_value[strings.ToLower(r.options.Getenv(civoRegion))]
	return &civov1.CivoProviderConfig{
		ApiToken: r.environment(civoTokens), ApiEndpoint: r.environment(civoEndpoints), DefaultRegion: civov1.CivoRegion(region),
	}
}

// cloud is what differs between the clouds.
type cloud struct {
	name, flag  string
	tokens      []string // environment variables
	given       proto.Message
	file        string
	inProfile   func(*provider.CredentialsProfile) proto.Message
	environment func() proto.Message
}

// resolve puts together what the places have for a cloud.
func (r *Resolver) resolve(cloud cloud, into proto.Message) (Source, error) {
	var source Source
	take := func(from proto.Message, name Source) {
		if from == nil || !from.ProtoReflect().IsValid() {
			return
		}
		before := token(into)
		fill(into, from)
		if before == "" && token(into) != "" {
			source = name
		}
	}
	if cloud.file != "" {
		config := into.ProtoReflect().New().Interface()
		if err := r.readConfig(cloud.file, config); err != nil {
			return "", err
		}
		take(config, Source(cloud.file))
	}
	take(cloud.given, "the stack input")

	name, named := r.profile()
	takeProfile := func() error {
		profile, file, err := r.lookUp(name)
		if err != nil {
			return err
		}
		take(cloud.inProfile(profile), Source(fmt.Sprintf("profile %s of %s", name, file.Path)))
		return nil
	}
	if named {
		if err := takeProfile(); err != nil {
			return "", err
		}
	}
	take(cloud.environment(), Source(r.set(cloud.tokens)))
	if !named && token(into) == "" {
		if err := takeProfile(); err != nil {
			return "", err
		}
	}
	if token(into) == "" {
		return "", r.missing(cloud, name, named)
	}
	return source, nil
}

// missing is the error for a cloud without a token.
func (r *Resolver) missing(cloud cloud, profile string, named bool) error {
	where := "put one into the credentials file"
	if path, err := Path(r.options.Getenv); err == nil {
		where += " " + path
	}
	if named {
		where = fmt.Sprintf("give the profile %s one", profile)
	}
	ways := fmt.Sprintf("set %s, or pass %s FILE with an apiToken in it, or %s", cloud.tokens[0], cloud.flag, where)
	return &Error{Message: fmt.Sprintf("there is no API token for %s: %s, or try --cloud emulated", cloud.name, ways), NoToken: ways}
}

// profile is the name of the profile to use, and whether somebody named it.
func (r *Resolver) profile() (name string, named bool) {
	if r.options.Profile != "" {
		return r.options.Profile, true
	}
	if name := r.options.Getenv(EnvironmentProfile); name != "" {
		return name, true
	}
	return DefaultProfile, false
}

// lookUp returns a profile of the credentials file, and the file. Only the default one need not be there, nor need the file then.
func (r *Resolver) lookUp(name string) (*provider.CredentialsProfile, *File, error) {
	if !r.read {
		r.read = true
		var path string
		if path, r.err = Path(r.options.Getenv); r.err == nil {
			r.file, r.err = Read(path)
		}
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	if profile, ok := r.file.Profiles[name]; ok {
		return profile, r.file, nil
	}
	if _, named := r.profile(); !named {
		return nil, r.file, nil
	}
	switch names := r.file.Names(); {
	case r.file.Missing:
		return nil, nil, failure("there is no profile %s: the credentials file %s does not exist", name, r.file.Path)
	case len(names) == 0:
		return nil, nil, failure("there is no profile %s: the credentials file %s has none", name, r.file.Path)
	default:
		return nil, nil, failure("there is no profile %s in %s; it has %s", name, r.file.Path, strings.Join(names, ", "))
	}
}

// readConfig reads a provider config file. It is used also when others can read it: what mounts secrets as files seldom lets one choose
// their mode. There is a warning then.
func (r *Resolver) readConfig(path string, into proto.Message) error {
	data, mode, err := readFile(path)
	if err != nil {
		return errors.Wrap(err, "read the provider config")
	}
	if err := manifest.Decode(path, data, into); err != nil {
		return err
	}
	if readableByOthers(mode) && token(into) != "" {
		r.options.Warn(path + " has a token in it, and others can read it: " + makePrivate(path))
	}
	return nil
}

// environment is the first of some variables that is set.
func (r *Resolver) environment(variables []string) string {
	return r.options.Getenv(r.set(variables))
}

// set is the name of the first of some variables that is set, or of the first.
func (r *Resolver) set(variables []string) string {
	for _, variable := range variables {
		if r.options.Getenv(variable) != "" {
			return variable
		}
	}
	return variables[0]
}

// token is the API token of a provider config.
func token(config proto.Message) string {
	holder, ok := config.(interface{ GetApiToken() string })
	if !ok {
		return ""
	}
	return holder.GetApiToken()
}

// fill gives a message the fields that it lacks and another one has.
func fill(into, from proto.Message) {
	missing := proto.Clone(from)
	proto.Merge(missing, into)
	proto.Reset(into)
	proto.Merge(into, missing)
}
