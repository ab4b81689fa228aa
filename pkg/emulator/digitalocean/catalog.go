package digitalocean

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// region is a region that Kubernetes clusters can be made in.
type region struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

var regions = []region{
	{"New York 1", "nyc1"}, {"New York 2", "nyc2"}, {"New York 3", "nyc3"},
	{"San Francisco 2", "sfo2"}, {"San Francisco 3", "sfo3"},
	{"Amsterdam 3", "ams3"}, {"Singapore 1", "sgp1"}, {"London 1", "lon1"}, {"Frankfurt 1", "fra1"},
	{"Toronto 1", "tor1"}, {"Bangalore 1", "blr1"}, {"Sydney 1", "syd1"}, {"Atlanta 1", "atl1"}, {"Richmond 1", "ric1"},
}

// regionNamed is the region with that slug. The API takes slugs in any case.
func regionNamed(slug string) (region, bool) {
	i := slices.IndexFunc(regions, func(r region) bool { return r.Slug == strings.ToLower(slug) })
	if i < 0 {
		return region{}, false
	}
	return regions[i], true
}

// nodeSizes are the sizes of Droplets that nodes can have, which need 2 GB of memory at least.
var nodeSizes = []string{
	"s-1vcpu-2gb", "s-1vcpu-2gb-amd", "s-1vcpu-2gb-intel", "s-1vcpu-3gb",
	"s-2vcpu-2gb", "s-2vcpu-2gb-amd", "s-2vcpu-2gb-intel", "s-2vcpu-4gb", "s-2vcpu-4gb-amd", "s-2vcpu-4gb-intel",
	"s-2vcpu-8gb-amd", "s-2vcpu-8gb-160gb-intel",
	"s-4vcpu-8gb", "s-4vcpu-8gb-amd", "s-4vcpu-8gb-intel", "s-4vcpu-16gb-amd", "s-4vcpu-16gb-320gb-intel",
	"s-6vcpu-16gb", "s-8vcpu-16gb", "s-8vcpu-16gb-amd", "s-8vcpu-16gb-intel", "s-8vcpu-32gb", "s-8vcpu-32gb-amd",
	"s-12vcpu-48gb", "s-16vcpu-64gb", "s-20vcpu-96gb", "s-24vcpu-128gb",
	"c-2", "c-4", "c-8", "c-16", "c-32", "c2-2vcpu-4gb", "c2-4vcpu-8gb", "c2-8vcpu-16gb", "c2-16vcpu-32gb", "c2-32vcpu-64gb",
	"g-2vcpu-8gb", "g-4vcpu-16gb", "g-8vcpu-32gb", "g-16vcpu-64gb", "g-32vcpu-128gb", "g-40vcpu-160gb",
	"gd-2vcpu-8gb", "gd-4vcpu-16gb", "gd-8vcpu-32gb", "gd-16vcpu-64gb", "gd-32vcpu-128gb", "gd-40vcpu-160gb",
	"m-2vcpu-16gb", "m-4vcpu-32gb", "m-8vcpu-64gb", "m-16vcpu-128gb", "m-24vcpu-192gb", "m-32vcpu-256gb",
	"m3-2vcpu-16gb", "m3-4vcpu-32gb", "m3-8vcpu-64gb", "m3-16vcpu-128gb",
	"m6-2vcpu-16gb", "m6-4vcpu-32gb", "m6-8vcpu-64gb", "m6-16vcpu-128gb",
	"so-2vcpu-16gb", "so-4vcpu-32gb", "so-8vcpu-64gb", "so1_5-2vcpu-16gb", "so1_5-4vcpu-32gb",
	"gpu-4000adax1-20gb", "gpu-6000adax1-48gb", "gpu-l40sx1-48gb", "gpu-h100x1-80gb", "gpu-h100x8-640gb", "gpu-h200x1-141gb",
	"gpu-mi300x1-192gb", "gpu-mi300x8-1536gb",
}

// isAMDGPU and isNvidiaGPU tell whether nodes of a size have graphics processors, for which a plugin is then enabled.
func isAMDGPU(size string) bool    { return strings.HasPrefix(size, "gpu-mi") }
func isNvidiaGPU(size string) bool { return strings.HasPrefix(size, "gpu-") && !isAMDGPU(size) }

// initialVersions are the versions a fresh account can choose from: several patches of some minor versions, so that each kind
// of upgrade can be tried.
var initialVersions = []string{
	"1.34.2-do.0", "1.34.1-do.1",
	"1.33.6-do.0", "1.33.1-do.3",
	"1.32.10-do.0", "1.32.2-do.1",
	"1.31.14-do.0", "1.31.1-do.5", "1.31.1-do.4", "1.31.1-do.0",
	"1.30.14-do.0", "1.30.1-do.0",
}

// slug is a version of Kubernetes as DigitalOcean names it: MAJOR.MINOR.PATCH-do.REVISION.
type slug struct{ major, minor, patch, revision int }

var slugPattern = regexp.MustCompile(`^([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})-do\.([0-9]{1,4})$`)

func parseSlug(text string) (slug, bool) {
	parts := slugPattern.FindStringSubmatch(text)
	if parts == nil {
		return slug{}, false
	}
	var numbers [4]int
	for i, part := range parts[1:] {
		number, err := strconv.Atoi(part)
		if err != nil {
			return slug{}, false
		}
		numbers[i] = number
	}
	return slug{numbers[0], numbers[1], numbers[2], numbers[3]}, true
}

func (s slug) compare(other slug) int {
	return cmp.Or(cmp.Compare(s.major, other.major), cmp.Compare(s.minor, other.minor),
		cmp.Compare(s.patch, other.patch), cmp.Compare(s.revision, other.revision))
}

// compareSlugs orders versions from old to new.
func compareSlugs(a, b string) int {
	left, _ := parseSlug(a)
	right, _ := parseSlug(b)
	return left.compare(right)
}

// canUpgrade tells whether DigitalOcean takes a cluster from one version to another: to a newer patch, or to the next minor
// version, never over one.
// https://docs.digitalocean.com/products/kubernetes/how-to/upgrade-cluster/
func canUpgrade(from, to string) bool {
	old, okOld := parseSlug(from)
	next, okNew := parseSlug(to)
	return okOld && okNew && next.compare(old) > 0 && next.major == old.major && next.minor <= old.minor+1
}

// resolveVersion is the slug that a request's version stands for: a slug that is on offer, "latest", or a minor version such
// as "1.31", which means its newest.
func resolveVersion(offered []string, wanted string) (string, bool) {
	if slices.Contains(offered, wanted) {
		return wanted, true
	}
	var newest string
	for _, candidate := range offered {
		meant := wanted == "latest" || minorPattern.MatchString(wanted) && strings.HasPrefix(candidate, wanted+".")
		if meant && (newest == "" || compareSlugs(candidate, newest) > 0) {
			newest = candidate
		}
	}
	return newest, newest != ""
}

var minorPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// version is a version on offer, as the API describes it.
type version struct {
	Slug              string   `json:"slug"`
	KubernetesVersion string   `json:"kubernetes_version"`
	SupportedFeatures []string `json:"supported_features"`
}

func describeVersion(text string) version {
	kubernetes, _, _ := strings.Cut(text, "-")
	return version{
		Slug:              text,
		KubernetesVersion: kubernetes,
		SupportedFeatures: []string{"cluster-autoscaler", "docr-integration", "ha-control-plane", "token-authentication"},
	}
}

// describeVersions lists versions newest first, as the API does: clients take the first for the latest.
func describeVersions(offered []string) []version {
	sorted := slices.Clone(offered)
	slices.SortFunc(sorted, func(a, b string) int { return compareSlugs(b, a) })
	described := make([]version, 0, len(sorted))
	for _, text := range sorted {
		described = append(described, describeVersion(text))
	}
	return described
}
