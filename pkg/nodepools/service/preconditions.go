package service

import (
	"strconv"
	"strings"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// checkPreconditions checks the If-Match and If-None-Match headers of a request that changes an object (RFC 9110, section 13.1), then the
// version that its body carries.
func checkPreconditions(request Request, record store.Record, bodyVersion string) error {
	etag := `"` + strconv.FormatInt(record.Revision, 10) + `"`
	if request.IfMatch != "" {
		matches, err := matchesETag("If-Match", request.IfMatch, etag)
		if err != nil {
			return err
		}
		if !matches {
			return fail(ReasonPreconditionFailed, title(record.Kind)+" has changed", "its ETag is "+etag+": read it again, then repeat the change")
		}
	}
	if request.IfNoneMatch != "" {
		matches, err := matchesETag("If-None-Match", request.IfNoneMatch, etag)
		if err != nil {
			return err
		}
		if matches {
			return fail(ReasonPreconditionFailed, title(record.Kind)+" is there, and If-None-Match says it must not be", "")
		}
	}
	if bodyVersion != "" && bodyVersion != strconv.FormatInt(record.Revision, 10) {
		return fail(ReasonConflict, title(record.Kind)+" has changed",
			"its resource_version is "+strconv.FormatInt(record.Revision, 10)+": read it again, then repeat the change")
	}
	return nil
}

// checkCreation checks the headers of a request that creates: there is nothing yet that If-Match could match.
func checkCreation(request Request, kind store.Kind) error {
	if request.IfNoneMatch != "" {
		if _, err := matchesETag("If-None-Match", request.IfNoneMatch, ""); err != nil {
			return err
		}
	}
	if request.IfMatch != "" {
		return fail(ReasonPreconditionFailed, title(kind)+" is to be created, so If-Match cannot hold", "")
	}
	return nil
}

// exists is the error of a creation whose name or id is taken: a conflict, or a precondition that failed where the request said so.
func exists(request Request, message string) error {
	if strings.TrimSpace(request.IfNoneMatch) == "*" {
		return fail(ReasonPreconditionFailed, message, "")
	}
	return fail(ReasonConflict, message, "")
}

// matchesETag says whether a header's value, "*" or a list of entity tags, matches. Weak tags never match: a write needs a strong one.
func matchesETag(header, value, etag string) (bool, error) {
	if strings.TrimSpace(value) == "*" {
		return true, nil
	}
	matches := false
	for tag := range strings.SplitSeq(value, ",") {
		tag = strings.TrimSpace(tag)
		strong, weak := strings.CutPrefix(tag, "W/")
		if len(strong) < 2 || strong[0] != '"' || strong[len(strong)-1] != '"' || strings.Contains(strong[1:len(strong)-1], `"`) {
			return false, violates(header, "header", `must be * or entity tags, such as "42"`)
		}
		matches = matches || !weak && strong == etag
	}
	return matches, nil
}
