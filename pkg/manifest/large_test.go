package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// Memory grows with the file, not with the square of its documents.
func TestManyDocuments(t *testing.T) {
	t.Parallel()
	const documents = 2000
	var text strings.Builder
	for i := range documents {
		fmt.Fprintf(&text, `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: net-%d}
spec: {networkName: net, region: lon1}
---
`, i)
	}
	manifests, err := Parse("many.yaml", []byte(text.String()))
	if err != nil || len(manifests) != documents {
		t.Fatalf("%d manifests, %v", len(manifests), err)
	}
	if last := manifests[documents-1].Source; last.Line != 5*(documents-1)+1 {
		t.Errorf("the last document is at line %d", last.Line)
	}
	for _, m := range manifests {
		if len(m.lines) != len(manifests[0].lines) || &m.lines[0] != &manifests[0].lines[0] {
			t.Fatalf("the lines of the file are kept more than once")
		}
	}
}
