package digitalocean

import (
	"net/netip"
	"strings"
	"testing"

	doconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	clusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	poolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	vpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// ruleCase is a text that a rule of the protos lets through to this plugin, or not, and what the plugin makes of it.
type ruleCase struct {
	name  string
	seeds []string
	// kept tells whether the rule takes the text. An absent value is never asked for.
	kept func(t *testing.T, text string) bool
	// law fails the test when the plugin and the rule do not agree about the text.
	law func(t *testing.T, text string, kept bool)
}

var ruleCases = []ruleCase{
	{
		name: "kubernetes version",
		seeds: []string{"1.31.1-do.4", "1.31", "1.31.1", "1.31.1-do.04", "01.31", "1.31.1-do.99999999999999999999", "1.31.1-do", "v1.31", "1.31.1-do.4\n",
			"1.31.1-do.4.5", "1..1"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &clusterv1.DigitalOceanKubernetesClusterSpec{KubernetesVersion: text}, "kubernetes_version")
		},
		law: func(t *testing.T, text string, kept bool) {
			order, ok := versionOrder(text, text)
			if kept && !ok {
				t.Errorf("the rule takes the version %q, and the plugin cannot compare it", text)
			}
			if ok && (order != 0 || !sameMinor(text, text)) {
				t.Errorf("the version %q differs from itself", text)
			}
			if isVersionPrefix(text, text) {
				t.Errorf("the version %q is the start of itself, with nothing left", text)
			}
			if minor, _, found := strings.Cut(text, "-do."); kept && found && !isVersionPrefix(minor, text) {
				t.Errorf("%q is not taken for the start of the version %q", minor, text)
			}
		},
	},
	{
		name: "maintenance window",
		seeds: []string{"sunday=02:00", "any=00:00", "monday=23:59", "Sunday=02:00", "sunday=2:00", "sunday=24:00", "someday=02:00", "sunday=02:00=x",
			"sunday", "=", "sunday=02:00\n", "\u017funday=02:00"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &clusterv1.DigitalOceanKubernetesClusterSpec{MaintenanceWindow: text}, "maintenance_window")
		},
		law: func(t *testing.T, text string, kept bool) {
			// The module hands on what stands before the sign and after it.
			day, startTime, ok := strings.Cut(text, "=")
			// DigitalOcean writes days in lower case, and the plugin takes both.
			taken := ok && day == strings.ToLower(day) && isDay(day) == nil && isClockTime(startTime) == nil
			if taken != kept {
				t.Errorf("the window %q: the rule says %t, the plugin %t (%v, %v)", text, kept, taken, isDay(day), isClockTime(startTime))
			}
		},
	},
	{
		name:  "IPv4 network",
		seeds: []string{"10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/8", "10.0.0.0/08", "010.0.0.0/8", "::ffff:10.0.0.0/104", "10.0.0.0/33", "10.0.0.0"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &clusterv1.DigitalOceanKubernetesClusterSpec{ClusterSubnet: text}, "cluster_subnet")
		},
		law: func(t *testing.T, text string, kept bool) {
			prefix, err := netip.ParsePrefix(text)
			// The plugin takes IPv6 and host bits too; the rule wants what the platform has: IPv4, and the bits zero.
			taken := isCIDR(text) == nil && err == nil && prefix.Addr().Is4() && prefix.Masked() == prefix
			if taken != kept {
				t.Errorf("the range %q: the rule says %t, the plugin %t (%v)", text, kept, taken, isCIDR(text))
			}
		},
	},
	{
		name:  "range of a VPC",
		seeds: []string{"10.10.0.0/16", "10.10.0.0/20", "10.10.0.0/24", "10.10.0.0/25", "10.10.0.1/24", "8.0.0.0/16"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &vpcv1.DigitalOceanVpcSpec{IpRangeCidr: text}, "ip_range_cidr")
		},
		law: func(t *testing.T, text string, kept bool) {
			if kept && isCIDR(text) != nil {
				t.Errorf("the rule takes the range %q: %v", text, isCIDR(text))
			}
		},
	},
	{
		name:  "address or network",
		seeds: []string{"203.0.113.7", "203.0.113.0/24", "203.0.113.7/24", "::1", "2001:db8::/32", "fe80::1%eth0", "1.2.3", "::ffff:1.2.3.4", "::0:%0", "::0:/64", "::0:"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &clusterv1.DigitalOceanKubernetesClusterSpec{ControlPlaneFirewallAllowedIps: []string{text}},
				"control_plane_firewall_allowed_ips")
		},
		law: func(t *testing.T, text string, kept bool) {
			address, addressErr := netip.ParseAddr(text)
			prefix, prefixErr := netip.ParsePrefix(text)
			parsed := addressErr == nil && address.Zone() == "" || prefixErr == nil && prefix.Masked() == prefix
			if parsed != kept {
				t.Errorf("the address %q: the rule says %t, the standard library %t (%v, %v)", text, kept, parsed, addressErr, prefixErr)
			}
		},
	},
	{
		name:  "tag",
		seeds: []string{"prod", "team:data", "a_b-c", "a b", "k8s", "K8S", "K8S:x", "k8sx", "terraform:x", "Terraform:default-node-pool", strings.Repeat("t", 255), strings.Repeat("t", 256), "tag\n"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &clusterv1.DigitalOceanKubernetesClusterSpec{Tags: []string{text}}, "tags")
		},
		law: func(t *testing.T, text string, kept bool) {
			taken := isTag(text) == nil
			if taken != kept {
				t.Errorf("the tag %q: the rule says %t, the plugin %t (%v)", text, kept, taken, isTag(text))
			}
			// Those that the platform keeps for itself are left out of what is read, so they must never be given.
			if taken && (len(userTags([]string{text})) != 1 || !sameTags([]string{text}, []string{strings.ToUpper(text)})) {
				t.Errorf("the tag %q is not read back as it was given", text)
			}
		},
	},
	{
		name:  "effect of a taint",
		seeds: []string{"NoSchedule", "PreferNoSchedule", "NoExecute", "noexecute", "NoExecute "},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &poolv1.DigitalOceanKubernetesNodePoolTaint{Key: "k", Effect: text}, "effect")
		},
		law: func(t *testing.T, text string, kept bool) {
			if taken := isTaintEffect(text) == nil; taken != kept {
				t.Errorf("the effect %q: the rule says %t, the plugin %t", text, kept, taken)
			}
		},
	},
	{
		name: "endpoint",
		seeds: []string{"https://api.digitalocean.com", "http://127.0.0.1:8080/v2/", "https://h/v1", "https://h//v2", "https://u:p@h", "ftp://h",
			"http://%41/", "https://h/%76%32"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &doconfig.DigitalOceanProviderConfig{ApiEndpoint: text}, "api_endpoint")
		},
		law: func(t *testing.T, text string, kept bool) {
			if kept && checkEndpoint(text) != nil {
				t.Errorf("the rule takes the endpoint %q: %v", text, checkEndpoint(text))
			}
		},
	},
}

// FuzzRules: what the rules of the protos let through the plugin can read, and where both say the same, both say it of every text.
func FuzzRules(f *testing.F) {
	for i, c := range ruleCases {
		for _, seed := range c.seeds {
			f.Add(byte(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, text string) {
		text = strings.ToValidUTF8(text, "") // as every string of a message is
		if text == "" {
			return
		}
		c := ruleCases[int(which)%len(ruleCases)]
		c.law(t, text, c.kept(t, text))
	})
}
