package module

import (
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// liveCluster is what has to be known of a cluster that stands already before a change of it is planned. It has only these
// fields of the lookup's answer, so that the credentials in the answer are never read.
type liveCluster struct {
	Id                    string                                                  `pulumi:"id"`
	Version               string                                                  `pulumi:"version"`
	Ha                    bool                                                    `pulumi:"ha"`
	ControlPlaneFirewalls []digitalocean.GetKubernetesClusterControlPlaneFirewall `pulumi:"controlPlaneFirewalls"`
}

// hasFirewall tells whether the firewall of the control plane is on.
func (c *liveCluster) hasFirewall() bool {
	return c != nil && len(c.ControlPlaneFirewalls) > 0 && c.ControlPlaneFirewalls[0].Enabled
}

// lookupTokenSeconds is how long the token is valid that DigitalOcean issues with every lookup of a cluster, and that no one
// here uses. Without it, each preview would leave a token that is valid for 7 days.
const lookupTokenSeconds = 60

// lookUpCluster finds a cluster by its name, which is unique in an account. It returns nil when there is none. Any other
// failure is an error: a plan that is made without knowing the cluster could replace it.
func lookUpCluster(
	ctx *pulumi.Context, clusterName string, digitalOceanProvider *digitalocean.Provider,
) (*liveCluster, error) {
	expireSeconds := lookupTokenSeconds
	live := &liveCluster{}
	err := ctx.Invoke("digitalocean:index/getKubernetesCluster:getKubernetesCluster",
		&digitalocean.LookupKubernetesClusterArgs{Name: clusterName, KubeconfigExpireSeconds: &expireSeconds},
		live, pulumi.Provider(digitalOceanProvider))
	switch {
	case err == nil:
		return live, nil
	case strings.Contains(strings.ToLower(err.Error()), "unable to find cluster with name"):
		return nil, nil
	}
	return nil, errors.Wrapf(err, "look up digitalocean kubernetes cluster %s", clusterName)
}

// planVersion looks up the cluster and decides its version: see decideVersion. It refuses, before anything is registered,
// what DigitalOcean cannot do to a cluster that stands.
func planVersion(ctx *pulumi.Context, locals *Locals, digitalOceanProvider *digitalocean.Provider) error {
	spec := locals.DigitalOceanKubernetesCluster.Spec

	live, err := lookUpCluster(ctx, spec.ClusterName, digitalOceanProvider)
	if err != nil {
		return err
	}
	if live != nil && live.Ha && !spec.HighlyAvailable {
		return errors.Errorf("spec.highly_available: cluster %s is highly available, which DigitalOcean cannot undo; "+
			"set spec.highly_available to true, or make a second cluster under another name", spec.ClusterName)
	}
	liveVersion := ""
	if live != nil {
		liveVersion = live.Version
	}

	decision, err := decideVersion(spec.KubernetesVersion, liveVersion, spec.AutoUpgrade, func() ([]string, error) {
		versions, err := digitalocean.GetKubernetesVersions(ctx, &digitalocean.GetKubernetesVersionsArgs{},
			pulumi.Provider(digitalOceanProvider))
		if err != nil {
			return nil, errors.Wrap(err, "list the kubernetes versions of digitalocean")
		}
		return versions.ValidVersions, nil
	})
	if err != nil {
		return err
	}
	if decision.notice != "" {
		// DigitalOcean getting ahead is what auto_upgrade asks for. Without it, someone else upgraded the cluster, and the
		// manifest should be brought up to date.
		tell := ctx.Log.Warn
		if spec.AutoUpgrade {
			tell = ctx.Log.Info
		}
		if err := tell(decision.notice, nil); err != nil {
			return errors.Wrap(err, "tell of the kubernetes version")
		}
	}
	locals.Live, locals.Version = live, decision
	return nil
}
