package module

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// A cluster's version only ever goes up: DigitalOcean upgrades in place, and takes a cluster to a lower version by replacing
// it, with all that runs on it. A manifest may say a lower version than the cluster runs without anyone having meant that:
// DigitalOcean upgraded by itself, or a prefix was resolved to an older slug. So the version to plan is decided against the
// version that the cluster runs, and is never lower.

// versionDecision is what to do about a cluster's version.
type versionDecision struct {
	// version is the full slug to plan.
	version string
	// unchanged tells that the cluster runs this version already.
	unchanged bool
	// notice is what the user should know, empty when there is nothing.
	notice string
}

// decideVersion decides the version to plan.
//
// wanted is spec.kubernetes_version: a full slug (1.31.1-do.4), or the start of one (1.31, 1.31.1), which means the newest
// slug in offered that it is the start of. live is the version that the cluster runs, empty when there is no cluster yet.
// offered is asked only for a prefix.
//
// It refuses a full slug that is lower than the live version when DigitalOcean does not upgrade by itself: then someone asks
// for a downgrade. And it refuses a prefix that no offered slug matches, unless the cluster is there already.
func decideVersion(wanted, live string, autoUpgrade bool, offered func() ([]string, error)) (versionDecision, error) {
	target := wanted
	if isPrefix(wanted) {
		slugs, err := offered()
		if err != nil {
			return versionDecision{}, err
		}
		newest, ok := newestMatch(wanted, slugs)
		if !ok {
			// DigitalOcean stops offering old versions; the clusters that run them live on.
			if live != "" && (matches(wanted, live) || exceeds(live, wanted)) {
				return keep(wanted, live), nil
			}
			return versionDecision{}, errors.Errorf("spec.kubernetes_version: DigitalOcean offers no version that starts with %s; it offers %s",
				wanted, offeredText(slugs))
		}
		target = newest
	}

	switch {
	case live == "":
		return versionDecision{version: target}, nil
	case target == live:
		return versionDecision{version: live, unchanged: true}, nil
	}
	liveSlug, ok := parseSlug(live)
	if !ok {
		return versionDecision{}, errors.Errorf("spec.kubernetes_version: the cluster runs %s, which cannot be compared with %s; "+
			"set spec.kubernetes_version to %s", live, target, live)
	}
	targetSlug, ok := parseSlug(target)
	if !ok {
		return versionDecision{}, errors.Errorf("spec.kubernetes_version: %s is not a version slug of DigitalOcean", target)
	}
	if slices.Compare(targetSlug[:], liveSlug[:]) > 0 {
		return versionDecision{version: target}, nil
	}
	if !isPrefix(wanted) && !autoUpgrade {
		return versionDecision{}, errors.Errorf("spec.kubernetes_version: the cluster runs %s, and %s is lower: DigitalOcean could only "+
			"get there by replacing the cluster; set spec.kubernetes_version to %s or higher, or make a second cluster under another name",
			live, wanted, live)
	}
	return keep(wanted, live), nil
}

// keep leaves a cluster at the version that it runs.
func keep(wanted, live string) versionDecision {
	decision := versionDecision{version: live, unchanged: true}
	if wanted != live && !matches(wanted, live) {
		decision.notice = "spec.kubernetes_version is " + wanted + ", but the cluster runs " + live +
			" already and keeps it: a lower version would replace the cluster"
	}
	return decision
}

// slug is a version slug of DigitalOcean taken apart: major, minor, patch, and DigitalOcean's own revision.
type slug [4]int

var (
	// Numbers are as the rule digitalocean_kubernetes_version wants them: without leading zeros, and short enough to be compared.
	slugPattern   = regexp.MustCompile(`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})-do\.(0|[1-9]\d{0,3})$`)
	prefixPattern = regexp.MustCompile(`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})(\.(0|[1-9]\d{0,3}))?$`)
)

func parseSlug(text string) (slug, bool) {
	parts := slugPattern.FindStringSubmatch(text)
	if parts == nil {
		return slug{}, false
	}
	var parsed slug
	for i, part := range parts[1:] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return slug{}, false
		}
		parsed[i] = n
	}
	return parsed, true
}

// isPrefix tells whether a version names a minor or patch release and leaves the rest to DigitalOcean.
func isPrefix(version string) bool { return prefixPattern.MatchString(version) }

// matches tells whether prefix is the start of version, by whole components: 1.3 is not the start of 1.31.1-do.4.
func matches(prefix, version string) bool {
	return isPrefix(prefix) && (strings.HasPrefix(version, prefix+".") || strings.HasPrefix(version, prefix+"-"))
}

// exceeds tells whether version is newer than every slug that prefix could ever match.
func exceeds(version, prefix string) bool {
	parsed, ok := parseSlug(version)
	if !ok {
		return false
	}
	var start []int
	for _, part := range strings.Split(prefix, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		start = append(start, n)
	}
	return slices.Compare(parsed[:len(start)], start) > 0
}

// newestMatch returns the newest of slugs that prefix is the start of.
func newestMatch(prefix string, slugs []string) (string, bool) {
	var newest string
	var newestSlug slug
	for _, candidate := range slugs {
		parsed, ok := parseSlug(candidate)
		if !ok || !matches(prefix, candidate) {
			continue
		}
		if newest == "" || slices.Compare(parsed[:], newestSlug[:]) > 0 {
			newest, newestSlug = candidate, parsed
		}
	}
	return newest, newest != ""
}

func offeredText(slugs []string) string {
	if len(slugs) == 0 {
		return "none"
	}
	return strings.Join(slugs, ", ")
}
