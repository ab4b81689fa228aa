package schema_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/schema"
)

var update = flag.Bool("update", false, "write the schemas instead of comparing them")

const schemas = "../../schemas"

// TestSchemasAreFresh: the files of schemas/ are what the protos say, and there are no others.
func TestSchemasAreFresh(t *testing.T) {
	t.Parallel()
	want := map[string][]byte{}
	for _, kind := range kinds.All() {
		text, err := schema.JSONSchema(kind)
		if err != nil {
			t.Fatal(err)
		}
		want[strings.ToLower(kind.Name)+".schema.json"] = text
	}
	text, err := schema.AllJSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	want["all.schema.json"] = text

	for name, text := range want {
		path := filepath.Join(schemas, name)
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, text) {
			t.Errorf("schemas/%s is stale: run make generate and commit", name)
		}
	}
	entries, err := os.ReadDir(schemas)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, ok := want[entry.Name()]; !ok && entry.Name() != "events.schema.json" { // which is made by hand
			t.Errorf("schemas/%s is of no kind: remove it", entry.Name())
		}
	}
}
