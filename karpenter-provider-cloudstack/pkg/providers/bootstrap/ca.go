package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/client-go/util/cert"
)

// caHashes are the hashes of the keys of certificates, as kubeadm takes them: sha256:<hex of the hash of the public key>.
func caHashes(bundle []byte) ([]string, error) {
	certificates, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil, failure("CABundleInvalid",
			"bootstrap.caBundle has no certificate in PEM: set it to the base64 of a file that begins with -----BEGIN CERTIFICATE-----, encoded once")
	}
	var hashes []string
	for _, certificate := range certificates {
		sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		hashes = append(hashes, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return hashes, nil
}
