package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/manifest"
)

// What a manifest costs in a file of few and of many.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "---\napiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: net-%d}\n"+
				"spec: {networkName: net-%d, region: fra1, ipRangeCidr: 10.10.0.0/22}\n", i, i)
		}
		data := []byte(text.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if read, err := manifest.Parse("bench.yaml", data); err != nil || len(read) != n {
					b.Fatal(len(read), err)
				}
			}
		})
	}
}
