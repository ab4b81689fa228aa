// Package docs_test keeps the hand-written pages true: their examples are valid, and they leave nothing out.
package docs_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/kustomize/api/konfig"

	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider" // the message of the credentials file
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/kustomize"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// block is a fenced block of a page.
type block struct {
	line int // of the page, at which the block's text starts
	text string
}

// blocks returns the fenced blocks of a language.
func blocks(page, language string) []block {
	var found []block
	var current *block
	for i, line := range strings.Split(page, "\n") {
		switch {
		case current == nil && line == "```"+language:
			current = &block{line: i + 2}
		case current != nil && line == "```":
			found = append(found, *current)
			current = nil
		case current != nil:
			current.text += line + "\n"
		}
	}
	return found
}

// messageName matches the first line of a block that is another message than a manifest: "# civo.yaml, a CivoProviderConfig".
var messageName = regexp.MustCompile(`^# .*\ba ([A-Z][A-Za-z]+)\n`)

// Every YAML block of every page is a valid manifest, or the message that its first line names, or a fault plan when that line is
// "# faults.yaml", unless it says that it is a fragment.
func TestExamplesInPagesAreValid(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	readmes, err := filepath.Glob("../iac/pulumi/*/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(append(pages, readmes...), "../README.md") {
		for _, b := range blocks(read(t, page), "yaml") {
			if strings.HasPrefix(b.text, "# fragment\n") {
				continue
			}
			checked++
			text := []byte(strings.Repeat("\n", b.line-1) + b.text)
			var err error
			if strings.HasPrefix(b.text, "# faults.yaml\n") {
				_, err = fault.Parse(page, text)
			} else if named := messageName.FindStringSubmatch(b.text); named != nil {
				err = manifest.Decode(page, text, newMessage(t, named[1]))
			} else {
				_, err = manifest.Parse(page, text)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	if checked < len(kinds.All()) {
		t.Errorf("%d examples were found, want one a kind at least", checked)
	}
}

// newMessage returns an empty message of ours by its short name.
func newMessage(t *testing.T, name string) proto.Message {
	t.Helper()
	var found proto.Message
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		d := mt.Descriptor()
		if string(d.Name()) == name && strings.HasPrefix(string(d.FullName()), "org.project_planton.") {
			found = mt.New().Interface()
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("there is no message %s", name)
	}
	return found
}

// Every manifest under examples/ is valid, and so is what every kustomization there is built into. A base with overlays is valid too, so
// that an overlay changes it and does not mend it.
func TestExampleFilesAreValid(t *testing.T) {
	t.Parallel()
	checked, built := 0, 0
	err := filepath.WalkDir("../examples", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.HasPrefix(entry.Name(), "Pulumi.") {
			return err
		}
		if entry.Name() == konfig.DefaultKustomizationFileName() {
			built++
			from, err := kustomize.Build(filepath.Dir(path), "")
			if err != nil {
				t.Error(err)
				return nil
			}
			if _, err := manifest.Parse(path+" (built)", from.Data); err != nil {
				t.Error(err)
			}
			return nil
		}
		checked++
		if _, err := manifest.Parse(path, []byte(read(t, path))); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 || built < 4 {
		t.Errorf("%d manifests and %d kustomizations were found", checked, built)
	}
}

// The environments of examples/environments have stacks of their own, and names of their own at the cloud; region, size and version are
// what they are there to differ in, and what README.md says they are.
func TestEnvironmentsAreApart(t *testing.T) {
	t.Parallel()
	const root = "../examples/environments"
	page := read(t, root+"/README.md")
	overlays, err := os.ReadDir(root + "/overlays")
	if err != nil {
		t.Fatal(err)
	}
	own, regions, sizes, versions := map[string]string{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, overlay := range overlays {
		built, err := kustomize.Build(root, overlay.Name())
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := manifest.Parse(built.File, built.Data)
		if err != nil {
			t.Fatal(err)
		}
		members, err := provision.Order(manifests)
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range members {
			names := []string{member.Identity.String()}
			switch target := member.Manifest.Target.(type) {
			case *civovpcv1.CivoVpc:
				names = append(names, "network "+target.GetSpec().GetNetworkName())
			case *civokubernetesclusterv1.CivoKubernetesCluster:
				spec := target.GetSpec()
				pool := spec.GetDefaultNodePool()
				names = append(names, "cluster "+spec.GetClusterName())
				regions[spec.GetRegion().String()], sizes[pool.GetSize()], versions[spec.GetKubernetesVersion()] = true, true, true
				row := fmt.Sprintf("| [%s](overlays/%[1]s/kustomization.yaml) | %s | %s | %d × %s |", overlay.Name(), spec.GetRegion(),
					spec.GetKubernetesVersion(), pool.GetNodeCount(), pool.GetSize())
				if !strings.Contains(page, row) {
					t.Errorf("README.md has no row %s", row)
				}
			default:
				t.Errorf("%s: a %T, whose name at the cloud is not looked at", built.File, target)
			}
			for _, name := range names {
				if other := own[name]; other != "" {
					t.Errorf("%s and %s both have the %s", other, overlay.Name(), name)
				}
				own[name] = overlay.Name()
			}
		}
	}
	if len(overlays) < 3 || len(regions) < 2 || len(sizes) < 2 || len(versions) < 2 {
		t.Errorf("%d environments have %d regions, %d sizes and %d versions", len(overlays), len(regions), len(sizes), len(versions))
	}
}

// Every stack input that lies beside a program is valid, so that `pulumi up` works as it stands.
func TestStackInputsAreValid(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "iac", "pulumi", kind.Provider, strings.ToLower(kind.Name), "stack-input.json")
			if err := manifest.Decode(path, []byte(read(t, path)), kind.NewStackInput()); err != nil {
				t.Error(err)
			}
		})
	}
}

// section returns the part of a page under a heading of the second level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("specs.md has no section %q", heading)
	}
	before, _, _ := strings.Cut(rest, "\n## ")
	return before
}

// specs.md names every field of each kind's spec in a table, shows it in the example unless the platform cannot honour it, and
// names every output.
func TestSpecsNameEveryField(t *testing.T) {
	t.Parallel()
	page := read(t, "specs.md")
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			text := section(t, page, kind.Name)
			fields := kind.NewTarget().ProtoReflect().Descriptor().Fields()
			for name, path := range specFields(fields.ByName("spec").Message(), "spec", map[string]string{}) {
				if !strings.Contains(text, "`"+name+"`") {
					t.Errorf("%s: `%s` is not named", path, name)
				}
			}
			for _, output := range kind.OutputFields() {
				if !strings.Contains(text, "`"+output+"`") {
					t.Errorf("the output `%s` is not named", output)
				}
			}
			if len(blocks(text, "yaml")) == 0 {
				t.Error("there is no example")
			}
		})
	}
}

// specFields collects the fields of a message and of the messages in it by their JSON names, each with its path. What is described
// once for all kinds, references and taints, is not looked into.
func specFields(md protoreflect.MessageDescriptor, path string, into map[string]string) map[string]string {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		at := path + "." + string(fd.Name())
		into[fd.JSONName()] = at
		if fd.Message() != nil && !fd.IsMap() && fd.Message().Name() != "StringValueOrRef" && !strings.HasSuffix(string(fd.Message().Name()), "Taint") {
			specFields(fd.Message(), at, into)
		}
	}
	return into
}

// ruleID matches what the tables of specs.md give as rule ids: words in backticks in parentheses.
var ruleID = regexp.MustCompile("\\((`[a-z_.]+`(?:, `[a-z_.]+`)*)\\)")

// The rule ids that specs.md names exist in the protos.
func TestSpecsNameRulesThatExist(t *testing.T) {
	t.Parallel()
	protos := ""
	err := filepath.WalkDir("../apis", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".proto" {
			protos += read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, match := range ruleID.FindAllStringSubmatch(read(t, "specs.md"), -1) {
		for _, id := range strings.Split(match[1], ", ") {
			id = strings.Trim(id, "`")
			named++
			if id != "string.const" && !strings.Contains(protos, fmt.Sprintf("id: %q", id)) {
				t.Errorf("specs.md names the rule %q, which no proto has", id)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d rules were found in specs.md", named)
	}
}

// Each requirement of both go.mods that the project makes itself is named in dependencies.md, and that page names none that they lack.
func TestDependenciesAreNamed(t *testing.T) {
	t.Parallel()
	page := read(t, "dependencies.md")
	required, direct := map[string]bool{}, 0
	files := read(t, "../go.mod") + "\n" + read(t, "../karpenter-provider-cloudstack/go.mod")
	scanner := bufio.NewScanner(strings.NewReader(files))
	for inBlock := false; scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case line == "require (":
			inBlock = true
			continue
		case line == ")":
			inBlock = false
			continue
		case strings.HasPrefix(line, "require "):
			line = strings.TrimPrefix(line, "require ")
		case !inBlock:
			continue
		}
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		module := strings.Fields(line)[0]
		required[module] = true
		if strings.HasSuffix(line, "// indirect") {
			continue
		}
		direct++
		if !strings.Contains(page, "| `"+module+"` |") {
			t.Errorf("docs/dependencies.md does not name %s, with the reason for it", module)
		}
	}
	if direct < 10 {
		t.Fatalf("%d direct requirements were found in go.mod", direct)
	}
	library, _, _ := strings.Cut(page, "\n## Tools")
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(library, -1) {
		if !required[match[1]] {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not require", match[1])
		}
	}
}

// markdownLink matches a link: to a file, to a heading of it, or to a heading of the page itself.
var markdownLink = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// allPages are the pages of the repository.
func allPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"../README.md"}
	for _, folder := range []string{".", "../examples", "../iac", "../karpenter-provider-cloudstack"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
				pages = append(pages, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// anchors are what links can name of a page: its headings, written as GitHub writes them.
func anchors(page string) map[string]bool {
	found, fenced := map[string]bool{}, false
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading := strings.TrimLeft(line, "#")
		if fenced || heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		found["#"+strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(heading))] = true
	}
	return found
}

// Links of every page to pages, headings, files and folders lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	links, headings := 0, 0
	for _, page := range allPages(t) {
		for _, match := range markdownLink.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, "://") || target+anchor == "" {
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, target)
				continue
			}
			if anchor != "" {
				headings++
				if !anchors(read(t, file))[anchor] {
					t.Errorf("%s: %s has no heading %s", page, file, anchor)
				}
			}
		}
	}
	if links < 100 || headings < 10 {
		t.Errorf("%d links were found, %d of them to headings", links, headings)
	}
}

// Every example that has a page of its own is in the table of examples/README.md, where a stranger looks for it.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	list, listed := read(t, "../examples/README.md"), 0
	for _, page := range allPages(t) {
		folder, ok := strings.CutPrefix(filepath.ToSlash(filepath.Dir(page)), "../examples/")
		if !ok {
			continue
		}
		listed++
		if link := fmt.Sprintf("[%s](%[1]s)", folder); !strings.Contains(list, link) {
			t.Errorf("examples/README.md has no link %s", link)
		}
	}
	if listed < 7 {
		t.Errorf("%d examples were found", listed)
	}
}

// walkthroughRow is a row of a walkthrough: a linked file, and the function to start reading at.
var walkthroughRow = regexp.MustCompile("(?m)^\\| \\[([^\\]]+)\\]\\(([^)]+)\\) \\| `([A-Za-z]+)` \\|")

// The functions of the walkthroughs stand in the files that they name.
func TestWalkthroughNamesFunctionsThatExist(t *testing.T) {
	t.Parallel()
	var rows [][]string
	for page, least := range map[string]int{"architecture.md": 20, "karpenter.md": 15} {
		found := walkthroughRow.FindAllStringSubmatch(read(t, page), -1)
		if len(found) < least {
			t.Errorf("%d rows were found in %s", len(found), page)
		}
		rows = append(rows, found...)
	}
	for _, row := range rows {
		text, link, function := row[1], row[2], row[3]
		if link != "../"+text {
			t.Errorf("the link of %s leads to %s", text, link)
		}
		declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + function + `\(`)
		if !declared.MatchString(read(t, link)) {
			t.Errorf("%s has no function %s", text, function)
		}
	}
}

// Every folder of the library and of the commands is a room of architecture.md.
func TestEveryRoomIsNamed(t *testing.T) {
	t.Parallel()
	page, _, _ := strings.Cut(read(t, "architecture.md"), "\n## How one apply")
	for _, parent := range []string{"pkg", "internal", "cmd"} {
		entries, err := os.ReadDir(filepath.Join("..", parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			room := parent + "/" + entry.Name()
			if parent == "cmd" {
				room = "`" + entry.Name() + "`"
			}
			if entry.IsDir() && !strings.Contains(page, room) {
				t.Errorf("architecture.md does not name %s", room)
			}
		}
	}
}
