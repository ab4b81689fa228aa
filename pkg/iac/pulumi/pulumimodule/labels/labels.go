// Package labels makes the Kubernetes labels that tell which manifest a node belongs to.
package labels

import (
	"regexp"
	"strings"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
)

// The keys of the labels that every module puts on what it makes, where the platform has labels.
const (
	// Resource marks whatever was made from a manifest; its value is "true".
	Resource = "planton-resource"
	// ResourceName is metadata.name.
	ResourceName = "planton-resource-name"
	// ResourceKind is the kind of the manifest.
	ResourceKind = "planton-resource-kind"
	// ResourceID is metadata.id.
	ResourceID = "planton-resource-id"
	// Organization is metadata.org.
	Organization = "planton-organization"
	// Environment is metadata.env.
	Environment = "planton-environment"
)

// maxValueLength is the longest value of a Kubernetes label.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
const maxValueLength = 63

var invalidInValue = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// ForResource returns the labels of a resource of the kind with the metadata. What the metadata does not say has no
// label. Every value is a valid label value: see Value.
func ForResource(kind string, md *shared.CloudResourceMetadata) map[string]string {
	labels := map[string]string{
		Resource:     "true",
		ResourceKind: Value(kind),
	}
	for key, text := range map[string]string{
		ResourceName: md.GetName(),
		ResourceID:   md.GetId(),
		Organization: md.GetOrg(),
		Environment:  md.GetEnv(),
	} {
		if value := Value(text); value != "" {
			labels[key] = value
		}
	}
	return labels
}

// Merge returns the labels of both; where both have a key, the user's value stands. Neither argument is changed.
func Merge(base, user map[string]string) map[string]string {
	merged := make(map[string]string, len(base)+len(user))
	for key, value := range base {
		merged[key] = value
	}
	for key, value := range user {
		merged[key] = value
	}
	return merged
}

// Value makes a text a valid label value: each run of other characters than letters, digits, '.', '_' and '-' becomes one
// '-', and the result is cut to 63 characters that start and end with a letter or digit. A valid value stays as it is. The
// result is empty when nothing valid is left.
func Value(text string) string {
	value := trim(invalidInValue.ReplaceAllString(text, "-"))
	if len(value) > maxValueLength {
		value = trim(value[:maxValueLength])
	}
	return value
}

func trim(value string) string { return strings.Trim(value, "._-") }
