package kubeconfig

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

const two = `
clusters:
- name: other
  cluster: {certificate-authority-data: b3RoZXI=, server: "https://other"}
- name: mine
  cluster: {certificate-authority-data: bWluZQ==, server: "https://mine"}
contexts:
- name: other
  context: {cluster: other, user: other}
- name: here
  context: {cluster: mine, user: me}
current-context: here
users:
- name: other
  user: {token: other-token}
- name: me
  user: {token: my-token}
`

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, text string
		want         Config
	}{
		"current context": {
			reason: "the current context chooses cluster and user",
			text:   two,
			want:   Config{CertificateAuthority: "bWluZQ==", Server: "https://mine", Token: "my-token"},
		},
		"no context": {
			reason: "the first ones count where nothing chooses",
			text:   strings.Replace(two, "current-context: here", "", 1),
			want:   Config{CertificateAuthority: "b3RoZXI=", Server: "https://other", Token: "other-token"},
		},
		"empty":        {reason: "a kubeconfig that is not known yet"},
		"without user": {reason: "client certificates have no token", text: "clusters: [{cluster: {server: 'https://a'}}]", want: Config{Server: "https://a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestParseErrorCarriesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"users: s3cret", "users: [s3cret", "s3cret"} {
		if _, err := Parse(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Parse(%q): error %v; want one without the text", text, err)
		}
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]bool{"marked": true, "not marked by the plugin": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				config := pulumi.String(two).ToStringOutput()
				if secret {
					config = pulumi.ToSecret(config).(pulumi.StringOutput)
				}
				ctx.Export("b64", Base64(config))
				ctx.Export("ca", CertificateAuthority(config))
				ctx.Export("server", Server(config))
				ctx.Export("token", Token(config))
				return nil
			})
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			want := map[string]moduletest.Output{
				"b64":    {Value: base64.StdEncoding.EncodeToString([]byte(two)), Known: true, Secret: true},
				"ca":     {Value: "bWluZQ==", Known: true},
				"server": {Value: "https://mine", Known: true},
				"token":  {Value: "my-token", Known: true, Secret: true},
			}
			if diff := cmp.Diff(want, result.Outputs); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(two)
	f.Add("a: &a [*a]")
	f.Add("clusters: [{cluster: {server: 1}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if config, err := Parse(text); err != nil && config != (Config{}) {
			t.Errorf("an error and a config: %+v", config)
		}
	})
}
