package digitalocean

import (
	"reflect"
	"strings"
	"testing"

	sdk "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// elementType is the plain struct behind one of the SDK's input structs.
func elementType(input interface{ ElementType() reflect.Type }) reflect.Type {
	t := input.ElementType()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// outputType is the plain type behind one of the SDK's output types.
func outputType(t reflect.Type) reflect.Type {
	output, ok := reflect.New(t).Elem().Interface().(pulumi.Output)
	if !ok {
		return t
	}
	return output.ElementType()
}

// compareTables compares a table with a struct of the SDK: the same names, the same types, all the way down. dir tells
// whether a property at the top must be an input.
func compareTables(t *testing.T, path string, table []nativeprovider.Property, of reflect.Type, top func(nativeprovider.Property) bool) {
	t.Helper()
	seen := map[string]bool{}
	for i := range of.NumField() {
		tag := of.Field(i).Tag.Get("pulumi")
		if tag == "" {
			continue
		}
		seen[tag] = true
		property := findProperty(table, tag)
		if property == nil {
			t.Errorf("%s%s is in the SDK and not in the table", path, tag)
			continue
		}
		if top != nil && !top(*property) {
			t.Errorf("%s%s is an input of the SDK and none in the table", path, tag)
		}
		compareTypes(t, path+tag, *property, outputType(of.Field(i).Type))
	}
	for _, property := range table {
		if !seen[property.Name] && (top == nil || top(property)) {
			t.Errorf("%s%s is in the table and not in the SDK", path, property.Name)
		}
	}
}

func findProperty(table []nativeprovider.Property, name string) *nativeprovider.Property {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

func compareTypes(t *testing.T, path string, property nativeprovider.Property, of reflect.Type) {
	t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var fits bool
	switch property.Type {
	case nativeprovider.String:
		fits = of.Kind() == reflect.String
	case nativeprovider.Int:
		fits = of.Kind() == reflect.Int
	case nativeprovider.Number:
		fits = of.Kind() == reflect.Float64
	case nativeprovider.Bool:
		fits = of.Kind() == reflect.Bool
	case nativeprovider.List, nativeprovider.Set:
		if fits = of.Kind() == reflect.Slice; fits {
			compareTypes(t, path+"[]", *property.Elem, of.Elem())
		}
	case nativeprovider.Map:
		if fits = of.Kind() == reflect.Map; fits {
			compareTypes(t, path+"{}", *property.Elem, of.Elem())
		}
	case nativeprovider.Object:
		if fits = of.Kind() == reflect.Struct; fits {
			compareTables(t, path+".", property.Fields, of, nil)
		}
	}
	if !fits {
		t.Errorf("%s is a %s in the table and a %s in the SDK", path, property.Type, of)
	}
}

// TestTablesAreTheSDKs fails when the SDK has a property that the tables do not know, or the other way round.
func TestTablesAreTheSDKs(t *testing.T) {
	t.Parallel()
	resources := New("4.57.0").Spec().Resources
	isInput := func(p nativeprovider.Property) bool { return !p.Output }
	for _, test := range []struct {
		table    []nativeprovider.Property
		args     interface{ ElementType() reflect.Type }
		resource any
	}{
		{resources[vpcToken].Properties, sdk.VpcArgs{}, sdk.Vpc{}},
		{resources[clusterToken].Properties, sdk.KubernetesClusterArgs{}, sdk.KubernetesCluster{}},
		{resources[poolToken].Properties, sdk.KubernetesNodePoolArgs{}, sdk.KubernetesNodePool{}},
	} {
		compareTables(t, reflect.TypeOf(test.args).Name()+".", test.table, elementType(test.args), isInput)
		compareTables(t, reflect.TypeOf(test.resource).Name()+".", test.table, reflect.TypeOf(test.resource), nil)
	}

	functions := New("4.57.0").Spec().Functions
	compareTables(t, "LookupKubernetesClusterArgs.", functions[getClusterToken].Inputs, reflect.TypeOf(sdk.LookupKubernetesClusterArgs{}), nil)
	compareTables(t, "LookupKubernetesClusterResult.", functions[getClusterToken].Outputs, reflect.TypeOf(sdk.LookupKubernetesClusterResult{}), nil)
	compareTables(t, "GetKubernetesVersionsArgs.", functions[getVersionsToken].Inputs, reflect.TypeOf(sdk.GetKubernetesVersionsArgs{}), nil)
	compareTables(t, "GetKubernetesVersionsResult.", functions[getVersionsToken].Outputs, reflect.TypeOf(sdk.GetKubernetesVersionsResult{}), nil)
	compareTables(t, "ProviderArgs.", configProperties(), elementType(sdk.ProviderArgs{}), nil)
}

// TestRequiredPropertiesAreTheSDKs compares what must be given: fields of the SDK's plain structs that are no pointers.
func TestRequiredPropertiesAreTheSDKs(t *testing.T) {
	t.Parallel()
	resources := New("4.57.0").Spec().Resources
	var compare func(path string, table []nativeprovider.Property, of reflect.Type)
	compare = func(path string, table []nativeprovider.Property, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			property := findProperty(table, field.Tag.Get("pulumi"))
			if property == nil || property.Output {
				continue
			}
			kind := field.Type.Kind()
			// Lists and maps are no pointers either way; a firewall's addresses are the only list that is required.
			required := kind != reflect.Pointer && kind != reflect.Slice && kind != reflect.Map || property.Name == "allowedAddresses"
			if property.Required != required {
				t.Errorf("%s%s: required %v in the table, %v in the SDK", path, property.Name, property.Required, required)
			}
			elem := field.Type
			for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
				elem = elem.Elem()
			}
			fields := property.Fields
			if property.Elem != nil {
				fields = property.Elem.Fields
			}
			if elem.Kind() == reflect.Struct && len(fields) > 0 {
				compare(path+property.Name+".", fields, elem)
			}
		}
	}
	compare("Vpc.", resources[vpcToken].Properties, elementType(sdk.VpcArgs{}))
	compare("KubernetesCluster.", resources[clusterToken].Properties, elementType(sdk.KubernetesClusterArgs{}))
	compare("KubernetesNodePool.", resources[poolToken].Properties, elementType(sdk.KubernetesNodePoolArgs{}))
}

// TestTokensAreTheSDKs asks the SDK for the tokens that it registers.
func TestTokensAreTheSDKs(t *testing.T) {
	t.Parallel()
	recorder := &tokenRecorder{}
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		if _, err := sdk.NewVpc(ctx, "v", &sdk.VpcArgs{Region: pulumi.String("nyc1")}); err != nil {
			return err
		}
		if _, err := sdk.NewKubernetesCluster(ctx, "c", &sdk.KubernetesClusterArgs{Region: pulumi.String("nyc1"), Version: pulumi.String("1"),
			NodePool: sdk.KubernetesClusterNodePoolArgs{Name: pulumi.String("n"), Size: pulumi.String("s")}}); err != nil {
			return err
		}
		if _, err := sdk.NewKubernetesNodePool(ctx, "p", &sdk.KubernetesNodePoolArgs{ClusterId: pulumi.String("c"), Size: pulumi.String("s")}); err != nil {
			return err
		}
		if _, err := sdk.LookupKubernetesCluster(ctx, &sdk.LookupKubernetesClusterArgs{Name: "c"}); err != nil {
			return err
		}
		_, err := sdk.GetKubernetesVersions(ctx, &sdk.GetKubernetesVersionsArgs{})
		return err
	}, pulumi.WithMocks("test", "dev", recorder))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{string(vpcToken), string(clusterToken), string(poolToken), string(getClusterToken), string(getVersionsToken)} {
		if !strings.Contains(recorder.all(), token+"\n") {
			t.Errorf("the SDK does not know %s; it asked for\n%s", token, recorder.all())
		}
	}
}
