package civo

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	civoconfig "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
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
		name:  "kubernetes version",
		seeds: []string{"1.28.7-k3s1", "1.28.7+k3s1", "v1.29.0+k3s1", "talos-v1.5.0", "1.28", "v1.29.0-k3s", "01.2.3-k3s1", "1.2.3-k3s1\n"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civokubernetesclusterv1.CivoKubernetesClusterSpec{KubernetesVersion: text}, "kubernetes_version")
		},
		law: func(t *testing.T, text string, kept bool) {
			normal := normalVersion(text)
			if kept && (checkVersion(text) != nil || !versionPattern.MatchString(normal)) {
				t.Errorf("the rule takes the version %q, and the plugin cannot read it", text)
			}
			if kept && (normalVersion(normal) != normal || !equalVersion(text, normal)) {
				t.Errorf("the version %q becomes %q, and that %q", text, normal, normalVersion(normal))
			}
			if lower(text, text) {
				t.Errorf("the version %q is lower than itself", text)
			}
		},
	},
	{
		name:  "range of ports",
		seeds: []string{"80", "65535", "1-65535", "8000-9000", "443-443", "0", "65536", "9000-8000", "080", "1-2-3", "-1", "80\n"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civofirewallv1.CivoFirewallRule{Protocol: "tcp", PortRange: text}, "port_range")
		},
		law: func(t *testing.T, text string, kept bool) {
			err := checkRule(map[string]any{"protocol": "tcp", "portRange": text, "cidrs": []any{"0.0.0.0/0"}})
			if kept && err != nil {
				t.Errorf("the rule takes the ports %q: %v", text, err)
			}
			if !equalPorts(text, text) {
				t.Errorf("the ports %q differ from themselves", text)
			}
			if first, last, isRange := strings.Cut(text, "-"); kept && !isRange && !equalPorts(text, text+"-"+text) {
				t.Errorf("the port %q is not the range from %q to %q", text, first, last)
			}
		},
	},
	{
		name:  "IPv4 network",
		seeds: []string{"10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/8", "10.0.0.0/08", "010.0.0.0/8", "::ffff:10.0.0.0/104", "10.0.0.0/33", "10.0.0.0/8%eth0"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civovpcv1.CivoVpcSpec{IpRangeCidr: text}, "ip_range_cidr")
		},
		law: func(t *testing.T, text string, kept bool) {
			prefix, _ := netip.ParsePrefix(text)
			// The plugin also takes a network with host bits, as Civo does; the rule wants them to be zero.
			if taken := checkPrefix(text) == nil && prefix.Masked() == prefix; taken != kept {
				t.Errorf("the range %q: the rule says %t, the plugin %t", text, kept, taken)
			}
			if kept && !equalPrefix(text, prefix.String()) {
				t.Errorf("the range %q is not %q", text, prefix)
			}
		},
	},
	{
		name:  "network of a firewall rule",
		seeds: []string{"::0:/64", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::1/32", "203.0.113.7", "fe80::%eth0/64", "::ffff:1.2.3.0/120"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civofirewallv1.CivoFirewallRule{Cidrs: []string{text}}, "cidrs")
		},
		law: func(t *testing.T, text string, kept bool) {
			prefix, err := netip.ParsePrefix(text)
			if parsed := err == nil && prefix.Masked() == prefix; parsed != kept {
				t.Errorf("the network %q: the rule says %t, the standard library %t (%v)", text, kept, parsed, err)
			}
		},
	},
	{
		name:  "tag",
		seeds: []string{"prod", "a b", "a\tb", "a\u00a0b", "a\vb", "a\u0085b", "a\u2003b", strings.Repeat("t", 256)},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civokubernetesclusterv1.CivoKubernetesClusterSpec{Tags: []string{text}}, "tags")
		},
		law: func(t *testing.T, text string, kept bool) {
			// Tags travel in one text with spaces between them, so one tag has to be one word.
			if kept && !slices.Equal(strings.Fields(text), []string{text}) {
				t.Errorf("the rule takes the tag %q, which becomes the tags %q", text, strings.Fields(text))
			}
			if kept && (!equalWords("other "+text, text+" other") || equalWords(text, "other "+text)) && text != "other" {
				t.Errorf("the tag %q is not compared as one word", text)
			}
		},
	},
	{
		name:  "name",
		seeds: []string{"prod", "a", "a-b", "-a", "A", "a b", strings.Repeat("n", 63), strings.Repeat("n", 64)},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civokubernetesclusterv1.CivoKubernetesClusterNodePool{Name: text}, "name")
		},
		law: func(t *testing.T, text string, kept bool) {
			if kept && (checkName(text) != nil || checkLabel(text) != nil) {
				t.Errorf("the rule takes the name %q: %v, %v", text, checkName(text), checkLabel(text))
			}
		},
	},
	{
		name: "endpoint",
		seeds: []string{"https://api.civo.com", "http://127.0.0.1:8080/v2/", "https://[::1]:1/", "https://u:p@h", "ftp://h", "https://h?x",
			"https://h:port", "http://[fe80::1%25eth0]/", "http://%41/", "http://h/%zz"},
		kept: func(t *testing.T, text string) bool {
			return validationtest.Keeps(t, &civoconfig.CivoProviderConfig{ApiEndpoint: text}, "api_endpoint")
		},
		law: func(t *testing.T, text string, kept bool) {
			_, err := newClient("0", resource.PropertyMap{"token": resource.NewStringProperty("t"), "apiEndpoint": resource.NewStringProperty(text)})
			if kept && err != nil {
				t.Errorf("the rule takes the endpoint %q: %v", text, err)
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
