package v1

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
	"github.com/samber/lo"
)

// NodeClassHashVersion is the version of the way in which Hash is made. It changes with every change of the specification or of Hash that gives
// an unchanged CloudStackNodeClass another hash: hashes of different versions are not compared, so that no machine is replaced for it.
const NodeClassHashVersion = "v1"

// Hash is the hash of the fields that a machine cannot change during its life. Fields that are looked at one by one (zones, networks,
// offerings, templates, security groups), or that are changed on machines that run (tags), are not part of it, and neither is whether the
// default of affinity or bootstrap is spelled out.
func (in *CloudStackNodeClass) Hash() string {
	spec := in.Spec.DeepCopy()
	// Sets have no order. Lists that have one, such as disks, keep it, and their duplicates: hashing them as sets would lose both.
	slices.Sort(spec.SSHKeyPairs)
	if spec.Affinity != nil {
		slices.Sort(spec.Affinity.GroupIDs)
		if spec.Affinity.Mode == AffinityNone {
			spec.Affinity = nil
		}
	}
	if spec.Bootstrap != nil {
		if spec.Bootstrap.Mode == BootstrapCustom {
			spec.Bootstrap.Mode = ""
		}
		if !lo.FromPtr(spec.Bootstrap.MintToken) {
			spec.Bootstrap.MintToken = nil
		}
		if reflect.ValueOf(*spec.Bootstrap).IsZero() {
			spec.Bootstrap = nil
		}
	}
	return strconv.FormatUint(lo.Must(hashstructure.Hash(spec, hashstructure.FormatV2, &hashstructure.HashOptions{
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})), 10)
}
