package bootstrap_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake/kubelet"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
)

// documented is the script of docs/BOOTSTRAP.md.
const documented = `#!/bin/bash
set -eu
cat >/etc/default/kubelet <<EOF
KUBELET_EXTRA_ARGS=--node-labels={{ .Labels }} --register-with-taints={{ .Taints }} --provider-id={{ .ProviderIDPrefix }}$(cloud-init query instance_id) {{ .KubeletArgs }}
EOF
kubeadm join {{ .Endpoint }} --node-name {{ .NodeName }} --token {{ .Token }} --discovery-token-ca-cert-hash {{ .CACertHash }}
`

// TestKubeletIsTold has the user data of each mode read by what plays the kubelet elsewhere, which knows nothing of how it was made.
func TestKubeletIsTold(t *testing.T) {
	labels := map[string]string{karpv1.NodePoolLabelKey: "general", corev1.LabelTopologyZone: "zone-01", "team": "a_b.c-D"}
	taints := []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredNoExecuteTaint}
	for mode, endpoint := range map[csv1.BootstrapMode]string{
		csv1.BootstrapKubeadm: "10.0.0.10:6443", csv1.BootstrapK3s: "https://10.0.0.10:6443", csv1.BootstrapRKE2: "https://10.0.0.10:9345", csv1.BootstrapCustom: "10.0.0.10:6443",
	} {
		c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "join"}, Data: map[string][]byte{"token": []byte("abcdef.0123456789abcdef")},
		}).Build()
		p := bootstrap.NewProvider(c, c, clocktesting.NewFakePassiveClock(time.Now()), bootstrap.Options{Namespace: "karpenter"})
		nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{
			UserData:  lo.ToPtr(lo.Ternary(mode == csv1.BootstrapCustom, documented, "#!/bin/sh\ntrue\n")),
			Bootstrap: &csv1.Bootstrap{Mode: mode, Endpoint: endpoint, TokenSecretRef: &csv1.SecretKeyReference{Name: "join"}, CABundle: []byte(certificate)},
			Kubelet:   &csv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "5%"}},
		}}
		userData, err := p.Render(context.Background(), bootstrap.Request{
			NodeClass: nodeClass, NodeClaim: &karpv1.NodeClaim{}, NodeName: "n1", Labels: labels, Taints: taints[:1],
			InstanceType: &cloudprovider.InstanceType{
				Capacity: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("42")},
				Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("255Mi")}},
			},
		})
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		got, err := kubelet.ParseUserData(userData)
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		if !maps.Equal(got.Labels, labels) {
			t.Errorf("%s: labels %v, not %v", mode, got.Labels, labels)
		}
		if len(got.Taints) != 2 || got.Taints[0] != taints[0] || got.Taints[1] != taints[1] {
			t.Errorf("%s: taints %v, not %v", mode, got.Taints, taints)
		}
		if memory := got.KubeReserved[corev1.ResourceMemory]; got.MaxPods != 42 || memory.String() != "255Mi" || got.EvictionHard["memory.available"] != "5%" || got.ProviderID == "" {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

// certificate is one, with no key to it.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUIvWwGTahaYpUP7XppTs5CzNwMeMwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjExODQwNDJaGA8yMTI2MTAy
ODE4NDA0MlowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABN7PChc/FCZxwE9gUCj2ezGjPuScq8M1j8IFh8XqcrpOBc6FXfbP
oXNC3igxQEOzq0oePHLiegqonxFOITUUL2KjUzBRMB0GA1UdDgQWBBQckZELZs2/
RWBSUvGK/OL/DznhmDAfBgNVHSMEGDAWgBQckZELZs2/RWBSUvGK/OL/DznhmDAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIFB5Gb3lrNf5fjL/sOO6
s6VFE4I6ItPXjj8Wt3QqN1OiAiEA4wERFldeSjEDT2R0caC2VapOYIzwQ1kBkaOh
y201Zps=
-----END CERTIFICATE-----
`
