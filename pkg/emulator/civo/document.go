package civo

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The documents below are clusters, pools and nodes as the API answers them.

type clusterDocument struct {
	ID                    string                 `json:"id"`
	Name                  string                 `json:"name"`
	GeneratedName         string                 `json:"generated_name"`
	Version               string                 `json:"version"`
	Status                string                 `json:"status"`
	Ready                 bool                   `json:"ready"`
	ClusterType           string                 `json:"cluster_type"`
	NumTargetNodes        int                    `json:"num_target_nodes"`
	TargetNodesSize       string                 `json:"target_nodes_size"`
	BuiltAt               *time.Time             `json:"built_at,omitempty"`
	KubeConfig            string                 `json:"kubeconfig"`
	KubernetesVersion     string                 `json:"kubernetes_version"`
	APIEndpoint           string                 `json:"api_endpoint"`
	MasterIP              string                 `json:"master_ip"`
	DNSEntry              string                 `json:"dns_entry"`
	NetworkID             string                 `json:"network_id"`
	Namespace             string                 `json:"namespace"`
	Tags                  []string               `json:"tags"`
	CreatedAt             time.Time              `json:"created_at"`
	Instances             []instanceDocument     `json:"instances"`
	Pools                 []poolDocument         `json:"pools"`
	RequiredPools         []requiredPoolDocument `json:"required_pools"`
	InstalledApplications []applicationDocument  `json:"installed_applications"`
	FirewallID            string                 `json:"firewall_id"`
	CNIPlugin             string                 `json:"cni_plugin"`
	CCMInstalled          string                 `json:"ccm_installed"`
	Conditions            []conditionDocument    `json:"conditions"`
}

type poolDocument struct {
	ID               string             `json:"id"`
	Count            int                `json:"count"`
	Size             string             `json:"size"`
	InstanceNames    []string           `json:"instance_names"`
	Instances        []instanceDocument `json:"instances"`
	Labels           map[string]string  `json:"labels"`
	Taints           []Taint            `json:"taints"`
	PublicIPNodePool bool               `json:"public_ip_node_pool"`
}

type requiredPoolDocument struct {
	ID               string            `json:"id"`
	Size             string            `json:"size"`
	Count            int               `json:"count"`
	Labels           map[string]string `json:"labels"`
	Taints           []Taint           `json:"taints"`
	PublicIPNodePool bool              `json:"public_ip_node_pool"`
}

type instanceDocument struct {
	ID            string    `json:"id"`
	Hostname      string    `json:"hostname"`
	Size          string    `json:"size"`
	Region        string    `json:"region"`
	SourceType    string    `json:"source_type"`
	InitialUser   string    `json:"initial_user"`
	Status        string    `json:"status"`
	FirewallID    string    `json:"firewall_id"`
	NetworkID     string    `json:"network_id"`
	PublicIP      string    `json:"public_ip"`
	CPUCores      int       `json:"cpu_cores"`
	RAMMegabytes  int       `json:"ram_mb"`
	DiskGigabytes int       `json:"disk_gb"`
	Tags          []string  `json:"tags"`
	CreatedAt     time.Time `json:"created_at"`
}

type applicationDocument struct {
	Application   string         `json:"application"`
	Name          string         `json:"name"`
	Version       string         `json:"version"`
	Dependencies  []string       `json:"dependencies"`
	Maintainer    string         `json:"maintainer"`
	Description   string         `json:"description"`
	PostInstall   string         `json:"post_install"`
	Installed     bool           `json:"installed"`
	URL           string         `json:"url"`
	Category      string         `json:"category"`
	UpdatedAt     time.Time      `json:"updated_at"`
	Plan          *string        `json:"plan"`
	Configuration map[string]any `json:"configuration"`
}

type conditionDocument struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Synced             bool      `json:"synced"`
	LastTransitionTime time.Time `json:"last_transition_time"`
}

// document is the cluster as it stands now. What a cluster only has when it is built, the way into it, is empty before.
func (k *Cluster) document(now time.Time) clusterDocument {
	built := !now.Before(k.BuiltAt)
	document := clusterDocument{
		ID:                    k.ID,
		Name:                  k.Name,
		GeneratedName:         hostnamePart(k.Name) + "-" + k.ID[:8],
		Version:               "2",
		Status:                k.status(now),
		Ready:                 built && k.GoneAt.IsZero(),
		ClusterType:           k.ClusterType,
		KubernetesVersion:     k.Version,
		DNSEntry:              k.ID + ".k8s.civo.com",
		NetworkID:             k.NetworkID,
		Namespace:             "cust-emulated-" + k.ID[:8],
		Tags:                  slices.Clone(k.Tags),
		CreatedAt:             k.CreatedAt,
		Instances:             []instanceDocument{},
		Pools:                 []poolDocument{},
		RequiredPools:         []requiredPoolDocument{},
		InstalledApplications: []applicationDocument{},
		FirewallID:            k.FirewallID,
		CNIPlugin:             k.CNI,
		CCMInstalled:          "true",
	}
	if built {
		builtAt := k.BuiltAt
		document.BuiltAt = &builtAt
		document.KubeConfig = k.Kubeconfig
		document.MasterIP = k.MasterIP
		document.APIEndpoint = k.endpoint()
	}
	for _, pool := range k.Pools {
		if passed(pool.GoneAt, now) {
			continue
		}
		listed := k.poolDocument(pool, now)
		document.Pools = append(document.Pools, listed)
		document.Instances = append(document.Instances, listed.Instances...)
	}
	for i, pool := range k.requiredPools() {
		if i == 0 {
			document.NumTargetNodes, document.TargetNodesSize = pool.Count, pool.Size
		}
		document.RequiredPools = append(document.RequiredPools, requiredPoolDocument{
			ID: pool.ID, Size: pool.Size, Count: pool.Count,
			Labels: maps.Clone(pool.Labels), Taints: slices.Clone(pool.Taints), PublicIPNodePool: pool.PublicIP,
		})
	}
	for _, installed := range k.Applications {
		document.InstalledApplications = append(document.InstalledApplications, k.applicationDocument(installed))
	}
	for _, kind := range []string{"ControlPlaneAccessible", "ClusterVersionSync", "WorkerNodesVersionSync"} {
		condition := conditionDocument{Type: kind, Status: "False", LastTransitionTime: k.CreatedAt}
		if built {
			condition.Status, condition.Synced, condition.LastTransitionTime = "True", true, k.BuiltAt
		}
		document.Conditions = append(document.Conditions, condition)
	}
	return document
}

func (k *Cluster) poolDocument(pool *Pool, now time.Time) poolDocument {
	listed := pool.listed(now)
	document := poolDocument{
		ID: pool.ID, Size: pool.Size, Count: len(listed),
		InstanceNames: []string{}, Instances: []instanceDocument{},
		Labels: maps.Clone(pool.Labels), Taints: slices.Clone(pool.Taints), PublicIPNodePool: pool.PublicIP,
	}
	// A size that the catalogue lacks has zeros here.
	size, _ := nodeSize(pool.Size)
	for _, instance := range listed {
		document.InstanceNames = append(document.InstanceNames, instance.Hostname)
		document.Instances = append(document.Instances, instanceDocument{
			ID:            instance.ID,
			Hostname:      instance.Hostname,
			Size:          pool.Size,
			Region:        k.Region,
			SourceType:    "diskimage",
			InitialUser:   "civo",
			Status:        instance.status(now),
			FirewallID:    k.FirewallID,
			NetworkID:     k.NetworkID,
			PublicIP:      instance.PublicIP,
			CPUCores:      size.CPUCores,
			RAMMegabytes:  size.RAMMegabytes,
			DiskGigabytes: size.DiskGigabytes,
			Tags:          []string{"civo-kubernetes:installed", "civo-kubernetes:node"},
			CreatedAt:     instance.CreatedAt,
		})
	}
	return document
}

func (k *Cluster) applicationDocument(installed string) applicationDocument {
	name, plan, hasPlan := strings.Cut(installed, ":")
	application, _ := findApplication(name)
	document := applicationDocument{
		Application: name, Name: name, Version: application.Version, Maintainer: application.Maintainer,
		Description: application.Description, PostInstall: application.PostInstall, URL: application.URL,
		Category: application.Category, Installed: true, UpdatedAt: k.CreatedAt, Configuration: map[string]any{},
	}
	if hasPlan {
		document.Plan = &plan
	}
	return document
}
