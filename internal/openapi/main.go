// Openapi writes the OpenAPI 3.1 document of the NodePools service to stdout: paths from the google.api.http rules of service.proto,
// schemas from its messages and their buf.validate rules, words from its comments.
//
//	go run ./internal/openapi pkg/schema/protos.binpb > pkg/nodepools/server/openapi.json
//
// The argument is the image of the protos with their comments, which the linked descriptors lack. protoc-gen-openapiv3 of grpc-gateway
// reads no buf.validate rules and knows nothing of the error envelope, the headers and the event stream, so it is not used.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/pkg/errors"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: openapi IMAGE, where IMAGE is pkg/schema/protos.binpb")
	}
	image, err := os.ReadFile(args[0])
	if err != nil {
		return errors.Wrap(err, "read the image of the protos")
	}
	g := &generator{schemas: object{}}
	if g.comments, err = readComments(image); err != nil {
		return err
	}
	document, err := g.document()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return errors.Wrap(encoder.Encode(document), "write the document")
}
