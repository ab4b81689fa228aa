package main

import (
	"net/http"
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

const overview = `Clusters and node pools, created, watched, scaled and deleted over HTTP.

Writes carry optimistic concurrency: an object's ETag is its resource_version, and If-Match refuses to change another version. A POST
with an Idempotency-Key can be sent again. A list's resource_version is where a watch goes on without missing anything. Unknown fields
and query parameters are refused.`

func (g *generator) document() (object, error) {
	paths := object{}
	var tags []any
	services := nodepoolsv1.File_org_project_planton_nodepools_v1_service_proto.Services()
	for i := range services.Len() {
		service := services.Get(i)
		tag := strings.TrimSuffix(string(service.Name()), "Service")
		tags = append(tags, object{"name": tag, "description": g.comments[service.FullName()]})
		for j := range service.Methods().Len() {
			if err := g.method(paths, service.Methods().Get(j), tag); err != nil {
				return nil, err
			}
		}
	}
	tags = append(tags, object{"name": "Operations", "description": "What operators and their tools ask."})
	operations(paths)
	g.schemas["Error"] = errorSchema()
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "NodePools", "version": "1.0.0", "summary": "The REST API that owns clusters and node pools",
			"description": overview,
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/", "description": "The service that this document comes from."}},
		"tags":     tags,
		"security": []any{object{"token": []any{}}, object{"user": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas": g.schemas,
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer", "description": "An ID token of the identity provider, or a static token."},
				"user": object{
					"type": "apiKey", "in": "header", "name": "X-User-Email",
					"description": "The user's email address; believed only from a proxy that is proven, or on the machine itself in development.",
				},
			},
			"headers": object{
				"ETag":      object{"description": "The object's revision, for If-Match and If-None-Match.", "schema": object{"type": "string"}},
				"Location":  object{"description": "The path of what was created.", "schema": object{"type": "string"}},
				"RequestID": object{"description": "Names the request in the service's logs.", "schema": object{"type": "string"}},
			},
			"parameters": object{
				"IfMatch": header("If-Match", "Change it only when its ETag is this one; 412 otherwise."),
				"IfNoneMatch": header("If-None-Match",
					"Answer 304 without a body when the ETag is this one."),
				"IdempotencyKey": header("Idempotency-Key",
					"A name for this request, unlike that of all others. Sent again within 24 hours, the request is not done again and gets the same answer."),
				"LastEventID": header("Last-Event-ID", "The id of the last event that was seen; goes before since."),
			},
			"responses": object{"Error": object{
				"description": "What is wrong, and what to do.",
				"headers":     object{"X-Request-Id": object{"$ref": "#/components/headers/RequestID"}},
				"content":     object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}},
			}},
		},
	}, nil
}

func header(name, description string) object {
	schema := object{"type": "string"}
	if name == "Idempotency-Key" {
		schema["maxLength"] = 255
	}
	return object{"name": name, "in": "header", "description": description, "schema": schema}
}

func errorSchema() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	return object{
		"type": "object", "description": "An error.", "required": []string{"error"}, "additionalProperties": false,
		"properties": object{"error": object{
			"type": "object", "required": []string{"code", "message", "details"}, "additionalProperties": false,
			"properties": object{
				"code": object{
					"type": "string", "description": "The kind of error, for programs.", "enum": []string{
						"VALIDATION_ERROR", "UNAUTHENTICATED", "FORBIDDEN", "QUOTA_EXCEEDED", "NOT_FOUND", "METHOD_NOT_ALLOWED", "CONFLICT",
						"EXPIRED", "PRECONDITION_FAILED", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "IDEMPOTENCY_KEY_REUSED", "RATE_LIMITED",
						"INTERNAL", "UNAVAILABLE",
					},
				},
				"message":    text("What is wrong, for people."),
				"details":    text("What exactly; it may be empty."),
				"request_id": text("Names the request in the service's logs; of errors that are not the client's."),
				"violations": object{
					"type": "array", "description": "Each rule that each field breaks.",
					"items": object{
						"type": "object", "required": []string{"field", "message"}, "additionalProperties": false,
						"properties": object{"field": text("The field's path."), "rule": text("The rule."), "message": text("What is wrong.")},
					},
				},
			},
		}},
	}
}

var templateParam = regexp.MustCompile(`\{([a-z_]+)\}`)

// method adds the paths of an RPC.
func (g *generator) method(paths object, rpc protoreflect.MethodDescriptor, tag string) error {
	rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule.GetPattern() == nil {
		return g.add(paths, rpc, tag, http.MethodGet, "/api/v1/watch", "", false)
	}
	for i, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		verb, template := "", ""
		switch pattern := binding.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			verb, template = http.MethodGet, pattern.Get
		case *annotations.HttpRule_Post:
			verb, template = http.MethodPost, pattern.Post
		case *annotations.HttpRule_Put:
			verb, template = http.MethodPut, pattern.Put
		case *annotations.HttpRule_Patch:
			verb, template = http.MethodPatch, pattern.Patch
		case *annotations.HttpRule_Delete:
			verb, template = http.MethodDelete, pattern.Delete
		}
		if err := g.add(paths, rpc, tag, verb, template, binding.GetBody(), i > 0); err != nil {
			return errors.Wrap(err, string(rpc.FullName()))
		}
	}
	return nil
}

func (g *generator) add(paths object, rpc protoreflect.MethodDescriptor, tag, verb, template, body string, nested bool) error {
	operationID := string(rpc.Name())
	comment := strings.TrimPrefix(g.comments[rpc.FullName()], operationID+" ")
	if nested {
		operationID += "OfCluster"
	}
	summary, _, _ := strings.Cut(strings.TrimSuffix(comment, "."), ". ")
	operation := object{
		"operationId": operationID, "tags": []string{tag}, "summary": capital(strings.TrimSuffix(summary, ".")), "description": capital(comment),
	}
	var inPath []string
	for _, match := range templateParam.FindAllStringSubmatch(template, -1) {
		inPath = append(inPath, match[1])
	}
	var parameters []any
	fields := rpc.Input().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := string(field.Name())
		if name == body {
			if err := g.body(operation, field, verb); err != nil {
				return err
			}
			continue
		}
		schema, err := g.field(field)
		if err != nil {
			return err
		}
		parameter := object{"name": field.JSONName(), "in": "query", "schema": schema}
		if slices.Contains(inPath, name) {
			parameter["in"], parameter["required"] = "path", true
		}
		if words := schema["description"]; words != nil {
			parameter["description"] = words
			delete(schema, "description")
		}
		parameters = append(parameters, parameter)
	}
	of := func(name string) object { return object{"$ref": "#/components/parameters/" + name} }
	isObject := slices.Contains([]protoreflect.Name{"NodePool", "Cluster"}, rpc.Output().Name())
	switch {
	case verb == http.MethodGet && isObject:
		parameters = append(parameters, of("IfMatch"), of("IfNoneMatch"))
	case verb == http.MethodPost:
		parameters = append(parameters, of("IdempotencyKey"))
	case (verb == http.MethodPut || verb == http.MethodPatch) && isObject, verb == http.MethodDelete && slices.Contains(inPath, "id") && tag != "Event":
		parameters = append(parameters, of("IfMatch"))
	case rpc.IsStreamingServer():
		parameters = append(parameters, of("LastEventID"))
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	responses, err := g.responses(rpc, verb, isObject, body != "")
	if err != nil {
		return err
	}
	operation["responses"] = responses
	item, ok := paths[template].(object)
	if !ok {
		item = object{}
		paths[template] = item
	}
	item[strings.ToLower(verb)] = operation
	return nil
}

func (g *generator) body(operation object, field protoreflect.FieldDescriptor, verb string) error {
	content := object{}
	if verb == http.MethodPatch {
		patch := object{"schema": object{"type": "object", "description": g.comments[field.FullName()]}}
		content["application/merge-patch+json"], content["application/json"] = patch, patch
	} else {
		schema, err := g.input(field.Message())
		if err != nil {
			return err
		}
		content["application/json"] = object{"schema": schema}
	}
	operation["requestBody"] = object{"required": true, "content": content}
	return nil
}

func (g *generator) responses(rpc protoreflect.MethodDescriptor, verb string, isObject, hasBody bool) (object, error) {
	failed := object{"$ref": "#/components/responses/Error"}
	responses := object{"default": failed}
	codes := []int{400, 401, 403, 404, 429, 500, 503}
	if verb != http.MethodGet {
		codes = append(codes, 409, 412)
	}
	if hasBody {
		codes = append(codes, 413, 415, 422)
	}
	if verb == http.MethodGet && isObject {
		codes = append(codes, 412)
	}
	headers := object{"X-Request-Id": object{"$ref": "#/components/headers/RequestID"}}
	if rpc.IsStreamingServer() {
		codes = append(codes, 410)
		responses["200"] = object{
			"description": "Server-sent events. Each has an id to go on from, the event's type, and an Event as JSON. An event named error tells why a watch ends.",
			"headers":     headers,
			"content":     object{"text/event-stream": object{"schema": object{"type": "string"}}},
		}
		if _, err := g.reference(rpc.Output()); err != nil {
			return nil, err
		}
	} else if rpc.Output().FullName() == "google.protobuf.Empty" {
		responses["204"] = object{"description": "Done, or begun.", "headers": headers}
	} else {
		schema, err := g.reference(rpc.Output())
		if err != nil {
			return nil, err
		}
		if isObject {
			headers["ETag"] = object{"$ref": "#/components/headers/ETag"}
		}
		ok := object{"description": "As it is now.", "headers": headers, "content": object{"application/json": object{"schema": schema}}}
		if verb == http.MethodPost {
			located := object{}
			for _, name := range names(headers) {
				located[name] = headers[name]
			}
			located["Location"] = object{"$ref": "#/components/headers/Location"}
			responses["201"] = object{"description": "Created.", "headers": located, "content": ok["content"]}
			if isObject {
				ok["description"] = "What a dry run would create."
				responses["200"] = ok
			}
		} else {
			responses["200"] = ok
		}
		if verb == http.MethodGet && isObject {
			responses["304"] = object{"description": "Not changed since the version of If-None-Match.", "headers": headers}
		}
	}
	for _, code := range codes {
		responses[strconv.Itoa(code)] = failed
	}
	return responses, nil
}

// operations adds the paths beside the API.
func operations(paths object) {
	plain := func(description string) object {
		return object{"description": description, "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	}
	probe := func(id, summary string) object {
		return object{"get": object{
			"operationId": id, "tags": []string{"Operations"}, "summary": summary, "security": []any{},
			"responses": object{"200": plain("It is."), "503": plain("It is not."), "4XX": object{"$ref": "#/components/responses/Error"}},
		}}
	}
	paths["/healthz"] = probe("Live", "Whether the process lives")
	paths["/readyz"] = probe("Ready", "Whether requests can be answered: looks at the database")
	paths["/health"] = probe("Health", "The same as /readyz")
	paths["/metrics"] = object{"get": object{
		"operationId": "Metrics", "tags": []string{"Operations"}, "summary": "Metrics for Prometheus",
		"responses": object{"200": plain("The metrics."), "401": object{"$ref": "#/components/responses/Error"}},
	}}
}
