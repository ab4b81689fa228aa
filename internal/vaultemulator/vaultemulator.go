// Package vaultemulator answers for HashiCorp Vault, for tests: a stack whose key Vault keeps costs half a second of CPU less for each run
// of the Pulumi CLI than one whose key is derived from a passphrase.
package vaultemulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// SecretsProvider is a key of the emulated Vault, as Pulumi names it.
const SecretsProvider = "hashivault://planton"

// Environment is what the Pulumi CLI needs to find the Vault at an address.
func Environment(address string) map[string]string {
	return map[string]string{"VAULT_ADDR": address, "VAULT_TOKEN": "for tests only"}
}

// Vault does what Pulumi asks of Vault's transit engine: it encrypts and decrypts the keys of stacks. What it hands out for a text is a
// number. The zero Vault is ready for use, by several goroutines at once.
// https://developer.hashicorp.com/vault/api-docs/secret/transit#encrypt-data
type Vault struct {
	mu    sync.Mutex
	texts []string
}

// ServeHTTP implements http.Handler.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
