package bootstrap

import (
	"context"
	"strings"
	"testing"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// TestFunctionsOfMaps: functions that read maps take those of the values as well as those that templates make.
func TestFunctionsOfMaps(t *testing.T) {
	for _, test := range []struct{ reason, template, want string }{
		{"a label", `{{ get .Labels "team" }}`, "a_b.c-D"},
		{"a label that there is not", `{{ get .Labels "x" | default "none" }}`, "none"},
		{"whether there is a label", `{{ hasKey .Labels "team" }} {{ hasKey .Labels "x" }}`, "true false"},
		{"keys have an order", `{{ keys .Labels | join " " }}`,
			"karpenter.sh/capacity-type karpenter.sh/nodepool node.kubernetes.io/instance-type team topology.kubernetes.io/zone"},
		{"values are in the order of their keys", `{{ values .Labels | join " " }}`, "on-demand general MediumInstance a_b.c-D zone-01"},
		{"some labels are text of the same form", `{{ pick .Labels "team" "karpenter.sh/nodepool" "x" }}`, "karpenter.sh/nodepool=general,team=a_b.c-D"},
		{"all but some labels", `{{ omit .Labels "karpenter.sh/nodepool" "team" "karpenter.sh/capacity-type" "x" }}`,
			"node.kubernetes.io/instance-type=MediumInstance,topology.kubernetes.io/zone=zone-01"},
		{"what was left out is there still", `{{ $few := omit .Labels "team" }}{{ hasKey $few "team" }} {{ .Labels.team }}`, "false a_b.c-D"},
		{"a setting of the kubelet", `{{ get .KubeletArgs "max-pods" }} {{ hasKey .KubeletArgs "cluster-dns" }}`, "80 false"},
		{"some settings are flags", `{{ pick .KubeletArgs "max-pods" }}`, "--max-pods=80"},
		{"all but one setting", `{{ omit .KubeletArgs "kube-reserved" }}`, "--max-pods=80"},
		{"names of settings", `{{ keys .KubeletArgs }}`, "[kube-reserved max-pods]"},
		{"settings as YAML", `{{ pick .KubeletArgs "max-pods" | toYaml }}`, `max-pods: "80"`},
		{"what split gives", `{{ $parts := split "-" .NodeName }}{{ get $parts "_0" }} {{ keys $parts | join "," }}`, "general _0,_1,_2"},
		{"a map of the template", `{{ $d := dict "b" 2 "a" 1 }}{{ get $d "b" }} {{ keys $d }} {{ values $d }} {{ pick $d "a" | toJson }} {{ omit $d "a" | toJson }}`,
			`2 [a b] [1 2] {"a":1} {"b":2}`},
		{"a map of the template that changes", `{{ $d := dict }}{{ $d = set $d "a" "x" }}{{ range keys $d .Labels | rest | sortAlpha | first | list }}{{ . }} {{ end }}{{ $d.a }}`,
			"karpenter.sh/capacity-type x"},
		{"a map of JSON", `{{ $d := fromJson "{\"a\":{\"b\":\"c\"}}" }}{{ get (get $d "a") "b" }}`, "c"},
		{"a map without keys", `{{ keys dict }} {{ values dict }} {{ pick dict "a" }}`, "[] [] map[]"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			p := newProvider(Options{})
			got := render(t, p, request(nodeClass(nil, func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &test.template })))
			if got != test.want {
				t.Errorf("%s gives %q, want %q", test.template, got, test.want)
			}
		})
	}
}

func TestFunctionsOfMapsRefuse(t *testing.T) {
	for _, test := range []struct{ reason, template, says string }{
		{"text", `{{ get .Token "a" }}`, "get takes a map such as .Labels, and not a string"},
		{"a list", `{{ keys .Taints }}`, "keys takes a map such as .Labels, and not a bootstrap.Taints"},
		{"a number", `{{ values 1 }}`, "values takes a map"},
		{"nothing", `{{ hasKey nil "a" }}`, "nil"},
		{"a key that is none", `{{ pick .Labels 1 }}`, "expected string"},
		{"labels that a template would change", `{{ set .Labels "a" "b" }}`, "wrong type for value"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			p := newProvider(Options{}, secret("join", "token", token))
			class := nodeClass(&csv1.Bootstrap{Mode: csv1.BootstrapCustom, TokenSecretRef: &csv1.SecretKeyReference{Name: "join"}},
				func(n *csv1.CloudStackNodeClass) { n.Spec.UserData = &test.template })
			_, err := p.Render(context.Background(), request(class))
			if err == nil || reason(t, err) != "UserDataInvalid" || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v", test.template, err)
			} else if strings.Contains(err.Error(), token) {
				t.Errorf("%s: the token is in the message: %v", test.template, err)
			}
		})
	}
}
