package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const repository = "../.."

// commandBlock is a block of commands of a page.
type commandBlock struct {
	page   string // from the root of the repository
	line   int    // of its first command
	script string
	// reason says why the block is not run; empty when it is.
	reason string
}

// notRun matches the line before a block that says why it is not run.
var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// commandBlocks are the blocks of a page that show commands: console, of whose lines those with a prompt are typed, sh and bash.
func commandBlocks(page, text string) []commandBlock {
	var blocks []commandBlock
	var current *commandBlock
	console, before := false, ""
	for i, line := range strings.Split(text, "\n") {
		language, opens := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case current != nil && opens:
			if current.script != "" {
				blocks = append(blocks, *current)
			}
			current = nil
		case current != nil && console:
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				current.script += typed + "\n"
			}
		case current != nil:
			current.script += line + "\n"
		case opens && slices.Contains([]string{"console", "sh", "bash"}, language):
			console = language == "console"
			current = &commandBlock{page: page, line: i + 2}
			if match := notRun.FindStringSubmatch(before); match != nil {
				current.reason = match[1]
			}
		case opens:
			current = &commandBlock{} // of another language: passed over
			console = true
		}
		before = line
	}
	return slices.DeleteFunc(blocks, func(b commandBlock) bool { return b.page == "" })
}

// pagesWithCommands are the pages whose commands are run, in the order in which a newcomer reads them.
func pagesWithCommands(t testing.TB) []string {
	t.Helper()
	pages := []string{"README.md", "docs/cli.md"}
	add := func(pattern string) {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			page, err := filepath.Rel(repository, path)
			if err != nil {
				t.Fatal(err)
			}
			if page = filepath.ToSlash(page); !slices.Contains(pages, page) {
				pages = append(pages, page)
			}
		}
	}
	for _, pattern := range []string{"docs/*.md", "examples/*.md", "examples/*/*.md", "examples/*/*/*.md", "iac/pulumi/*/*/README.md"} {
		add(pattern)
	}
	return pages
}

// allCommandBlocks are the blocks of all pages.
func allCommandBlocks(t testing.TB) []commandBlock {
	t.Helper()
	var blocks []commandBlock
	for _, page := range pagesWithCommands(t) {
		text, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, commandBlocks(page, string(text))...)
	}
	return blocks
}

func TestCommandBlocks(t *testing.T) {
	t.Parallel()
	text := "```console\n$ one\nits answer\n$ two\n```\n<!-- not run: it needs an account -->\n```sh\nthree\n```\n```text\n$ four\n```\n```console\nfive\n```\n" +
		"<!-- not run: stands too far away -->\n\n```bash\nsix\n```\n"
	want := []commandBlock{
		{page: "p", line: 2, script: "one\ntwo\n"}, {page: "p", line: 8, script: "three\n", reason: "it needs an account"},
		{page: "p", line: 19, script: "six\n"},
	}
	if got := commandBlocks("p", text); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestDocumentedCommands runs every command that a page shows on the emulated clouds, all with one state, or logs why it does not. A block
// runs in a shell of its own, in a folder that holds a copy of the examples. The first one, a newcomer's first steps, runs as it is printed,
// on a terminal where somebody answers; of the others, whatever asks is given --yes.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("these commands run the Pulumi engine: %v", err)
	}
	var running []commandBlock
	script := "copy-examples\nttyin -stdin answers\n"
	for _, block := range allCommandBlocks(t) {
		if block.reason != "" {
			t.Logf("%s:%d is not run: %s", block.page, block.line, block.reason)
			continue
		}
		script += fmt.Sprintf("# %s:%d\nrun-block %d\n", block.page, block.line, len(running))
		running = append(running, block)
	}
	if len(running) < 4 {
		t.Fatalf("%d blocks are run", len(running))
	}
	for _, typed := range []string{"planton apply -f cluster.yaml", "planton kubeconfig civokubernetesclusters/dev-cluster > config"} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(typed) + `( +#.*)?$`).MatchString(running[0].script) {
			t.Errorf("%s:%d: the first steps have no line %q", running[0].page, running[0].line, typed)
		}
	}
	// What kubectl does with the file, kubectl or not on this machine.
	script = strings.Replace(script, "run-block 0\n", "run-block 0\nstderr 'Apply this. .y/N.'\nreads-kubeconfig examples/one-cluster/config dev\n", 1)
	script += "-- answers --\ny\n"
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "documents.txt"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	params := scriptParams(directory, cli)
	params.Cmds["copy-examples"], params.Cmds["reads-kubeconfig"] = copyExamples, readsKubeconfig
	params.Cmds["run-block"] = func(ts *testscript.TestScript, _ bool, args []string) {
		i, err := strconv.Atoi(args[0])
		ts.Check(err)
		before := emulated + answered
		if i == 0 {
			before = emulated
		}
		if err := ts.Exec("bash", "-o", "pipefail", "-c", before+running[i].script); err != nil {
			ts.Fatalf("%s:%d: %v\n%s", running[i].page, running[i].line, err, running[i].script)
		}
	}
	testscript.Run(t, params)
}

// copyExamples copies the examples, which commands may change or write beside.
func copyExamples(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.CopyFS(ts.MkAbs("examples"), os.DirFS(filepath.Join(repository, "examples"))))
}

// readsKubeconfig reads a kubeconfig as kubectl does, `reads-kubeconfig FILE CONTEXT`, and makes a client of it.
func readsKubeconfig(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reads-kubeconfig FILE CONTEXT")
	}
	file, err := clientcmd.Load([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	ts.Check(err)
	if file.CurrentContext != args[1] {
		ts.Fatalf("the context is %s, want %s", file.CurrentContext, args[1])
	}
	if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
		ts.Fatalf("the certificate of the user: %v", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(config.CAData) || !strings.HasPrefix(config.Host, "https://") {
		ts.Fatalf("there is no way to tell who answers at %s", config.Host)
	}
	_, err = rest.HTTPClientFor(config)
	ts.Check(err)
}

// emulated keeps commands from the real clouds, and tells where a line is passed over because its program is not on this machine.
const emulated = `set -eu
export PLANTON_CLOUD=emulated
for program in dot jq kubectl; do
	command -v $program >/dev/null || eval "$program() { cat >/dev/null; echo 'not run: there is no $program on this machine' >&2; }"
done
`

// answered answers what planton asks, where there is no terminal.
const answered = `planton() {
	case ${1-} in
	apply | up | destroy | delete) command planton "$@" --yes ;;
	*) command planton "$@" ;;
	esac
}
`

// TestEveryExampleIsApplied: a folder of manifests under examples/ has a README, and is applied by a block of a page that is run, or by
// demo.sh, which CI runs, or by the test that is named here. Of a folder with overlays one is applied at least, and the others are validated.
func TestEveryExampleIsApplied(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{
		"examples/civo/by-id": "its networks are named by id: internal/endtoend/civo_test.go applies it in a network that it makes",
	}
	demo, err := os.ReadFile(filepath.Join(repository, "examples", "demo.sh"))
	if err != nil {
		t.Fatal(err)
	}
	applied := string(demo)
	for _, block := range allCommandBlocks(t) {
		if block.reason == "" {
			applied += "\n" + block.script
		}
	}
	folders := 0
	readme := func(path, folder string) {
		if _, err := os.Stat(filepath.Join(path, "README.md")); err != nil {
			t.Errorf("%s has no README.md", folder)
		}
	}
	err = filepath.WalkDir(filepath.Join(repository, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(path, repository+string(filepath.Separator)))
		if overlays, err := os.ReadDir(filepath.Join(path, "overlays")); err == nil {
			folders++
			readme(path, folder)
			built := "--kustomize-dir " + regexp.QuoteMeta(folder) + " --overlay "
			if !regexp.MustCompile(`planton apply .*` + built).MatchString(applied) {
				t.Errorf("no overlay of %s is applied: show the command in its README.md", folder)
			}
			for _, overlay := range overlays {
				if !regexp.MustCompile(`planton (apply|validate) .*` + built + regexp.QuoteMeta(overlay.Name()) + `(\s|$)`).MatchString(applied) {
					t.Errorf("the overlay %s of %s is neither applied nor validated: show the command in its README.md", overlay.Name(), folder)
				}
			}
			return filepath.SkipDir
		}
		manifests, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return err
		}
		manifests = slices.DeleteFunc(manifests, func(name string) bool { return filepath.Base(name) == "Pulumi.yaml" })
		if len(manifests) == 0 {
			return nil
		}
		folders++
		if reason := elsewhere[folder]; reason != "" {
			t.Logf("%s: %s", folder, reason)
			return nil
		}
		readme(path, folder)
		whole := regexp.MustCompile(`planton apply .*-f ` + regexp.QuoteMeta(folder) + `(\s|$)`)
		inside := regexp.MustCompile(`(?m)^cd ` + regexp.QuoteMeta(folder) + `$`)
		if !whole.MatchString(applied) && !inside.MatchString(applied) {
			t.Errorf("%s is applied nowhere: show the command in its README.md", folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if folders < 7 {
		t.Errorf("%d folders were found", folders)
	}
}
