// Command messages is a baseline of the bench: it parses the documents of a folder's files into messages of CivoKubernetesCluster by the
// library for that, on all cores, and does nothing with them. It applies no rule, and does not look at what manifests have to do with
// one another.
//
//	messages FOLDER
package main

import (
	"bytes"
	"fmt"
	"os"

	"buf.build/go/protoyaml"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/internal/bench/files"
)

func main() {
	if len(os.Args) != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: messages FOLDER")
		os.Exit(2)
	}
	if err := files.Each(os.Args[1], parse); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

func parse(content []byte) error {
	// The library takes one document at a time.
	for document := range bytes.SplitSeq(bytes.TrimPrefix(content, []byte("---\n")), []byte("\n---\n")) {
		if err := protoyaml.Unmarshal(document, &civokubernetesclusterv1.CivoKubernetesCluster{}); err != nil {
			return err
		}
	}
	return nil
}
