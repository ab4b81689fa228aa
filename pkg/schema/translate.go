package schema

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// check is a rule about a text, as JSON Schema has it.
type check struct {
	schema object
	takes  func(text string) bool
}

// orNull lets null through, which stands for an absent value. Only enumerations say what a value that is no text must be.
func (c check) orNull(optional bool) check {
	if values, ok := c.schema.get("enum").([]any); ok && optional {
		schema := slices.Clone(c.schema)
		schema.set("enum", append(slices.Clone(values), nil))
		c.schema = schema
	}
	return c
}

func minLength(n uint64) check {
	return check{object{{"minLength", n}}, func(text string) bool { return uint64(utf8.RuneCountInString(text)) >= n }}
}

func maxLength(n uint64) check {
	return check{object{{"maxLength", n}}, func(text string) bool { return uint64(utf8.RuneCountInString(text)) <= n }}
}

// matches wants a pattern. The words are shown by editors that know the key; others pass it over.
func matches(pattern, words string) check {
	return check{object{{"pattern", pattern}, {"patternErrorMessage", words}}, regexp.MustCompile(pattern).MatchString}
}

// matchesNot wants anything but a pattern.
func matchesNot(pattern string) check {
	expression := regexp.MustCompile(pattern)
	return check{
		not(object{{"type", "string"}, {"pattern", pattern}}),
		func(text string) bool { return !expression.MatchString(text) },
	}
}

func oneOfTexts(texts []string) check {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return check{object{{"enum", values}}, func(text string) bool { return slices.Contains(texts, text) }}
}

// Most rules about texts have one of these forms, and are translated by it.
var (
	matchesForm = regexp.MustCompile(`^(?:!rule \|\| )?(this == '' \|\| )?this\.matches\('([^'\\]*)'\)$`)
	inForm      = regexp.MustCompile(`^(?:!rule \|\| )?this in \[((?:'[^']*'(?:, )?)+)\]$`)
)

// Ports, from 1 to 65535.
const port = `([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`

// White space as the rule civo_tag has it, in characters that every dialect of patterns reads alike.
const space = "\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

// texts are the rules about texts that have a form of their own.
var texts = map[string]func(rule) []check{
	"civo_tag": func(r rule) []check { return []check{matches("^[^"+space+"]{1,255}$", r.message)} },
	"kubernetes_key": func(r rule) []check {
		return []check{
			matches(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, r.message),
			matches(`^[^/]{0,253}(/|$)`, r.message),
		}
	},
	"node_label_key": func(rule) []check {
		return []check{matchesNot(`^(node-role[.]kubernetes[.]io|kubernetes[.]io|doks[.]digitalocean[.]com)/`)}
	},
	"digitalocean_user_tag": func(rule) []check {
		return []check{matchesNot(`^([kK]8[sS](:|$)|[tT][eE][rR][rR][aA][fF][oO][rR][mM]:)`)}
	},
	"ipv4_network": func(r rule) []check { return []check{matches("^("+ipv4Network()+")?$", r.message)} },
	"ip_network":   func(r rule) []check { return []check{matches("^("+ipv4Network()+"|"+ipv6Network()+")$", r.message)} },
	"ip_or_network": func(r rule) []check {
		return []check{matches("^("+ipv4Address+"|"+ipv4Network()+"|"+ipv6Address()+"|"+ipv6Network()+")$", r.message)}
	},
	"vpc_range_size": func(r rule) []check { return []check{matches(`^$|/(1[6-9]|2[0-8])$`, r.message)} },
	"vpc_range_private": func(r rule) []check {
		return []check{matches(`^$|^(10[.]|172[.](1[6-9]|2[0-9]|3[01])[.]|192[.]168[.])`, r.message)}
	},
	"port_range.bounds": func(r rule) []check { return []check{matches("^("+port+"(-"+port+")?)?$", r.message)} },
}

// translateText makes checks of a rule about a text. A rule that it cannot make any of is an error, unless Beyond has it.
func translateText(r rule) ([]check, error) {
	if translate, ok := texts[r.id]; ok {
		return translate(r), nil
	}
	if form := matchesForm.FindStringSubmatch(r.expression); form != nil {
		pattern := form[2]
		if form[1] != "" {
			pattern = "^$|" + pattern
		}
		return []check{matches(pattern, r.message)}, nil
	}
	if form := inForm.FindStringSubmatch(r.expression); form != nil {
		values := strings.Split(form[1], ", ")
		for i := range values {
			values[i] = strings.Trim(values[i], "'")
		}
		return []check{oneOfTexts(values)}, nil
	}
	if isBeyond(r.id) {
		return nil, nil
	}
	return nil, untranslated(r)
}

// messages are the rules about the fields of a message together.
var messages = map[string]func(r rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object{
	"firewall.rules": func(_ rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		return anyOf(has(field("inbound_rules"), anyItem), has(field("outbound_rules"), anyItem))
	},
	"firewall_rule.port_range_required": func(_ rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		return anyOf(has(field("protocol"), object{{"const", "icmp"}}), has(field("port_range"), notEmpty))
	},
	"cluster_type.version": func(_ rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		talos := has(field("cluster_type"), isValue(field("cluster_type").Enum(), "talos"))
		condition := ifThen(has(field("kubernetes_version"), object{{"type", "string"}, {"pattern", "^talos-"}}), talos)
		return append(condition, member{"else", not(talos)})
	},
	"cni.talos": func(_ rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		return not(allOf(
			has(field("cni"), isValue(field("cni").Enum(), "cilium")),
			has(field("cluster_type"), isValue(field("cluster_type").Enum(), "talos")),
		))
	},
	"autoscale.bounds_required": func(r rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		bounds := has(field("max_nodes"), not(isZero))
		if strings.Contains(r.expression, "this.min_nodes >= 1u") {
			bounds = allOf(has(field("min_nodes"), not(isZero)), bounds)
		}
		return ifThen(has(field("auto_scale"), isTrue), bounds)
	},
	"autoscale.off_without_bounds": func(_ rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		return anyOf(has(field("auto_scale"), isTrue), allOf(where(field("min_nodes"), isZero), where(field("max_nodes"), isZero)))
	},
	"digitalocean_vpc_name": func(r rule, field func(protoreflect.Name) protoreflect.FieldDescriptor) object {
		return where(field("metadata"), object{{"properties", object{{"name", matches(`^[A-Za-z0-9.-]*$`, r.message).schema}}}})
	},
}

// translateMessage makes a condition of a rule about a message; nil for one that is Beyond.
func translateMessage(r rule, message protoreflect.MessageDescriptor) (object, error) {
	if translate, ok := messages[r.id]; ok {
		return translate(r, message.Fields().ByName), nil
	}
	if isBeyond(r.id) {
		return nil, nil
	}
	return nil, untranslated(r)
}
