// Package stackidentity tells which Pulumi stack holds the state of a resource.
//
// The rule, from kind, organization, environment and name:
//
//   - the organization is "organization", the only one that self-managed backends know;
//   - the project is the kind in lower case, such as "civokubernetescluster";
//   - the stack is "<org>.<env>.<name>", with "_" for the one of org and env that is missing, or just "<name>" when both are.
//
// A part of at most 32 characters of a-z, 0-9 and '-' stands as it is. Any other is lowered, its other characters become '-', and it is
// cut to 15 characters, with '-' and 80 bits of its hash behind them, so that two names never share a stack. Given as a name, such a
// part stands as it is: what is shown of a stack finds it again.
//
// Labels of the manifest override the rule: LabelStackFQDN, or LabelOrganization, LabelProject and LabelStackName. A manifest that
// refers to one with such labels says so in a label of its own, see LabelForReference.
package stackidentity

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Labels that override the rule.
const (
	// LabelStackFQDN names the stack in full: "organization/project/stack".
	LabelStackFQDN = "pulumi.project-planton.org/stack.fqdn"
	// LabelOrganization names the organization of the Pulumi backend.
	LabelOrganization = "pulumi.project-planton.org/organization"
	// LabelProject names the Pulumi project.
	LabelProject = "pulumi.project-planton.org/project"
	// LabelStackName names the stack in its project.
	LabelStackName = "pulumi.project-planton.org/stack.name"
)

// LabelForReference is the label by which a manifest names in full the stack of a resource that it refers to, where labels of that
// resource's own manifest override the rule: LabelStackFQDN, the kind in lower case, the env when the reference has one, and the
// name, joined by dots. Such as "pulumi.project-planton.org/stack.fqdn.civovpc.net".
func LabelForReference(kind kinds.Kind, env, name string) string {
	key := LabelStackFQDN + "." + strings.ToLower(kind.Name) + "."
	if env != "" {
		key += env + "."
	}
	return key + name
}

// defaultOrganization is what Pulumi's self-managed backends call the one organization they know.
const defaultOrganization = "organization"

// Identity names a Pulumi stack.
type Identity struct {
	// Organization is the organization of the Pulumi backend; "organization" for self-managed ones.
	Organization string
	// Project is the Pulumi project.
	Project string
	// Stack is the stack's name in its project.
	Stack string
}

// String returns "organization/project/stack", as a Pulumi stack reference takes it.
func (i Identity) String() string {
	return i.Organization + "/" + i.Project + "/" + i.Stack
}

// In returns the same stack in an organization of the backend. An identity that names an organization already stays as it is, and
// so does any when organization is empty.
func (i Identity) In(organization string) Identity {
	if organization != "" && i.Organization == defaultOrganization {
		i.Organization = organization
	}
	return i
}

// longestPart is how long the names of organizations, projects and stacks are at most with Pulumi.
const longestPart = 100

// isForeign tells of a character that Pulumi does not accept in these names.
func isForeign(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
		return false
	default:
		return true
	}
}

// Parse reads "organization/project/stack", as String writes it.
func Parse(text string) (Identity, error) {
	identity, err := split(text)
	if err == nil {
		err = identity.check()
	}
	return identity, errors.Wrapf(err, "stack %q", text)
}

// For tells the stack of a manifest. It fails when the metadata has no name or when a label that overrides the rule is
// malformed.
func For(kind kinds.Kind, metadata *shared.CloudResourceMetadata) (Identity, error) {
	if metadata.GetName() == "" {
		return Identity{}, errors.Errorf("name the stack of a %s: metadata.name is missing", kind.Name)
	}
	identity := byRule(kind, metadata.GetOrg(), metadata.GetEnv(), metadata.GetName())
	labels := metadata.GetLabels()
	if fqdn, ok := labels[LabelStackFQDN]; ok {
		var err error
		if identity, err = parse(LabelStackFQDN, fqdn); err != nil {
			return Identity{}, err
		}
	}
	override(&identity.Organization, labels[LabelOrganization])
	override(&identity.Project, labels[LabelProject])
	override(&identity.Stack, labels[LabelStackName])
	return identity, identity.validate(kind, metadata.GetName())
}

// parse reads what a label names in full.
func parse(label, fqdn string) (Identity, error) {
	identity, err := split(fqdn)
	if err != nil {
		return Identity{}, errors.Errorf("label %s: %q %v", label, fqdn, err)
	}
	return identity, nil
}

func split(fqdn string) (Identity, error) {
	parts := strings.Split(fqdn, "/")
	if len(parts) != 3 {
		return Identity{}, errors.New("must be organization/project/stack")
	}
	return Identity{Organization: parts[0], Project: parts[1], Stack: parts[2]}, nil
}

func (i Identity) validate(kind kinds.Kind, name string) error {
	err := i.check()
	if err == nil {
		return nil
	}
	return errors.Wrapf(err, "stack %s of %s %q", i, kind.Name, name)
}

func (i Identity) check() error {
	for _, text := range []string{i.Organization, i.Project, i.Stack} {
		if len(text) > longestPart || strings.ContainsFunc(text, isForeign) || strings.Trim(text, ".") == "" {
			return errors.Errorf("%q must be 1 to 100 letters, digits, '-', '_' or '.'", text)
		}
	}
	return nil
}

// ForReference tells the stack of a resource that a manifest refers to: the one that a label of the referring manifest names
// (LabelForReference), else the one of the rule. The resource belongs to the organization of the referring manifest, and to its
// environment when env is empty. Labels of the referred manifest are not known here.
func ForReference(kind kinds.Kind, env, name string, from *shared.CloudResourceMetadata) (Identity, error) {
	label := LabelForReference(kind, env, name)
	if fqdn, ok := from.GetLabels()[label]; ok {
		identity, err := parse(label, fqdn)
		if err != nil {
			return Identity{}, err
		}
		return identity, identity.validate(kind, name)
	}
	if env == "" {
		env = from.GetEnv()
	}
	return For(kind, &shared.CloudResourceMetadata{Org: from.GetOrg(), Env: env, Name: name})
}

func byRule(kind kinds.Kind, org, env, name string) Identity {
	stack := clean(name)
	if org != "" || env != "" {
		stack = orUnderscore(org) + "." + orUnderscore(env) + "." + stack
	}
	return Identity{Organization: defaultOrganization, Project: strings.ToLower(kind.Name), Stack: stack}
}

// Split returns the parts of a stack's name by the rule: org, env and name, as they were cleaned. A name that labels gave is all name.
func Split(stack string) (org, env, name string) {
	parts := strings.Split(stack, ".")
	if len(parts) != 3 {
		return "", "", stack
	}
	return strings.TrimPrefix(parts[0], "_"), strings.TrimPrefix(parts[1], "_"), parts[2]
}

func override(field *string, label string) {
	if label != "" {
		*field = label
	}
}

func orUnderscore(name string) string {
	if name == "" {
		return "_"
	}
	return clean(name)
}

// partLength keeps three parts under Pulumi's limit of 100 characters for a stack's name (tokens.ParseStackName of its SDK, and each
// backend).
const partLength = 32

// hashBytes of a hash are 80 bits: among a million names two have the same ones with a probability of 10^-12.
const hashBytes = 10

// hashEncoding writes hashes in a-z and 2-7, since some backends keep stacks in files whose names do not differ by case.
var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// clean makes a name fit to be a part of a stack's name, injectively but for collisions of the hash.
func clean(name string) string {
	cleaned := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, name)
	if cleaned == name && len(name) <= partLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hashEncoding.EncodeToString(sum[:hashBytes])
	return cleaned[:min(len(cleaned), partLength-len(hash))] + hash
}
