package schema

import "slices"

// Limit is something that the loader of manifests checks and a JSON Schema cannot, or not in full.
type Limit struct {
	// Name is the id of the rule, or words for what concerns several rules.
	Name string
	// Reason says what is not seen, and why.
	Reason string
}

// Beyond is what the JSON Schemas do not see: an editor takes it, and `planton validate` tells. Nothing is refused by a schema that the
// loader takes.
func Beyond() []Limit { return slices.Clone(beyond) }

var beyond = []Limit{
	{"autoscale.order", "minNodes <= nodeCount <= maxNodes compares values with one another; JSON Schema compares with constants"},
	{"node_pools.unique_name", "pools are alike by one of their fields, the name; JSON Schema knows items that are alike in all"},
	{"taints.unique", "taints are alike by key and effect; only those that are alike in all are seen"},
	{"port_range.bounds", "that the lower port comes first compares two numbers in one text; the bounds of each are seen"},
	{"ip_network", "which bits of an IPv6 network must be zero depends on its length, in too many ways for a pattern; IPv4 is seen"},
	{"ip_or_network", "as ip_network"},
	{"numbers without quotes", "1.0 for a text is the text 1.0 to the loader and the number 1 to a schema, and patterns are about texts"},
	{"numbers in quotes", "\"1.5\" for a number is a number to the loader and a text to a schema, and bounds are about numbers"},
	{"spelling", "True is true to a schema; the loader takes true and false alone"},
	{"duplicate keys", "of a key that is given twice, a schema sees one; editors tell by themselves"},
}

func isBeyond(id string) bool {
	return slices.ContainsFunc(beyond, func(limit Limit) bool { return limit.Name == id })
}
