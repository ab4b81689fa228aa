package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
)

// heldKinds are the kinds that the cloud does not delete while something uses them. What uses them has a stack of its own, whose turn
// comes later, so a replacement would wait for it in vain and end half-way. A cluster is not among them: its pools go with it.
var heldKinds = []cloudresourcekind.CloudResourceKind{
	cloudresourcekind.CloudResourceKind_CivoFirewall,
	cloudresourcekind.CloudResourceKind_CivoVpc,
	cloudresourcekind.CloudResourceKind_DigitalOceanVpc,
}

// preview is Engine.Preview, which also refuses a replacement that could only end half-way.
func (s *Set) preview(ctx context.Context, member Member, stack Stack) (*Result, error) {
	result, err := s.engine.Preview(ctx, stack)
	if err != nil {
		return result, err
	}
	return result, s.checkReplacement(ctx, member, result)
}

// up is Engine.Up. Where a replacement could end half-way it looks first.
func (s *Set) up(ctx context.Context, member Member, stack Stack) (*Result, error) {
	users, err := s.usersOf(ctx, member)
	if err != nil {
		return nil, err
	}
	if len(users) > 0 {
		if _, err := s.preview(ctx, member, stack); err != nil {
			return nil, err
		}
	}
	return s.engine.Up(ctx, stack)
}

// checkReplacement refuses a planned replacement of a network or a firewall that others in the set use.
func (s *Set) checkReplacement(ctx context.Context, member Member, planned *Result) error {
	if planned.Changes[OpReplace] == 0 {
		return nil
	}
	users, err := s.usersOf(ctx, member)
	if err != nil || len(users) == 0 {
		return err
	}
	return &Error{
		Kind: Refused, Stack: member.Identity, Operation: "update", Result: planned,
		Message: fmt.Sprintf("the change of %s is refused: it replaces %s, which cannot be deleted while %s; destroy what uses it first "+
			"(planton destroy -f), then apply again, or leave it as it is and declare another one under another name",
			strings.Join(replacing(planned), ", "), member.key, use(users)),
	}
}

// replacing are the properties for which resources are replaced.
func replacing(planned *Result) []string {
	var names []string
	for _, change := range planned.Resources {
		if change.Op != OpReplace {
			continue
		}
		for _, property := range change.Properties {
			if property.Replaces {
				names = append(names, property.Path)
			}
		}
	}
	return names
}

func use(users []string) string {
	if len(users) == 1 {
		return users[0] + " uses it"
	}
	return strings.Join(users[:len(users)-1], ", ") + " and " + users[len(users)-1] + " use it"
}

// usersOf are the members that refer to a network or a firewall and have been provisioned.
func (s *Set) usersOf(ctx context.Context, used Member) ([]string, error) {
	if !slices.Contains(heldKinds, used.Manifest.Kind.Number) {
		return nil, nil
	}
	var users []string
	for _, member := range s.members {
		for _, ref := range member.references {
			if ref.KeyOf(member.Manifest.Target) != used.key {
				continue
			}
			provisioned, err := s.engine.hasOutputs(ctx, member.Identity)
			if err != nil {
				return nil, err
			}
			if provisioned {
				users = append(users, member.key.String())
			}
			break
		}
	}
	return users, nil
}
