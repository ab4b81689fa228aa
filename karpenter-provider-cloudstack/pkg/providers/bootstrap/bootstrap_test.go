package bootstrap

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"flag"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

var update = flag.Bool("update", false, "write the golden files")

// boundaries are those between the parts of a document.
var boundaries = regexp.MustCompile(`karpenter-[0-9a-f]{32}`)

const (
	token   = "abcdef.0123456789abcdef"
	machine = "0b5c4b6e-1111-4222-8333-0123456789ab"
)

// newCA makes a certificate authority.
func newCA(t testing.TB) ([]byte, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "sha256:" + hex.EncodeToString(sum[:])
}

func nodeClass(bootstrap *csv1.Bootstrap, change ...func(*csv1.CloudStackNodeClass)) *csv1.CloudStackNodeClass {
	n := &csv1.CloudStackNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: csv1.CloudStackNodeClassSpec{Bootstrap: bootstrap}}
	for _, c := range change {
		c(n)
	}
	return n
}

func request(nodeClass *csv1.CloudStackNodeClass) Request {
	return Request{
		NodeClass: nodeClass,
		NodeClaim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "general-x7k2p", UID: "6d1a0a5c-7f5b-4a65-9d4e-0d3f2b1c0a99", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
		}},
		NodeName: "general-x7k2p-1a2b3c4d", ZoneName: "zone-01",
		InstanceType: &cloudprovider.InstanceType{
			Name:     "MediumInstance",
			Capacity: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("80")},
			Overhead: &cloudprovider.InstanceTypeOverhead{
				KubeReserved:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60m"), corev1.ResourceMemory: resource.MustParse("255Mi")},
				SystemReserved: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")},
			},
		},
		Labels: map[string]string{
			karpv1.NodePoolLabelKey: "general", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelTopologyZone: "zone-01",
			corev1.LabelInstanceTypeStable: "MediumInstance", "team": "a_b.c-D",
			// A kubelet with these does not start.
			"node-role.kubernetes.io/worker": "true", "example.k8s.io/x": "y", corev1.LabelHostname: "other", karpv1.NodeRegisteredLabelKey: "true",
		},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "example.com/startup", Effect: corev1.TaintEffectNoExecute}},
	}
}

func secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: name}, Data: map[string][]byte{key: []byte(value)}}
}

// newProvider makes a provider for what has to do with texts. The objects are all that it can read.
func newProvider(options Options, objects ...client.Object) *DefaultProvider {
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	options.Namespace = "karpenter"
	options.ClusterName = "production"
	return NewProvider(c, c, clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), options)
}

// served is a provider that asks a real API server, which has these Secrets.
func served(t *testing.T, options Options, secrets ...client.Object) *DefaultProvider {
	t.Helper()
	c := suite.Client(t)
	suite.Create(t, c, secrets...)
	options.Namespace = "karpenter"
	return NewProvider(c, c, clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), options)
}

// decode undoes what encode does.
func decode(t testing.TB, userData string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		t.Fatalf("user data is no base64: %v", err)
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	return string(raw)
}

func render(t testing.TB, p *DefaultProvider, r Request) string {
	t.Helper()
	userData, err := p.Render(context.Background(), r)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return decode(t, userData)
}

// reason is the reason of an error, which has to be an *Error.
func reason(t testing.TB, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	return e.Reason
}

func modes() map[string]*csv1.CloudStackNodeClass {
	tokenRef := &csv1.SecretKeyReference{Name: "join"}
	kubelet := func(n *csv1.CloudStackNodeClass) {
		n.Spec.Kubelet = &csv1.KubeletConfiguration{
			KubeReserved: map[string]string{"pid": "1000", "memory": "1Gi"}, ClusterDNS: []string{"10.96.0.10", "fd00::10"},
			EvictionHard: map[string]string{"memory.available": "5%", "nodefs.available": "2Gi"},
		}
	}
	script := func(n *csv1.CloudStackNodeClass) {
		n.Spec.UserData = lo.ToPtr("#!/bin/bash\necho \"before {{ .NotATemplate }}\" # ü\n")
	}
	return map[string]*csv1.CloudStackNodeClass{
		"kubeadm":        nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: tokenRef}, kubelet),
		"kubeadm-script": nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "[fd00::1]:6443", TokenSecretRef: tokenRef}, script),
		"k3s":            nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://10.0.0.10:6443", TokenSecretRef: tokenRef}, kubelet),
		"rke2":           nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapRKE2, Endpoint: "https://10.0.0.10:9345", TokenSecretRef: tokenRef}),
		"custom": nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapCustom, Endpoint: "10.0.0.10:6443", TokenSecretRef: tokenRef}, kubelet, func(n *csv1.CloudStackNodeClass) {
			n.Spec.UserData = lo.ToPtr(`#!/bin/bash
# {{ .ClusterName }} {{ .NodeClaimName }} {{ .NodePoolName }} {{ .NodeClassName }} {{ .ZoneName }} {{ .InstanceType }} {{ .CapacityType }}
kubeadm join {{ .Endpoint }} --token {{ .Token }} --discovery-token-ca-cert-hash {{ .CACertHash }} --node-name {{ .NodeName }}
KUBELET_EXTRA_ARGS="--node-labels={{ .Labels }} --register-with-taints={{ .Taints }} --provider-id={{ .ProviderIDShell }} {{ .KubeletArgs }}"
# {{ .ProviderID }} {{ len .CACertHashes }} {{ index .KubeletArgs "max-pods" }} {{ index .Labels "team" | quote }} {{ range .Taints }}{{ .Key }} {{ end }}
{{ .CABundle }}`)
		}),
	}
}

// TestGolden compares whole documents, so that no change of them goes unseen.
func TestGolden(t *testing.T) {
	ca, hash := newCA(t)
	for name, nodeClass := range modes() {
		t.Run(name, func(t *testing.T) {
			p := newProvider(Options{CABundle: ca}, secret("join", "token", token+"\n"))
			got := render(t, p, request(nodeClass))
			got = strings.ReplaceAll(strings.ReplaceAll(got, hash, "sha256:HASH"), string(ca), "CA\n")
			got = boundaries.ReplaceAllString(strings.ReplaceAll(got, "\r\n", "\n"), "karpenter-BOUNDARY")
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s (write it anew with -update when the change is meant):\n%s", file, got)
			}
		})
	}
}

func TestRenderIsTheSameEachTime(t *testing.T) {
	ca, _ := newCA(t)
	for name, nodeClass := range modes() {
		p := newProvider(Options{CABundle: ca}, secret("join", "token", token))
		if first, second := render(t, p, request(nodeClass)), render(t, p, request(nodeClass)); first != second {
			t.Errorf("%s: two results for one machine:\n%s\n%s", name, first, second)
		}
	}
}

func TestBadInput(t *testing.T) {
	ca, _ := newCA(t)
	tokenRef := &csv1.SecretKeyReference{Name: "join"}
	kubeadm := func(change ...func(*csv1.CloudStackNodeClass)) *csv1.CloudStackNodeClass {
		return nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: tokenRef, CABundle: ca}, change...)
	}
	kubelet := func(k csv1.KubeletConfiguration) func(*csv1.CloudStackNodeClass) {
		return func(n *csv1.CloudStackNodeClass) { n.Spec.Kubelet = &k }
	}
	text := func(userData string) *csv1.CloudStackNodeClass {
		return nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &userData })
	}
	for name, test := range map[string]struct {
		nodeClass *csv1.CloudStackNodeClass
		token     string
		reason    string
		says      string
	}{
		"endpoint without a port":      {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10", TokenSecretRef: tokenRef, CABundle: ca}), token, "EndpointInvalid", "host:port"},
		"endpoint with a port of zero": {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:0", TokenSecretRef: tokenRef, CABundle: ca}), token, "EndpointInvalid", "host:port"},
		"endpoint of two lines":        {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "a\nb:1", TokenSecretRef: tokenRef, CABundle: ca}), token, "EndpointInvalid", "host:port"},
		"no CA":                        {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: tokenRef}), token, "CABundleMissing", "certificate authority"},
		"CA that is none":              {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.10:6443", TokenSecretRef: tokenRef, CABundle: []byte("LS0tLS1")}), token, "CABundleInvalid", "encoded once"},
		"token of another kind":        {kubeadm(), "K10abc::server:secret", "TokenInvalid", "kubeadm token create"},
		"K3s without https":            {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "http://10.0.0.10:6443", TokenSecretRef: tokenRef}), token, "EndpointInvalid", "https://10.0.0.10:6443"},
		"RKE2 with user info":          {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapRKE2, Endpoint: "https://a:b@10.0.0.10:9345", TokenSecretRef: tokenRef}), token, "EndpointInvalid", ":9345"},
		"K3s token of two lines":       {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://10.0.0.10:6443", TokenSecretRef: tokenRef}), "a\nb", "TokenInvalid", "one line"},
		"unknown mode":                 {nodeClass(&csv1.Bootstrap{Mode: "Talos"}), token, "BootstrapInvalid", "RKE2"},
		"amount that is none":          {kubeadm(kubelet(csv1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "1Gx"}})), token, "KubeletInvalid", "kubelet.kubeReserved"},
		"amount below zero":            {kubeadm(kubelet(csv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "-1"}})), token, "KubeletInvalid", "kubelet.systemReserved"},
		"threshold over 100 %":         {kubeadm(kubelet(csv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "101%"}})), token, "KubeletInvalid", "memory.available"},
		"threshold that is none":       {kubeadm(kubelet(csv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "x,y"}})), token, "KubeletInvalid", "5%"},
		"DNS of a zone":                {kubeadm(kubelet(csv1.KubeletConfiguration{ClusterDNS: []string{"fe80::1%eth0"}})), token, "KubeletInvalid", "clusterDNS"},
		"endpoint beyond ASCII":        {nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://a\u2028b:1", TokenSecretRef: tokenRef}), token, "EndpointInvalid", "no URL"},
		"DNS by name":                  {kubeadm(kubelet(csv1.KubeletConfiguration{ClusterDNS: []string{"dns.example"}})), token, "KubeletInvalid", "clusterDNS"},
		"script without a first line":  {kubeadm(func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = lo.ToPtr("echo hello") }), token, "UserDataInvalid", "#cloud-config"},
		"packed user data":             {kubeadm(func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = lo.ToPtr("\x1f\x8b\xff") }), token, "UserDataInvalid", "neither packed nor encoded"},
		"multipart without a boundary": {kubeadm(func(n *csv1.CloudStackNodeClass) {
			n.Spec.UserData = lo.ToPtr("Content-Type: multipart/mixed\n\n--x\n\nfoo\n--x--\n")
		}), token, "UserDataInvalid", "boundary"},
		"multipart that is cut off": {kubeadm(func(n *csv1.CloudStackNodeClass) {
			n.Spec.UserData = lo.ToPtr("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nfoo\n")
		}), token, "UserDataInvalid", "last boundary"},
		"multipart without parts": {kubeadm(func(n *csv1.CloudStackNodeClass) {
			n.Spec.UserData = lo.ToPtr("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x--\n")
		}), token, "UserDataInvalid", "no part"},
		"template that cannot be read":   {text("#!/bin/sh\necho {{ .NodeName"), token, "UserDataInvalid", "line 2"},
		"template with a wrong value":    {text("#!/bin/sh\n\necho {{ .NodName }}"), token, "UserDataInvalid", "NodName"},
		"template with a wrong key":      {text(`{{ .Labels.nothing }}`), token, "UserDataInvalid", "nothing"},
		"template with a wrong function": {text(`{{ env "PATH" }}`), token, "UserDataInvalid", `"env"`},
		"template that fails":            {text(`{{ required "set the team" "" }}`), token, "UserDataInvalid", "set the team"},
		"template that never ends":       {text(`{{ define "a" }}x{{ template "a" . }}{{ end }}{{ template "a" . }}`), token, "UserDataInvalid", "template"},
		"template of great widths":       {text(`{{ printf "%99999999d" 1 }}`), token, "UserDataInvalid", "width"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(Options{}, secret("join", "token", test.token))
			r := request(test.nodeClass)
			_, err := p.Render(context.Background(), r)
			if got := reason(t, err); got != test.reason {
				t.Errorf("reason %s, not %s: %v", got, test.reason, err)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("the message does not say %q: %v", test.says, err)
			}
			if strings.Contains(err.Error(), test.token) {
				t.Errorf("the token is in the message: %v", err)
			}
			// What makes a machine impossible has to show before the first one.
			if check := p.Check(context.Background(), test.nodeClass); check == nil || reason(t, check) != test.reason {
				t.Errorf("Check: %v", check)
			}
		})
	}
}

func TestNamesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"label value":     func(r *Request) { r.Labels["team"] = "a,b=c" },
		"label key":       func(r *Request) { r.Labels["a b"] = "c" },
		"taint value":     func(r *Request) { r.Taints[0].Value = "x\n- y" },
		"taint key":       func(r *Request) { r.Taints[0].Key = "" },
		"taint effect":    func(r *Request) { r.Taints[0].Effect = "NoWay" },
		"node name":       func(r *Request) { r.NodeName = "a b" },
		"provider prefix": func(r *Request) { r.ProviderIDPrefix = `x://"; rm -rf /` },
	} {
		p := newProvider(Options{}, secret("join", "token", token))
		r := request(modes()["k3s"])
		change(&r)
		if userData, err := p.Render(context.Background(), r); err == nil {
			t.Errorf("%s: user data was made:\n%s", name, decode(t, userData))
		}
	}
}

func TestTaintsHaveNoDuplicates(t *testing.T) {
	p := newProvider(Options{}, secret("join", "token", token))
	r := request(modes()["k3s"])
	r.Taints = append(r.Taints, karpv1.UnregisteredNoExecuteTaint, r.Taints[0])
	got := render(t, p, r)
	if n := strings.Count(got, "karpenter.sh/unregistered:NoExecute"); n != 1 {
		t.Errorf("the taint of Karpenter is there %d times:\n%s", n, got)
	}
	if n := strings.Count(got, "dedicated=gpu:NoSchedule"); n != 1 {
		t.Errorf("a taint that was given twice is there %d times:\n%s", n, got)
	}
}

func TestPlainScriptIsUnchanged(t *testing.T) {
	script := "#!/bin/bash\necho ${HOME} $(id) }} \t ü \r\n%s\x00"
	for name, nodeClass := range map[string]*csv1.CloudStackNodeClass{
		"no bootstrap": nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &script }),
		"mode Custom":  nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapCustom}, func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &script }),
		"from a Secret": nodeClass(nil, func(n *csv1.CloudStackNodeClass) {
			n.Spec.UserDataSecretRef = &csv1.SecretKeyReference{Namespace: "karpenter", Name: "script", Key: "sh"}
		}),
	} {
		if got := render(t, served(t, Options{}, secret("script", "sh", script)), request(nodeClass)); got != script {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := render(t, newProvider(Options{}), request(nodeClass(nil))); got != "" {
		t.Errorf("without userData there is %q", got)
	}
}

func TestSecretsStaySecret(t *testing.T) {
	const hidden = "hunter2"
	fromSecret := nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserDataSecretRef = &csv1.SecretKeyReference{Name: "script"} })
	for name, text := range map[string]string{
		"cannot be read":     "#!/bin/sh\npassword=hunter2 {{ hunter2 }}",
		"cannot be rendered": "#!/bin/sh\n{{ fail \"hunter2\" }}",
	} {
		err := served(t, Options{}, secret("script", "userData", text)).Check(context.Background(), fromSecret)
		if reason(t, err) != "UserDataInvalid" || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: the error cites the Secret: %v", name, err)
		}
	}
	cites := nodeClass(&csv1.Bootstrap{TokenSecretRef: &csv1.SecretKeyReference{Name: "join"}}, func(n *csv1.CloudStackNodeClass) {
		n.Spec.UserData = lo.ToPtr("{{ fail .Token }}")
	})
	err := served(t, Options{}, secret("join", "token", hidden)).Check(context.Background(), cites)
	if err == nil || strings.Contains(err.Error(), hidden) {
		t.Errorf("the error cites the token: %v", err)
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	reference := func(r csv1.SecretKeyReference) *csv1.CloudStackNodeClass {
		return nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapK3s, Endpoint: "https://10.0.0.10:6443", TokenSecretRef: &r})
	}
	for name, test := range map[string]struct {
		nodeClass *csv1.CloudStackNodeClass
		reason    string
		says      []string
	}{
		"missing":           {reference(csv1.SecretKeyReference{Name: "other"}), "SecretNotFound", []string{"karpenter/other", "bootstrap.tokenSecretRef", "key token"}},
		"other namespace":   {reference(csv1.SecretKeyReference{Namespace: "default", Name: "join"}), "SecretNotFound", []string{"default/join"}},
		"missing key":       {reference(csv1.SecretKeyReference{Name: "join", Key: "nothing"}), "SecretKeyMissing", []string{"karpenter/join", "nothing"}},
		"empty key":         {reference(csv1.SecretKeyReference{Name: "join", Key: "empty"}), "SecretKeyEmpty", []string{"karpenter/join", "empty"}},
		"missing user data": {nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserDataSecretRef = &csv1.SecretKeyReference{Name: "join"} }), "SecretKeyMissing", []string{"userDataSecretRef", "userData"}},
	} {
		s := secret("join", "token", token)
		s.Data["empty"] = []byte(" \n")
		err := served(t, Options{}, s).Check(context.Background(), test.nodeClass)
		if got := reason(t, err); got != test.reason {
			t.Errorf("%s: reason %s: %v", name, got, err)
		}
		for _, say := range test.says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: the message does not say %q: %v", name, say, err)
			}
		}
	}
}

// TestOutageIsNoFault: what the API server does not answer is nobody's mistake.
func TestOutageIsNoFault(t *testing.T) {
	c := interceptor.NewClient(suite.Client(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
	})
	err := NewProvider(c, c, clocktesting.NewFakePassiveClock(time.Now()), Options{}).Check(context.Background(), modes()["k3s"])
	var e *Error
	if !errors.As(err, &e) || !e.Transient {
		t.Errorf("the error is not told to pass: %v", err)
	}
	err = served(t, Options{}).Check(context.Background(), modes()["k3s"])
	if !errors.As(err, &e) || e.Transient {
		t.Errorf("a missing Secret is told to pass: %v", err)
	}
}

func TestSize(t *testing.T) {
	noise := make([]byte, 200_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	script := func(text string) *csv1.CloudStackNodeClass {
		return nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &text })
	}
	for name, test := range map[string]struct {
		text    string
		max     int
		packed  bool
		tooLong bool
	}{
		"short is readable":           {text: "#!/bin/sh\n" + strings.Repeat("# a\n", 1000)},
		"long is packed":              {text: "#!/bin/sh\n" + strings.Repeat("# a\n", 50_000), packed: true},
		"noise is too long":           {text: "#!/bin/sh\n# " + hex.EncodeToString(noise), tooLong: true},
		"JSON is for Ignition":        {text: "{" + strings.Repeat(" ", 10_000) + "}"},
		"JSON can be too long":        {text: "{" + strings.Repeat(" ", 50_000) + "}", tooLong: true},
		"a limit of one's own":        {text: "#!/bin/sh\n" + strings.Repeat("# a\n", 1000), max: 5000, tooLong: true},
		"exactly as long as allowed":  {text: strings.Repeat("a", 750), max: 1000},
		"one byte longer than so":     {text: strings.Repeat("a", 751), max: 1000, tooLong: true},
		"noise within a higher limit": {text: "#!/bin/sh\n# " + base64.StdEncoding.EncodeToString(noise[:60_000]), max: 100_000, packed: true},
	} {
		p := newProvider(Options{MaxBytes: test.max})
		userData, err := p.Render(context.Background(), request(script(test.text)))
		if test.tooLong {
			if err == nil || reason(t, err) != "UserDataTooLong" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.HasPrefix(userData, "H4sI"); got != test.packed {
			t.Errorf("%s: packed: %v", name, got)
		}
		if decode(t, userData) != test.text {
			t.Errorf("%s: the text is another one", name)
		}
	}
}

func TestKubeletKeepsTheOverhead(t *testing.T) {
	arguments, err := kubeletArguments(&csv1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "1Gi", "pid": "100"}}, request(nil).InstanceType)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := arguments["kube-reserved"], "cpu=60m,memory=255Mi,pid=100"; got != want {
		t.Errorf("kube-reserved is %s, and the scheduler has been told %s", got, want)
	}
	if got, there := arguments["system-reserved"]; there {
		t.Errorf("nothing is kept for the system, and the kubelet is told %q", got)
	}
	if got := arguments["max-pods"]; got != "80" {
		t.Errorf("max-pods is %s, and the instance type has 80", got)
	}
	arguments, err = kubeletArguments(nil, nil)
	if err != nil || arguments["max-pods"] != "110" || len(arguments) != 1 {
		t.Errorf("without anything: %v, %v", arguments, err)
	}
}
