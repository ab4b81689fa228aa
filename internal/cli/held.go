package cli

import (
	"bytes"
	"compress/flate"
	"io"

	"github.com/pkg/errors"
)

// held is text that is kept until it is known whether anybody wants it. Only its end is kept as it is, what is before it compressed: lines
// about many manifests are much alike.
type held struct {
	end        bytes.Buffer
	compressed bytes.Buffer
	compressor *flate.Writer // nil as long as all is in end
}

// longestEnd is how much is kept as it is, in bytes.
const longestEnd = 64 << 10

// Write implements io.Writer. It does not fail.
func (h *held) Write(text []byte) (int, error) {
	if h.end.Len() > 0 && h.end.Len()+len(text) > longestEnd {
		if h.compressor == nil {
			h.compressor, _ = flate.NewWriter(&h.compressed, flate.BestSpeed) // it fails for levels that do not exist
		}
		_, _ = h.end.WriteTo(h.compressor)
	}
	return h.end.Write(text)
}

// writeTo writes the text. Nothing can be added behind it.
func (h *held) writeTo(out io.Writer) error {
	if h.compressor != nil {
		_ = h.compressor.Close()
		if _, err := io.Copy(out, flate.NewReader(&h.compressed)); err != nil {
			return errors.Wrap(err, "write the result")
		}
	}
	_, err := h.end.WriteTo(out)
	return errors.Wrap(err, "write the result")
}
