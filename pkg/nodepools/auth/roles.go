package auth

import (
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Grant gives a role to whom its subject names.
type Grant struct {
	// Subject is an email address, all addresses of a domain ("@example.com"), members of a group of the identity provider
	// ("group:platform"), its subject claim ("sub:system:serviceaccount:infra:gcp-controller"), or "*" for everyone who is known.
	Subject string `yaml:"subject"`
	// Role is what they may do.
	Role Role `yaml:"role"`
	// Platforms and Controllers bound a controller, see Identity.
	Platforms   []string `yaml:"platforms,omitempty"`
	Controllers []string `yaml:"controllers,omitempty"`
}

// Roles gives roles to people and services. The first grant that names somebody counts; whom none names may do nothing.
type Roles []Grant

// Everyone gives one role to everyone who is known.
func Everyone(role Role) Roles { return Roles{{Subject: "*", Role: role}} }

// Validate says what is wrong with the grants.
func (r Roles) Validate() error {
	for i, grant := range r {
		if err := checkRole(grant.Role, grant.Platforms, grant.Controllers); err != nil {
			return errors.Wrapf(err, "grant %d (%s)", i+1, grant.Subject)
		}
		kind, rest, prefixed := strings.Cut(grant.Subject, ":")
		switch {
		case grant.Subject == "*":
		case prefixed && (kind == "group" || kind == "sub") && rest != "":
		case strings.HasPrefix(grant.Subject, "@"):
			if _, err := ParseEmail("x" + grant.Subject); err != nil {
				return errors.Errorf("grant %d: %q is no domain", i+1, grant.Subject)
			}
		default:
			if _, err := ParseEmail(grant.Subject); err != nil {
				return errors.Errorf(`grant %d: the subject %q must be an email address, "@domain", "group:name", "sub:name" or "*"`, i+1, grant.Subject)
			}
		}
	}
	return nil
}

func checkRole(role Role, platforms, controllers []string) error {
	if !slices.Contains([]Role{Viewer, Editor, Admin, ControllerRole}, role) {
		return errors.Errorf("the role %q must be viewer, editor, admin or controller", role)
	}
	if role != ControllerRole && (platforms != nil || controllers != nil) {
		return errors.New("platforms and controllers bound the role controller alone")
	}
	return nil
}

// subject is who somebody is, as far as an identity provider tells.
type subject struct {
	email  string
	claim  string
	groups []string
}

func (s subject) named(by string) bool {
	kind, rest, prefixed := strings.Cut(by, ":")
	switch {
	case by == "*":
		return true
	case prefixed && kind == "group":
		return slices.Contains(s.groups, rest)
	case prefixed && kind == "sub":
		return s.claim != "" && s.claim == rest
	case s.email == "":
		return false
	case strings.HasPrefix(by, "@"):
		return strings.HasSuffix(s.email, strings.ToLower(by))
	default:
		return s.email == strings.ToLower(by)
	}
}

func (r Roles) identity(who subject) (Identity, error) {
	name := who.email
	if name == "" {
		// Marked, so that a subject that looks like an address does not own what belongs to the address.
		name = "sub:" + who.claim
	}
	for _, grant := range r {
		if who.named(grant.Subject) {
			return Identity{Name: name, Role: grant.Role, Platforms: grant.Platforms, Controllers: grant.Controllers}, nil
		}
	}
	return Identity{}, refuse(name + " has no role here; an administrator can give one")
}

// ParseEmail returns an email address in lower case, so that one person is one owner however they write themselves. It takes plain
// ASCII addresses with a domain of two labels or more: look-alike letters, spaces, quotes and comments are refused.
func ParseEmail(text string) (string, error) {
	local, domain, found := strings.Cut(text, "@")
	plain := func(s, more string) bool {
		return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
			return !letter && !strings.ContainsRune(more, c)
		})
	}
	valid := found && len(text) <= 254 && len(local) <= 64 && plain(local, "!#$%&'*+-/=?^_`{|}~.")
	labels := strings.Split(domain, ".")
	for _, label := range labels {
		valid = valid && plain(label, "-") && len(label) <= 63 && label[0] != '-' && label[len(label)-1] != '-'
	}
	if !valid || len(labels) < 2 {
		return "", errors.New("not an email address such as user@example.com")
	}
	return strings.ToLower(text), nil
}
