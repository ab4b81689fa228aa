package nodepoolsserver

import (
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

const (
	// keyVariable holds the key that seals secrets in the database, for processes that share one.
	keyVariable = "NODEPOOLS_KEY"
	// keySize is that of the key in bytes.
	keySize = 32
)

// sealingKey is the key that secrets are sealed with before they are kept: that of the environment, or of a file that is made when it is
// missing. A database that several processes share needs the former: made is false then.
func sealingKey(getenv func(string) string, file string, mayMake bool) ([]byte, error) {
	if text := getenv(keyVariable); text != "" {
		key, err := decodeKey(text)
		return key, errors.Wrap(err, "environment variable "+keyVariable)
	}
	info, err := os.Stat(file)
	switch {
	case err == nil && info.Mode().Perm()&0o077 != 0:
		return nil, errors.Errorf("the key file %s can be read by others: chmod 600 %s", file, file)
	case err == nil:
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.Wrap(err, "read the key file")
		}
		key, err := decodeKey(string(text))
		return key, errors.Wrap(err, "the key file "+file)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, errors.Wrap(err, "read the key file")
	case !mayMake:
		return nil, nil
	}
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, errors.Wrap(err, "make a key")
	}
	return key, writeKey(file, base64.StdEncoding.EncodeToString(key)+"\n")
}

// writeKey writes a new key file, on the disk when it returns: what is sealed with a key that is lost is lost too.
func writeKey(file, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return errors.Wrap(err, "make the folder of the key file")
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Wrap(err, "make the key file")
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = errors.Wrap(closeErr, "write the key file")
		}
	}()
	if _, err := f.WriteString(text); err != nil {
		return errors.Wrap(err, "write the key file")
	}
	return errors.Wrap(f.Sync(), "write the key file")
}

func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, errors.Errorf("must hold %d bytes in base64; make one with: openssl rand -base64 %d", keySize, keySize)
	}
	return key, nil
}
