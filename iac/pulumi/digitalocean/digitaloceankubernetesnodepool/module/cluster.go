package module

import (
	"regexp"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// clusterID is the form of the ids that DigitalOcean gives to clusters (UUIDs).
var clusterID = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

func isClusterID(text string) bool { return clusterID.MatchString(text) }

// lookupTokenSeconds is how long the token is valid that DigitalOcean issues with every lookup of a cluster, and that no one
// here uses. Without it, each preview would leave a token that is valid for 7 days.
const lookupTokenSeconds = 60

// findCluster finds the id of the cluster that the manifest names.
func findCluster(ctx *pulumi.Context, locals *Locals, digitalOceanProvider *digitalocean.Provider) error {
	if locals.ClusterName == "" {
		return nil
	}
	// Only the id of the answer is read, never the credentials in it.
	var found struct {
		Id string `pulumi:"id"`
	}
	expireSeconds := lookupTokenSeconds
	err := ctx.Invoke("digitalocean:index/getKubernetesCluster:getKubernetesCluster",
		&digitalocean.LookupKubernetesClusterArgs{Name: locals.ClusterName, KubeconfigExpireSeconds: &expireSeconds},
		&found, pulumi.Provider(digitalOceanProvider))
	if err != nil {
		return errors.Wrapf(err, "spec.cluster: look up the digitalocean kubernetes cluster %q "+
			"(a value that is no id is taken as the cluster's name)", locals.ClusterName)
	}
	if found.Id == "" {
		return errors.Errorf("spec.cluster: the lookup of the digitalocean kubernetes cluster %q gave no id", locals.ClusterName)
	}
	locals.ClusterId = pulumi.String(found.Id)
	return nil
}
