package civo

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

func networkResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A private network.",
		Properties: []nativeprovider.Property{
			{Name: "label", Required: true, Check: checkName, Description: "Name of the network, unique in its region. Changes in place."},
			{Name: "cidrV4", Computed: true, Replaces: true, Equal: equalPrefix, Check: checkPrefix, Description: "IPv4 range."},
			{Name: "nameserversV4s", Type: nativeprovider.List, Elem: &nativeprovider.Property{}, Computed: true, Description: "Name servers."},
			regionProperty(),
			{Name: "vlanId", Type: nativeprovider.Int, Replaces: true, Description: "VLAN to connect to (private regions)."},
			{Name: "vlanCidrV4", Replaces: true, Description: "IPv4 range of the VLAN."},
			{Name: "vlanGatewayIpV4", Replaces: true, Description: "Gateway of the VLAN."},
			{Name: "vlanPhysicalInterface", Replaces: true, Description: "Interface of the VLAN."},
			{Name: "vlanAllocationPoolV4Start", Replaces: true, Description: "First address to hand out in the VLAN."},
			{Name: "vlanAllocationPoolV4End", Replaces: true, Description: "Last address to hand out in the VLAN."},
			{Name: "default", Type: nativeprovider.Bool, Output: true, Description: "Whether it is the region's default network."},
			{Name: "name", Output: true, Description: "Civo's own name of the network.", ChangesWith: []string{"label"}},
		},
		Timeouts: nativeprovider.Timeouts{Create: 10 * time.Minute, Update: 10 * time.Minute, Delete: 10 * time.Minute},
		Diff: func(diff *nativeprovider.Diff) error {
			// The API takes no empty list of name servers for "none": it leaves what is there.
			if diff.Known("nameserversV4s") && len(nativeprovider.GetStrings(diff.New, "nameserversV4s")) == 0 {
				diff.Drop("nameserversV4s")
			}
			return nil
		},
		Parent:              "region",
		Identity:            []string{"cidrV4", "vlanId"},
		DeleteBeforeReplace: keeps("label"),
		Create:              createNetwork,
		Read:                readNetwork,
		Update:              updateNetwork,
		Delete:              deleteNetwork,
	}
}

func checkPrefix(value any) error {
	prefix, _ := value.(string)
	if parsed, err := netip.ParsePrefix(prefix); err != nil || !parsed.Addr().Is4() {
		return errors.Errorf("%q is not an IPv4 range in CIDR notation, such as 10.10.0.0/16", prefix)
	}
	return nil
}

func equalPrefix(old, new any) bool {
	a, _ := old.(string)
	b, _ := new.(string)
	x, errX := netip.ParsePrefix(a)
	y, errY := netip.ParsePrefix(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x.Masked() == y.Masked()
}

func networkPath(id string) string { return "/v2/networks/" + url.PathEscape(id) }

func (r regional) network(ctx context.Context, id string) (*civogo.Network, error) {
	network := &civogo.Network{}
	if err := r.call(ctx, http.MethodGet, networkPath(id), nil, network); err != nil {
		return nil, err
	}
	if network.ID == "" {
		return nil, holdsNothing(networkPath(id), "network")
	}
	return network, nil
}

func (r regional) networks(ctx context.Context) ([]civogo.Network, error) {
	const path = "/v2/networks"
	var networks []civogo.Network
	err := r.call(ctx, http.MethodGet, path, nil, &networks)
	if err == nil && networks == nil {
		err = holdsNothing(path, "list of networks")
	}
	return networks, err
}

// defaultNetwork is the id of the network that objects get which name none.
func (r regional) defaultNetwork(ctx context.Context) (string, error) {
	networks, err := r.networks(ctx)
	if err != nil {
		return "", err
	}
	for _, network := range networks {
		if network.Default {
			return network.ID, nil
		}
	}
	return "", errors.Errorf("region %s has no default network: give networkId", r.code)
}

func createNetwork(
	ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	r, err := c.in(nativeprovider.GetString(inputs, "region"))
	if err != nil {
		return "", nil, err
	}
	label := nativeprovider.GetString(inputs, "label")
	config := civogo.NetworkConfig{
		Label:         label,
		CIDRv4:        nativeprovider.GetString(inputs, "cidrV4"),
		NameserversV4: nativeprovider.GetStrings(inputs, "nameserversV4s"),
		Region:        r.code,
	}
	if nativeprovider.Has(inputs, "vlanId") {
		config.VLanConfig = &civogo.VLANConnectConfig{
			VlanID:                nativeprovider.GetInt(inputs, "vlanId"),
			PhysicalInterface:     nativeprovider.GetString(inputs, "vlanPhysicalInterface"),
			CIDRv4:                nativeprovider.GetString(inputs, "vlanCidrV4"),
			GatewayIPv4:           nativeprovider.GetString(inputs, "vlanGatewayIpV4"),
			AllocationPoolV4Start: nativeprovider.GetString(inputs, "vlanAllocationPoolV4Start"),
			AllocationPoolV4End:   nativeprovider.GetString(inputs, "vlanAllocationPoolV4End"),
		}
	}
	id, err := op.MakeOnce(ctx, r.making("network", label,
		func(ctx context.Context, label string) ([]nativeprovider.Found, error) {
			networks, err := r.networks(ctx)
			var found []nativeprovider.Found
			for i := range networks {
				if networks[i].Label == label {
					found = append(found, nativeprovider.Found{ID: networks[i].ID, State: networkState(r, &networks[i])})
				}
			}
			return found, err
		},
		func(ctx context.Context) (string, error) {
			var made civogo.NetworkResult
			err := r.call(ctx, http.MethodPost, "/v2/networks", config, &made)
			return made.ID, err
		}))
	if err != nil {
		return "", nil, errors.Wrapf(err, "create civo network %s", label)
	}
	state, err := waitForNetwork(ctx, op, r, id)
	if state == nil {
		state = resource.PropertyMap{"region": text(r.code)}
	}
	return id, state, errors.Wrapf(err, "create civo network %s", label)
}

// waitForNetwork waits until a network can be used and returns its state.
func waitForNetwork(ctx context.Context, op *nativeprovider.Operation, r regional, id string) (resource.PropertyMap, error) {
	var state resource.PropertyMap
	err := nativeprovider.PollUntil(ctx, nativeprovider.Poll{What: "network " + id + " to become active", Operation: op},
		func(ctx context.Context) (bool, string, error) {
			network, err := r.network(ctx, id)
			if err != nil {
				return false, "", err
			}
			state = networkState(r, network)
			switch strings.ToLower(network.Status) {
			case "building", "pending", "creating":
				return false, network.Status, nil
			case "error", "failed":
				return false, "", errors.Errorf("network %s is in status %s", id, network.Status)
			}
			return true, network.Status, nil
		})
	return state, err
}

func networkState(r regional, network *civogo.Network) resource.PropertyMap {
	state := resource.PropertyMap{
		"label":          text(network.Label),
		"cidrV4":         text(network.CIDR),
		"nameserversV4s": nativeprovider.Strings(network.NameserversV4),
		"region":         text(r.code),
		"default":        resource.NewBoolProperty(network.Default),
		"name":           text(network.Name),
	}
	if network.VlanID != 0 {
		state["vlanId"] = nativeprovider.Whole(network.VlanID)
		state["vlanCidrV4"] = text(network.CIDR)
		state["vlanGatewayIpV4"] = text(network.GatewayIPv4)
		state["vlanPhysicalInterface"] = text(network.PhysicalInterface)
		state["vlanAllocationPoolV4Start"] = text(network.AllocationPoolV4Start)
		state["vlanAllocationPoolV4End"] = text(network.AllocationPoolV4End)
	}
	return state
}

func readNetwork(
	ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	var network *civogo.Network
	r, err := c.locate(ctx, nativeprovider.GetString(state, "region"), func(r regional) error {
		network, err = r.network(ctx, id)
		return err
	})
	if err != nil {
		return "", nil, errors.Wrapf(err, "read civo network %s", id)
	}
	return id, networkState(r, network), nil
}

func updateNetwork(
	ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	r, err := c.in(nativeprovider.GetString(state, "region"))
	if err != nil {
		return nil, err
	}
	config := civogo.NetworkConfig{
		Label:         nativeprovider.GetString(inputs, "label"),
		NameserversV4: nativeprovider.GetStrings(inputs, "nameserversV4s"),
		Region:        r.code,
	}
	if err := r.call(ctx, http.MethodPut, networkPath(id), config, nil); err != nil {
		return nil, errors.Wrapf(err, "update civo network %s", id)
	}
	updated, err := waitForNetwork(ctx, op, r, id)
	return updated, errors.Wrapf(err, "update civo network %s", id)
}

// inUseCode is a code of a network or firewall that something still uses: a cluster, an instance or its snapshot, volumes, a load balancer, a
// database. Civo frees them some time after the user of it is gone.
var inUseCode = regexp.MustCompile(`^database_(network|firewall)_(inuse|used)_by_|^database_network_delete_with_instance$`)

func isInUse(err error) bool {
	var answer *apiError
	return errors.As(err, &answer) && inUseCode.MatchString(answer.Code)
}

func deleteNetwork(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	r, err := c.in(nativeprovider.GetString(state, "region"))
	if err != nil {
		return err
	}
	if err := r.remove(ctx, op, "network "+id, networkPath(id), func(ctx context.Context) error {
		_, err := r.network(ctx, id)
		return err
	}); err != nil {
		return errors.Wrapf(err, "delete civo network %s", id)
	}

	// The official plugin makes a firewall for each network that no one else knows of.
	firewalls, err := r.firewalls(ctx)
	if err != nil {
		op.Warn("could not look for the firewall that was made with network " + id + ": " + err.Error())
		return nil
	}
	own := nativeprovider.GetString(state, "label") + "-default"
	for _, firewall := range firewalls {
		if firewall.NetworkID != id || firewall.Name != own {
			continue
		}
		err := r.call(ctx, http.MethodDelete, firewallPath(firewall.ID), nil, nil)
		if err != nil && !nativeprovider.IsNotFound(err) {
			op.Warn("could not delete firewall " + own + " that was made with network " + id + ": " + err.Error())
		}
	}
	return nil
}

// remove deletes what stands at path and waits until it is gone. While something still uses it, it tries again. A DELETE that says not-found
// is a success, the first one and any other.
func (r regional) remove(
	ctx context.Context, op *nativeprovider.Operation, what, path string, get func(ctx context.Context) error,
) error {
	deleted := false
	return nativeprovider.PollUntil(ctx, nativeprovider.Poll{What: what + " to be deleted", First: 200 * time.Millisecond, Operation: op},
		func(ctx context.Context) (bool, string, error) {
			if !deleted {
				err := r.call(ctx, http.MethodDelete, path, nil, nil)
				switch {
				case nativeprovider.IsNotFound(err):
					return true, "", nil
				case isInUse(err), hasCode(err, busyCodes...):
					return false, err.Error(), nil
				case err != nil && nativeprovider.IsTransient(err):
					return false, "", stop(err)
				case err != nil:
					return false, "", err
				}
				deleted = true
			}
			err := get(ctx)
			if nativeprovider.IsNotFound(err) {
				return true, "", nil
			}
			return false, "deleting", err
		})
}
