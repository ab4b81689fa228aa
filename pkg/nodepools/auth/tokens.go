package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// tokenPrefix marks static tokens, so that scanners for leaked secrets find them.
const tokenPrefix = "npt_"

// NewToken makes a static token: 256 random bits. Its holder gets the token; the file gets only the hash.
func NewToken() (token, hash string) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails, see its documentation
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return token, HashToken(token)
}

// HashToken returns the SHA-256 of a token in hex. Tokens are random and long, so a slow hash would protect them no better.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Token is one static token in a file.
type Token struct {
	// Name is that of the identity: an email address, or a name of a service.
	Name string `yaml:"name"`
	// SHA256 is the hash of the token, in hex, see NewToken.
	SHA256 string `yaml:"sha256"`
	// Role is what the identity may do.
	Role Role `yaml:"role"`
	// Platforms and Controllers bound a controller, see Identity.
	Platforms   []string `yaml:"platforms,omitempty"`
	Controllers []string `yaml:"controllers,omitempty"`
	// Expires is when the token ends; zero is never.
	Expires time.Time `yaml:"expires,omitempty"`
}

type tokenFile struct {
	Tokens []Token `yaml:"tokens"`
}

// ParseTokens reads a file of tokens: YAML with a list "tokens".
func ParseTokens(content []byte) ([]Token, error) {
	var file tokenFile
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, errors.Wrap(err, "read the tokens")
	}
	seen := map[string]bool{}
	for i, token := range file.Tokens {
		at := func(text string) error { return errors.Errorf("token %d (%s): %s", i+1, token.Name, text) }
		hash, err := hex.DecodeString(token.SHA256)
		switch {
		case token.Name == "" || strings.ContainsFunc(token.Name, func(c rune) bool { return c <= ' ' || c > '~' }) || len(token.Name) > 254:
			return nil, at("the name must be 1 to 254 visible ASCII characters")
		case err != nil || len(hash) != sha256.Size:
			return nil, at("sha256 must be the 64 hex digits of the token's hash, not the token")
		case seen[strings.ToLower(token.SHA256)]:
			return nil, at("the hash stands above already; each token has one identity")
		}
		if err := checkRole(token.Role, token.Platforms, token.Controllers); err != nil {
			return nil, at(err.Error())
		}
		seen[strings.ToLower(token.SHA256)] = true
		if strings.Contains(token.Name, "@") {
			if file.Tokens[i].Name, err = ParseEmail(token.Name); err != nil {
				return nil, at("the name looks like an email address and is " + err.Error())
			}
		}
	}
	return file.Tokens, nil
}

// Tokens believes static tokens in the header Authorization: Bearer.
type Tokens struct {
	path  string
	check time.Duration

	mu      sync.Mutex
	byHash  map[[sha256.Size]byte]Token
	stamp   string
	checked time.Time
	failed  error
}

// NewTokens returns an authenticator of a fixed set of tokens.
func NewTokens(tokens []Token) *Tokens {
	t := &Tokens{}
	t.set(tokens)
	return t
}

// OpenTokens returns an authenticator of the tokens in a file. The file is read again when it changes, at most once a second; while what
// it holds cannot be read, what it held before counts, and Err tells.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path, check: time.Second}
	if err := t.load(); err != nil {
		return nil, err
	}
	t.checked = time.Now()
	return t, nil
}

// Err is why the file could not be read when it changed last; nil when it could.
func (t *Tokens) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *Tokens) set(tokens []Token) {
	t.byHash = make(map[[sha256.Size]byte]Token, len(tokens))
	for _, token := range tokens {
		var key [sha256.Size]byte
		if hash, err := hex.DecodeString(token.SHA256); err == nil && len(hash) == len(key) {
			copy(key[:], hash)
			t.byHash[key] = token
		}
	}
}

// load reads the file when it is another one than the last time.
func (t *Tokens) load() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return errors.Wrap(err, "read the tokens")
	}
	stamp := info.ModTime().String() + "/" + hex.EncodeToString([]byte{byte(info.Size()), byte(info.Size() >> 8), byte(info.Size() >> 16)})
	if stamp == t.stamp {
		return t.failed
	}
	if info.Mode().Perm()&0o002 != 0 {
		return errors.Errorf("%s can be written by everyone: chmod 600 it", t.path)
	}
	content, err := os.ReadFile(t.path)
	if err != nil {
		return errors.Wrap(err, "read the tokens")
	}
	tokens, err := ParseTokens(content)
	if err != nil {
		return errors.Wrap(err, t.path)
	}
	t.set(tokens)
	t.stamp = stamp
	return nil
}

func (t *Tokens) find(token string) (Token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path != "" && time.Since(t.checked) >= t.check {
		t.checked = time.Now()
		t.failed = t.load()
	}
	found, ok := t.byHash[sha256.Sum256([]byte(token))]
	return found, ok
}

// Authenticate believes a static token. It looks at no other bearer tokens.
func (t *Tokens) Authenticate(request *http.Request) (Identity, error) {
	token, err := bearer(request)
	if err != nil {
		return Identity{}, err
	}
	if !strings.HasPrefix(token, tokenPrefix) {
		return Identity{}, ErrNoCredentials
	}
	found, ok := t.find(token)
	if !ok {
		return Identity{}, refuse("the token is not known")
	}
	if !found.Expires.IsZero() && !time.Now().Before(found.Expires) {
		return Identity{}, refuse("the token has expired")
	}
	return Identity{Name: found.Name, Role: found.Role, Platforms: found.Platforms, Controllers: found.Controllers}, nil
}

// bearer returns the bearer token of a request.
func bearer(request *http.Request) (string, error) {
	lines := request.Header.Values("Authorization")
	switch len(lines) {
	case 0:
		return "", ErrNoCredentials
	case 1:
	default:
		return "", refuse("the header Authorization must be given once")
	}
	scheme, token, found := strings.Cut(lines[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", refuse("the header Authorization must be: Bearer, a space, and a token")
	}
	return token, nil
}
