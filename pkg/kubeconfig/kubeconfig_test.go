package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"
)

// own is a cluster's own kubeconfig, as a cloud hands it out.
const own = `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://198.18.0.1:6443
  name: acme
contexts:
- context: {cluster: acme, user: acme}
  name: acme
current-context: acme
users:
- name: acme
  user: {token: hunter2hunter2}
`

func entry(changes ...func(*Entry)) Entry {
	e := Entry{Name: "dev", Owner: "organization/civokubernetescluster/dev", Kubeconfig: []byte(own)}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func load(t interface {
	Helper()
	Fatalf(string, ...any)
}, content []byte) *api.Config {
	t.Helper()
	config, err := clientcmd.Load(content)
	if err != nil {
		t.Fatalf("kubectl cannot read it: %v\n%s", err, content)
	}
	return config
}

func TestMerge(t *testing.T) {
	t.Parallel()
	foreign := func(replace ...string) string {
		return strings.NewReplacer(append(replace, "hunter2hunter2", "theirs")...).Replace(own)
	}
	merged, err := merge(nil, entry())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		old    string
		entry  Entry
		// current is the current context that follows.
		current string
		// foreign is the section whose entry is in the way.
		foreign string
		err     string
		check   func(*api.Config) bool
	}{
		{reason: "a kubeconfig without a current context gets one: kubectl would look for a cluster on this machine", entry: entry(), current: "dev"},
		{reason: "as kubectl writes an empty one", old: "apiVersion: v1\nclusters: null\ncontexts: []\nkind: Config\nusers: null\n", entry: entry(), current: "dev"},
		{reason: "the current context is the user's choice", old: own, entry: entry(), current: "acme"},
		{reason: "unless it is asked for", old: own, entry: entry(func(e *Entry) { e.SetCurrent = true }), current: "dev"},
		{reason: "a context that somebody else made", old: foreign("name: acme", "name: dev", "cluster: acme", "cluster: dev", "user: acme", "user: dev"), entry: entry(), foreign: "cluster"},
		{reason: "a user alone is in the way too", old: "users:\n- name: dev\n  user: {token: theirs}\n", entry: entry(), foreign: "user"},
		{reason: "and a context alone", old: "contexts:\n- name: dev\n  context: {cluster: a, user: b}\n", entry: entry(), foreign: "context"},
		{
			reason: "what was written for another cluster of that name, such as an emulated one, is foreign", old: string(merged),
			entry: entry(func(e *Entry) { e.Owner = "another" }), foreign: "cluster",
		},
		{
			reason: "the cluster was made anew: its entries are its own", old: string(merged), current: "dev",
			entry: entry(func(e *Entry) { e.Kubeconfig = []byte(strings.ReplaceAll(own, "198.18.0.1", "198.18.0.2")) }),
			check: func(c *api.Config) bool {
				return c.Clusters["dev"].Server == "https://198.18.0.2:6443" && len(c.Clusters) == 1
			},
		},
		{
			reason: "a namespace that the user chose for the context stays",
			old:    strings.Replace(string(merged), "{cluster: dev, ", "{namespace: shop, cluster: dev, ", 1), entry: entry(), current: "dev",
			check: func(c *api.Config) bool { return c.Contexts["dev"].Namespace == "shop" },
		},
		{
			reason: "JSON is YAML", old: `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a"}}],"contexts":[],"users":[]}`,
			entry: entry(), current: "dev", check: func(c *api.Config) bool { return c.Clusters["a"].Server == "https://a" },
		},
		{
			reason: "a cluster's own kubeconfig without a current context: its first one", current: "dev",
			entry: entry(func(e *Entry) { e.Kubeconfig = []byte(strings.Replace(own, "current-context: acme\n", "", 1)) }),
		},
		{reason: "no YAML; the error carries none of the text", old: "token: hunter2\n\tx: }", entry: entry(), err: "it is not valid YAML"},
		{reason: "a file that is no kubeconfig stays as it is", old: "kind: Deployment\n", entry: entry(), err: "it is not a kubeconfig"},
		{reason: "a list is none either", old: "- a\n", entry: entry(), err: "it is not a kubeconfig"},
		{reason: "kubectl would not see what is in the second document", old: own + "---\n" + own, entry: entry(), err: "several YAML documents"},
		{reason: "a section that is no list", old: "clusters: {a: b}\n", entry: entry(), err: "its clusters are no list"},
		{
			reason: "the cluster's own is broken; the error carries none of it", err: "the kubeconfig of the cluster: ",
			entry: entry(func(e *Entry) {
				e.Kubeconfig = []byte(strings.Replace(own, "name: acme\n  user", "name: hunter2\n  user", 1))
			}),
		},
		{reason: "the cluster has none yet", entry: entry(func(e *Entry) { e.Kubeconfig = nil }), err: "the kubeconfig of the cluster: it has no contexts"},
	}
	for _, test := range tests {
		got, err := merge([]byte(test.old), test.entry)
		var taken *ForeignError
		switch {
		case test.foreign != "":
			if !errors.As(err, &taken) || taken.Section != test.foreign {
				t.Errorf("%s: got %v", test.reason, err)
			}
			continue
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v", test.reason, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		config := load(t, got)
		context := config.Contexts[test.entry.Name]
		if config.CurrentContext != test.current || context == nil || context.Cluster != test.entry.Name || context.AuthInfo != test.entry.Name ||
			config.AuthInfos[test.entry.Name].Token != "hunter2hunter2" || string(config.Clusters[test.entry.Name].CertificateAuthorityData) != "CA" ||
			test.check != nil && !test.check(config) {
			t.Errorf("%s: got\n%s", test.reason, got)
		}
		again, err := merge(got, test.entry)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: a second merge gives %v\n%s", test.reason, err, cmp.Diff(string(got), string(again)))
		}
	}
}

// TestOthersStay: comments and fields that nobody here knows are where they were.
func TestOthersStay(t *testing.T) {
	t.Parallel()
	old := "# mine\napiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://a # the old one\n    next-years-field: {a: 1}\n  name: a\ncontexts: []\nusers: []\npreferences: {}\n"
	got, err := merge([]byte(old), entry())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# mine\n", "    server: https://a # the old one\n    next-years-field: {a: 1}\n  name: a\n", "preferences: {}\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// TestMarkSurvivesKubectl: kubectl, which writes the file anew, keeps the mark.
func TestMarkSurvivesKubectl(t *testing.T) {
	t.Parallel()
	merged, err := merge([]byte(own), entry())
	if err != nil {
		t.Fatal(err)
	}
	written, err := clientcmd.Write(*load(t, merged))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(written, entry()); err != nil {
		t.Error(err)
	}
	var foreign *ForeignError
	if _, err := merge(written, entry(func(e *Entry) { e.Owner = "another" })); !errors.As(err, &foreign) {
		t.Errorf("got %v, want a *ForeignError", err)
	}
}

// TestMergeKeepsEverythingElse: whatever is in a kubeconfig, kubectl and any other reader find everything else as it was.
func TestMergeKeepsEverythingElse(t *testing.T) {
	t.Parallel()
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"dev", "acme", "a: b", "#", "null", "~", "true", "1e3", "0x1", "2026-01-01", "'", `"`, "- x", "*a", "&a", "!!str", " ", "\n", "\t", "é\u2028", "<<", "=", "|", "a\nb\n"}),
		// What YAML cannot hold, kubectl cannot write.
		rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs), 1, 12, -1),
	)
	value := rapid.Custom(func(t *rapid.T) *api.Config {
		config := api.NewConfig()
		config.CurrentContext = rapid.OneOf(rapid.Just(""), word).Draw(t, "current")
		for _, name := range rapid.SliceOfN(word, 0, 4).Draw(t, "clusters") {
			config.Clusters[name] = &api.Cluster{
				Server: word.Draw(t, "server"), CertificateAuthorityData: []byte(word.Draw(t, "ca")), InsecureSkipTLSVerify: rapid.Bool().Draw(t, "insecure"),
			}
		}
		for _, name := range rapid.SliceOfN(word, 0, 4).Draw(t, "users") {
			config.AuthInfos[name] = &api.AuthInfo{Token: word.Draw(t, "token"), Username: word.Draw(t, "username")}
			if rapid.Bool().Draw(t, "exec") {
				config.AuthInfos[name].Exec = &api.ExecConfig{
					Command: word.Draw(t, "command"), Args: rapid.SliceOfN(word, 0, 3).Draw(t, "args"), APIVersion: "client.authentication.k8s.io/v1",
					InteractiveMode: api.IfAvailableExecInteractiveMode,
				}
			}
		}
		for _, name := range rapid.SliceOfN(word, 0, 4).Draw(t, "contexts") {
			config.Contexts[name] = &api.Context{Cluster: word.Draw(t, "cluster"), AuthInfo: word.Draw(t, "user"), Namespace: word.Draw(t, "namespace")}
		}
		return config
	})
	rapid.Check(t, func(t *rapid.T) {
		config := value.Draw(t, "kubeconfig")
		old, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatalf("write: %v", err)
		}
		if rapid.Bool().Draw(t, "written by another program") { // other quotes, another indent, another order of keys
			var tree any
			if err := yaml.Unmarshal(old, &tree); err != nil {
				t.Fatalf("read: %v", err)
			}
			if old, err = yaml.Marshal(tree); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		before := load(t, old)
		e := entry(func(e *Entry) { e.SetCurrent = rapid.Bool().Draw(t, "set current") })
		got, err := merge(old, e)
		_, cluster := before.Clusters[e.Name]
		_, user := before.AuthInfos[e.Name]
		_, context := before.Contexts[e.Name]
		var foreign *ForeignError
		if cluster || user || context {
			if !errors.As(err, &foreign) {
				t.Fatalf("got %v, want a *ForeignError", err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, old)
		}
		after := load(t, got)
		if after.Contexts[e.Name] == nil || after.Clusters[e.Name] == nil || after.AuthInfos[e.Name] == nil {
			t.Fatalf("the entry is not all there:\n%s", got)
		}
		want := before.CurrentContext
		if want == "" || e.SetCurrent {
			want = e.Name
		}
		if after.CurrentContext != want {
			t.Fatalf("the current context is %q, want %q", after.CurrentContext, want)
		}
		delete(after.Contexts, e.Name)
		delete(after.Clusters, e.Name)
		delete(after.AuthInfos, e.Name)
		after.CurrentContext = before.CurrentContext
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("%s\n%s\n%s", diff, old, got)
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(own))
	f.Add([]byte(""))
	f.Add([]byte("clusters: &a [{name: x, cluster: {<<: *b}}]\nusers: *a\n"))
	f.Add([]byte("{contexts: [], current-context: ''}"))
	f.Add([]byte(" 0:\n#")) // a comment that YAML writes one blank line further each time
	f.Add([]byte("clusters:\n- name: dev\n  cluster: {extensions: [{name: kubeconfig.project-planton.org/owner, extension: {owner: x}}]}\n"))
	f.Fuzz(func(t *testing.T, old []byte) {
		got, err := merge(old, entry())
		if err != nil {
			return
		}
		again, err := merge(got, entry())
		if err != nil || string(again) != string(got) {
			t.Errorf("a second merge gives %v\n%s", err, cmp.Diff(string(got), string(again)))
		}
	})
}

func TestMergeFile(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file := filepath.Join(directory, "folder", "config")
	merged, err := Merge(t.Context(), file, entry())
	if err != nil || !merged.Changed || merged.Backup != "" {
		t.Fatalf("a new file: got %+v, %v", merged, err)
	}
	first := check(t, file)

	if merged, err = Merge(t.Context(), file, entry()); err != nil || merged.Changed || merged.Backup != "" {
		t.Errorf("the same again: got %+v, %v", merged, err)
	}

	// A link stays one, and what others could read can be read by its owner alone.
	link := filepath.Join(directory, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	merged, err = Merge(t.Context(), link, entry(func(e *Entry) { e.Name = "another" }))
	if err != nil || !merged.Changed {
		t.Fatalf("through a link: got %+v, %v", merged, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became a file: %v", err)
	}
	if load(t, check(t, file)).Contexts["another"] == nil {
		t.Error("the file that the link points at was not written")
	}
	if got := check(t, merged.Backup); string(got) != string(first) {
		t.Errorf("the copy is not what was there before:\n%s", got)
	}

	// Where nothing may be written, nothing is.
	before := check(t, file)
	var foreign *ForeignError
	if _, err := Merge(t.Context(), file, entry(func(e *Entry) { e.Owner = "x" })); !errors.As(err, &foreign) {
		t.Errorf("a foreign one: got %v", err)
	}
	if string(check(t, file)) != string(before) {
		t.Error("the file was written all the same")
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the file and its copy there are %v, %v", entries, err)
	}
}

func TestMergeWaitsForTheLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		close(started)
		_, err := Merge(t.Context(), file, entry())
		done <- err
	}()
	<-started
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(3 * lockInterval):
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("it wrote under the lock of another: %v", err)
	}
	if err := os.Remove(file + ".lock"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	check(t, file)
}

// check reads a file that its owner alone may read.
func check(t *testing.T, file string) []byte {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %o, want 600", file, info.Mode().Perm())
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDefaultFile(t *testing.T) {
	t.Parallel()
	separator := string(os.PathListSeparator)
	tests := []struct {
		reason     string
		kubeconfig string
		want       string
	}{
		{reason: "as kubectl", want: filepath.Join("/home/me", ".kube", "config")},
		{reason: "the first one", kubeconfig: "/a" + separator + "/b", want: "/a"},
		{reason: "that is one", kubeconfig: separator + "/b", want: "/b"},
	}
	for _, test := range tests {
		got, err := DefaultFile(func(name string) string {
			return map[string]string{"KUBECONFIG": test.kubeconfig, "HOME": "/home/me"}[name]
		})
		if err != nil || got != test.want {
			t.Errorf("%s: got %s, %v", test.reason, got, err)
		}
	}
}
