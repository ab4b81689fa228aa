package cloudprovider

import (
	"regexp"
	"strings"

	"github.com/pkg/errors"
)

// Prefixes of provider ids; the id of the machine follows.
const (
	// PrefixCCM is that of CloudStack's cloud controller manager.
	PrefixCCM = "external-cloudstack://"
	// PrefixCAPC is that of the Cluster API provider.
	PrefixCAPC = "cloudstack:///"
)

// Names of formats.
const (
	// FormatCCM is the format of CloudStack's cloud controller manager.
	FormatCCM = "ccm"
	// FormatCAPC is the format of the Cluster API provider.
	FormatCAPC = "capc"
)

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ProviderID is the provider id of the machine with that id. The format is "ccm" or empty for external-cloudstack://<id>, "capc" for
// cloudstack:///<id>, and else a prefix such as mycloud://. With an empty id it is the prefix.
func ProviderID(format, id string) string {
	switch format {
	case "", FormatCCM:
		return PrefixCCM + id
	case FormatCAPC:
		return PrefixCAPC + id
	}
	return format + id
}

// ParseProviderID returns the id of the machine that a provider id is of. It takes the formats ccm and capc, and those given besides, which
// are what ProviderID takes; what follows the prefix has to be a UUID in lower case, as CloudStack writes it.
func ParseProviderID(providerID string, formats ...string) (string, error) {
	for _, format := range append([]string{FormatCCM, FormatCAPC}, formats...) {
		if id, ok := strings.CutPrefix(providerID, ProviderID(format, "")); ok && uuidPattern.MatchString(id) {
			return id, nil
		}
	}
	return "", errors.Errorf("%q is no provider id of a machine of CloudStack: want %s or %s with a UUID in lower case after it",
		providerID, PrefixCCM, PrefixCAPC)
}
