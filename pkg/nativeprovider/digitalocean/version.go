package digitalocean

import (
	"slices"
	"strings"

	"github.com/blang/semver"
)

// versionOrder compares two version slugs ("1.31.1-do.4"): negative when a is older than b, 0 when they are the same,
// positive when a is newer. It is false when either is not a version.
func versionOrder(a, b string) (order int, ok bool) {
	va, err := semver.ParseTolerant(a)
	if err != nil {
		return 0, false
	}
	vb, err := semver.ParseTolerant(b)
	if err != nil {
		return 0, false
	}
	return va.Compare(vb), true
}

// sameMinor tells whether two version slugs are of one minor release of Kubernetes.
func sameMinor(a, b string) bool {
	va, errA := semver.ParseTolerant(a)
	vb, errB := semver.ParseTolerant(b)
	return errA == nil && errB == nil && va.Major == vb.Major && va.Minor == vb.Minor
}

// isVersionPrefix tells whether a version slug begins with the given whole parts: "1.31" and "1.31.1" are prefixes of
// "1.31.1-do.4", "1.3" is not.
func isVersionPrefix(prefix, version string) bool {
	rest, ok := strings.CutPrefix(version, prefix)
	return ok && prefix != "" && rest != "" && (rest[0] == '.' || rest[0] == '-')
}

// newestFirst sorts version slugs, and puts what is not a version behind those that are.
func newestFirst(versions []string) {
	slices.SortStableFunc(versions, func(a, b string) int {
		if order, ok := versionOrder(a, b); ok {
			return -order
		}
		_, errA := semver.ParseTolerant(a)
		_, errB := semver.ParseTolerant(b)
		switch {
		case errA == nil && errB != nil:
			return -1
		case errA != nil && errB == nil:
			return 1
		}
		return strings.Compare(b, a)
	})
}
