package civo

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// apiError is an error as Civo's API answers it. Clients tell errors apart by the code alone.
type apiError struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Result string `json:"result"`
}

// Error is for the edits of tests; clients get the JSON.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Reason) }

func refuse(status int, code, reason string, args ...any) *apiError {
	return &apiError{Status: status, Code: code, Reason: fmt.Sprintf(reason, args...), Result: "failed"}
}

func writeError(w http.ResponseWriter, err error) {
	var refused *apiError
	if !errors.As(err, &refused) {
		// Only the emulator itself can fail, at its state file: the call has changed nothing.
		refused = refuse(http.StatusInternalServerError, "internal_server_error", "%s", err)
	}
	emulator.WriteJSON(w, refused.Status, refused)
}

func errAccountNotFound() *apiError {
	return refuse(http.StatusUnauthorized, "database_account_not_found", "Failed to find the account within the internal database")
}

func errNoSuchEndpoint(r *http.Request) *apiError {
	return refuse(http.StatusNotFound, "not_found", "The emulated cloud has no %s %s", r.Method, r.URL.Path)
}

func errUnreadable(err error) *apiError {
	return refuse(http.StatusBadRequest, "parse_request_failed", "Failed to parse the request: %s", err)
}

func errRegionUnavailable(code string) *apiError {
	codes := make([]string, len(regions))
	for i, region := range regions {
		codes[i] = region.Code
	}
	return refuse(http.StatusBadRequest, "region_unavailable", "Region %s is not available; there are %s", code, strings.Join(codes, ", "))
}

func errQuota(what string, limit, wanted int) *apiError {
	return refuse(http.StatusForbidden, "quota_limit_reached", "The quota of %d %s does not allow %d", limit, what, wanted)
}

func errRateLimit() *apiError {
	return refuse(http.StatusTooManyRequests, "too_many_requests", "Too many requests, slow down")
}

func errOutOfCapacity() *apiError {
	return refuse(http.StatusServiceUnavailable, "out_of_capacity", "The region is out of capacity, try another one or try again later")
}

func errNetworkNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_network_not_found", "Failed to find the network %q within the internal database", id)
}

func errNetworkExists(label string) *apiError {
	return refuse(http.StatusConflict, "database_network_exists", "A network with the label %q already exists", label)
}

func errNetworkDuplicateName(label string) *apiError {
	return refuse(http.StatusConflict, "database_network_duplicate_name", "A network with the label %q already exists", label)
}

func errNetworkInvalid(reason string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "database_network_create", reason, args...)
}

func errNetworkInUse(label string) *apiError {
	return refuse(http.StatusConflict, "database_network_inuse_by_cluster", "The network %q is in use by a Kubernetes cluster", label)
}

// errNetworkHasVolumes is what Civo answers also when the cluster of the volumes is gone:
// https://github.com/konstructio/kubefirst/issues/1933
func errNetworkHasVolumes(label string) *apiError {
	return refuse(http.StatusConflict, "database_network_inuse_by_volumes", "The network %q is in use by volumes", label)
}

func errNetworkIsDefault() *apiError {
	return refuse(http.StatusBadRequest, "network_delete_default", "The default network cannot be deleted")
}

func errLabelInvalid(label string) *apiError {
	return refuse(http.StatusBadRequest, "parameter_label_invalid", "The label %q is not valid: want 1 to 63 characters without white space", label)
}

func errNameInvalid(name string) *apiError {
	return refuse(http.StatusBadRequest, "parameter_name_invalid", "The name %q is not valid: want 1 to 63 characters without white space", name)
}

func errFirewallNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_firewall_not_found", "Failed to find the firewall %q within the internal database", id)
}

func errFirewallExists(name string) *apiError {
	return refuse(http.StatusConflict, "database_firewall_exists", "A firewall with the name %q already exists", name)
}

func errFirewallDuplicateName(name string) *apiError {
	return refuse(http.StatusConflict, "database_firewall_duplicate_name", "A firewall with the name %q already exists", name)
}

func errFirewallInUse(name string) *apiError {
	return refuse(http.StatusConflict, "database_firewall_inuse_by_cluster", "The firewall %q is in use by a Kubernetes cluster", name)
}

func errFirewallMismatch(firewall, network string) *apiError {
	return refuse(http.StatusBadRequest, "database_firewall_mismatch", "The firewall %q is not in the network %q", firewall, network)
}

func errFirewallMissing() *apiError {
	return refuse(http.StatusBadRequest, "parameter_value_missing", "A firewall is required: give instance_firewall")
}

func errRuleNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_firewall_rules_find", "Failed to find the firewall rule %q within the internal database", id)
}

func errRuleInvalid(reason string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "database_firewall_rules_invalid_params", reason, args...)
}

func errStartPortMissing(protocol string) *apiError {
	return refuse(http.StatusBadRequest, "parameter_start_port_missing", "A rule for %s needs ports or start_port", protocol)
}

func errClusterNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_kubernetes_cluster_not_found", "Failed to find the Kubernetes cluster %q within the internal database", id)
}

func errClusterDuplicate(name string) *apiError {
	return refuse(http.StatusConflict, "database_kubernetes_cluster_duplicate", "A Kubernetes cluster with the name %q already exists", name)
}

func errClusterName(name string) *apiError {
	return refuse(http.StatusBadRequest, "kubernetes_cluster_invalid_name",
		"The name %q is not valid: want 1 to 63 letters, digits, dots, dashes and underscores", name)
}

func errClusterInvalid(reason string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "database_kubernetes_cluster_invalid", reason, args...)
}

func errClusterVersion(reason string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "database_kubernetes_cluster_invalid_version", reason, args...)
}

func errNoPools() *apiError {
	return refuse(http.StatusBadRequest, "database_kubernetes_cluster_no_pools", "A Kubernetes cluster needs at least one node pool")
}

func errAlreadyRescaling(status string) *apiError {
	return refuse(http.StatusConflict, "cannot_scale_already_rescaling_cluster", "The cluster is %s, wait until it is ACTIVE", status)
}

func errSizeNotFound(size string) *apiError {
	return refuse(http.StatusBadRequest, "database_size_not_found", "Failed to find the size %q within the internal database", size)
}

func errApplicationNotFound(name string) *apiError {
	return refuse(http.StatusBadRequest, "database_kubernetes_application_not_found", "Failed to find the application %q within the internal database", name)
}

func errApplicationPlan(name, plan string) *apiError {
	return refuse(http.StatusBadRequest, "database_kubernetes_application_invalid_plan", "The application %q has no plan %q", name, plan)
}

func errVolumeNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_volume_not_found", "Failed to find the volume %q within the internal database", id)
}

func errLoadBalancerNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_loadbalancer_not_found", "Failed to find the load balancer %q within the internal database", id)
}

func errPoolNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_cluster_pool_not_found", "Failed to find the node pool %q within the internal database", id)
}

func errPoolDuplicate(id string) *apiError {
	return refuse(http.StatusConflict, "database_kubernetes_cluster_invalid", "The cluster has a node pool %q already", id)
}

func errPoolInstanceNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "database_cluster_pool_instance_not_found", "Failed to find the instance %q within the node pool", id)
}

func errPoolInsufficient(reason string) *apiError {
	return refuse(http.StatusConflict, "database_cluster_pool_no_sufficient_instances_available", "%s", reason)
}
