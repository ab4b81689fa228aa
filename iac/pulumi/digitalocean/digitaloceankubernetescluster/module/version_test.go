package module

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"pgregory.net/rapid"
)

var errOffered = errors.New("the API cannot be reached")

func TestDecideVersion(t *testing.T) {
	t.Parallel()

	offered := []string{"1.32.2-do.0", "1.31.9-do.3", "1.31.10-do.0", "1.31.9-do.10", "1.30.13-do.4", "latest", "1.3.5-do.0"}
	tests := map[string]struct {
		reason      string
		wanted      string
		live        string
		autoUpgrade bool
		offered     []string
		offeredErr  error
		want        versionDecision
		wantErr     []string
	}{
		"NewClusterFullSlug": {
			reason: "a full slug is taken as it is, and nothing is looked up",
			wanted: "1.31.1-do.4", offeredErr: errOffered,
			want: versionDecision{version: "1.31.1-do.4"},
		},
		"NewClusterMinor": {
			reason: "a prefix is the newest slug it starts, compared by number: patch 10 is after patch 9",
			wanted: "1.31", offered: offered,
			want: versionDecision{version: "1.31.10-do.0"},
		},
		"NewClusterPatch": {
			reason: "a patch release leaves DigitalOcean's revision open: do.10 is after do.3",
			wanted: "1.31.9", offered: offered,
			want: versionDecision{version: "1.31.9-do.10"},
		},
		"NewClusterMinorByComponents": {
			reason: "1.3 is not the start of 1.31, 1.30 or 1.32",
			wanted: "1.3", offered: offered,
			want: versionDecision{version: "1.3.5-do.0"},
		},
		"NewClusterNoMatch": {
			reason: "a version that is not offered is an error that lists what is",
			wanted: "1.29", offered: []string{"1.32.2-do.0", "1.31.9-do.3"},
			wantErr: []string{"spec.kubernetes_version", "1.29", "1.32.2-do.0, 1.31.9-do.3"},
		},
		"NothingOffered": {
			reason: "an empty list is said as such",
			wanted: "1.29", offered: nil,
			wantErr: []string{"it offers none"},
		},
		"LookupFails": {
			reason: "an error of the lookup fails the plan",
			wanted: "1.31", offeredErr: errOffered,
			wantErr: []string{"the API cannot be reached"},
		},
		"SameSlug": {
			reason: "nothing to do",
			wanted: "1.31.1-do.4", live: "1.31.1-do.4",
			want: versionDecision{version: "1.31.1-do.4", unchanged: true},
		},
		"Upgrade": {
			reason: "a higher slug is an upgrade in place",
			wanted: "1.32.2-do.0", live: "1.31.9-do.10",
			want: versionDecision{version: "1.32.2-do.0"},
		},
		"UpgradeRevision": {
			reason: "revisions are compared by number",
			wanted: "1.31.9-do.10", live: "1.31.9-do.9",
			want: versionDecision{version: "1.31.9-do.10"},
		},
		"DowngradeRefused": {
			reason: "a lower full slug would replace the cluster, and no one but the user can have asked for it",
			wanted: "1.31.1-do.4", live: "1.31.1-do.5",
			wantErr: []string{"spec.kubernetes_version", "runs 1.31.1-do.5", "1.31.1-do.4 is lower", "set spec.kubernetes_version to 1.31.1-do.5 or higher"},
		},
		"AutoUpgraded": {
			reason: "with auto_upgrade on, the cluster is ahead of the manifest because DigitalOcean upgraded it: it stays, and says so",
			wanted: "1.31.1-do.4", live: "1.31.3-do.0", autoUpgrade: true,
			want: versionDecision{version: "1.31.3-do.0", unchanged: true,
				notice: "spec.kubernetes_version is 1.31.1-do.4, but the cluster runs 1.31.3-do.0 already and keeps it: a lower version would replace the cluster"},
		},
		"PrefixAtNewest": {
			reason: "the cluster runs the newest match",
			wanted: "1.31", live: "1.31.10-do.0", offered: offered,
			want: versionDecision{version: "1.31.10-do.0", unchanged: true},
		},
		"PrefixUpgrades": {
			reason: "a newer match is an upgrade in place",
			wanted: "1.31", live: "1.31.9-do.3", offered: offered,
			want: versionDecision{version: "1.31.10-do.0"},
		},
		"PrefixAheadOfOffered": {
			reason: "the live version matches and is newer than what is offered: it stays, and there is nothing to say",
			wanted: "1.31", live: "1.31.11-do.0", offered: offered,
			want: versionDecision{version: "1.31.11-do.0", unchanged: true},
		},
		"PrefixExceeded": {
			reason: "the live version is of a later minor: it stays, and says so",
			wanted: "1.31", live: "1.32.2-do.0", offered: offered,
			want: versionDecision{version: "1.32.2-do.0", unchanged: true,
				notice: "spec.kubernetes_version is 1.31, but the cluster runs 1.32.2-do.0 already and keeps it: a lower version would replace the cluster"},
		},
		"PrefixExceededAutoUpgrade": {
			reason: "never below the live version, also with auto_upgrade",
			wanted: "1.30", live: "1.31.9-do.3", autoUpgrade: true, offered: offered,
			want: versionDecision{version: "1.31.9-do.3", unchanged: true,
				notice: "spec.kubernetes_version is 1.30, but the cluster runs 1.31.9-do.3 already and keeps it: a lower version would replace the cluster"},
		},
		"PrefixNoLongerOffered": {
			reason: "a cluster lives on when its version is no longer offered",
			wanted: "1.29", live: "1.29.14-do.3", offered: offered,
			want: versionDecision{version: "1.29.14-do.3", unchanged: true},
		},
		"PrefixNoLongerOfferedAndExceeded": {
			reason: "a prefix that is neither offered nor reachable does not break a cluster that is past it",
			wanted: "1.29", live: "1.30.13-do.4", offered: offered,
			want: versionDecision{version: "1.30.13-do.4", unchanged: true,
				notice: "spec.kubernetes_version is 1.29, but the cluster runs 1.30.13-do.4 already and keeps it: a lower version would replace the cluster"},
		},
		"PrefixNotYetOffered": {
			reason: "a minor that is still to come is an error, not silence",
			wanted: "1.33", live: "1.32.2-do.0", offered: offered,
			wantErr: []string{"offers no version that starts with 1.33"},
		},
		"PrefixUpgradesMinor": {
			reason: "a prefix of a later minor upgrades",
			wanted: "1.32", live: "1.31.9-do.3", offered: offered,
			want: versionDecision{version: "1.32.2-do.0"},
		},
		"LiveUnreadable": {
			reason: "a live version that cannot be compared is never planned over",
			wanted: "1.31.1-do.4", live: "1.31.1-beta",
			wantErr: []string{"cannot be compared", "set spec.kubernetes_version to 1.31.1-beta"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decideVersion(tc.wanted, tc.live, tc.autoUpgrade, func() ([]string, error) { return tc.offered, tc.offeredErr })
			if len(tc.wantErr) > 0 {
				if err == nil {
					t.Fatalf("%s: got %+v, want an error", tc.reason, got)
				}
				for _, want := range tc.wantErr {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: error %q does not say %q", tc.reason, err, want)
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(versionDecision{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDecideVersionNeverGoesDown is the law behind the table: whatever is wanted, offered and live, a decision is never lower
// than the live version, and is the live version exactly when it says so.
func TestDecideVersionNeverGoesDown(t *testing.T) {
	t.Parallel()

	number := rapid.IntRange(0, 12)
	slugs := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("1.%d.%d-do.%d", number.Draw(t, "minor"), number.Draw(t, "patch"), number.Draw(t, "revision"))
	})
	versions := rapid.Custom(func(t *rapid.T) string {
		full := slugs.Draw(t, "slug")
		parts := strings.Split(strings.SplitN(full, "-", 2)[0], ".")
		return rapid.SampledFrom([]string{full, strings.Join(parts[:2], "."), strings.Join(parts, ".")}).Draw(t, "form")
	})
	rapid.Check(t, func(t *rapid.T) {
		wanted := versions.Draw(t, "wanted")
		live := slugs.Draw(t, "live")
		autoUpgrade := rapid.Bool().Draw(t, "autoUpgrade")
		offered := rapid.SliceOfN(slugs, 0, 20).Draw(t, "offered")

		got, err := decideVersion(wanted, live, autoUpgrade, func() ([]string, error) { return offered, nil })
		if err != nil {
			return
		}
		gotSlug, ok := parseSlug(got.version)
		if !ok {
			t.Fatalf("%q is not a full slug", got.version)
		}
		liveSlug, _ := parseSlug(live)
		if order := slices.Compare(gotSlug[:], liveSlug[:]); order < 0 {
			t.Fatalf("wanted %s, live %s: planned the lower %s", wanted, live, got.version)
		} else if got.unchanged != (order == 0) {
			t.Fatalf("wanted %s, live %s: planned %s with unchanged=%t", wanted, live, got.version, got.unchanged)
		}
		// What was decided, once applied, is decided again.
		again, err := decideVersion(wanted, got.version, autoUpgrade, func() ([]string, error) { return offered, nil })
		if err != nil {
			t.Fatalf("wanted %s at %s: %v", wanted, got.version, err)
		}
		if !again.unchanged {
			t.Fatalf("wanted %s: a second time goes from %s to %s", wanted, got.version, again.version)
		}
	})
}

// TestDecideVersionResolvesToTheNewest checks a prefix against a plain search.
func TestDecideVersionResolvesToTheNewest(t *testing.T) {
	t.Parallel()

	number := rapid.IntRange(0, 12)
	rapid.Check(t, func(t *rapid.T) {
		minor := number.Draw(t, "minor")
		var offered []string
		best := -1
		for range rapid.IntRange(0, 15).Draw(t, "count") {
			m, p, r := number.Draw(t, "m"), number.Draw(t, "p"), number.Draw(t, "r")
			offered = append(offered, fmt.Sprintf("1.%d.%d-do.%d", m, p, r))
			if m == minor {
				best = max(best, p*100+r)
			}
		}
		got, err := decideVersion(fmt.Sprintf("1.%d", minor), "", false, func() ([]string, error) { return offered, nil })
		if best < 0 {
			if err == nil {
				t.Fatalf("got %s, but none of %v matches", got.version, offered)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("1.%d.%d-do.%d", minor, best/100, best%100); got.version != want {
			t.Fatalf("got %s, want %s", got.version, want)
		}
	})
}
