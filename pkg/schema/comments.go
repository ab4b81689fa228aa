package schema

import (
	_ "embed" // protos.binpb
	"strings"
	"sync"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// image is the protos with their comments, a FileDescriptorSet.
//
//go:embed protos.binpb
var image []byte

// comments are the comments of everything in the image, by full name.
var comments = sync.OnceValues(func() (map[protoreflect.FullName]string, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(image, set); err != nil {
		return nil, errors.Wrap(err, "parse the image of the protos")
	}
	found := map[protoreflect.FullName]string{}
	for _, file := range set.GetFile() {
		// The imports of a file are not needed to tell what its comments are about.
		descriptor, err := protodesc.FileOptions{AllowUnresolvable: true}.New(file, protoregistry.GlobalFiles)
		if err != nil {
			return nil, errors.Wrap(err, "read the image of the protos")
		}
		locations := descriptor.SourceLocations()
		note := func(d protoreflect.Descriptor) {
			found[d.FullName()] = tidy(locations.ByDescriptor(d).LeadingComments)
		}
		notes(descriptor, note)
	}
	return found, nil
})

// notes calls note for all messages, fields, enums and values of a file or a message.
func notes(of interface {
	Messages() protoreflect.MessageDescriptors
	Enums() protoreflect.EnumDescriptors
}, note func(protoreflect.Descriptor)) {
	for i := range of.Messages().Len() {
		message := of.Messages().Get(i)
		note(message)
		for j := range message.Fields().Len() {
			note(message.Fields().Get(j))
		}
		notes(message, note)
	}
	for i := range of.Enums().Len() {
		enum := of.Enums().Get(i)
		note(enum)
		for j := range enum.Values().Len() {
			note(enum.Values().Get(j))
		}
	}
}

// tidy makes one line of each paragraph of a comment, whose lines were broken to fit the proto.
func tidy(comment string) string {
	var paragraphs []string
	for _, paragraph := range strings.Split(comment, "\n\n") {
		if words := strings.Fields(paragraph); len(words) > 0 {
			paragraphs = append(paragraphs, strings.Join(words, " "))
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func commentOf(d protoreflect.Descriptor) (string, error) {
	all, err := comments()
	return all[d.FullName()], err
}
