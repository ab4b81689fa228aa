package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/provision"
)

func TestKubeconfigOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		value  any
		want   string
		kind   provision.ErrorKind
		err    string
	}{
		{reason: "in base64", value: "aHVudGVyMg==", want: "hunter2"},
		{reason: "a cluster that was applied before it was ready", value: "", kind: provision.NotFound, err: "it has none yet"},
		{reason: "or whose stack has no such output", kind: provision.NotFound, err: "it has none yet"},
		{reason: "the error has none of it", value: "hunter2!", err: "is not base64"},
	}
	for _, test := range tests {
		got, err := kubeconfigOf(foundStack{outputs: provision.Outputs{"kubeconfig_b64": {Value: test.value, Secret: true, Known: true}}})
		if string(got) != test.want || (err == nil) != (test.err == "") || provision.KindOf(err) != test.kind ||
			err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %q, %v", test.reason, got, err)
		}
	}
}

func TestExpiredAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct{ reason, value, want string }{
		{reason: "no end", value: ""},
		{reason: "not yet", value: "2026-01-02T03:04:06Z"},
		{reason: "a second ago", value: "2026-01-02T03:04:04Z", want: "2026-01-02T03:04:04Z"},
	}
	for _, test := range tests {
		outputs := provision.Outputs{"kubeconfig_expires_at_rfc3339": {Value: test.value, Known: true}}
		if got := expiredAt(outputs, now); got != test.want {
			t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
		}
	}
}

func TestClusterKinds(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"CivoKubernetesCluster", "DigitalOceanKubernetesCluster"}, clusterKinds()); diff != "" {
		t.Error(diff)
	}
}
