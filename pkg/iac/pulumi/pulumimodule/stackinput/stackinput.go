// Package stackinput finds the input of a stack, reads it into its message and validates it.
//
// The input is YAML or JSON text with the keys `target` and `provider_config`; both snake_case and camelCase names of
// fields are read. The first of these places that holds one counts:
//
//  1. the Pulumi config value `planton-cloud:stack-input`, the text itself (set it with --secret when it holds a token)
//  2. the environment variable STACK_INPUT_YAML, the text itself
//  3. the environment variable STACK_INPUT_YAML_FILE, a path
//  4. the environment variables STACK_INPUT_FILE_PATH and STACK_INPUT_FILE, a path, and STACK_INPUT_JSON, the text itself
//  5. the file stack-input.json, then stack-input.yaml, in the folder of the program
package stackinput

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"buf.build/go/protoyaml"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"
	"gopkg.in/yaml.v3"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// ConfigKey is the Pulumi config value that may hold the stack input.
const ConfigKey = "planton-cloud:stack-input"

// place is an environment variable that may hold a stack input, or the path of a file that does.
type place struct {
	variable string
	isPath   bool
}

// places are the environment variables that are looked at, in this order.
var places = []place{
	{variable: "STACK_INPUT_YAML"},
	{variable: "STACK_INPUT_YAML_FILE", isPath: true},
	{variable: "STACK_INPUT_FILE_PATH", isPath: true},
	{variable: "STACK_INPUT_FILE", isPath: true},
	{variable: "STACK_INPUT_JSON"},
}

// fileNames are the files that are looked for in the folder of the program, in this order.
var fileNames = []string{"stack-input.json", "stack-input.yaml"}

// ErrNotFound is the cause of the error of Load when no place holds a stack input.
var ErrNotFound = errors.New("no stack input")

// Load finds the stack input of the program, reads it into the message and validates the whole of it. An error says where
// the input was found, and the line and column, or the field and rule, that is wrong; a broken rule is a
// *validation.Error. No error carries a value of the input, which may be a credential.
func Load(ctx *pulumi.Context, into proto.Message) error {
	name, text, err := find(ctx)
	if err != nil {
		return err
	}
	if err := Parse(name, text, into); err != nil {
		return err
	}
	return errors.Wrapf(validation.Validate(into), "stack input from %s", name)
}

// find returns the text of the stack input and the name of the place that holds it.
func find(ctx *pulumi.Context) (name string, text []byte, err error) {
	if value, ok := ctx.GetConfig(ConfigKey); ok && value != "" {
		return "config " + ConfigKey, []byte(value), nil
	}
	for _, place := range places {
		value := os.Getenv(place.variable)
		switch {
		case value == "":
			continue
		case !place.isPath:
			return place.variable, []byte(value), nil
		}
		text, err := os.ReadFile(value)
		if err != nil {
			return "", nil, errors.Wrapf(err, "read the stack input that %s points at", place.variable)
		}
		return value, text, nil
	}
	for _, fileName := range fileNames {
		path := filepath.Join(ctx.RootDirectory(), fileName)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, errors.Wrap(err, "read stack input")
		}
		return path, text, nil
	}
	return "", nil, errors.Wrapf(ErrNotFound,
		"looked at the config value %s, the environment variables STACK_INPUT_YAML, STACK_INPUT_YAML_FILE, "+
			"STACK_INPUT_FILE_PATH, STACK_INPUT_FILE and STACK_INPUT_JSON, and for %s beside the program",
		ConfigKey, strings.Join(fileNames, " and "))
}

// Parse reads the text, YAML or JSON, into the message without validating it. An unknown field, a value of the wrong type
// and a second document are errors. The error names each with its line and column, and carries none of the text.
func Parse(name string, text []byte, into proto.Message) error {
	if err := oneDocument(text); err != nil {
		return errors.Wrapf(err, "read stack input from %s", name)
	}
	if err := (protoyaml.UnmarshalOptions{Path: name}).Unmarshal(text, into); err != nil {
		return errors.Errorf("read stack input: %s", withoutExcerpts(err.Error()))
	}
	return nil
}

// oneDocument says whether the text is exactly one YAML document that is not empty.
func oneDocument(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case err != nil:
		return errors.New(withoutExcerpts(err.Error()))
	}
	if len(first.Content) == 1 && first.Content[0].Tag == "!!null" {
		return errors.New("it is empty")
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return errors.New(withoutExcerpts(err.Error()))
	}
	return errors.Errorf("it holds more than one document (a second one begins at line %d)", second.Line)
}

// excerpt is a line of the input that the YAML reader shows below an error: the number of the line, a bar and its text.
var excerpt = regexp.MustCompile(`(?m)^ *[0-9]+ \|.*$\n?`)

// withoutExcerpts takes out of an error the lines of the input that it shows, since such a line may hold a token.
func withoutExcerpts(message string) string {
	return strings.TrimSpace(excerpt.ReplaceAllString(message, ""))
}
