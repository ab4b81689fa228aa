package bootstrap

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"sigs.k8s.io/yaml"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// instanceID stands for the id of the machine in files. The script that joins puts in what cloud-init says: whoever writes the user data
// does not know it yet.
const instanceID = "@INSTANCE_ID@"

// Files on the machine.
const (
	kubeadmFile = "/etc/karpenter/join.yaml"
	k3sFile     = "/etc/rancher/k3s/config.yaml"
	rke2File    = "/etc/rancher/rke2/config.yaml"
	scriptFile  = "/etc/karpenter/join.sh"
)

// cloudConfig is what cloud-init is told. https://cloudinit.readthedocs.io/en/latest/reference/modules.html
type cloudConfig struct {
	WriteFiles []file     `json:"write_files"`
	RunCommand [][]string `json:"runcmd"`
}

// file is a file that cloud-init writes, before it runs any command.
type file struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

// cloudConfig is the configuration by which cloud-init has the machine join.
func (j join) cloudConfig(mode csv1.BootstrapMode) (string, error) {
	var (
		settings any
		err      error
	)
	switch mode {
	case csv1.BootstrapKubeadm:
		settings, err = j.kubeadm()
	case csv1.BootstrapK3s, csv1.BootstrapRKE2:
		settings, err = j.rancher(mode)
	case csv1.BootstrapCustom:
		fallthrough
	default:
		err = failure("BootstrapInvalid", "there is no bootstrap mode %q: set Custom, Kubeadm, K3s or RKE2", mode)
	}
	if err != nil {
		return "", err
	}
	// Readers of YAML differ in what ends a line beyond ASCII. No name that Kubernetes takes has any of it.
	if !isASCII(j.nodeName + j.labels.String() + j.taints.String() + strings.Join(pairs(j.kubelet), "") +
		j.endpoint + j.token + j.providerIDPrefix) {
		return "", failure("BootstrapInvalid", "names, labels, taints, bootstrap.endpoint and the token have letters that are not ASCII")
	}
	script, path := j.script(mode)
	content, err := yaml.Marshal(settings)
	if err != nil {
		return "", errors.Wrap(err, "write the configuration of the agent")
	}
	document, err := yaml.Marshal(cloudConfig{
		WriteFiles: []file{
			{Path: path, Owner: "root:root", Permissions: "0600", Content: string(content)},
			{Path: scriptFile, Owner: "root:root", Permissions: "0700", Content: script},
		},
		RunCommand: [][]string{{"/bin/sh", scriptFile}},
	})
	if err != nil {
		return "", errors.Wrap(err, "write the configuration of cloud-init")
	}
	return "#cloud-config\n" + string(document), nil
}

// script is what has the machine join, and the file with the settings that it uses. Neither has anything of the machine in it.
func (join) script(mode csv1.BootstrapMode) (text, path string) {
	switch mode {
	case csv1.BootstrapK3s:
		return findID(k3sFile) + fmt.Sprintf(runAgent, "k3s-agent", "K3s"), k3sFile
	case csv1.BootstrapRKE2:
		return findID(rke2File) + fmt.Sprintf(runAgent, "rke2-agent", "RKE2"), rke2File
	case csv1.BootstrapKubeadm, csv1.BootstrapCustom:
	}
	return findID(kubeadmFile) + runKubeadm, kubeadmFile
}

// joinConfiguration is that of `kubeadm join`. https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	Discovery        discovery        `json:"discovery"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
}

type discovery struct {
	BootstrapToken discoveryToken `json:"bootstrapToken"`
}

type discoveryToken struct {
	APIServerEndpoint string   `json:"apiServerEndpoint"`
	Token             string   `json:"token"`
	CACertHashes      []string `json:"caCertHashes"`
}

type nodeRegistration struct {
	Name             string     `json:"name"`
	KubeletExtraArgs []argument `json:"kubeletExtraArgs"`
}

type argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

var bootstrapTokens = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

func (j join) kubeadm() (joinConfiguration, error) {
	switch {
	case !isHostPort(j.endpoint):
		return joinConfiguration{}, failure("EndpointInvalid", "bootstrap.endpoint: %q is no host:port, such as 10.0.0.10:6443", j.endpoint)
	case !bootstrapTokens.MatchString(j.token):
		return joinConfiguration{}, failure("TokenInvalid",
			"the token of bootstrap.tokenSecretRef is no bootstrap token, which has six letters or digits, a dot, and sixteen more: "+
				"make one with kubeadm token create, or set mintToken")
	case len(j.caHashes) == 0:
		return joinConfiguration{}, failure("CABundleMissing",
			"bootstrap.caBundle is needed, so that machines join this cluster and no other: set it to the certificate authority of the API server")
	}
	configuration := joinConfiguration{
		APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "JoinConfiguration",
		Discovery: discovery{BootstrapToken: discoveryToken{APIServerEndpoint: j.endpoint, Token: j.token, CACertHashes: j.caHashes}},
	}
	configuration.NodeRegistration.Name = j.nodeName
	arguments := maps.Clone(j.kubelet)
	arguments["node-labels"] = j.labels.String()
	arguments["register-with-taints"] = j.taints.String()
	arguments["provider-id"] = j.providerIDPrefix + instanceID
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		registration := &configuration.NodeRegistration
		registration.KubeletExtraArgs = append(registration.KubeletExtraArgs, argument{Name: name, Value: arguments[name]})
	}
	return configuration, nil
}

// agent is the configuration of the agents of K3s and RKE2. https://docs.k3s.io/cli/agent, https://docs.rke2.io/reference/linux_agent_config
type agent struct {
	Server        string   `json:"server"`
	Token         string   `json:"token"`
	NodeName      string   `json:"node-name"`
	NodeLabels    []string `json:"node-label,omitempty"`
	NodeTaints    []string `json:"node-taint"`
	KubeletValues []string `json:"kubelet-arg"`
}

// printable is text of one line, without blanks.
var printable = regexp.MustCompile(`^[!-~]+$`)

func (j join) rancher(mode csv1.BootstrapMode) (agent, error) {
	port := "6443"
	if mode == csv1.BootstrapRKE2 {
		port = "9345"
	}
	switch server, err := url.Parse(j.endpoint); {
	case err != nil || !printable.MatchString(j.endpoint) || server.Scheme != "https" || server.Host == "",
		server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return agent{}, failure("EndpointInvalid", "bootstrap.endpoint: %q is no URL such as https://10.0.0.10:%s", j.endpoint, port)
	case !printable.MatchString(j.token):
		return agent{}, failure("TokenInvalid",
			"the token of bootstrap.tokenSecretRef is none of %s: it has one line of printable letters, without blanks", mode)
	}
	return agent{
		Server: j.endpoint, Token: j.token, NodeName: j.nodeName, NodeLabels: pairs(j.labels), NodeTaints: j.taints.list(),
		KubeletValues: append(pairs(j.kubelet), "provider-id="+j.providerIDPrefix+instanceID),
	}, nil
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.Contains(host, "/") || !printable.MatchString(host) {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// findID is the beginning of each script: it asks cloud-init for the id of the machine, and puts it into the file. Without an id that
// has the form of CloudStack's the machine does not join: nobody would know it.
func findID(path string) string {
	return `#!/bin/sh
# Has this machine join the cluster.
set -eu
say() { echo "karpenter: $*" >&2; }
instance_id() {
  {
    cloud-init query instance_id 2>/dev/null || true
    echo
    cat /run/cloud-init/.instance-id /var/lib/cloud/data/instance-id 2>/dev/null || true
  } | tr 'A-F' 'a-f' | grep -Ex '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' | head -n 1 || true
}
config=` + path + `
id=$(instance_id)
if [ -z "$id" ]; then
  say "the metadata of this machine has no id of the form that CloudStack gives; it does not join"
  exit 1
fi
sed -i "s|` + instanceID + `|$id|g" "$config"
`
}

const runKubeadm = `if [ -e /etc/kubernetes/kubelet.conf ]; then
  exit 0
fi
attempt=1
until kubeadm join --config "$config"; do
  if [ "$attempt" -ge 10 ]; then
    say "kubeadm could not join after $attempt attempts"
    exit 1
  fi
  attempt=$((attempt + 1))
  kubeadm reset --force >/dev/null 2>&1 || true
  sleep 15
done
rm -f "$config"
`

// runAgent is a format: the name of the service, and of what it is a part of.
const runAgent = `service=%s
if ! systemctl cat "$service" >/dev/null 2>&1; then
  say "there is no service $service: the template needs %s installed as an agent"
  exit 1
fi
systemctl enable "$service"
systemctl restart --no-block "$service"
`
