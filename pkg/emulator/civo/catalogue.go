package civo

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Region is where objects live.
type Region struct {
	Code          string          `json:"code"`
	Name          string          `json:"name"`
	Type          string          `json:"type"`
	OutOfCapacity bool            `json:"out_of_capacity"`
	Country       string          `json:"country"`
	CountryName   string          `json:"country_name"`
	Features      map[string]bool `json:"features"`
	Default       bool            `json:"default"`
}

const defaultRegion = "LON1"

var regions = []Region{
	newRegion("LON1", "London 1", "uk", "United Kingdom"),
	newRegion("LON2", "London 2", "uk", "United Kingdom"),
	newRegion("FRA1", "Frankfurt 1", "de", "Germany"),
	newRegion("NYC1", "New York 1", "us", "United States"),
	newRegion("PHX1", "Phoenix 1", "us", "United States"),
	newRegion("MUM1", "Mumbai 1", "in", "India"),
}

func newRegion(code, name, country, countryName string) Region {
	return Region{
		Code: code, Name: name, Type: "civostack", Country: country, CountryName: countryName, Default: code == defaultRegion,
		Features: map[string]bool{
			"iaas": true, "kubernetes": true, "object_store": true, "loadbalancer": true, "volume": true,
			"dbaas": true, "public_ip_node_pools": true, "gpu": false, "paas": false, "kfaas": false,
		},
	}
}

// Size is a kind of node.
type Size struct {
	Type          string `json:"type"`
	Name          string `json:"name"`
	NiceName      string `json:"nice_name"`
	CPUCores      int    `json:"cpu_cores"`
	GPUCount      int    `json:"gpu_count,omitempty"`
	GPUType       string `json:"gpu_type,omitempty"`
	RAMMegabytes  int    `json:"ram_mb"`
	DiskGigabytes int    `json:"disk_gb"`
	Description   string `json:"description"`
	Selectable    bool   `json:"selectable"`
}

// sizes are Civo's sizes for Kubernetes, and one for plain instances, which no cluster takes.
var sizes = []Size{
	kubernetesSize("g4s.kube.xsmall", "Extra Small - Standard", 1, 1, 30),
	kubernetesSize("g4s.kube.small", "Small - Standard", 1, 2, 40),
	kubernetesSize("g4s.kube.medium", "Medium - Standard", 2, 4, 50),
	kubernetesSize("g4s.kube.large", "Large - Standard", 4, 8, 60),
	kubernetesSize("g4p.kube.small", "Small - Performance", 4, 16, 60),
	kubernetesSize("g4p.kube.medium", "Medium - Performance", 8, 32, 80),
	kubernetesSize("g4p.kube.large", "Large - Performance", 16, 64, 120),
	kubernetesSize("g4p.kube.xlarge", "Extra Large - Performance", 32, 128, 180),
	kubernetesSize("g4c.kube.small", "Small - CPU optimized", 8, 16, 60),
	kubernetesSize("g4c.kube.medium", "Medium - CPU optimized", 16, 32, 80),
	kubernetesSize("g4c.kube.large", "Large - CPU optimized", 32, 64, 120),
	kubernetesSize("g4c.kube.xlarge", "Extra Large - CPU optimized", 64, 128, 180),
	kubernetesSize("g4m.kube.small", "Small - RAM optimized", 2, 16, 60),
	kubernetesSize("g4m.kube.medium", "Medium - RAM optimized", 4, 32, 80),
	kubernetesSize("g4m.kube.large", "Large - RAM optimized", 8, 64, 120),
	kubernetesSize("g4m.kube.xlarge", "Extra Large - RAM optimized", 16, 128, 180),
	{Type: "Instance", Name: "g4s.small", NiceName: "Small", CPUCores: 1, RAMMegabytes: 2048, DiskGigabytes: 25, Description: "Small", Selectable: true},
}

func kubernetesSize(name, niceName string, cores, ramGigabytes, diskGigabytes int) Size {
	return Size{
		Type: "Kubernetes", Name: name, NiceName: niceName, Description: niceName, Selectable: true,
		CPUCores: cores, RAMMegabytes: ramGigabytes * 1024, DiskGigabytes: diskGigabytes,
	}
}

// nodeSize finds a size that a node pool can have.
func nodeSize(name string) (Size, error) {
	for _, size := range sizes {
		if size.Name == name && size.Type == "Kubernetes" {
			return size, nil
		}
	}
	return Size{}, errSizeNotFound(name)
}

// Version is a version of Kubernetes as Civo offers it.
type Version struct {
	// Label and Version are the same text, such as 1.30.5-k3s1 or talos-v1.5.0.
	Label   string `json:"label"`
	Version string `json:"version"`
	// Type is stable, development or legacy.
	Type string `json:"type"`
	// ClusterType is k3s or talos.
	ClusterType string `json:"clusterType"`
	// Default tells what a cluster of this type gets that names no version.
	Default bool `json:"default,omitempty"`
}

var versions = []Version{
	newVersion("1.32.5-k3s1", "development"),
	newVersion("1.31.6-k3s1", "stable"),
	newVersion("1.30.5-k3s1", "stable").asDefault(),
	newVersion("1.29.8-k3s1", "stable"),
	newVersion("1.29.0-k3s1", "legacy"),
	newVersion("1.28.7-k3s1", "legacy"),
	newVersion("1.27.1-k3s1", "legacy"),
	newVersion("talos-v1.7.6", "development"),
	newVersion("talos-v1.6.7", "stable"),
	newVersion("talos-v1.5.0", "stable").asDefault(),
}

func newVersion(label, kind string) Version {
	version := Version{Label: label, Version: label, Type: kind, ClusterType: clusterK3s}
	if strings.HasPrefix(label, "talos-") {
		version.ClusterType = clusterTalos
	}
	return version
}

func (v Version) asDefault() Version {
	v.Default = true
	return v
}

// findVersion finds a version by what a client may write: with or without a v in front.
func (a *account) findVersion(text string) (Version, bool) {
	text = strings.TrimPrefix(text, "v")
	for _, version := range slices.Concat(versions, a.Versions) {
		if version.Label == text {
			return version, true
		}
	}
	return Version{}, false
}

func (a *account) defaultVersion(clusterType string) Version {
	for _, version := range versions {
		if version.Default && version.ClusterType == clusterType {
			return version
		}
	}
	return Version{} // not reached: each type has one
}

// olderVersion compares two versions of one type by their numbers, the number after "k3s" last.
func olderVersion(a, b string) bool { return slices.Compare(numbersOf(a), numbersOf(b)) < 0 }

func numbersOf(version string) []int {
	// The 3 of "k3s" is no number of the version.
	version = strings.ReplaceAll(version, "k3s", "")
	var numbers []int
	for _, field := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		number, err := strconv.Atoi(field)
		if err != nil {
			continue // more digits than any version has
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// Application is an application of the marketplace.
type Application struct {
	Name         string            `json:"name"`
	Title        string            `json:"title"`
	Version      string            `json:"version"`
	Default      bool              `json:"default"`
	Dependencies []string          `json:"dependencies"`
	Maintainer   string            `json:"maintainer"`
	Description  string            `json:"description"`
	PostInstall  string            `json:"post_install"`
	URL          string            `json:"url"`
	Category     string            `json:"category"`
	Plans        []ApplicationPlan `json:"plans"`
}

// ApplicationPlan is a variant of an application.
type ApplicationPlan struct {
	Label         string                       `json:"label"`
	Configuration map[string]map[string]string `json:"configuration"`
}

// applications are some of the marketplace's; the defaults are what a k3s cluster gets unless it asks not to.
var applications = []Application{
	{Name: "Traefik-v2-nodeport", Title: "Traefik v2 (NodePort)", Version: "2.9.4", Category: "architecture", Default: true},
	{Name: "metrics-server", Title: "Metrics Server", Version: "v0.6.2", Category: "architecture", Default: true},
	{Name: "civo-cluster-autoscaler", Title: "Civo cluster autoscaler", Version: "v1.29.1", Category: "architecture"},
	{Name: "cert-manager", Title: "cert-manager", Version: "v1.15.1", Category: "architecture"},
	{Name: "argo-cd", Title: "Argo CD", Version: "v2.11.4", Category: "ci_cd"},
	{Name: "prometheus-operator", Title: "Prometheus Operator", Version: "0.68.0", Category: "monitoring"},
	{Name: "Linkerd", Title: "Linkerd", Version: "2.14.0", Category: "architecture", Plans: []ApplicationPlan{
		{Label: "Linkerd Minimal"}, {Label: "Linkerd & Jaeger"}, {Label: "Linkerd with Dashboard & Jaeger"},
	}},
	{Name: "MariaDB", Title: "MariaDB", Version: "10.4.7", Category: "database", Plans: []ApplicationPlan{
		{Label: "5GB", Configuration: map[string]map[string]string{"VOLUME_SIZE": {"value": "5Gi"}}},
		{Label: "10GB", Configuration: map[string]map[string]string{"VOLUME_SIZE": {"value": "10Gi"}}},
	}},
	{Name: "Redis", Title: "Redis", Version: "3.2", Category: "database"},
}

func findApplication(name string) (Application, bool) {
	for _, application := range applications {
		if application.Name == name {
			return application, true
		}
	}
	return Application{}, false
}

// The catalogues are the same in every region, and are answered for any: a client lists the regions, and the versions before
// a cluster exists, without knowing yet whether its own region is right.

func (c *Cloud) listRegions(*http.Request) (any, error)      { return regions, nil }
func (c *Cloud) listSizes(*http.Request) (any, error)        { return sizes, nil }
func (c *Cloud) listApplications(*http.Request) (any, error) { return applications, nil }

func (c *Cloud) listVersions(*http.Request) (document any, err error) {
	c.store.View(func(a *account) { document = slices.Concat(versions, a.Versions) })
	return document, nil
}

// getQuota answers the bounds and what is used of them. An account without a bound gets one that no test reaches, because
// clients take 0 for "none left".
func (c *Cloud) getQuota(*http.Request) (document any, err error) {
	const unbounded = 1_000_000
	limit := func(n int) int {
		if n == 0 {
			return unbounded
		}
		return n
	}
	c.store.View(func(a *account) {
		used := a.usage(c.clock.Now())
		document = map[string]any{
			"id":                         "quota",
			"instance_count_limit":       limit(a.Quota.Instances),
			"instance_count_usage":       used.Instances,
			"cpu_core_limit":             limit(a.Quota.CPUCores),
			"cpu_core_usage":             used.CPUCores,
			"ram_mb_limit":               limit(a.Quota.RAMMegabytes),
			"ram_mb_usage":               used.RAMMegabytes,
			"disk_gb_limit":              limit(a.Quota.DiskGigabytes),
			"disk_gb_usage":              used.DiskGigabytes,
			"network_count_limit":        limit(a.Quota.Networks),
			"network_count_usage":        used.Networks,
			"security_group_limit":       limit(a.Quota.Firewalls),
			"security_group_usage":       used.Firewalls,
			"port_count_limit":           unbounded,
			"public_ip_address_limit":    unbounded,
			"loadbalancer_count_limit":   unbounded,
			"disk_volume_count_limit":    unbounded,
			"disk_snapshot_count_limit":  unbounded,
			"subnet_count_limit":         unbounded,
			"security_group_rule_limit":  unbounded,
			"database_count_limit":       unbounded,
			"objectstore_gb_limit":       unbounded,
			"default_user_email_address": "emulated@example.com",
		}
	})
	return document, nil
}

// usage counts what the account holds of what a quota bounds.
func (a *account) usage(now time.Time) Quota {
	var used Quota
	defaults := map[string]bool{}
	for _, network := range a.Networks {
		if network.Default {
			defaults[network.ID] = true
		} else {
			used.Networks++
		}
	}
	for _, firewall := range a.Firewalls {
		if !defaults[firewall.NetworkID] {
			used.Firewalls++
		}
	}
	for _, cluster := range a.clusters("", now) {
		for _, pool := range cluster.Pools {
			used.addNodes(pool.Size, pool.Count)
		}
	}
	return used
}

func (q *Quota) addNodes(sizeName string, count int) {
	size, err := nodeSize(sizeName)
	if err != nil {
		return // seeded by a test with a size that the catalogue lacks
	}
	q.Instances += count
	q.CPUCores += count * size.CPUCores
	q.RAMMegabytes += count * size.RAMMegabytes
	q.DiskGigabytes += count * size.DiskGigabytes
}

// allows tells whether the account, which holds what used counts, may come to hold what wanted counts. Holding less is
// allowed even where it is still more than a quota that was lowered.
func (q Quota) allows(used, wanted Quota) error {
	for _, bound := range []struct {
		what                string
		limit, used, wanted int
	}{
		{"instances", q.Instances, used.Instances, wanted.Instances},
		{"CPU cores", q.CPUCores, used.CPUCores, wanted.CPUCores},
		{"megabytes of RAM", q.RAMMegabytes, used.RAMMegabytes, wanted.RAMMegabytes},
		{"gigabytes of disk", q.DiskGigabytes, used.DiskGigabytes, wanted.DiskGigabytes},
		{"networks", q.Networks, used.Networks, wanted.Networks},
		{"firewalls", q.Firewalls, used.Firewalls, wanted.Firewalls},
	} {
		if bound.limit > 0 && bound.wanted > bound.used && bound.wanted > bound.limit {
			return errQuota(bound.what, bound.limit, bound.wanted)
		}
	}
	return nil
}
