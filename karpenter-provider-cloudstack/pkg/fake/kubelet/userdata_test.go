package kubelet

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
)

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func pack(t *testing.T, text string) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return packed.String()
}

func TestUserDataIsUnderstood(t *testing.T) {
	labels := map[string]string{"a": "b", "c.io/d": "e"}
	taints := []corev1.Taint{
		{Key: "x", Value: "y", Effect: corev1.TaintEffectNoSchedule}, {Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
	}
	const flags = `--node-labels=a=b,c.io/d=e --register-with-taints=x=y:NoSchedule,karpenter.sh/unregistered:NoExecute`
	script := "#!/bin/sh\n# --node-labels=not=this\nexec kubelet " + flags + " --provider-id=external-cloudstack://\"$(cloud-init query instance_id)\" --v=2\n"
	for name, test := range map[string]struct{ text, providerID string }{
		"flags in one line": {script, "external-cloudstack://ID"},
		"flags with blanks, in several lines": {
			"#!/bin/sh\nkubelet \\\n  --node-labels \"a=b,c.io/d=e\" \\\n  --register-with-taints='x=y:NoSchedule,karpenter.sh/unregistered:NoExecute' \\\n" +
				"  --provider-id cloudstack:///$ID\n", "cloudstack:///ID",
		},
		"flags that are told twice": {"#!/bin/sh\nkubelet " + flags + "\n# or\nkubelet " + flags + "\n", ""},
		"an environment file":       {"#!/bin/sh\necho 'KUBELET_EXTRA_ARGS=\"" + flags + "\"' > /etc/default/kubelet\n", ""},
		"Jinja": {
			"## template: jinja\n#cloud-config\nruncmd:\n- kubelet " + flags + " --provider-id=external-cloudstack://{{ ds.meta_data.instance_id }} --v=2\n",
			"external-cloudstack://ID",
		},
		"arguments of kubeadm": {
			"#cloud-config\nwrite_files:\n- path: /x\n  content: |\n    nodeRegistration:\n      kubeletExtraArgs:\n      - name: node-labels\n        value: a=b,c.io/d=e\n" +
				"      - name: provider-id\n        value: external-cloudstack://@INSTANCE_ID@\n      taints:\n      - key: x\n        value: \"y\"\n        effect: NoSchedule\n" +
				"      - effect: NoExecute\n        key: karpenter.sh/unregistered\n", "external-cloudstack://ID",
		},
		"arguments of kubeadm as a map, in an encoded file": {
			"#cloud-config\nwrite_files:\n- path: /x\n  encoding: b64\n  content: " + encode("kubeletExtraArgs:\n  node-labels: \"a=b,c.io/d=e\"\n"+
				"  register-with-taints: x=y:NoSchedule,karpenter.sh/unregistered:NoExecute\n") + "\n", "",
		},
		"a packed file": {
			"#cloud-config\nwrite_files:\n- path: /x\n  encoding: gz+b64\n  content: " + encode(pack(t, script)) + "\n", "external-cloudstack://ID",
		},
		"a list of K3s": {
			"node-label:\n  - a=b\n  - \"c.io/d=e\"\nnode-taint:\n  - x=y:NoSchedule\n  - karpenter.sh/unregistered:NoExecute\nkubelet-arg:\n  - provider-id=p://@INSTANCE_ID@\n", "p://ID",
		},
		"a list of K3s in one line": {
			"node-label: [a=b, \"c.io/d=e\"]\nnode-taint: [\"x=y:NoSchedule\", \"karpenter.sh/unregistered:NoExecute\"]\n", "",
		},
		"flags of K3s": {
			"#!/bin/sh\nk3s agent --node-label a=b --node-label=c.io/d=e --node-taint x=y:NoSchedule --kubelet-arg=register-with-taints=karpenter.sh/unregistered:NoExecute\n", "",
		},
		"JSON": {`{"kubelet": ["` + strings.ReplaceAll(flags, " ", `", "`) + `"]}`, ""},
		"parts": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hello\n" +
				"--b\nContent-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\n" + encode(script) + "\n--b--\n", "external-cloudstack://ID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{test.text, pack(t, test.text)} {
				found, err := ParseUserData(encode(text))
				require.NoError(t, err)
				require.Equal(t, labels, found.Labels)
				require.Equal(t, taints, found.Taints)
				require.Equal(t, test.providerID, found.providerID("ID"))
			}
		})
	}
}

func TestUserDataWithoutAKubelet(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"another script":    "#!/bin/sh\necho the node-taint is not here, nor are node-labels\n",
		"another document":  "#cloud-config\npackages: [curl]\n",
		"labels of another": "x.io/max-pods=seven\n",
	} {
		found, err := ParseUserData(encode(text))
		require.NoError(t, err, name)
		require.Empty(t, found.Labels, name)
		require.Empty(t, found.Taints, name)
		require.Empty(t, found.providerID("ID"), name)
	}
	for name, userData := range map[string]string{
		"no base64":               "#!/bin/sh",
		"half packed":             encode(pack(t, "#!/bin/sh")[:12]),
		"no YAML":                 encode("#cloud-config\n\t- x: ["),
		"a taint without effect":  encode("--register-with-taints=x=y"),
		"pods that are no number": encode("--max-pods=many"),
		"an amount that is none":  encode("--kube-reserved=cpu=much"),
		"a part cut off":          encode("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nx"),
	} {
		_, err := ParseUserData(userData)
		require.Error(t, err, name)
	}
}

func TestAKubeletConfigurationIsUnderstood(t *testing.T) {
	const document = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n# what is kept\nmaxPods: 42\nkubeReserved:\n  cpu: 100m\n" +
		"  memory: \"512Mi\"\nsystemReserved: {memory: 64Mi}\nevictionHard:\n  memory.available: 200Mi\n\nproviderID: p://@INSTANCE_ID@\n"
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(document), "\n", "\n    ") + "\n"
	for name, test := range map[string]struct {
		text string
		pods int64
	}{
		"a file of its own":   {document, 42},
		"within a script":     {"#!/bin/sh\nset -eu\ncat >/var/lib/kubelet/config.yaml <<EOF\n" + document + "EOF\nsystemctl restart kubelet\n", 42},
		"behind another":      {"kind: JoinConfiguration\nnodeRegistration: {}\n---\n" + document + "---\nkind: KubeProxyConfiguration\nmaxPods: 7\n", 42},
		"a file that is told": {"#cloud-config\nwrite_files:\n- path: /x\n  content: |\n" + indented, 42},
		"flags before it":     {"#!/bin/sh\nkubelet --max-pods=50 --eviction-hard=memory.available<200Mi\ncat >x <<EOF\n" + document + "EOF\n", 50},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := ParseUserData(encode(test.text))
			require.NoError(t, err)
			require.Equal(t, test.pods, found.MaxPods)
			require.Equal(t, "p://ID", found.providerID("ID"))
			require.Equal(t, "100m", ptr.To(found.KubeReserved[corev1.ResourceCPU]).String())
			require.Equal(t, "512Mi", ptr.To(found.KubeReserved[corev1.ResourceMemory]).String())
			require.Equal(t, "64Mi", ptr.To(found.SystemReserved[corev1.ResourceMemory]).String())
			require.Equal(t, map[string]string{"memory.available": "200Mi"}, found.EvictionHard)
		})
	}
	for name, text := range map[string]string{
		"no amount": "kind: KubeletConfiguration\nkubeReserved: {cpu: much}\n", "no YAML": "kind: KubeletConfiguration\nmaxPods: [\n",
	} {
		_, err := ParseUserData(encode(text))
		require.Error(t, err, name)
	}
}

// What an instance type promises is what its node has: whatever the kubelet is told otherwise than Karpenter reckons with shows here.
func TestANodeHasWhatItsInstanceTypePromises(t *testing.T) {
	secrets := ctrlfake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "token"}, Data: map[string][]byte{"token": []byte("abcdef.0123456789abcdef")},
	}).Build()
	cloud := fake.Default(fake.Options{})
	url, stop, err := cloud.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(stop)
	api, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey}, Rate: 1e6, Burst: 1e6,
	})
	require.NoError(t, err)
	const loss = 0.05
	kubelets := New(secrets, cloud, Options{MemoryLoss: loss})
	renders := bootstrap.NewProvider(secrets, secrets, clock.RealClock{}, bootstrap.Options{Namespace: "karpenter", CABundle: []byte(caBundle(t))})
	templates := template.NewProvider(api, clock.RealClock{})
	types := instancetype.NewProvider(api, templates, instancetype.NewUnavailable(clock.RealClock{}), clock.RealClock{},
		instancetype.Options{MemoryOverheadPercent: 100 * loss})
	token := &csv1.SecretKeyReference{Name: "token"}
	bootstraps := map[string]csv1.CloudStackNodeClassSpec{
		"kubeadm":    {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: token}},
		"K3s":        {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://10.0.0.10:6443", TokenSecretRef: token}},
		"RKE2":       {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapRKE2, Endpoint: "https://10.0.0.10:9345", TokenSecretRef: token}},
		"a template": {UserData: ptr.To("#!/bin/sh\nkubelet {{ .KubeletArgs }}\n")},
		"a template with a KubeletConfiguration": {UserData: ptr.To("#!/bin/sh\ncat >/var/lib/kubelet/config.yaml <<EOF\nkind: KubeletConfiguration\n" +
			"maxPods: {{ index .KubeletArgs \"max-pods\" }}\n" +
			"{{- range $key, $name := dict \"kube-reserved\" \"kubeReserved\" \"system-reserved\" \"systemReserved\" }}{{ with index $.KubeletArgs $key }}\n{{ $name }}:" +
			"{{ range splitList \",\" . }}\n  {{ . | replace \"=\" \": \" }}{{ end }}{{ end }}{{ end }}\n" +
			"{{- with index .KubeletArgs \"eviction-hard\" }}\nevictionHard:{{ range splitList \",\" . }}\n  {{ . | replace \"<\" \": \" }}{{ end }}{{ end }}\nEOF\n")},
	}
	for how, kubelet := range map[string]*csv1.KubeletConfiguration{
		"as delivered": nil,
		"all of it": {
			MaxPods: ptr.To[int32](42), KubeReserved: map[string]string{"cpu": "150m", "memory": "512Mi", "ephemeral-storage": "1Gi"},
			SystemReserved: map[string]string{"cpu": "50m", "memory": "64Mi"},
			EvictionHard:   map[string]string{"memory.available": "5%", "nodefs.available": "2Gi"},
		},
		"a threshold that others stay beside": {EvictionHard: map[string]string{"memory.available": "200Mi"}},
		"a threshold of something else":       {EvictionHard: map[string]string{"pid.available": "10%"}},
	} {
		for mode, spec := range bootstraps {
			t.Run(how+"/"+mode, func(t *testing.T) {
				spec.Kubelet = kubelet
				spec.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: fake.OfferingMedium}}
				class := &csv1.CloudStackNodeClass{
					ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: spec,
					Status: csv1.CloudStackNodeClassStatus{
						Zones: []csv1.ZoneStatus{{ID: fake.IDOf("zone", fake.ZoneA), Name: fake.ZoneA}},
						Templates: []csv1.TemplateStatus{{
							ID: fake.IDOf("template", fake.TemplateAMD64), ZoneID: fake.IDOf("zone", fake.ZoneA), Architecture: "amd64",
						}},
					},
				}
				promised, err := types.List(t.Context(), class)
				require.NoError(t, err)
				require.Len(t, promised, 1)
				userData, err := renders.Render(t.Context(), bootstrap.Request{
					NodeClass: class, NodeClaim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pool-x"}}, NodeName: "pool-x-1",
					ZoneName: fake.ZoneA, InstanceType: promised[0],
				})
				require.NoError(t, err)
				node, err := kubelets.node(cloud.AddVM(fake.VM{
					Name: "pool-x-1", ZoneID: fake.IDOf("zone", fake.ZoneA), OfferingID: fake.IDOf("offering", fake.OfferingMedium),
					TemplateID: fake.IDOf("template", fake.TemplateAMD64), RootDiskGiB: 10, UserData: userData,
				}))
				require.NoError(t, err)
				for name, amount := range promised[0].Allocatable() {
					has := node.Status.Allocatable[name]
					// Karpenter reckons with whole MiB.
					require.InDelta(t, amount.AsApproximateFloat64(), has.AsApproximateFloat64(), float64(2*mib), "%s: %s of %s", name, has.String(), amount.String())
					if name == corev1.ResourceCPU || name == corev1.ResourcePods {
						require.Zero(t, amount.Cmp(has), "%s: %s of %s", name, has.String(), amount.String())
					}
				}
			})
		}
	}
}

// What the provider renders is what the nodes become.
func TestUserDataOfTheProvider(t *testing.T) {
	secrets := ctrlfake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "token"}, Data: map[string][]byte{"token": []byte("abcdef.0123456789abcdef")},
	}).Build()
	provider := bootstrap.NewProvider(secrets, secrets, clock.RealClock{}, bootstrap.Options{Namespace: "karpenter", CABundle: []byte(caBundle(t))})
	token := &csv1.SecretKeyReference{Name: "token"}
	long := "#!/bin/sh\n" + strings.Repeat("# a line that makes it long\n", 500)
	for name, spec := range map[string]csv1.CloudStackNodeClassSpec{
		"kubeadm": {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: token}},
		"kubeadm, after a script of the user, packed": {
			Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: token}, UserData: &long,
		},
		"K3s":  {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://10.0.0.10:6443", TokenSecretRef: token}},
		"RKE2": {Bootstrap: &csv1.Bootstrap{Mode: csv1.BootstrapRKE2, Endpoint: "https://10.0.0.10:9345", TokenSecretRef: token}},
		"a template": {UserData: ptr.To("#!/bin/sh\nkubelet --node-labels={{ .Labels }} --register-with-taints={{ .Taints }} " +
			"--provider-id={{ .ProviderIDShell }} {{ .KubeletArgs }}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Kubelet = &csv1.KubeletConfiguration{
				MaxPods: ptr.To[int32](42), KubeReserved: map[string]string{"cpu": "100m", "memory": "512Mi"},
				SystemReserved: map[string]string{"memory": "64Mi"}, EvictionHard: map[string]string{"memory.available": "200Mi"},
			}
			userData, err := provider.Render(t.Context(), bootstrap.Request{
				NodeClass: &csv1.CloudStackNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: spec},
				NodeClaim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pool-x"}}, NodeName: "pool-x-1", ZoneName: "zone-a",
				Labels: map[string]string{karpv1.NodePoolLabelKey: "pool", "team.io/name": "blue"},
				Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			})
			require.NoError(t, err)
			found, err := ParseUserData(userData)
			require.NoError(t, err)
			require.Equal(t, map[string]string{karpv1.NodePoolLabelKey: "pool", "team.io/name": "blue"}, found.Labels)
			require.Equal(t, []corev1.Taint{
				{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredNoExecuteTaint,
			}, found.Taints)
			require.Equal(t, "external-cloudstack://ID", found.providerID("ID"))
			require.Equal(t, int64(42), found.MaxPods)
			require.Equal(t, "512Mi", ptr.To(found.KubeReserved[corev1.ResourceMemory]).String())
			require.Equal(t, "64Mi", ptr.To(found.SystemReserved[corev1.ResourceMemory]).String())
			require.Equal(t, "200Mi", found.EvictionHard["memory.available"])
		})
	}
}

// caBundle is a certificate authority.
func caBundle(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
