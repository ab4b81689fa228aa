package digitalocean

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
)

// The checks below look at values that are known, before anything is sent. They refuse what the API cannot accept, with
// words that say what it would accept.

// atLeast checks a number.
func atLeast(low float64) func(any) error {
	return func(value any) error {
		n, ok := value.(float64)
		if whole, isInt := value.(int); isInt {
			n, ok = float64(whole), true
		}
		if ok && n < low {
			return errors.Errorf("is %v, must be at least %v", n, low)
		}
		return nil
	}
}

// notEmpty checks a string.
func notEmpty(value any) error {
	if value == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// isCIDR checks a range of addresses.
func isCIDR(value any) error {
	s, _ := value.(string)
	if s == "" {
		return nil
	}
	if _, _, err := net.ParseCIDR(s); err != nil {
		return errors.Errorf("is %q, must be a range of addresses in CIDR notation such as 10.10.0.0/16", s)
	}
	return nil
}

// tagSyntax is that of https://docs.digitalocean.com/reference/api/reference/tags.
var tagSyntax = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9:_-]{1,255}$`) })

// isTag checks a tag. One that is reserved would be missing from what is read back, and so never be settled.
func isTag(value any) error {
	switch s, _ := value.(string); {
	case !tagSyntax().MatchString(s):
		return errors.Errorf("is %q, must be 1 to 255 letters, digits, colons, dashes and underscores", s)
	case isReservedTag(s):
		return errors.Errorf("is %q, must not be k8s, k8s:* or terraform:* in whatever case: digitalocean and its plugins set those themselves", s)
	}
	return nil
}

// isTaintEffect checks the effect of a taint; Kubernetes tells upper from lower case here.
func isTaintEffect(value any) error {
	effects := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	if s, _ := value.(string); !slices.Contains(effects, s) {
		return errors.Errorf("is %q, must be one of %s", s, strings.Join(effects, ", "))
	}
	return nil
}

// isDay checks a day of the maintenance window.
func isDay(value any) error {
	s, _ := value.(string)
	if _, err := godo.KubernetesMaintenanceToDay(s); err != nil {
		return errors.Errorf("is %q, must be any, monday, tuesday, wednesday, thursday, friday, saturday or sunday", s)
	}
	return nil
}

var clockTime = regexp.MustCompile(`^([01]\d|2[0-3]):[0-5]\d$`)

// isClockTime checks a time of the maintenance window.
func isClockTime(value any) error {
	if s, _ := value.(string); !clockTime.MatchString(s) {
		return errors.Errorf("is %q, must be a time of day in UTC such as 04:00", s)
	}
	return nil
}

// maxLength checks the length of a string in bytes.
func maxLength(limit int) func(any) error {
	return func(value any) error {
		if s, _ := value.(string); len(s) > limit {
			return errors.Errorf("is %d characters long, must be at most %d", len(s), limit)
		}
		return nil
	}
}

// sameText compares without regard to case, for what DigitalOcean keeps in lower case.
func sameText(old, new any) bool {
	a, okA := old.(string)
	b, okB := new.(string)
	return okA && okB && strings.EqualFold(a, b)
}

// sameTagValues compares two sets of tags without regard to case or order.
func sameTagValues(old, new any) bool { return sameTags(anyTexts(old), anyTexts(new)) }

func anyTexts(value any) []string {
	list, _ := value.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
