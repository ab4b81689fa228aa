package nativeprovider

// Type is the type of a property.
type Type int

// The types of properties.
const (
	// String is text.
	String Type = iota
	// Int is a whole number.
	Int
	// Number is a floating point number.
	Number
	// Bool is true or false.
	Bool
	// List is an ordered list of Elem.
	List
	// Set is a list of Elem whose order means nothing.
	Set
	// Map has string keys and values of Elem.
	Map
	// Object has the named Fields.
	Object
)

// String is the name that a user would give to the type.
func (t Type) String() string {
	switch t {
	case String:
		return "string"
	case Int:
		return "integer"
	case Number:
		return "number"
	case Bool:
		return "boolean"
	case List, Set:
		return "list"
	case Map:
		return "map"
	case Object:
		return "object"
	default:
		return "unknown type"
	}
}

// Property is one line of a table: a property of a resource, an argument of a function, or a configuration value.
//
// A property with neither Required, Output, Computed nor Default is plainly optional: not giving it means "none", and taking it out of a
// program removes it from the object.
type Property struct {
	// Name as programs write it, for example "nodeCount".
	Name string
	// Description is for the package schema.
	Description string
	// Type of the value.
	Type Type
	// Elem describes the elements of a List, Set or Map. Its Name is not used.
	Elem *Property
	// Fields of an Object.
	Fields []Property
	// ObjectName names the object type in the package schema, for example "KubernetesClusterPools"; made from the names around it when "".
	ObjectName string

	// Required inputs must be given.
	Required bool
	// Output properties come from the cloud alone; giving one is a check failure.
	Output bool
	// Computed inputs are chosen by the cloud when they are not given; then whatever the cloud has is right.
	Computed bool
	// Replaces tells that a change of the value replaces the object.
	Replaces bool
	// Secret values are marked secret wherever they go.
	Secret bool
	// Default is the value of an input that is not given: a string, int, float64 or bool.
	Default any
	// Autoname is for a name that Pulumi makes from the resource's name when it is not given: the longest allowed name. 0 is off.
	Autoname int
	// Deprecated is the reason why the property should not be used.
	Deprecated string
	// ChangesWith names the inputs (property paths, for example "pools.nodeCount") whose change makes this output unknown until it is done.
	ChangesWith []string
	// Check tells what is wrong with a known value; it is given string, int, float64, bool, []any or map[string]any.
	Check func(value any) error
	// Equal compares a recorded value with a wanted one where plain equality is too strict (case, order of words). Optional. Both are plain.
	Equal func(old, new any) bool
}

// input tells whether programs may give the property.
func (p *Property) input() bool { return !p.Output }

// find returns the property of that name, nil when the table has none.
func find(properties []Property, name string) *Property {
	for i := range properties {
		if properties[i].Name == name {
			return &properties[i]
		}
	}
	return nil
}
