package module

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// nearly generates texts of the form that the pattern has, and others that are one stroke away from it.
func nearly(pattern string) *rapid.Generator[string] {
	whole := rapid.StringMatching(pattern)
	return rapid.OneOf(whole, rapid.Custom(func(t *rapid.T) string {
		text := []rune(whole.Draw(t, "whole"))
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		stroke := rapid.SampledFrom([]string{"", "0", "9", ".", "-", "+", "=", ":", " ", "\n", "v", "/", "\u0661", "\u017f"}).Draw(t, "stroke")
		gone := rapid.IntRange(0, min(2, len(text)-at)).Draw(t, "gone")
		return string(text[:at]) + stroke + string(text[at+gone:])
	}))
}

func text(s slug) string { return fmt.Sprintf("%d.%d.%d-do.%d", s[0], s[1], s[2], s[3]) }

// TestVersionsAreReadAsTheRuleSays: the module reads exactly the versions that the rule of the proto takes.
func TestVersionsAreReadAsTheRuleSays(t *testing.T) {
	t.Parallel()
	versions := rapid.OneOf(nearly(`[1-9]\.[0-9]{1,2}(\.[0-9]{1,2}(-do\.[0-9]{1,2})?)?`), nearly(`1\.31\.[0-9]-do\.[0-9]{1,21}`))
	rapid.Check(t, func(r *rapid.T) {
		version := versions.Draw(r, "version")
		if version == "" {
			return
		}
		kept := validationtest.Keeps(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{KubernetesVersion: version}, "kubernetes_version")
		parsed, whole := parseSlug(version)
		if read := whole || isPrefix(version); read != kept {
			r.Fatalf("the version %q: the rule says %t, the module %t", version, kept, read)
		}
		if whole && isPrefix(version) {
			r.Fatalf("the version %q is both a slug and the start of one", version)
		}
		if whole && text(parsed) != version {
			r.Fatalf("the version %q is read as %v", version, parsed)
		}
		if prefix := strings.SplitN(version, "-", 2)[0]; whole && !matches(prefix, version) {
			r.Fatalf("%q is not taken for the start of %q", prefix, version)
		}
	})
}

// TestWindowsAreReadAsTheRuleSays: a window that the rule takes has a day and a time on the two sides of its only sign.
func TestWindowsAreReadAsTheRuleSays(t *testing.T) {
	t.Parallel()
	windows := nearly(`(any|monday|sunday)=[0-2][0-9]:[0-6][0-9]`)
	rapid.Check(t, func(r *rapid.T) {
		window := windows.Draw(r, "window")
		if window == "" || !validationtest.Keeps(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{MaintenanceWindow: window}, "maintenance_window") {
			return
		}
		day, startTime, ok := strings.Cut(window, "=")
		if !ok || day == "" || len(startTime) != len("00:00") || day+"="+startTime != window || strings.Contains(startTime, "=") {
			r.Fatalf("the window %q is read as the day %q and the time %q", window, day, startTime)
		}
	})
}
