package main

import (
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// life is that of an object of one kind: created, read, scaled, updated, deleted.
type life struct {
	kind string
	// prepare makes in the clouds what the manifest refers to, and returns the manifest with its ids.
	prepare func(*clouds) (string, error)
	stages  []stage
}

// stage is one operation of a life.
type stage struct {
	name, operation string
	// edit holds an old and a new text of the manifest.
	edit [2]string
	// fewest is how many requests the API needs for it, and why says which.
	fewest int
	why    string
	// requests is how many the plugin makes; a test fails when that changes.
	requests int
}

// apply is the manifest of the stage.
func (s stage) apply(text string) (string, error) {
	if s.edit[0] == "" {
		return text, nil
	}
	if strings.Count(text, s.edit[0]) != 1 {
		return "", errors.Errorf("%s: the manifest has not exactly one %q", s.name, s.edit[0])
	}
	return strings.Replace(text, s.edit[0], s.edit[1], 1), nil
}

// asItIs prepares nothing.
func asItIs(text string) func(*clouds) (string, error) {
	return func(*clouds) (string, error) { return text, nil }
}

// lives are those of every kind. The objects are ready at once, so that a wait takes one look.
func lives() []life {
	return []life{
		{
			kind: "CivoVpc",
			prepare: asItIs(`apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: net}
spec: {networkName: net, region: lon1, ipRangeCidr: 10.10.0.0/22}
`),
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 2, why: "POST, and a GET for the state, which its answer lacks", requests: 3},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET", requests: 1},
				{name: "update", operation: operationUp, edit: [2]string{"networkName: net", "networkName: renamed"}, fewest: 1,
					why: "PUT; what it changes is known", requests: 2},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 3},
			},
		},
		{
			kind: "CivoFirewall",
			prepare: func(c *clouds) (string, error) {
				network, err := c.civoNetwork()
				return `apiVersion: civo.project-planton.org/v1
kind: CivoFirewall
metadata: {name: fw}
spec:
  name: fw
  region: lon1
  networkId: {value: ` + network + `}
  inboundRules:
    - {protocol: tcp, portRange: "6443", cidrs: [203.0.113.0/24], label: office}
    - {protocol: tcp, portRange: "80", cidrs: [0.0.0.0/0], label: web}
`, err
			},
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 2, why: "POST with the rules, and a GET of the rules for their ids", requests: 4},
				{name: "read", operation: operationRefresh, fewest: 2, why: "GET of the firewall, and of its rules", requests: 2},
				{name: "update", operation: operationUp, edit: [2]string{"203.0.113.0/24", "198.51.100.0/24"}, fewest: 3,
					why: "rules cannot be changed: POST of the new one, DELETE of the old one, whose id a GET tells", requests: 6},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 2},
			},
		},
		{
			kind: "CivoKubernetesCluster",
			prepare: func(c *clouds) (string, error) {
				network, err := c.civoNetwork()
				if err != nil {
					return "", err
				}
				firewall, err := c.civoFirewall(network)
				return `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: main}
spec:
  clusterName: main
  region: lon1
  kubernetesVersion: 1.29.0+k3s1
  network: {value: ` + network + `}
  firewall: {value: ` + firewall + `}
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
`, err
			},
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 2, why: "POST, and a GET that sees it ready, with its kubeconfig", requests: 3},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET, with the pools in it", requests: 1},
				{name: "scale", operation: operationUp, edit: [2]string{"nodeCount: 1", "nodeCount: 2"}, fewest: 2,
					why: "PUT of the pool, and a GET of the cluster that sees it ready", requests: 3},
				{name: "update", operation: operationUp, edit: [2]string{"clusterName: main", "clusterName: renamed"}, fewest: 2,
					why: "PUT, and a GET that sees it ready", requests: 3},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 3},
			},
		},
		{
			kind: "CivoKubernetesNodePool",
			prepare: func(c *clouds) (string, error) {
				network, err := c.civoNetwork()
				if err != nil {
					return "", err
				}
				firewall, err := c.civoFirewall(network)
				if err != nil {
					return "", err
				}
				cluster, err := c.post(kinds.Civo, "/v2/kubernetes/clusters", map[string]any{
					"name": "main", "region": "LON1", "network_id": network, "instance_firewall": firewall,
					"kubernetes_version": "1.30.5-k3s1",
					"pools":              []map[string]any{{"id": "default", "count": 1, "size": "g4s.kube.medium"}},
				})
				return `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata: {name: web}
spec:
  nodePoolName: web
  region: lon1
  cluster: {value: ` + cluster.ID + `}
  size: g4s.kube.medium
  nodeCount: 2
  labels: {workload: web}
`, err
			},
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 2, why: "POST, and a GET that sees it ready", requests: 4},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET", requests: 2},
				{name: "scale", operation: operationUp, edit: [2]string{"nodeCount: 2", "nodeCount: 3"}, fewest: 2,
					why: "PUT, and a GET that sees it ready", requests: 3},
				{name: "update", operation: operationUp, edit: [2]string{"workload: web", "workload: api"}, fewest: 2,
					why: "PUT, and a GET that sees it ready", requests: 3},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 3},
			},
		},
		{
			kind: "DigitalOceanVpc",
			prepare: asItIs(`apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanVpc
metadata: {name: net}
spec: {description: for clusters, region: nyc1, ipRangeCidr: 10.20.0.0/20}
`),
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 1, why: "POST; its answer is the network", requests: 3},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET", requests: 1},
				{name: "update", operation: operationUp, edit: [2]string{"for clusters", "for all"}, fewest: 1,
					why: "PUT; its answer is the network", requests: 2},
				{name: "delete", operation: operationDestroy, fewest: 1, why: "DELETE; a network is gone at once", requests: 1},
			},
		},
		{
			kind: "DigitalOceanKubernetesCluster",
			prepare: asItIs(`apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesCluster
metadata: {name: main}
spec:
  clusterName: main
  region: nyc1
  kubernetesVersion: 1.31.1-do.4
  defaultNodePool: {size: s-2vcpu-4gb, nodeCount: 2}
`),
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 3, why: "POST, a GET that sees it ready, and a GET of the credentials", requests: 5},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET; credentials that have not run out need not be asked for", requests: 1},
				{name: "scale", operation: operationUp, edit: [2]string{"nodeCount: 2", "nodeCount: 3"}, fewest: 2,
					why: "PUT of the pool, and a GET that sees it ready", requests: 4},
				{name: "update", operation: operationUp, edit: [2]string{"clusterName: main", "clusterName: renamed"}, fewest: 1,
					why: "PUT; its answer is the cluster", requests: 4},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 2},
			},
		},
		{
			kind: "DigitalOceanKubernetesNodePool",
			prepare: func(c *clouds) (string, error) {
				cluster, err := c.post(kinds.DigitalOcean, "/v2/kubernetes/clusters", map[string]any{
					"name": "main", "region": "nyc1", "version": "1.31.1-do.4",
					"node_pools": []map[string]any{{"name": "default", "size": "s-2vcpu-4gb", "count": 1}},
				})
				return `apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesNodePool
metadata: {name: web}
spec:
  nodePoolName: web
  cluster: {value: ` + cluster.K8s.ID + `}
  size: s-2vcpu-4gb
  nodeCount: 2
  labels: {workload: web}
`, err
			},
			stages: []stage{
				{name: "create", operation: operationUp, fewest: 2, why: "POST, and a GET that sees its nodes ready", requests: 3},
				{name: "read", operation: operationRefresh, fewest: 1, why: "GET", requests: 1},
				{name: "scale", operation: operationUp, edit: [2]string{"nodeCount: 2", "nodeCount: 3"}, fewest: 2,
					why: "PUT, and a GET that sees its nodes ready", requests: 2},
				{name: "update", operation: operationUp, edit: [2]string{"workload: web", "workload: api"}, fewest: 1,
					why: "PUT; its answer is the pool", requests: 2},
				{name: "delete", operation: operationDestroy, fewest: 2, why: "DELETE, and a GET that does not find it", requests: 2},
			},
		},
	}
}

// civoNetwork makes a network, and returns its id.
func (c *clouds) civoNetwork() (string, error) {
	network, err := c.post(kinds.Civo, "/v2/networks", map[string]any{"label": "net", "region": "LON1", "cidr_v4": "10.10.0.0/22"})
	return network.ID, err
}

// civoFirewall makes a firewall of a network, and returns its id.
func (c *clouds) civoFirewall(network string) (string, error) {
	firewall, err := c.post(kinds.Civo, "/v2/firewalls", map[string]any{
		"name": "fw", "region": "LON1", "network_id": network, "create_rules": true,
	})
	return firewall.ID, err
}
