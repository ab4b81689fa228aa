package nodepoolsserver

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// certificateFile is a certificate that is renewed while the service runs.
type certificateFile struct {
	cert, key string

	mu      sync.Mutex
	have    *tls.Certificate
	changed time.Time
}

// get reads the certificate when its file has changed. What cannot be read is no reason to stop serving with the one before.
func (f *certificateFile) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.cert)
	if err == nil && f.have != nil && info.ModTime().Equal(f.changed) {
		return f.have, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.have, f.changed = &pair, info.ModTime()
			return f.have, nil
		}
	}
	if f.have != nil {
		return f.have, nil
	}
	return nil, errors.Wrap(err, "read the certificate")
}
