package server

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// watchPath is the one path that service.proto cannot describe: server-sent events.
const watchPath = "/api/v1/watch"

// route is one path and method of the REST API, as service.proto has it.
type route struct {
	method, template string
	rpc              protoreflect.MethodDescriptor
	// params are the fields that the path carries, body the one that the body does; nil without a body.
	params []string
	body   protoreflect.FieldDescriptor
	path   *regexp.Regexp
}

// query are the fields that the query carries.
func (r *route) query() []protoreflect.FieldDescriptor {
	var result []protoreflect.FieldDescriptor
	fields := r.rpc.Input().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Message() == nil && !slices.Contains(r.params, string(field.Name())) {
			result = append(result, field)
		}
	}
	return result
}

func (r *route) matches(path string) bool { return r.path.MatchString(path) }

var (
	templateParam = regexp.MustCompile(`\{([a-z_]+)(=[^}]*)?\}`)
	templateQuery = strings.NewReplacer("=*}", "}")
)

// templateOf writes a template the way service.proto does.
func templateOf(pattern string) string { return templateQuery.Replace(pattern) }

// apiRoutes are the routes of service.proto, by method and template, and the watch.
func apiRoutes() (map[string]*route, error) {
	result := map[string]*route{}
	add := func(rpc protoreflect.MethodDescriptor, method, template, body string) error {
		found := &route{method: method, template: template, rpc: rpc}
		for _, match := range templateParam.FindAllStringSubmatch(template, -1) {
			found.params = append(found.params, match[1])
		}
		found.path = regexp.MustCompile("^" + templateParam.ReplaceAllString(template, "[^/]+") + "$")
		if body != "" {
			if found.body = rpc.Input().Fields().ByName(protoreflect.Name(body)); found.body == nil {
				return errors.Errorf("%s: the body %q is no field", rpc.FullName(), body)
			}
		}
		result[method+" "+template] = found
		return nil
	}
	services := nodepoolsv1.File_org_project_planton_nodepools_v1_service_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			rpc := methods.Get(j)
			rule, ok := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
			if !ok || rule.GetPattern() == nil {
				if !rpc.IsStreamingServer() {
					return nil, errors.Errorf("%s has no path", rpc.FullName())
				}
				if err := add(rpc, http.MethodGet, watchPath, ""); err != nil {
					return nil, err
				}
				continue
			}
			for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
				method, template := verb(binding)
				if err := add(rpc, method, template, binding.GetBody()); err != nil {
					return nil, err
				}
			}
		}
	}
	return result, nil
}

func verb(rule *annotations.HttpRule) (method, template string) {
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		return http.MethodPost, pattern.Post
	case *annotations.HttpRule_Put:
		return http.MethodPut, pattern.Put
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, pattern.Patch
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, pattern.Delete
	}
	return "", ""
}

// checkQuery refuses parameters that the route does not have, that are given twice, or that cannot be read.
func (r *route) checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return invalid("the query cannot be read: " + err.Error())
	}
	fields := r.query()
	var violations []violation
	for name, given := range values {
		i := slices.IndexFunc(fields, func(f protoreflect.FieldDescriptor) bool { return f.JSONName() == name })
		switch {
		case slices.Contains(r.params, name):
			violations = append(violations, violation{name, "query.path", "stands in the path already"})
		case i < 0:
			violations = append(violations, violation{name, "query.unknown", "is no parameter of this request; " + parametersText(fields)})
		case len(given) > 1 && !fields[i].IsList():
			violations = append(violations, violation{name, "query.once", "must be given once"})
		default:
			if text := checkValue(fields[i], given[0]); text != "" {
				violations = append(violations, violation{name, "query.type", text})
			}
		}
	}
	if len(violations) == 0 {
		return nil
	}
	slices.SortFunc(violations, func(a, b violation) int { return strings.Compare(a.Field, b.Field) })
	texts := make([]string, len(violations))
	for i, one := range violations {
		texts[i] = fmt.Sprintf("query parameter %q %s", one.Field, one.Message)
	}
	return invalid(strings.Join(texts, "; "), violations...)
}

func parametersText(fields []protoreflect.FieldDescriptor) string {
	if len(fields) == 0 {
		return "it has none"
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.JSONName()
	}
	return "it has " + strings.Join(names, ", ")
}

func checkValue(field protoreflect.FieldDescriptor, value string) string {
	switch field.Kind() {
	case protoreflect.Int32Kind:
		if _, err := strconv.ParseInt(value, 10, 32); err != nil {
			return "must be a whole number"
		}
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			return "must be true or false"
		}
	}
	return ""
}
