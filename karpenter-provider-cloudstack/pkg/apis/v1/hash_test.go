package v1

import (
	"testing"

	"github.com/samber/lo"
	"k8s.io/apimachinery/pkg/api/resource"
)

func spec() CloudStackNodeClassSpec {
	return CloudStackNodeClassSpec{
		Zones:                        []string{"a"},
		ServiceOfferingSelectorTerms: []ServiceOfferingSelectorTerm{{Name: "m1"}},
		TemplateSelectorTerms:        []TemplateSelectorTerm{{Name: "ubuntu"}},
		UserData:                     lo.ToPtr("#!/bin/sh"),
		SSHKeyPairs:                  []string{"a", "b"},
		DataDisks:                    []DataDisk{{DiskOfferingID: "1"}, {DiskOfferingID: "2"}},
		Details:                      map[string]string{"rootDiskController": "scsi"},
		Kubelet:                      &KubeletConfiguration{ClusterDNS: []string{"10.0.0.10", "10.0.0.11"}},
	}
}

func TestHash(t *testing.T) {
	// The hash of a NodeClass that nobody has changed must stay: another one replaces all machines. Where this test fails, either that is
	// undone, or NodeClassHashVersion is changed with the number below.
	const want, version = "2674865168847447727", "v1"
	class := func(change func(*CloudStackNodeClassSpec)) string {
		in := &CloudStackNodeClass{Spec: spec()}
		if change != nil {
			change(&in.Spec)
		}
		return in.Hash()
	}
	if got := class(nil); got != want || NodeClassHashVersion != version {
		t.Errorf("have %s of version %s, want %s of %s", got, NodeClassHashVersion, want, version)
	}
	for name, change := range map[string]func(*CloudStackNodeClassSpec){
		"zones":     func(s *CloudStackNodeClassSpec) { s.Zones = []string{"b"} },
		"zone":      func(s *CloudStackNodeClassSpec) { s.Zones, s.Zone = nil, "a" },
		"networks":  func(s *CloudStackNodeClassSpec) { s.NetworkSelectorTerms = []NetworkSelectorTerm{{Name: "n"}} },
		"offerings": func(s *CloudStackNodeClassSpec) { s.ServiceOfferingSelectorTerms[0].Name = "m2" },
		"templates": func(s *CloudStackNodeClassSpec) { s.TemplateSelectorTerms[0].Name = "debian" },
		"security groups": func(s *CloudStackNodeClassSpec) {
			s.SecurityGroupSelectorTerms = []SecurityGroupSelectorTerm{{Name: "g"}}
		},
		"tags":           func(s *CloudStackNodeClassSpec) { s.Tags = map[string]string{"a": "b"} },
		"pricing":        func(s *CloudStackNodeClassSpec) { s.Pricing = &Pricing{CPUHour: lo.ToPtr(resource.MustParse("1"))} },
		"expunge":        func(s *CloudStackNodeClassSpec) { s.ExpungeOnDelete = lo.ToPtr(false) },
		"order of a set": func(s *CloudStackNodeClassSpec) { s.SSHKeyPairs = []string{"b", "a"} },
		"affinity None":  func(s *CloudStackNodeClassSpec) { s.Affinity = &Affinity{Mode: AffinityNone} },
		"bootstrap that is the default": func(s *CloudStackNodeClassSpec) {
			s.Bootstrap = &Bootstrap{Mode: BootstrapCustom, MintToken: lo.ToPtr(false)}
		},
	} {
		if class(change) != class(nil) {
			t.Errorf("a change that machines can follow, or that is none, changes the hash: %s", name)
		}
	}
	seen := map[string]string{class(nil): "unchanged"}
	for name, change := range map[string]func(*CloudStackNodeClassSpec){
		"user data":       func(s *CloudStackNodeClassSpec) { s.UserData = lo.ToPtr("#!/bin/bash") },
		"no user data":    func(s *CloudStackNodeClassSpec) { s.UserData = nil },
		"user data ref":   func(s *CloudStackNodeClassSpec) { s.UserDataSecretRef = &SecretKeyReference{Name: "x"} },
		"bootstrap":       func(s *CloudStackNodeClassSpec) { s.Bootstrap = &Bootstrap{Mode: BootstrapKubeadm, Endpoint: "a:6443"} },
		"kubelet":         func(s *CloudStackNodeClassSpec) { s.Kubelet.MaxPods = lo.ToPtr(int32(20)) },
		"order of DNS":    func(s *CloudStackNodeClassSpec) { s.Kubelet.ClusterDNS = []string{"10.0.0.11", "10.0.0.10"} },
		"root disk":       func(s *CloudStackNodeClassSpec) { s.RootDisk = &RootDisk{SizeGiB: lo.ToPtr(int64(20))} },
		"another disk":    func(s *CloudStackNodeClassSpec) { s.DataDisks = append(s.DataDisks, DataDisk{DiskOfferingID: "2"}) },
		"two more disks":  func(s *CloudStackNodeClassSpec) { s.DataDisks = append(s.DataDisks, s.DataDisks[1], s.DataDisks[1]) },
		"order of disks":  func(s *CloudStackNodeClassSpec) { s.DataDisks[0], s.DataDisks[1] = s.DataDisks[1], s.DataDisks[0] },
		"keys":            func(s *CloudStackNodeClassSpec) { s.SSHKeyPairs = []string{"a"} },
		"affinity":        func(s *CloudStackNodeClassSpec) { s.Affinity = &Affinity{Mode: AffinityAnti} },
		"affinity groups": func(s *CloudStackNodeClassSpec) { s.Affinity = &Affinity{Mode: AffinityGroup, GroupIDs: []string{"x"}} },
		"project":         func(s *CloudStackNodeClassSpec) { s.ProjectID = "p" },
		"account":         func(s *CloudStackNodeClassSpec) { s.Account, s.DomainID = "a", "d" },
		"details":         func(s *CloudStackNodeClassSpec) { s.Details["rootDiskController"] = "virtio" },
	} {
		hash := class(change)
		if other, there := seen[hash]; there {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[hash] = name
	}
	in := &CloudStackNodeClass{Spec: spec()}
	in.Spec.SSHKeyPairs = []string{"b", "a"}
	in.Hash()
	if in.Spec.SSHKeyPairs[0] != "b" {
		t.Error("Hash changes what it hashes")
	}
}
