package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// nameLength is how long the name of a machine is at most: it is a host name.
	nameLength = 63
	// suffixLength is what the number of an attempt takes of it, such as -12.
	suffixLength = 3
	// attemptsNamed is how many names the machines of a NodeClaim have at most.
	attemptsNamed = 99
	// hashLength is how many hexadecimal digits tell NodeClaims of one name apart.
	hashLength = 8
)

// hash is the beginning of a hash in hexadecimal digits.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// NodeName is the name of the machine of a NodeClaim, and so of its node: that of the NodeClaim in the form of a host name, and a hash of
// its UID, as another NodeClaim may get the name. Where a machine failed whose name is not free again, the next one has a number besides,
// see IsNameOf.
func NodeName(nodeClaim *karpv1.NodeClaim) string {
	var name strings.Builder
	for _, r := range strings.ToLower(nodeClaim.Name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			name.WriteRune(r)
		default:
			name.WriteByte('-')
		}
	}
	text := strings.Trim(name.String(), "-")
	// CloudStack wants a letter first.
	if text == "" || text[0] < 'a' {
		text = "n" + text
	}
	if limit := nameLength - suffixLength - hashLength - 1; len(text) > limit {
		text = strings.TrimRight(text[:limit], "-")
	}
	return text + "-" + hash(nodeClaim.Name+"/"+string(nodeClaim.UID))
}

// IsNameOf tells whether a machine of that name is of the NodeClaim: it has its NodeName, or that with the number of an attempt.
func IsNameOf(machine string, nodeClaim *karpv1.NodeClaim) bool {
	return isNameOf(machine, NodeName(nodeClaim))
}

func isNameOf(machine, nodeName string) bool {
	rest, ok := strings.CutPrefix(machine, nodeName)
	if !ok || rest == "" {
		return ok
	}
	number, ok := strings.CutPrefix(rest, "-")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n > 1 && n <= attemptsNamed && strconv.Itoa(n) == number
}

// nameOfAttempt is the name of the n-th machine of a NodeClaim, from 1.
func nameOfAttempt(nodeName string, n int) string {
	if n == 1 {
		return nodeName
	}
	return nodeName + "-" + strconv.Itoa(n)
}

// GroupName is what the machines and affinity groups of a cluster have in common before they have tags: the instance group of its
// machines, and the beginning of their display names. The UID is that of the namespace kube-system.
func GroupName(clusterName, clusterUID string) string {
	return "karpenter-" + clusterName + "-" + hash(clusterUID)
}
