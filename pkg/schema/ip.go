package schema

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	octet       = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	ipv4Address = `(` + octet + `[.]){3}` + octet
	group       = `[0-9A-Fa-f]{1,4}`
)

// ipv4Network is the pattern of the IPv4 networks whose host bits are zero. For each octet in which a network can end it has the
// octets before, the values whose last bits are zero, and zeros after.
var ipv4Network = sync.OnceValue(func() string {
	alternatives := []string{`0[.]0[.]0[.]0/0`}
	for position := range 4 {
		var ends []string
		for bits := 1; bits <= 8; bits++ {
			ends = append(ends, fmt.Sprintf("%s%s/%d", multiples(bits), strings.Repeat("[.]0", 3-position), position*8+bits))
		}
		before := ""
		if position > 0 {
			before = fmt.Sprintf("(%s[.]){%d}", octet, position)
		}
		alternatives = append(alternatives, before+"("+strings.Join(ends, "|")+")")
	}
	return strings.Join(alternatives, "|")
})

// multiples is the pattern of the octets of which all but the first bits are zero.
func multiples(bits int) string {
	switch bits {
	case 8:
		return octet
	case 7:
		return `(25[024]|2[0-4][02468]|1[0-9][02468]|[1-9]?[02468])`
	}
	var values []string
	for value := 0; value < 256; value += 1 << (8 - bits) {
		values = append(values, strconv.Itoa(value))
	}
	return "(" + strings.Join(values, "|") + ")"
}

// ipv6Address is the pattern of IPv6 addresses: eight groups, some of which "::" can stand for, the last two perhaps as an IPv4
// address. https://www.rfc-editor.org/rfc/rfc4291#section-2.2
var ipv6Address = sync.OnceValue(func() string {
	alternatives := []string{
		fmt.Sprintf("(%s:){7}%s", group, group),
		fmt.Sprintf("(%s:){6}%s", group, ipv4Address),
	}
	for left := range 8 {
		before := ""
		if left > 0 {
			before = fmt.Sprintf("%s(:%s){%d}", group, group, left-1)
		}
		right := 7 - left // how many groups can follow
		var after []string
		if right >= 1 {
			after = append(after, fmt.Sprintf("%s(:%s){0,%d}", group, group, right-1))
		}
		if right >= 2 {
			after = append(after, fmt.Sprintf("(%s:){0,%d}%s", group, right-2, ipv4Address))
		}
		alternative := before + "::"
		if after != nil {
			alternative += "(" + strings.Join(after, "|") + ")?"
		}
		alternatives = append(alternatives, alternative)
	}
	return "(" + strings.Join(alternatives, "|") + ")"
})

// ipv6Network is the pattern of IPv6 networks, whatever their host bits are.
func ipv6Network() string { return ipv6Address() + `/(12[0-8]|1[01][0-9]|[1-9]?[0-9])` }
