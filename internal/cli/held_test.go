package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"pgregory.net/rapid"
)

// What is held comes back as it was, however much it is and in whatever pieces it came.
func TestHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want strings.Builder
		var h held
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 100), rapid.SampledFrom([]int{longestEnd - 1, longestEnd, longestEnd + 1})), 0, 5).Draw(t, "sizes") {
			piece := strings.Repeat(rapid.StringN(1, 5, -1).Draw(t, "text"), n)[:n]
			want.WriteString(piece)
			if written, err := h.Write([]byte(piece)); written != n || err != nil {
				t.Fatalf("%d of %d bytes were taken: %v", written, n, err)
			}
		}
		var got bytes.Buffer
		if err := h.writeTo(&got); err != nil || got.String() != want.String() {
			t.Fatalf("%d bytes came back of %d: %v", got.Len(), want.Len(), err)
		}
	})
}

// The lines about many manifests take a small part of their length.
func TestHeldIsSmall(t *testing.T) {
	t.Parallel()
	var h held
	for i := range 50_000 {
		_, _ = fmt.Fprintf(&h, "environments/prod/networks.yaml:%d: CivoVpc network-%d is valid\n", 5*i+1, i)
	}
	const length = 50_000 * 65
	if kept := h.compressed.Cap() + h.end.Cap(); kept > length/4 {
		t.Errorf("%d bytes are kept of about %d", kept, length)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestHeldCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3 * longestEnd} {
		var h held
		for range n {
			_, _ = h.Write([]byte("a"))
		}
		if err := h.writeTo(full{}); err == nil || !strings.Contains(err.Error(), "no space") {
			t.Errorf("of %d bytes: got error %v", n, err)
		}
	}
}
