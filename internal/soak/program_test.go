//go:build linux

package soak

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"

	civofirewall "github.com/plantonhq/project-planton/iac/pulumi/civo/civofirewall/module"
	civokubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetescluster/module"
	civokubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetesnodepool/module"
	civovpc "github.com/plantonhq/project-planton/iac/pulumi/civo/civovpc/module"
	digitaloceankubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetescluster/module"
	digitaloceankubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetesnodepool/module"
	digitaloceanvpc "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceanvpc/module"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// program is a Pulumi program that imports the modules, as examples/programs does. A reference of a manifest is an output of the
// component that it means. The tokens and the addresses of the clouds are the environment's.
type program struct {
	civo         *civoprovider.Provider
	digitalOcean *digitaloceanprovider.Provider
	// outputs are the ids that references mean, by the name of the manifest.
	outputs map[string]pulumi.StringOutput
}

func newProgram(manifests []proto.Message) pulumi.RunFunc {
	return func(ctx *pulumi.Context) error {
		p := &program{outputs: map[string]pulumi.StringOutput{}}
		for _, manifest := range manifests {
			// The program may run more than once, and register takes the references out.
			if err := p.register(ctx, proto.Clone(manifest)); err != nil {
				return err
			}
		}
		return nil
	}
}

// id is the output that a reference means; nil for none.
func (p *program) id(reference *foreignkeyv1.StringValueOrRef) pulumi.StringInput {
	if reference == nil {
		return nil
	}
	return p.outputs[reference.GetValueFrom().GetName()]
}

func (p *program) onCivo(ctx *pulumi.Context, region string) (*civoprovider.Provider, error) {
	if p.civo != nil {
		return p.civo, nil
	}
	var err error
	p.civo, err = pulumicivoprovider.Get(ctx, nil, pulumicivoprovider.Region(region))
	return p.civo, err
}

func (p *program) onDigitalOcean(ctx *pulumi.Context) (*digitaloceanprovider.Provider, error) {
	if p.digitalOcean != nil {
		return p.digitalOcean, nil
	}
	var err error
	p.digitalOcean, err = pulumidigitaloceanprovider.Get(ctx, nil)
	return p.digitalOcean, err
}

func (p *program) register(ctx *pulumi.Context, manifest proto.Message) error {
	switch target := manifest.(type) {
	case *civovpcv1.CivoVpc:
		provider, err := p.onCivo(ctx, target.Spec.Region)
		if err != nil {
			return err
		}
		name := target.Metadata.Name
		network, err := civovpc.New(ctx, name, &civovpc.Args{Metadata: target.Metadata, Spec: target.Spec, Provider: provider})
		if err != nil {
			return err
		}
		p.outputs[name] = network.NetworkId
	case *civofirewallv1.CivoFirewall:
		name := target.Metadata.Name
		networkID := p.id(target.Spec.NetworkId)
		target.Spec.NetworkId = nil
		firewall, err := civofirewall.New(ctx, name, &civofirewall.Args{
			Metadata: target.Metadata, Spec: target.Spec, Provider: p.civo, NetworkId: networkID,
		})
		if err != nil {
			return err
		}
		p.outputs[name] = firewall.FirewallId
	case *civokubernetesclusterv1.CivoKubernetesCluster:
		name := target.Metadata.Name
		args := &civokubernetescluster.Args{
			Metadata: target.Metadata, Spec: target.Spec, Provider: p.civo,
			NetworkId: p.id(target.Spec.Network), FirewallId: p.id(target.Spec.Firewall),
		}
		target.Spec.Network, target.Spec.Firewall = nil, nil
		cluster, err := civokubernetescluster.New(ctx, name, args)
		if err != nil {
			return err
		}
		p.outputs[name] = cluster.ClusterId
		ctx.Export(name+"-kubeconfig", cluster.Kubeconfig)
	case *civokubernetesnodepoolv1.CivoKubernetesNodePool:
		clusterID := p.id(target.Spec.Cluster)
		target.Spec.Cluster = nil
		_, err := civokubernetesnodepool.New(ctx, target.Metadata.Name, &civokubernetesnodepool.Args{
			Metadata: target.Metadata, Spec: target.Spec, Provider: p.civo, ClusterId: clusterID,
		})
		return err
	case *digitaloceanvpcv1.DigitalOceanVpc:
		provider, err := p.onDigitalOcean(ctx)
		if err != nil {
			return err
		}
		name := target.Metadata.Name
		vpc, err := digitaloceanvpc.New(ctx, name, &digitaloceanvpc.Args{Metadata: target.Metadata, Spec: target.Spec, Provider: provider})
		if err != nil {
			return err
		}
		p.outputs[name] = vpc.VpcId
	case *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster:
		name := target.Metadata.Name
		vpcID := p.id(target.Spec.Vpc)
		target.Spec.Vpc = nil
		cluster, err := digitaloceankubernetescluster.New(ctx, name, &digitaloceankubernetescluster.Args{
			Metadata: target.Metadata, Spec: target.Spec, Provider: p.digitalOcean, VpcId: vpcID,
		})
		if err != nil {
			return err
		}
		p.outputs[name] = cluster.ClusterId
		ctx.Export(name+"-kubeconfig", cluster.Kubeconfig)
	case *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool:
		clusterID := p.id(target.Spec.Cluster)
		target.Spec.Cluster = nil
		_, err := digitaloceankubernetesnodepool.New(ctx, target.Metadata.Name, &digitaloceankubernetesnodepool.Args{
			Metadata: target.Metadata, Spec: target.Spec, Provider: p.digitalOcean, ClusterId: clusterID,
		})
		return err
	default:
		return errors.Errorf("there is no component for %T", manifest)
	}
	return nil
}
