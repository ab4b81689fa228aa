//go:build linux

package soak

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// vaultKey is a key of a key management service, as Pulumi names it.
const vaultKey = "hashivault://soak"

// vault answers for HashiCorp Vault what Pulumi asks of it: to encrypt and decrypt the key of a stack. What it hands out is a number.
// https://developer.hashicorp.com/vault/api-docs/secret/transit#encrypt-data
type vault struct {
	mu    sync.Mutex
	texts []string
}

// ServeHTTP implements http.Handler.
func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Plaintext, Ciphertext string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	data := map[string]string{}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/transit/encrypt/"):
		v.texts = append(v.texts, body.Plaintext)
		data["ciphertext"] = fmt.Sprintf("vault:v1:%d", len(v.texts)-1)
	case strings.HasPrefix(r.URL.Path, "/v1/transit/decrypt/"):
		var number int
		if _, err := fmt.Sscanf(body.Ciphertext, "vault:v1:%d", &number); err != nil || number < 0 || number >= len(v.texts) {
			http.Error(w, "no such text", http.StatusBadRequest)
			return
		}
		data["plaintext"] = v.texts[number]
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data}) // a client that went away is none of its business
}
