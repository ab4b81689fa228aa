package examples_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// decode reads all objects of a file. A field that the type does not have is an error.
func decode(t *testing.T, path string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		var into runtime.Object
		switch kind.Kind {
		case "CloudStackNodeClass":
			into = &csv1.CloudStackNodeClass{}
		case "NodePool":
			into = &karpv1.NodePool{}
		case "Deployment":
			into = &appsv1.Deployment{}
		default:
			t.Fatalf("%s has a %q", path, kind.Kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, into)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			if !strings.Contains(string(readme), "("+file+")") {
				t.Error("README.md does not have it")
			}
			var classes, references []string
			for _, object := range decode(t, file) {
				switch object := object.(type) {
				case *csv1.CloudStackNodeClass:
					classes = append(classes, object.Name)
					checkClass(t, object)
				case *karpv1.NodePool:
					reference := object.Spec.Template.Spec.NodeClassRef
					if reference.Group != csv1.Group || reference.Kind != "CloudStackNodeClass" {
						t.Errorf("%s is of %s/%s", object.Name, reference.Group, reference.Kind)
					}
					references = append(references, reference.Name)
					if err := object.RuntimeValidate(t.Context()); err != nil {
						t.Errorf("the NodePool %s: %v", object.Name, err)
					}
				case *appsv1.Deployment:
				}
			}
			for _, name := range references {
				if !slices.Contains(classes, name) {
					t.Errorf("a NodePool is of %s, which is not there", name)
				}
			}
		})
	}
}

// checkClass checks what the definition would refuse and the type cannot.
func checkClass(t *testing.T, class *csv1.CloudStackNodeClass) {
	t.Helper()
	if len(class.ZoneSelectors()) == 0 || len(class.Spec.ServiceOfferingSelectorTerms) == 0 || len(class.Spec.TemplateSelectorTerms) == 0 {
		t.Errorf("%s has no zone, offering or template", class.Name)
	}
	if b := class.Spec.Bootstrap; b != nil && b.Mode != csv1.BootstrapCustom {
		minted := b.MintToken != nil && *b.MintToken
		if b.Endpoint == "" || minted == (b.TokenSecretRef != nil) {
			t.Errorf("%s has no endpoint, or no token, or two", class.Name)
		}
	}
	if class.Spec.UserData != nil && class.Spec.UserDataSecretRef != nil {
		t.Errorf("%s has user data twice", class.Name)
	}
}
