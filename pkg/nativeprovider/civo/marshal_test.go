package civo

import (
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"google.golang.org/protobuf/types/known/structpb"
)

func marshal(t *testing.T, m resource.PropertyMap) *structpb.Struct {
	t.Helper()
	marshalled, err := plugin.MarshalProperties(m, marshalOptions)
	if err != nil {
		t.Fatal(err)
	}
	return marshalled
}

func unmarshal(t *testing.T, s *structpb.Struct) resource.PropertyMap {
	t.Helper()
	if s == nil {
		return nil
	}
	m, err := plugin.UnmarshalProperties(s, marshalOptions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
