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
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/manifest"
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

// Load finds the stack input of the program, reads it into the message and validates the whole of it. When something is
// wrong with it, the cause of the error is a *manifest.Error, which tells every problem at once: place, line and column, field
// and rule. It shows no line of the input, which may hold a credential.
func Load(ctx *pulumi.Context, into proto.Message) error {
	name, text, err := find(ctx)
	if err != nil {
		return err
	}
	return parse(name, text, into)
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

// parse reads the text, YAML or JSON, into the message and validates it.
func parse(name string, text []byte, into proto.Message) error {
	return errors.Wrap(manifest.Decode(name, text, into), "read stack input")
}
