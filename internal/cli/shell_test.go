package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// TestEnvironmentIsReadBackByAShell: whatever the values are, a real shell that evaluates the lines has them, and does nothing else.
func TestEnvironmentIsReadBackByAShell(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("there is no shell to read the lines: %v", err)
	}
	directory := t.TempDir()
	nasty := rapid.SampledFrom([]string{
		"'", "''", `\'`, `"`, "`echo pwned >made`", "$(echo pwned >made)", "${HOME}", "\n", "\n#", "; echo pwned >made; ", "*", "~", "!", "\\", "\r",
		"é", " ", "\t", "=", "#", "\x01", "\x7f",
	})
	value := rapid.OneOf(
		rapid.Map(rapid.SliceOf(nasty), func(parts []string) string { return strings.Join(parts, "") }),
		rapid.StringN(0, 40, -1).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOfN(rapid.StringMatching(`[a-z][a-z0-9_.-]{0,8}`), value, 1, 6).Draw(t, "values")
		outputs, names, want := provision.Outputs{}, map[string]bool{}, map[string]string{}
		for name, value := range values {
			variable := shellName("x_" + name)
			if names[variable] {
				continue
			}
			names[variable] = true
			outputs["x_"+name] = provision.Output{Value: value, Known: true}
			want[variable] = value
		}
		var lines, notes bytes.Buffer
		if err := writeEnvironment(&lines, &notes, outputs, false); err != nil {
			t.Fatal(err)
		}
		script := "set -eu\neval \"$LINES_TO_READ\"\n"
		var variables []string
		for variable := range want {
			variables = append(variables, variable)
			script += `printf '%s\0' "$` + variable + "\"\n"
		}
		command := exec.Command(shell, "-c", script)
		command.Dir = directory
		command.Env = append(command.Environ(), "LINES_TO_READ="+lines.String())
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, lines.String())
		}
		parts := strings.Split(string(out), "\x00")
		got := map[string]string{}
		for i, variable := range variables {
			got[variable] = parts[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", diff, lines.String())
		}
		if found, _ := exec.Command("ls", directory).Output(); len(found) > 0 {
			t.Fatalf("evaluating the lines made %s", found)
		}
	})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	output := func(value any) provision.Output { return provision.Output{Value: value, Known: true} }
	secret := provision.Output{Value: "hunter2", Known: true, Secret: true}
	tests := []struct {
		reason      string
		outputs     provision.Outputs
		showSecrets bool
		want, notes string
		err         string
	}{
		{
			reason:  "names are in upper case and in order; what is no text is JSON",
			outputs: provision.Outputs{"region": output("FRA1"), "node_ids": output([]any{"a", "b"}), "count": output(2.0)},
			want:    "COUNT='2'\nNODE_IDS='[\"a\",\"b\"]'\nREGION='FRA1'\n",
		},
		{
			reason:  "a secret is left out: a script must not use a mask in its place",
			outputs: provision.Outputs{"token": secret},
			notes:   "TOKEN is left out: it is a secret; pass --show-secrets to have it\n",
		},
		{reason: "unless it is asked for", outputs: provision.Outputs{"token": secret}, showSecrets: true, want: "TOKEN='hunter2'\n"},
		{
			reason:  "KUBECONFIG is what kubectl reads the name of a file from",
			outputs: provision.Outputs{"kubeconfig": secret}, showSecrets: true,
			notes: "KUBECONFIG is left out: " + taken["KUBECONFIG"] + "\n",
		},
		{
			reason:  "two outputs of one variable: one of them would be lost",
			outputs: provision.Outputs{"a-b": output("1"), "a.b": output("2")}, err: "the outputs a-b and a.b would both be A_B",
		},
		{reason: "no variable begins with a digit", outputs: provision.Outputs{"1st": output("1")}, want: "_1ST='1'\n"},
		{reason: "no variable holds a zero byte", outputs: provision.Outputs{"a": output("\x00")}, err: "the output a holds a zero byte, which no variable can"},
	}
	for _, test := range tests {
		var out, notes bytes.Buffer
		err := writeEnvironment(&out, &notes, test.outputs, test.showSecrets)
		var message string
		if err != nil {
			message = err.Error()
		}
		if out.String() != test.want || notes.String() != test.notes || message != test.err {
			t.Errorf("%s: got %q, notes %q, error %q", test.reason, out.String(), notes.String(), message)
		}
	}
}

// TestOutputsAreVariables: the outputs of every kind have names of their own in a shell.
func TestOutputsAreVariables(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		outputs := provision.Outputs{}
		for _, name := range kind.OutputFields() {
			outputs[name] = provision.Output{Value: "", Known: true}
		}
		var out, notes bytes.Buffer
		if err := writeEnvironment(&out, &notes, outputs, true); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for _, variable := range []string{"PATH", "HOME", "IFS", "ENV", "KUBECONFIG"} {
			if strings.Contains("\n"+out.String(), "\n"+variable+"=") {
				t.Errorf("%s: an output is %s", kind, variable)
			}
		}
	}
}
