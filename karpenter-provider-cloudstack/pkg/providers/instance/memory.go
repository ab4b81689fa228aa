package instance

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// memory keeps values for a while.
type memory[K comparable, V any] struct {
	clock clock.Clock
	keep  time.Duration

	mu      sync.Mutex
	values  map[K]remembered[V]
	cleaned time.Time
}

type remembered[V any] struct {
	value V
	until time.Time
}

func newMemory[K comparable, V any](clk clock.Clock, keep time.Duration) *memory[K, V] {
	return &memory[K, V]{clock: clk, keep: keep, values: map[K]remembered[V]{}}
}

func (m *memory[K, V]) put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if now.Sub(m.cleaned) > m.keep {
		m.cleaned = now
		for k, v := range m.values {
			if now.After(v.until) {
				delete(m.values, k)
			}
		}
	}
	m.values[key] = remembered[V]{value: value, until: now.Add(m.keep)}
}

func (m *memory[K, V]) get(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	if !ok || m.clock.Now().After(v.until) {
		var none V
		return none, false
	}
	return v.value, true
}

func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
