package selector

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

func TestMatchTags(t *testing.T) {
	have := map[string]string{"env": "prod", "tier": ""}
	tests := []struct {
		name string
		want map[string]string
		fits bool
	}{
		{"no tag is wanted", nil, true},
		{"key and value", map[string]string{"env": "prod"}, true},
		{"another value", map[string]string{"env": "test"}, false},
		{"any value", map[string]string{"env": "*"}, true},
		{"any value, and it is empty", map[string]string{"tier": "*"}, true},
		{"any value of a key that is absent", map[string]string{"zone": "*"}, false},
		{"an empty value is no wildcard", map[string]string{"env": ""}, false},
		{"all have to fit", map[string]string{"env": "prod", "zone": "a"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := MatchTags(have, test.want); got != test.fits {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestPattern(t *testing.T) {
	tests := []struct {
		name, expression, text string
		fits                   bool
	}{
		{"the whole", "k8s-.*", "k8s-large", true},
		{"the beginning is not enough", "k8s", "k8s-large", false},
		{"the end is not enough", "large", "k8s-large", false},
		{"alternatives are bound as a whole", "a|b", "ab", false},
		{"anchors of the user do no harm", "^k8s-.*$", "k8s-large", true},
		{"a line break is no end", "k8s", "k8s\nx", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pattern, err := Pattern("spec.x", test.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got := pattern.MatchString(test.text); got != test.fits {
				t.Errorf("got %t", got)
			}
		})
	}
	_, err := Pattern("spec.x[3].nameRegex", "a(")
	if e, ok := As(err); !ok || e.Reason != ReasonInvalid || !strings.HasPrefix(e.Message, "spec.x[3].nameRegex: ") || strings.Contains(e.Message, `\A`) {
		t.Errorf("got %v, want the field, and the expression as the user wrote it", err)
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("x", 80)
	tests := []struct{ name, text, want string }{
		{"allowed", "zone-1_a.b", "zone-1_a.b"},
		{"blanks", "Zone 1 (west)", "Zone-1-west"},
		{"nothing left", "日本", ""},
		{"ends", "-zone-", "zone"},
		{"empty", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := LabelValue(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if a, b := LabelValue(long+"a"), LabelValue(long+"b"); a == b || len(validation.IsValidLabelValue(a)) > 0 {
		t.Errorf("got %q and %q, want two values that are allowed", a, b)
	}
}

func TestShorten(t *testing.T) {
	if got := Shorten("base", "-suffix"); got != "base-suffix" {
		t.Errorf("got %q", got)
	}
	got := Shorten(strings.Repeat("x", 70), "-8c-16384m")
	if len(got) != 63 || !strings.HasSuffix(got, "-8c-16384m") || len(validation.IsValidLabelValue(got)) > 0 {
		t.Errorf("got %q (%d characters), want the suffix kept in a label value", got, len(got))
	}
}

func TestNames(t *testing.T) {
	if got := Names(nil); got != "none" {
		t.Errorf("got %q", got)
	}
	if got := Names([]string{"b", "a", "b"}); got != `"a", "b"` {
		t.Errorf("got %q, want sorted names, each once", got)
	}
	if got := Names(strings.Split("a b c d e f g h i j k l", " ")); !strings.HasSuffix(got, `"j" and 2 more`) {
		t.Errorf("got %q, want ten and how many more", got)
	}
}

func TestLook(t *testing.T) {
	tests := []struct {
		name string
		err  error
		ages int
	}{
		{"found", nil, 1},
		{"not known: younger data would not be had either", errors.New("down"), 1},
		{"missing: younger data may have it", errors.Wrap(Errorf(ReasonNotFound, "no"), "resolve"), 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ages []time.Duration
			_, err := Look(t.Context(), func(_ context.Context, maxAge time.Duration) (string, error) {
				ages = append(ages, maxAge)
				return "", test.err
			})
			if !errors.Is(err, test.err) || len(ages) != test.ages || ages[len(ages)-1] > freshAge != (test.ages == 1) {
				t.Errorf("looked with ages %v, got %v", ages, err)
			}
		})
	}
}

func TestKey(t *testing.T) {
	a := Key(cloudstack.Scope{Account: "a", DomainID: "b"}, "")
	b := Key(cloudstack.Scope{Account: `a" "b`}, "")
	if a == b {
		t.Error("two scopes have one key")
	}
}
