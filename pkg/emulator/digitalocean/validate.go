package digitalocean

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	// nameForm is the form of the names of clusters and pools.
	nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,253}[a-z0-9])?$`) })
	// https://docs.digitalocean.com/reference/api/digitalocean/#tag/Tags
	tagForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9:_-]{1,255}$`) })
	// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
	labelPrefixForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelNameForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`) })
	labelValueForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`) })
	vpcNameForm     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.-]{1,255}$`) })
	firewallName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,254}$`) })
	clockForm       = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

func checkName(what, name string) error {
	if !nameForm().MatchString(name) {
		return invalid("validation error: %s name %q must be lower-case letters, digits and '-', start and end with a letter or digit", what, name)
	}
	return nil
}

// userTags are the tags of a request without those that the platform sets by itself: a client may send back what it read.
func userTags(tags []string) ([]string, error) {
	kept := []string{}
	seen := map[string]bool{}
	for _, tag := range tags {
		if !tagForm().MatchString(tag) {
			return nil, invalid("validation error: tag %q may only contain letters, numbers, colons, dashes, and underscores", tag)
		}
		// Tags are the same whatever their case: https://docs.digitalocean.com/reference/api/digitalocean/#tag/Tags
		lower := strings.ToLower(tag)
		if seen[lower] || lower == "k8s" || strings.HasPrefix(lower, "k8s:") {
			continue
		}
		seen[lower] = true
		kept = append(kept, tag)
	}
	return kept, nil
}

func checkKey(what, key string) error {
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		prefix, name = "", key
	}
	if prefixed && (len(prefix) > 253 || !labelPrefixForm.MatchString(prefix)) || !labelNameForm().MatchString(name) {
		return invalid("validation error: %s key %q is not a valid Kubernetes name", what, key)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if err := checkKey("label", key); err != nil {
			return err
		}
		if strings.HasPrefix(key, "doks.digitalocean.com/") {
			return invalid("validation error: label %q is reserved", key)
		}
		if !labelValueForm().MatchString(value) {
			return invalid("validation error: label %q has the invalid value %q", key, value)
		}
	}
	return nil
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

func checkTaints(taints []Taint) error {
	seen := map[[2]string]bool{}
	for _, taint := range taints {
		if err := checkKey("taint", taint.Key); err != nil {
			return err
		}
		if !labelValueForm().MatchString(taint.Value) {
			return invalid("validation error: taint %q has the invalid value %q", taint.Key, taint.Value)
		}
		if !slices.Contains(taintEffects, taint.Effect) {
			return invalid("validation error: taint %q has the invalid effect %q, want one of %s", taint.Key, taint.Effect, strings.Join(taintEffects, ", "))
		}
		if seen[[2]string{taint.Key, taint.Effect}] {
			return invalid("validation error: taint %q with the effect %s is given twice", taint.Key, taint.Effect)
		}
		seen[[2]string{taint.Key, taint.Effect}] = true
	}
	return nil
}

// privateRanges are those of RFC 1918.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

// reservedRanges can't be a VPC's: https://docs.digitalocean.com/products/networking/vpc/details/limits/
var reservedRanges = []netip.Prefix{
	netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.245.0.0/16"),
	netip.MustParsePrefix("10.246.0.0/24"), netip.MustParsePrefix("10.229.0.0/16"),
}

// parsePrivate reads a private IPv4 network in CIDR notation.
func parsePrivate(what, text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if err != nil || !network.Addr().Is4() || network != network.Masked() {
		return netip.Prefix{}, invalid("validation error: %s %q is not an IPv4 network in CIDR notation", what, text)
	}
	for _, private := range privateRanges {
		if network.Bits() >= private.Bits() && private.Contains(network.Addr()) {
			return network, nil
		}
	}
	return netip.Prefix{}, invalid("validation error: %s %s is not in a private range of RFC 1918", what, text)
}

// checkAddress accepts an address or a network in CIDR notation.
func checkAddress(what, text string) error {
	if _, err := netip.ParseAddr(text); err == nil {
		return nil
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return nil
	}
	return invalid("validation error: %s %q is neither an IP address nor a network in CIDR notation", what, text)
}

var maintenanceDays = []string{"any", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// check fills in what a policy leaves open. Its duration is the platform's to say.
func (m MaintenancePolicy) check() (MaintenancePolicy, error) {
	if m.Day == "" {
		m.Day = "any"
	}
	if m.StartTime == "" {
		m.StartTime = "00:00"
	}
	m.Day = strings.ToLower(m.Day)
	if !slices.Contains(maintenanceDays, m.Day) {
		return m, invalid("validation error: maintenance_policy.day %q is not one of %s", m.Day, strings.Join(maintenanceDays, ", "))
	}
	if !clockForm.MatchString(m.StartTime) {
		return m, invalid("validation error: maintenance_policy.start_time %q is not HH:MM", m.StartTime)
	}
	m.Duration = "4h0m0s"
	return m, nil
}
