package main

import (
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// readComments reads the comments of the service's messages, fields, services and methods out of an image of the protos.
func readComments(image []byte) (map[protoreflect.FullName]string, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(image, set); err != nil {
		return nil, errors.Wrap(err, "parse the image of the protos")
	}
	ours := string(nodepoolsv1.File_org_project_planton_nodepools_v1_service_proto.Package())
	found := map[protoreflect.FullName]string{}
	for _, file := range set.GetFile() {
		if file.GetPackage() != ours {
			continue
		}
		descriptor, err := protodesc.FileOptions{AllowUnresolvable: true}.New(file, protoregistry.GlobalFiles)
		if err != nil {
			return nil, errors.Wrapf(err, "read %s", file.GetName())
		}
		note := func(d protoreflect.Descriptor) {
			comment := descriptor.SourceLocations().ByDescriptor(d).LeadingComments
			found[d.FullName()] = strings.Join(strings.Fields(comment), " ")
		}
		for i := range descriptor.Messages().Len() {
			message := descriptor.Messages().Get(i)
			note(message)
			for j := range message.Fields().Len() {
				note(message.Fields().Get(j))
			}
		}
		for i := range descriptor.Services().Len() {
			service := descriptor.Services().Get(i)
			note(service)
			for j := range service.Methods().Len() {
				note(service.Methods().Get(j))
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.Errorf("the image holds nothing of %s: run make generate", ours)
	}
	return found, nil
}
