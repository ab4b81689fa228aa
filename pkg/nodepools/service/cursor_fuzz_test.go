package service

import (
	"encoding/base64"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// FuzzCursor: a cursor is the place that it was made for, in a list with the same filters and in no other. What is taken of what somebody
// made up is a place, and its own cursor means the same.
func FuzzCursor(f *testing.F) {
	filter := filterHash(store.Query{Kind: store.NodePool})
	f.Add(writeCursor(1, filter), int64(1), "")
	f.Add(writeCursor(1<<63-1, filter), int64(1<<63-1), "Ready")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("1."+filter+".+7")), int64(0), "Failed")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("1."+filter+".-7")), int64(-7), "x")
	f.Add("", int64(3), "")
	f.Fuzz(func(t *testing.T, cursor string, sequence int64, phase string) {
		own := filterHash(store.Query{Kind: store.NodePool, Phase: phase})
		after, err := readCursor(writeCursor(sequence, own), own)
		if (err == nil) != (sequence >= 1) || err == nil && after != sequence {
			t.Errorf("the cursor of place %d is read as %d, %v", sequence, after, err)
		}
		other := filterHash(store.Query{Kind: store.Cluster, Phase: phase})
		if _, err := readCursor(writeCursor(max(sequence, 1), own), other); err == nil {
			t.Error("a cursor of pools is taken for clusters")
		}
		if after, err = readCursor(cursor, filter); err != nil {
			return
		}
		if again, err := readCursor(writeCursor(after, filter), filter); err != nil || again != after || after < 1 {
			t.Errorf("%q is the place %d, whose own cursor is that of %d, %v", cursor, after, again, err)
		}
		if _, err := readCursor(cursor, other); err == nil {
			t.Errorf("%q is taken for two lists", cursor)
		}
	})
}
