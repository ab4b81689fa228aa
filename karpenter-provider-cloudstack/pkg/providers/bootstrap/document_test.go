package bootstrap

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// readConfig reads what cloud-init would: the files by their paths, and the commands. Anything else in the document is an error.
func readConfig(t testing.TB, text string) (map[string]string, [][]string) {
	t.Helper()
	body, ok := strings.CutPrefix(text, "#cloud-config\n")
	if !ok {
		t.Fatalf("no #cloud-config:\n%s", text)
	}
	var config cloudConfig
	if err := yaml.UnmarshalStrict([]byte(body), &config); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return lo.SliceToMap(config.WriteFiles, func(f file) (string, string) { return f.Path, f.Content }), config.RunCommand
}

// check renders a join whose names may be anything, and proves that each arrives as it was and nothing else does.
func check(t testing.TB, j join) {
	t.Helper()
	arguments := func(got []argument) map[string]string {
		return lo.SliceToMap(got, func(a argument) (string, string) { return a.Name, a.Value })
	}
	for mode, path := range map[csv1.BootstrapMode]string{csv1.BootstrapKubeadm: kubeadmFile, csv1.BootstrapK3s: k3sFile, csv1.BootstrapRKE2: rke2File} {
		j := j
		j.endpoint = lo.Ternary(mode == csv1.BootstrapKubeadm, "10.0.0.10:6443", "https://10.0.0.10:6443")
		text, err := j.cloudConfig(mode)
		if err != nil {
			continue // refused is as safe
		}
		files, commands := readConfig(t, text)
		if len(files) != 2 || !slices.EqualFunc(commands, [][]string{{"/bin/sh", scriptFile}}, slices.Equal[[]string]) {
			t.Fatalf("%s: files %v, commands %v", mode, lo.Keys(files), commands)
		}
		if other, _ := (join{}).script(mode); files[scriptFile] != other {
			t.Fatalf("%s: the script has something of the names:\n%s", mode, files[scriptFile])
		}
		if mode == csv1.BootstrapKubeadm {
			var got joinConfiguration
			if err := yaml.UnmarshalStrict([]byte(files[path]), &got); err != nil {
				t.Fatalf("%s: %v:\n%s", mode, err, files[path])
			}
			args := arguments(got.NodeRegistration.KubeletExtraArgs)
			if got.NodeRegistration.Name != j.nodeName || got.Discovery.BootstrapToken.Token != j.token ||
				args["node-labels"] != j.labels.String() || args["register-with-taints"] != j.taints.String() ||
				len(args) != len(j.kubelet)+3 {
				t.Fatalf("%s: other values than given: %+v", mode, got)
			}
			continue
		}
		var got agent
		if err := yaml.UnmarshalStrict([]byte(files[path]), &got); err != nil {
			t.Fatalf("%s: %v:\n%s", mode, err, files[path])
		}
		if got.NodeName != j.nodeName || got.Token != j.token || !slices.Equal(got.NodeLabels, pairs(j.labels)) ||
			!slices.Equal(got.NodeTaints, j.taints.list()) || len(got.KubeletValues) != len(j.kubelet)+1 {
			t.Fatalf("%s: other values than given: %+v", mode, got)
		}
	}
}

func joinOf(name, key, value, effect, token string) join {
	return join{
		nodeName: name, labels: Labels{key: value, "k": key}, kubelet: Arguments{"max-pods": value},
		taints:   Taints{{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}},
		caHashes: []string{"sha256:00"}, token: token, providerIDPrefix: DefaultProviderIDPrefix,
	}
}

// FuzzDocument: whatever a name, a label, a taint or a token is, it cannot break out of the document. Nothing checks them here: that
// they are checked before is not what this safety rests on.
func FuzzDocument(f *testing.F) {
	for _, seed := range nasty {
		f.Add(seed, seed, seed, seed, token)
	}
	f.Fuzz(func(t *testing.T, name, key, value, effect, token string) {
		for _, text := range []*string{&name, &key, &value, &effect, &token} {
			*text = strings.ToValidUTF8(*text, "?") // what comes from the API server is JSON
		}
		check(t, joinOf(name, key, value, effect, token))
	})
}

var nasty = []string{
	"", " ", "~", "null", "true", "no", "0x1F", "1e3", ".inf", "=", "<<", "- a", "a: b", "a #b", "#cloud-config\nruncmd: [reboot]", "'", `"`, `\`, "\\\"\n",
	"x\"\nruncmd:\n- reboot\n", "x\n  - y\n", "|\n a", ">-", "&a *a", "!!binary x", "{{ ds.meta_data }}", "{% raw %}", "\t", "\r\n", "\x00\x07", "\u0085\u2028\u2029",
	"é漢🚀", "@INSTANCE_ID@", "EOF\n", "$(reboot)", "`reboot`", "--karpenter-0", "%!s", strings.Repeat("long ", 500), "---\n", "...\n", "? a", "[a, b]", "{a: b}", "2001-01-01",
}

// TestDocumentHoldsAnything is the property of FuzzDocument for what is known to be nasty, in each place, and for mixtures of it.
func TestDocumentHoldsAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // to try, not to hide
	pick := func() string {
		return nasty[random.IntN(len(nasty))] + lo.Ternary(random.IntN(2) == 0, "", nasty[random.IntN(len(nasty))])
	}
	for _, one := range nasty {
		check(t, joinOf(one, one, one, one, token))
	}
	for range 200 {
		check(t, joinOf(pick(), pick(), pick(), pick(), token))
	}
}

// FuzzMerge: whatever the user's own user data is, ours is the last part, whole, and merged as it has to be; and the user's parts are as many as
// they were.
func FuzzMerge(f *testing.F) {
	const multipartBegin = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n"
	for _, seed := range nasty {
		f.Add("#!/bin/sh\n" + seed)
		f.Add(multipartBegin + "--b\nContent-Type: text/x-shellscript\n\n" + seed + "\n--b--\n")
		f.Add(multipartBegin + "--b\nContent-Type: text/plain\nX-" + seed + ": " + seed + "\n\nx\n--b--\n")
	}
	const ours = "#cloud-config\nruncmd:\n- [/bin/sh, /etc/karpenter/join.sh]\n"
	f.Fuzz(func(t *testing.T, userData string) {
		before, err := partsOf(userData)
		if err != nil {
			return // refused is as safe
		}
		document, err := merge(userData, ours)
		if err != nil {
			t.Fatalf("taken apart, and not put together: %v", err)
		}
		bodies, headers := parts(t, document)
		if len(bodies) != len(before)+1 {
			t.Fatalf("%d parts of %d and ours:\n%q", len(bodies), len(before), document)
		}
		last := len(bodies) - 1
		if bodies[last] != ours || headers[last]["type"] != "text/cloud-config" || headers[last]["merge"] != mergeType {
			t.Fatalf("our part is another one: %q, %v", bodies[last], headers[last])
		}
		for i, one := range before {
			if bodies[i] != one.body {
				t.Fatalf("the user's part is another one: %q, and not %q", bodies[i], one.body)
			}
		}
	})
}

// parts reads a MIME multipart document as cloud-init does.
func parts(t testing.TB, document string) (bodies []string, headers []map[string]string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(document))
	if err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return bodies, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		contentType, _, _ := strings.Cut(part.Header.Get("Content-Type"), ";")
		headers = append(headers, map[string]string{
			"type": contentType, "file": part.FileName(), "merge": part.Header.Get("Merge-Type"), "encoding": part.Header.Get("Content-Transfer-Encoding"),
		})
		bodies = append(bodies, string(body))
	}
}

func TestUserDataComesFirst(t *testing.T) {
	p := newProvider(Options{}, secret("join", "token", token))
	for name, test := range map[string]struct {
		userData string
		types    []string
		bodies   []string
	}{
		"a script":     {"#!/bin/sh\necho 1\n", []string{"text/x-shellscript"}, []string{"#!/bin/sh\necho 1\n"}},
		"cloud-config": {"#cloud-config\npackages: [nfs-common]\n", []string{"text/cloud-config"}, []string{"#cloud-config\npackages: [nfs-common]\n"}},
		"a boothook":   {"#cloud-boothook\n#!/bin/sh\ntrue\n", []string{"text/cloud-boothook"}, []string{"#cloud-boothook\n#!/bin/sh\ntrue\n"}},
		"Jinja":        {"## template: jinja\n#cloud-config\n{}\n", []string{"text/jinja2"}, []string{"## template: jinja\n#cloud-config\n{}\n"}},
		"an archive":   {"#cloud-config-archive\n[]\n", []string{"text/cloud-config-archive"}, []string{"#cloud-config-archive\n[]\n"}},
		"multipart": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/sh\necho 1\n--//\n" +
				"Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64\n\nI2Nsb3VkLWNvbmZpZwo=\n--//--\n",
			[]string{"text/x-shellscript", "text/cloud-config"}, []string{"#!/bin/sh\necho 1", "I2Nsb3VkLWNvbmZpZwo="},
		},
	} {
		n := modes()["k3s"]
		n.Spec.UserData = &test.userData
		bodies, headers := parts(t, render(t, p, request(n)))
		types := lo.Map(headers, func(h map[string]string, _ int) string { return h["type"] })
		if want := append(slices.Clone(test.types), "text/cloud-config"); !slices.Equal(types, want) {
			t.Errorf("%s: parts %v, not %v", name, types, want)
			continue
		}
		last := len(bodies) - 1
		if !slices.Equal(bodies[:last], test.bodies) {
			t.Errorf("%s: the user's parts are %q", name, bodies[:last])
		}
		// Appended: a runcmd of the user's runs before ours, and is not replaced by it.
		if headers[last]["merge"] != mergeType {
			t.Errorf("%s: our part is merged as %q", name, headers[last]["merge"])
		}
		readConfig(t, bodies[last])
	}
}

// TestScriptsRunBeforeTheJoin: cloud-init runs what is in its directory of scripts by name, and writes runcmd there as "runcmd".
func TestScriptsRunBeforeTheJoin(t *testing.T) {
	part := newPart("text/x-shellscript", "10-user-data.sh", "#!/bin/sh")
	_, parameters, err := mime.ParseMediaType(part.header.Get("Content-Disposition"))
	if err != nil || parameters["filename"] >= "runcmd" {
		t.Errorf("the script is named %q, and would run after runcmd (%v)", parameters["filename"], err)
	}
}

// TestBoundaryIsInNoPart: a part with the boundary of another document in it stays one part.
func TestBoundaryIsInNoPart(t *testing.T) {
	p := newProvider(Options{}, secret("join", "token", token))
	n := modes()["k3s"]
	n.Spec.UserData = lo.ToPtr("#!/bin/sh\ntrue\n")
	document := render(t, p, request(n))
	// Readers of MIME differ in which ends of lines they take before a boundary; Go's takes that of the first one.
	n.Spec.UserData = lo.ToPtr("#!/bin/sh\ncat <<'X'\n" + document + "X\n")
	if bodies, _ := parts(t, render(t, p, request(n))); len(bodies) != 2 {
		t.Errorf("%d parts of two", len(bodies))
	}
}

// TestScripts runs the scripts with commands that only say that they were run.
func TestScripts(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	for name, test := range map[string]struct {
		mode     csv1.BootstrapMode
		id       string
		commands map[string]string
		fails    bool
		ran      []string
		id2      string
	}{
		"kubeadm":                  {mode: csv1.BootstrapKubeadm, id: machine, ran: []string{"kubeadm join --config FILE"}},
		"kubeadm, at second":       {mode: csv1.BootstrapKubeadm, id: machine, commands: map[string]string{"kubeadm": `case "$1" in join) [ -e "$TRIED" ] || { touch "$TRIED"; exit 1; };; esac`}, ran: []string{"kubeadm join --config FILE", "kubeadm reset --force", "sleep 15", "kubeadm join --config FILE"}},
		"kubeadm, never":           {mode: csv1.BootstrapKubeadm, id: machine, commands: map[string]string{"kubeadm": `[ "$1" = reset ]`}, fails: true},
		"K3s":                      {mode: csv1.BootstrapK3s, id: machine, ran: []string{"systemctl cat k3s-agent", "systemctl enable k3s-agent", "systemctl restart --no-block k3s-agent"}},
		"RKE2":                     {mode: csv1.BootstrapRKE2, id: machine, ran: []string{"systemctl cat rke2-agent", "systemctl enable rke2-agent", "systemctl restart --no-block rke2-agent"}},
		"no agent in the template": {mode: csv1.BootstrapK3s, id: machine, commands: map[string]string{"systemctl": "exit 1"}, fails: true, ran: []string{"systemctl cat k3s-agent"}},
		"id in capital letters":    {mode: csv1.BootstrapK3s, id: strings.ToUpper(machine), id2: machine, ran: []string{"systemctl cat k3s-agent", "systemctl enable k3s-agent", "systemctl restart --no-block k3s-agent"}},
		"id of another cloud":      {mode: csv1.BootstrapKubeadm, id: "i-2-34-VM", fails: true},
		"no id":                    {mode: csv1.BootstrapKubeadm, fails: true},
		"id with more behind it":   {mode: csv1.BootstrapKubeadm, id: machine + "|g; e reboot; s|x", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			config, log := filepath.Join(directory, "config.yaml"), filepath.Join(directory, "log")
			stubs := map[string]string{"cloud-init": "echo '" + test.id + "'", "kubeadm": "", "systemctl": "", "sleep": ""}
			for command, does := range lo.Assign(stubs, test.commands) {
				record := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s\n", command, log)
				if command == "cloud-init" {
					record = "#!/bin/sh\n"
				}
				if err := os.WriteFile(filepath.Join(directory, command), []byte(record+does+"\n"), 0o700); err != nil { // it is run
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(config, []byte("provider-id="+DefaultProviderIDPrefix+instanceID+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text, path := (join{}).script(test.mode)
			text = strings.ReplaceAll(text, "config="+path+"\n", "config="+config+"\n")
			text = strings.ReplaceAll(text, "/run/cloud-init/.instance-id /var/lib/cloud/data/instance-id", filepath.Join(directory, "nothing"))
			script := exec.Command(shell)
			script.Stdin = strings.NewReader(text)
			script.Env = []string{"PATH=" + directory + ":" + os.Getenv("PATH"), "TRIED=" + filepath.Join(directory, "tried")}
			var output bytes.Buffer
			script.Stdout, script.Stderr = &output, &output
			if err := script.Run(); (err != nil) != test.fails {
				t.Errorf("%v:\n%s", err, output.String())
			}
			ran, _ := os.ReadFile(log)
			lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(ran), config, "FILE"), "\n"), "\n")
			if test.ran != nil && !slices.Equal(lines, test.ran) {
				t.Errorf("ran %q, not %q", lines, test.ran)
			}
			got, err := os.ReadFile(config)
			switch {
			case test.mode == csv1.BootstrapKubeadm && !test.fails:
				if err == nil {
					t.Error("the file with the token is still there after the join")
				}
			case !test.fails:
				want := "provider-id=" + DefaultProviderIDPrefix + lo.CoalesceOrEmpty(test.id2, test.id) + "\n"
				if string(got) != want {
					t.Errorf("the file has %q, not %q", got, want)
				}
			case test.id != machine && string(ran) != "":
				t.Errorf("it joined without an id: %s", ran)
			}
		})
	}
}
