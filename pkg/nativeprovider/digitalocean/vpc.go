package digitalocean

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// vpcDeletion is how long a VPC may take to get rid of its members. A deleted cluster stays a member for minutes, and
// its load balancers and volumes longer.
const vpcDeletion = 15 * time.Minute

func vpcResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A virtual private cloud: a network of its own in one region.",
		Properties: []nativeprovider.Property{
			{Name: "name", Type: nativeprovider.String, Autoname: 255, Check: notEmpty,
				Description: "Name, unique in the account; letters, digits, dashes and periods."},
			{Name: "region", Type: nativeprovider.String, Required: true, Replaces: true, Check: notEmpty, Equal: sameText,
				Description: "Slug of the region, for example nyc3. A change replaces the VPC."},
			{Name: "description", Type: nativeprovider.String, Check: maxLength(255),
				Description: "Free text, at most 255 characters."},
			{Name: "ipRange", Type: nativeprovider.String, Computed: true, Replaces: true, Check: isCIDR,
				Description: "Range of addresses in CIDR notation, /16 to /24; chosen by the platform without it. A change replaces the VPC."},
			{Name: "vpcUrn", Type: nativeprovider.String, Output: true, Description: "DigitalOcean's URN: do:vpc:<id>."},
			{Name: "default", Type: nativeprovider.Bool, Output: true, Description: "Whether it is the default VPC of its region."},
			{Name: "createdAt", Type: nativeprovider.String, Output: true, Description: "When it was created, as Go writes a time."},
		},
		Timeouts:            nativeprovider.Timeouts{Delete: vpcDeletion},
		Identity:            []string{"region", "ipRange", "description"},
		DeleteBeforeReplace: keepsName,
		Create:              createVPC,
		Read:                readVPC,
		Update:              updateVPC,
		Delete:              deleteVPC,
	}
}

func vpcState(vpc *godo.VPC) resource.PropertyMap {
	return resource.PropertyMap{
		"name":        resource.NewProperty(vpc.Name),
		"region":      resource.NewProperty(vpc.RegionSlug),
		"description": resource.NewProperty(vpc.Description),
		"ipRange":     resource.NewProperty(vpc.IPRange),
		"vpcUrn":      resource.NewProperty(vpc.URN),
		"default":     resource.NewProperty(vpc.Default),
		"createdAt":   resource.NewProperty(timeText(vpc.CreatedAt)),
	}
}

func createVPC(ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	request := vpcCreation{
		Name:        nativeprovider.GetString(inputs, "name"),
		Region:      strings.ToLower(nativeprovider.GetString(inputs, "region")),
		Description: nativeprovider.GetString(inputs, "description"),
		IPRange:     nativeprovider.GetString(inputs, "ipRange"),
	}
	c.vpcCreation.Lock()
	id, err := op.MakeOnce(ctx, making("vpc", request.Name, "", c.vpcsNamed, func(ctx context.Context) (string, error) {
		var answer struct {
			VPC *godo.VPC `json:"vpc"`
		}
		if err := c.do(ctx, http.MethodPost, vpcsPath, request, &answer); err != nil {
			return "", err
		}
		return idOf(answer.VPC, func(vpc *godo.VPC) string { return vpc.ID })
	}))
	c.vpcCreation.Unlock()
	if err != nil {
		return "", nil, errors.Wrapf(err, "create digitalocean vpc %s", request.Name)
	}
	vpc, err := c.getVPC(ctx, id)
	if err != nil {
		return id, resource.PropertyMap{}, errors.Wrapf(err, "read digitalocean vpc %s after its creation", id)
	}
	return id, vpcState(vpc), nil
}

// vpcsNamed finds the VPCs with a name.
func (c *client) vpcsNamed(ctx context.Context, name string) ([]nativeprovider.Found, error) {
	var found []nativeprovider.Found
	err := c.eachVPC(ctx, func(vpc *godo.VPC) bool {
		if vpc.Name == name {
			found = append(found, nativeprovider.Found{ID: vpc.ID, Created: vpc.CreatedAt, State: vpcState(vpc)})
		}
		return true
	})
	return found, err
}

func readVPC(ctx context.Context, op *nativeprovider.Operation, id string, _ resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	vpc, err := c.getVPC(ctx, id)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read digitalocean vpc %s", id)
	}
	return vpc.ID, vpcState(vpc), nil
}

func updateVPC(ctx context.Context, op *nativeprovider.Operation, id string, _, inputs resource.PropertyMap) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	vpc, err := c.getVPC(ctx, id)
	if err != nil {
		return nil, errors.Wrapf(err, "read digitalocean vpc %s before its update", id)
	}
	request := vpcUpdate{
		Name:        nativeprovider.GetString(inputs, "name"),
		Description: nativeprovider.GetString(inputs, "description"),
		Default:     vpc.Default, // as it is: the request replaces all of it
	}
	if request.Name != vpc.Name || request.Description != vpc.Description {
		if vpc, err = c.vpc(ctx, http.MethodPut, id, request); err != nil {
			return nil, errors.Wrapf(err, "update digitalocean vpc %s", id)
		}
	}
	return vpcState(vpc), nil
}

// deleteVPC deletes a VPC and repeats that while the VPC still has members: what was in it may have been deleted a
// moment ago.
func deleteVPC(ctx context.Context, op *nativeprovider.Operation, id string, _ resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	wait := nativeprovider.Poll{What: "the members of vpc " + id + " to be gone", Operation: op}
	err = nativeprovider.PollUntil(ctx, wait, func(ctx context.Context) (bool, string, error) {
		err := c.do(ctx, http.MethodDelete, vpcPath(id), nil, nil)
		switch {
		case err == nil, nativeprovider.IsNotFound(err):
			return true, "", nil
		case status(err) == http.StatusConflict, status(err) == http.StatusForbidden && mentionsMembers(err):
			return false, apiMessage(err), nil
		case status(err) == http.StatusForbidden:
			if vpc, readErr := c.getVPC(ctx, id); readErr == nil && vpc.Default {
				return false, "", errors.Wrapf(err, "%s is the default vpc of region %s, which digitalocean does not delete; "+
					"take it out of the state instead (pulumi state delete), or make another vpc the default first", id, vpc.RegionSlug)
			}
		}
		return false, "", err
	})
	return errors.Wrapf(err, "delete digitalocean vpc %s", id)
}

// mentionsMembers tells an answer about members of a VPC from one about rights: the API has used 403 for both.
func mentionsMembers(err error) bool {
	return strings.Contains(strings.ToLower(apiMessage(err)), "member")
}

// apiMessage returns the words of the API in an error.
func apiMessage(err error) string {
	var answer *godo.ErrorResponse
	if errors.As(err, &answer) {
		return answer.Message
	}
	return err.Error()
}

// idOf takes the id out of the answer to a creation. An answer without one leaves the creation undecided.
func idOf[T any](created *T, id func(*T) string) (string, error) {
	if created == nil || id(created) == "" {
		return "", errors.New("the answer to the creation holds no id")
	}
	return id(created), nil
}
