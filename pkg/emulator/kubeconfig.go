package emulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// Authority is the self-signed certificate authority of one emulated cluster. Both fields are PEM; the key is a secret.
type Authority struct {
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
}

// certificateLife is how long the certificates of an emulated cluster are good for.
const certificateLife = 10 * 365 * 24 * time.Hour

// NewAuthority makes the authority of a cluster.
func NewAuthority(clusterName string) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, errors.Wrap(err, "make the key of a certificate authority")
	}
	template, err := certificateTemplate(pkix.Name{CommonName: clusterName + "-ca"})
	if err != nil {
		return Authority{}, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, errors.Wrap(err, "sign a certificate authority")
	}
	encodedKey, err := encodeKey(key)
	if err != nil {
		return Authority{}, err
	}
	return Authority{Certificate: encodeCertificate(certificate), Key: encodedKey}, nil
}

// ClientCertificate makes a certificate and key, both PEM, with which the user is an administrator of the cluster.
func (a Authority) ClientCertificate(user string) (certificate, key []byte, err error) {
	authorityBlock, _ := pem.Decode(a.Certificate)
	keyBlock, _ := pem.Decode(a.Key)
	if authorityBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("the certificate authority is not PEM")
	}
	authority, err := x509.ParseCertificate(authorityBlock.Bytes)
	if err != nil {
		return nil, nil, errors.Wrap(err, "parse the certificate authority")
	}
	signer, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, errors.Wrap(err, "parse the key of the certificate authority")
	}
	clientKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, errors.Wrap(err, "make the key of a client certificate")
	}
	template, err := certificateTemplate(pkix.Name{CommonName: user, Organization: []string{"system:masters"}})
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	signed, err := x509.CreateCertificate(rand.Reader, template, authority, clientKey.Public(), signer)
	if err != nil {
		return nil, nil, errors.Wrap(err, "sign a client certificate")
	}
	encodedKey, err := encodeKey(clientKey)
	if err != nil {
		return nil, nil, err
	}
	return encodeCertificate(signed), encodedKey, nil
}

// NewToken is a new random bearer token of n bytes, written in hexadecimal, after the prefix.
func NewToken(prefix string, n int) string {
	token := make([]byte, n)
	_, _ = rand.Read(token) // never fails since Go 1.24: the program ends instead
	return prefix + hex.EncodeToString(token)
}

// Kubeconfig is the way into one cluster for one user, by a client certificate, a token or both.
type Kubeconfig struct {
	// Cluster, User and Context name the three entries of the file; the context is the current one.
	Cluster, User, Context string
	// Server is the URL of the Kubernetes API.
	Server string
	// CertificateAuthority is PEM.
	CertificateAuthority []byte
	// ClientCertificate and ClientKey are PEM, both or neither.
	ClientCertificate, ClientKey []byte
	// Token is a bearer token, or "".
	Token string
}

// YAML is the kubeconfig as a file's contents, which kubectl and client-go read.
func (k Kubeconfig) YAML() (string, error) {
	type named map[string]any
	user := map[string]any{}
	if len(k.ClientCertificate) > 0 {
		user["client-certificate-data"] = base64.StdEncoding.EncodeToString(k.ClientCertificate)
		user["client-key-data"] = base64.StdEncoding.EncodeToString(k.ClientKey)
	}
	if k.Token != "" {
		user["token"] = k.Token
	}
	file := map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []named{{"name": k.Cluster, "cluster": map[string]any{
			"certificate-authority-data": base64.StdEncoding.EncodeToString(k.CertificateAuthority),
			"server":                     k.Server,
		}}},
		"contexts":        []named{{"name": k.Context, "context": map[string]any{"cluster": k.Cluster, "user": k.User}}},
		"current-context": k.Context,
		"preferences":     map[string]any{},
		"users":           []named{{"name": k.User, "user": user}},
	}
	encoded, err := yaml.Marshal(file)
	if err != nil {
		return "", errors.Wrap(err, "encode a kubeconfig")
	}
	return string(encoded), nil
}

func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, errors.Wrap(err, "make the serial number of a certificate")
	}
	now := time.Now().UTC()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// An hour back, for clients whose clock is behind.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(certificateLife),
	}, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, errors.Wrap(err, "encode a private key")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
