package docs_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/reachability"
)

var update = flag.Bool("update", false, "write what is generated in the documents")

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The table of options is that of the program.
func TestOptions(t *testing.T) {
	const path, from, to = "INSTALLATION.md", "<!-- options: go test ./docs -update writes them -->\n", "<!-- end of options -->"
	var table strings.Builder
	table.WriteString("| Flag, variable | Default | |\n|---|---|---|\n")
	for _, one := range options.References() {
		byDefault := "–"
		if one.Default != "" {
			byDefault = "`" + one.Default + "`"
		}
		fmt.Fprintf(&table, "| `--%s` `%s` | %s | %s |\n", one.Flag, one.Environment, byDefault, one.Usage)
	}
	before, rest, ok := strings.Cut(read(t, path), from)
	_, after, end := strings.Cut(rest, to)
	if !ok || !end {
		t.Fatal("the marks of the table are gone")
	}
	fresh := before + from + table.String() + to + after
	if *update {
		if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != fresh {
		t.Error("the options in INSTALLATION.md are not those of the program: go test ./docs -update")
	}
}

// Each metric of the code is documented, and none that there is not.
func TestMetrics(t *testing.T) {
	named := regexp.MustCompile(`(?:Subsystem: "cloudstack", Name: |= counter\()"([a-z_]+)"`)
	code := map[string]bool{}
	err := filepath.WalkDir("../pkg", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, match := range named.FindAllStringSubmatch(read(t, path), -1) {
			code[match[1]] = true
		}
		return nil
	})
	if err != nil || len(code) < 10 {
		t.Fatalf("%d metrics in the code, %v", len(code), err)
	}
	text := read(t, "METRICS.md")
	_, table, _ := strings.Cut(text, "|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for _, name := range strings.Fields(first) {
			documented[strings.Trim(name, "`")] = true
		}
	}
	for name := range code {
		if !documented[name] {
			t.Errorf("METRICS.md does not have %s", name)
		}
	}
	for name := range documented {
		if !code[name] {
			t.Errorf("METRICS.md has %s, the code has not", name)
		}
	}
	// Those that have the names of other providers.
	shared := 0
	for _, match := range regexp.MustCompile(`NewDesc\("([a-z_]+)"`).FindAllStringSubmatch(read(t, "../pkg/providers/instancetype/metrics.go"), -1) {
		if shared++; !strings.Contains(text, "| `"+match[1]+"` |") {
			t.Errorf("METRICS.md does not have %s", match[1])
		}
	}
	if shared != 2 {
		t.Errorf("%d metrics with the names of other providers", shared)
	}
	for _, match := range regexp.MustCompile(`karpenter_cloudstack_([a-z_]+)[{)\[]`).FindAllStringSubmatch(text, -1) {
		if !code[match[1]] {
			t.Errorf("an alert is on %s, which is no metric", match[1])
		}
	}
	if !strings.Contains(text, "`"+reachability.Path+"`") {
		t.Errorf("METRICS.md does not have %s", reachability.Path)
	}
}

// Links of the documents that this file is for lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, path := range []string{"INSTALLATION.md", "RELEASE.md", "VERSIONING.md", "METRICS.md", "../examples/README.md"} {
		for _, match := range link.FindAllStringSubmatch(read(t, path), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if !strings.Contains(read(t, "../INSTALLATION.md"), "](docs/INSTALLATION.md)") {
		t.Error("INSTALLATION.md of the module does not lead to the one in docs")
	}
}

// Blocks of YAML can be read, and the values that INSTALLATION.md names are in the chart.
func TestBlocksAndValues(t *testing.T) {
	for _, path := range []string{"INSTALLATION.md", "METRICS.md", "../examples/README.md"} {
		for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, path), -1) {
			var into map[string]any
			if err := yaml.UnmarshalStrict([]byte(match[1]), &into); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "../charts/karpenter-cloudstack/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?:`|--set )((?:settings|cloudstack|networkPolicy|bootstrapTokens|image)\\.[a-zA-Z.]+)").FindAllStringSubmatch(read(t, "INSTALLATION.md"), -1) {
		var at any = values
		for _, key := range strings.Split(match[1], ".") {
			below, ok := at.(map[string]any)
			if !ok || below[key] == nil {
				t.Errorf("the chart has no value %s", match[1])
				break
			}
			at = below[key]
		}
	}
}

// The images are built for several architectures at once without emulation: what compiles runs on the machine that builds, and compiles for
// what docker buildx names; where nobody names anything, for this machine.
func TestImagesAreCrossCompiled(t *testing.T) {
	for file, builds := range map[string]int{"../Dockerfile": 1, "../../Dockerfile": 2, "../../Dockerfile.nodepools-server": 2} {
		text := strings.ReplaceAll(read(t, file), "\\\n", "")
		first, last, found := strings.Cut(text, "\nFROM ")
		stage, last, two := strings.Cut(last, "\nFROM ")
		if !found || !two {
			t.Fatalf("%s does not have two stages", file)
		}
		if !strings.Contains(first, "docker buildx build --platform linux/amd64,linux/arm64 ") {
			t.Errorf("%s does not say how an image for several architectures is built", file)
		}
		if !strings.HasPrefix(stage, "--platform=$BUILDPLATFORM $BUILD_IMAGE AS build\n") {
			t.Errorf("%s compiles on a machine that is emulated", file)
		}
		if strings.HasPrefix(last, "--platform") || regexp.MustCompile(`(?m)^RUN `).MatchString(last) {
			t.Errorf("%s: the last stage is not that of the architecture, or runs something of it", file)
		}
		// Arguments are known from where they are declared on.
		declared := false
		seen := 0
		for line := range strings.Lines(stage) {
			switch line = strings.TrimSpace(line); {
			case line == "ARG TARGETARCH":
				declared = true
			case strings.HasPrefix(line, "RUN "):
				for command := range strings.SplitSeq(line, "&&") {
					if !strings.Contains(command, "go build") {
						continue
					}
					seen++
					before, _, _ := strings.Cut(line, strings.TrimSpace(command))
					if told := "GOOS=$TARGETOS GOARCH=$TARGETARCH "; !declared || !strings.Contains(before+command, told) {
						t.Errorf("%s: this compiles for the machine that builds: %s", file, strings.TrimSpace(command))
					}
				}
			}
		}
		if seen != builds {
			t.Errorf("%s: %d programs are compiled, want %d", file, seen, builds)
		}
		if !strings.Contains(stage, "\nARG TARGETOS=linux\n") {
			t.Errorf("%s: TARGETOS has no default", file)
		}
	}
	if !strings.Contains(read(t, "RELEASE.md"), "docker buildx build --platform linux/amd64,linux/arm64 ") {
		t.Error("RELEASE.md does not tell how the image is built")
	}
}
