package cli

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plantonhq/project-planton/pkg/manifest"
)

// writeWorkflowCommands tells problems as GitHub's workflow commands, which it shows beside the lines of a pull request.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
func writeWorkflowCommands(out io.Writer, problems []manifest.Problem) {
	for _, problem := range problems {
		var properties []string
		property := func(name string, value any) {
			properties = append(properties, name+"="+workflowProperty.Replace(fmt.Sprint(value)))
		}
		if inFile(problem) {
			property("file", filepath.ToSlash(problem.File))
			if problem.Line > 0 && !problem.Generated {
				property("line", problem.Line)
				if problem.Column > 0 {
					property("col", problem.Column)
				}
			}
		}
		property("title", problem.RuleID)
		_, _ = fmt.Fprintf(out, "::error %s::%s\n", strings.Join(properties, ","), workflowData.Replace(problemText(problem)))
	}
}

// What the runner takes for a part of the command is escaped:
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
var (
	workflowData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	workflowProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// inFile tells whether a problem stands in a file, and not in the standard input or a flag.
func inFile(problem manifest.Problem) bool {
	return problem.File != manifest.Stdin && !strings.HasPrefix(problem.File, manifest.SettingFlag+" ")
}

// problemText is a problem without the place that stands beside it.
func problemText(problem manifest.Problem) string {
	text := problem.Message
	if problem.FieldPath != "" {
		text = problem.FieldPath + ": " + text
	}
	if !inFile(problem) || problem.Generated {
		text = strings.TrimSuffix(problem.String(), " ["+problem.RuleID+"]")
	}
	if problem.Hint != "" {
		text += "\nhint: " + problem.Hint
	}
	return text
}

// The part of SARIF 2.1.0 that is written here.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os-complete.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical *sarifPhysicalLocation `json:"physicalLocation,omitempty"`
		Logical  []sarifLogicalLocation `json:"logicalLocations,omitempty"`
	}
	sarifPhysicalLocation struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogicalLocation struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

// sarifOf tells problems in SARIF, for tools that collect what several checkers find.
func sarifOf(version string, problems []manifest.Problem) sarifLog {
	ids := []string{}
	for _, problem := range problems {
		ids = append(ids, problem.RuleID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	run := sarifRun{
		Tool:       sarifTool{Driver: sarifDriver{Name: "planton", Version: version, Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	for _, id := range ids {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: id})
	}
	for _, problem := range problems {
		index, _ := slices.BinarySearch(ids, problem.RuleID)
		result := sarifResult{
			RuleID: problem.RuleID, RuleIndex: index, Level: "error", Message: sarifMessage{Text: problemText(problem)},
		}
		var location sarifLocation
		if inFile(problem) {
			location.Physical = &sarifPhysicalLocation{Artifact: sarifArtifact{URI: fileURI(problem.File)}}
			if problem.Line > 0 && !problem.Generated {
				location.Physical.Region = &sarifRegion{StartLine: problem.Line, StartColumn: problem.Column}
			}
		}
		if problem.FieldPath != "" {
			location.Logical = []sarifLogicalLocation{{FullyQualifiedName: problem.FieldPath}}
		}
		if location.Physical != nil || location.Logical != nil {
			result.Locations = []sarifLocation{location}
		}
		run.Results = append(run.Results, result)
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// fileURI is a path as a URI reference.
func fileURI(path string) string {
	slashed := filepath.ToSlash(path)
	if filepath.IsAbs(path) {
		return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(slashed, "/")}).String()
	}
	return (&url.URL{Path: slashed}).String()
}
