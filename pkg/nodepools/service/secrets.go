package service

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/crypto/chacha20poly1305"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// Redacted stands in the place of secrets wherever an object is shown. In an update it keeps what is there.
const Redacted = "(redacted)"

// sealedPrefix begins each sealed secret, with the version of how it is sealed.
const sealedPrefix = "sealed:v1:"

// sealer seals secrets with XChaCha20-Poly1305, bound to where they belong: a sealed secret that is moved elsewhere does not open.
type sealer struct {
	aead cipher.AEAD // nil without a key
	key  []byte
}

func newSealer(key []byte) (*sealer, error) {
	if len(key) == 0 {
		return &sealer{}, nil
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, errors.Errorf("the sealing key must have %d bytes, not %d", chacha20poly1305.KeySize, len(key))
	}
	return &sealer{aead: aead, key: key}, nil
}

func (s *sealer) seal(place, plain string) (string, error) {
	if s.aead == nil {
		return "", errors.New("there is no key to seal with")
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return "", errors.Wrap(err, "make a nonce")
	}
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(plain), []byte(place))), nil
}

func (s *sealer) open(place, sealed string) (string, error) {
	if s.aead == nil {
		return "", errors.New("there is no key to open with")
	}
	encoded, ok := strings.CutPrefix(sealed, sealedPrefix)
	if !ok {
		return "", errors.New("the secret is not sealed")
	}
	data, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil || len(data) < s.aead.NonceSize() {
		return "", errors.New("the sealed secret is damaged")
	}
	plain, err := s.aead.Open(nil, data[:s.aead.NonceSize()], data[s.aead.NonceSize():], []byte(place))
	if err != nil {
		return "", errors.New("the secret was sealed with another key, or for another object")
	}
	return string(plain), nil
}

// fingerprint is a hash of a request that tells nothing of secrets in it to who reads the database.
func (s *sealer) fingerprint(parts ...[]byte) []byte {
	hash := hmac.New(sha256.New, s.key)
	for _, part := range parts {
		size := len(part)
		hash.Write([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
		hash.Write(part)
	}
	return hash.Sum(nil)
}

// sealNew seals the secrets of what an object shall be. What it was may be nil. A secret that is "(redacted)", or the same as before,
// stays as it was sealed, so that it is no change.
func (s *Service) sealNew(id string, wanted, was proto.Message) ([]validation.Violation, error) {
	before := map[string]string{}
	if was != nil && was.ProtoReflect().IsValid() {
		_ = eachSecret(was.ProtoReflect(), "", func(path, value string) (string, error) {
			before[path] = value
			return value, nil
		})
	}
	var violations []validation.Violation
	err := eachSecret(wanted.ProtoReflect(), "", func(path, value string) (string, error) {
		place := id + "/" + path
		sealed, had := before[path]
		switch {
		case value == "":
			return value, nil
		case value == Redacted && had:
			return sealed, nil
		case value == Redacted:
			violations = append(violations, validation.Violation{FieldPath: path, RuleID: "secret.redacted",
				Message: "is '" + Redacted + "', which stands for a secret that is there already, but there is none: give the secret itself"})
			return value, nil
		case s.sealer.aead == nil:
			violations = append(violations, validation.Violation{FieldPath: path, RuleID: "secret.key",
				Message: "cannot be kept: the service has no key to seal secrets with; ask its operator for one"})
			return value, nil
		}
		if had {
			if plain, err := s.sealer.open(place, sealed); err == nil && plain == value {
				return sealed, nil
			}
		}
		return s.sealer.seal(place, value)
	})
	return violations, err
}

// redacted returns a copy of an object without its secrets.
func redacted[M proto.Message](message M) M {
	result := proto.CloneOf(message)
	_ = eachSecret(result.ProtoReflect(), "", func(_, value string) (string, error) {
		if value == "" {
			return value, nil
		}
		return Redacted, nil
	})
	return result
}

// eachSecret replaces each field that debug_redact marks. Paths are those of the JSON.
func eachSecret(message protoreflect.Message, path string, replace func(path, value string) (string, error)) error {
	for _, field := range secretFields(message.Descriptor()) {
		if !message.Has(field) {
			continue
		}
		at := strings.TrimPrefix(path+"."+field.JSONName(), ".")
		if field.Message() != nil {
			if err := eachSecret(message.Get(field).Message(), at, replace); err != nil {
				return err
			}
			continue
		}
		text, err := replace(at, message.Get(field).String())
		if err != nil {
			return err
		}
		message.Set(field, protoreflect.ValueOfString(text))
	}
	return nil
}

// withSecrets has the secretFields of each type of message that was asked for.
var withSecrets sync.Map

// secretFields are the fields of a message that are secrets or messages with secrets: few are, and every write and its answer look for them.
func secretFields(message protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	known, _ := withSecrets.Load(message)
	if fields, ok := known.([]protoreflect.FieldDescriptor); ok {
		return fields
	}
	var found []protoreflect.FieldDescriptor
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); leadsToSecret(field, map[protoreflect.FullName]bool{}) {
			found = append(found, field)
		}
	}
	withSecrets.Store(message, found)
	return found
}

// leadsToSecret says whether a field is a secret, or a message with one in it. Seen are the types that were looked at already.
func leadsToSecret(field protoreflect.FieldDescriptor, seen map[protoreflect.FullName]bool) bool {
	message := field.Message()
	switch {
	case field.IsList() || field.IsMap():
		return false
	case message == nil:
		return isSecret(field)
	case seen[message.FullName()]:
		return false
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		if leadsToSecret(message.Fields().Get(i), seen) {
			return true
		}
	}
	return false
}

func isSecret(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact() && field.Kind() == protoreflect.StringKind
}
