package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// maxRequest is how long user data may be in a request, whatever the limit is. UserDataManagerImpl.validateUserData of CloudStack.
const maxRequest = 1<<20 - 1

// gzipFrom is the length in base64 from which user data is packed. Shorter user data is left readable for whoever looks for a fault.
const gzipFrom = 8192

var userDataBytes = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Namespace: "karpenter", Subsystem: "cloudstack", Name: "userdata_bytes",
	Help:    "Length of the user data of machines in base64, packed where it is long, by bootstrap mode.",
	Buckets: prometheus.ExponentialBuckets(512, 2, 12),
}, []string{"mode"})

func init() { metrics.Registry.MustRegister(userDataBytes) }

// encode makes base64 of user data, packed by gzip where it is long and becomes shorter so.
func encode(text string, maxBytes int) (string, error) {
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	// cloud-init and cloudbase-init unpack; Ignition, whose configuration is JSON, does not.
	if len(encoded) > gzipFrom && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		packed := base64.StdEncoding.EncodeToString(pack(text))
		if len(packed) < len(encoded) {
			encoded = packed
		}
	}
	if len(encoded) > min(maxBytes, maxRequest) {
		return "", failure("UserDataTooLong",
			"the user data has %d bytes in base64, and %d are allowed: shorten userData, put it into the template, "+
				"or raise vm.userdata.max.length of CloudStack and the limit of this controller",
			len(encoded), min(maxBytes, maxRequest))
	}
	return encoded, nil
}

func pack(text string) []byte {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = writer.Write([]byte(text))
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		panic(err) // a buffer takes all, and the level exists
	}
	return packed.Bytes()
}
