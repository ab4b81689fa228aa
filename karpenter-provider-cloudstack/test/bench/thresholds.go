package main

import (
	"fmt"
	"time"
)

// Suites that have thresholds. What they measure is not quite the same: they run on clusters and clouds of their own.
const (
	corePerformance = "Karpenter core's performance suite"
	awsScale        = "the scale suite of the provider for AWS"
)

// threshold is what a suite of others wants of a load.
type threshold struct {
	suite, of string
	pods      int
	perNode   bool
	// up is how long pods may wait; memory is in megabytes, cores on average; 0 for what is not wanted.
	up            time.Duration
	memory, cores float64
}

var thresholds = []threshold{
	{suite: corePerformance, of: "1,000 pods", pods: 1000, up: 2 * time.Minute, memory: 260, cores: 0.5},
	{suite: awsScale, of: "500 nodes with a pod each", pods: 500, perNode: true, up: 30 * time.Minute},
	{suite: corePerformance, of: "1,000 pods on hosts of their own", pods: 1000, perNode: true, up: 5 * time.Minute, memory: 680, cores: 1.15},
	{suite: corePerformance, of: "2,000 pods on hosts of their own", pods: 2000, perNode: true, up: 35 * time.Minute, memory: 1330, cores: 1.4},
}

// verdicts compare a measurement with the thresholds that are for its load, a line for each figure.
func verdicts(r result) []string {
	var lines []string
	for _, t := range thresholds {
		if t.pods != r.load.pods || t.perNode != r.load.perNode {
			continue
		}
		compare := func(figure string, have, limit float64, unit string, precision int) {
			if limit == 0 {
				return
			}
			word := "met"
			if have >= limit {
				word = "MISSED"
			}
			lines = append(lines, fmt.Sprintf("%s: %s, latency %s: %s %.*f%s; %s wants less than %.*f%s for %s",
				word, r.load.name, r.latency.name, figure, precision, have, unit, t.suite, precision, limit, unit, t.of))
		}
		compare("all bound in", r.up.Seconds(), t.up.Seconds(), " s", 0)
		compare("memory of the provider", r.memory, t.memory, " MB", 0)
		compare("processors that the provider takes", r.cores, t.cores, " cores", 2)
	}
	return lines
}
