package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// taken are variables that mean something else to the programs of a shell: kubectl takes KUBECONFIG for the name of a file.
var taken = map[string]string{
	"KUBECONFIG": "kubectl would take it for the name of a file; KUBECONFIG_B64 has the same, and planton kubeconfig prints it",
}

// writeEnvironment writes outputs as lines that a POSIX shell can evaluate, NAME='value', and tells on notes what it leaves out: a
// secret that is not shown has no value that a script could use by mistake.
func writeEnvironment(out, notes io.Writer, outputs provision.Outputs, showSecrets bool) error {
	var lines strings.Builder
	names := map[string]string{}
	for _, name := range outputs.Names() {
		output, variable := outputs[name], shellName(name)
		if other, ok := names[variable]; ok {
			return errors.Errorf("the outputs %s and %s would both be %s", other, name, variable)
		}
		names[variable] = name
		if reason, ok := taken[variable]; ok {
			_, _ = fmt.Fprintf(notes, "%s is left out: %s\n", variable, reason)
			continue
		}
		if output.Secret && !showSecrets {
			_, _ = fmt.Fprintf(notes, "%s is left out: it is a secret; pass --show-secrets to have it\n", variable)
			continue
		}
		text, err := plainText(output.Value)
		if err != nil {
			return err
		}
		if strings.ContainsRune(text, 0) {
			return errors.Errorf("the output %s holds a zero byte, which no variable can", name)
		}
		lines.WriteString(variable + "=" + shellQuote(text) + "\n")
	}
	_, err := io.WriteString(out, lines.String())
	return errors.Wrap(err, "write the outputs")
}

// plainText is a value as a script takes it: text as it is, all else as JSON.
func plainText(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	encoded, err := json.Marshal(value)
	return string(encoded), errors.Wrap(err, "write the output")
}

// shellName is the name of an output as the name of a variable: upper case, with "_" for what no name of a variable can hold.
func shellName(name string) string {
	variable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		default:
			return '_'
		}
	}, name)
	if variable == "" || variable[0] >= '0' && variable[0] <= '9' {
		return "_" + variable
	}
	return variable
}

// shellQuote quotes a text so that a POSIX shell reads it as it is: between single quotes, nothing but one of them means anything.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
