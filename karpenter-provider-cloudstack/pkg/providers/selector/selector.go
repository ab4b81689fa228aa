// Package selector has what the selectors of a CloudStackNodeClass share: how names and tags match, and errors that tell the user what
// to change.
package selector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

// Reasons of errors, fit for the reason of a condition.
const (
	// ReasonNotFound is for what does not exist, or what these credentials may not see.
	ReasonNotFound = "NotFound"
	// ReasonAmbiguous is for a name that several have.
	ReasonAmbiguous = "Ambiguous"
	// ReasonNotUsable is for what exists and takes no machines: a zone that is disabled, a template that is not ready.
	ReasonNotUsable = "NotUsable"
	// ReasonInvalid is for a field that cannot be read.
	ReasonInvalid = "Invalid"
)

// Error says what of a CloudStackNodeClass cannot be had. All other errors of providers mean that it is not known.
type Error struct {
	// Reason is one of the constants.
	Reason string
	// Message names the field, the rule, and what there is instead.
	Message string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(reason, format string, args ...any) error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// As finds the Error in err.
func As(err error) (*Error, bool) {
	var e *Error
	return e, errors.As(err, &e)
}

// IsNotFound tells whether err says that something does not exist.
func IsNotFound(err error) bool {
	e, ok := As(err)
	return ok && e.Reason == ReasonNotFound
}

// freshAge is how old data may be that an Error comes from: what is missing may have been made since.
const freshAge = time.Minute

// Look looks with data of any age that its cache allows, and once more with younger ones where that gives an Error.
func Look[T any](ctx context.Context, look func(ctx context.Context, maxAge time.Duration) (T, error)) (T, error) {
	found, err := look(ctx, time.Duration(1<<63-1))
	if _, missing := As(err); missing {
		return look(ctx, freshAge)
	}
	return found, err
}

// Scope is whose objects the machines of a CloudStackNodeClass are made of.
func Scope(nodeClass *csv1.CloudStackNodeClass) cloudstack.Scope {
	return cloudstack.Scope{ProjectID: nodeClass.Spec.ProjectID, Account: nodeClass.Spec.Account, DomainID: nodeClass.Spec.DomainID}
}

// Key is a key of a cache for a list of a scope; zoneID is empty for lists without a zone.
func Key(scope cloudstack.Scope, zoneID string) string {
	return fmt.Sprintf("%q", []string{scope.ProjectID, scope.Account, scope.DomainID, zoneID})
}

// Any is the value of a tag that stands for any value.
const Any = "*"

// MatchTags tells whether there are all tags that are wanted, with those values.
func MatchTags(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || value != Any && value != got {
			return false
		}
	}
	return true
}

// Pattern compiles a regular expression that matches whole texts only. The field is named in the error.
func Pattern(field, expression string) (*regexp.Regexp, error) {
	pattern, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		// Compiled alone, the error shows what the user wrote.
		if _, alone := regexp.Compile(expression); alone != nil {
			err = alone
		}
		return nil, Errorf(ReasonInvalid, "%s: %s", field, err)
	}
	return pattern, nil
}

// mostNames is how many names a message has.
const mostNames = 10

// Names are names in a message, sorted and quoted.
func Names(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return "none"
	}
	rest := ""
	if more := len(names) - mostNames; more > 0 {
		names, rest = names[:mostNames], fmt.Sprintf(" and %d more", more)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ") + rest
}

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// LabelValue is a text as the value of a label: as it is where that is allowed, else with hyphens for what is not. It is empty where
// nothing is left.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return Shorten(strings.Trim(notInLabels.ReplaceAllString(text, "-"), "-_."), "")
}

// Shorten appends a suffix to a text, and has the whole fit the value of a label: the end of a long text gives way to a hash of it.
func Shorten(text, suffix string) string {
	if len(text)+len(suffix) <= validation.LabelValueMaxLength {
		return text + suffix
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(text[:validation.LabelValueMaxLength-len(suffix)-len(hash)-1], "-_.") + "-" + hash + suffix
}
