package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	const urn = "urn:pulumi:s::p::civo:index/network:Network::network"
	state := func(inputs map[string]any) *apitype.StepEventStateMetadata {
		if inputs == nil {
			return nil
		}
		return &apitype.StepEventStateMetadata{URN: urn, Inputs: inputs}
	}
	secret := map[string]any{signatureKey: "1b47061264138c4ac30d75fd1eb44270", "value": "[secret]"}
	cases := []struct {
		reason     string
		op         apitype.OpType
		diffs      []string
		old, new   map[string]any
		want       []PropertyDiff
		properties int
	}{
		{
			reason: "a new resource shows all that is asked for, deep, and what an up alone can tell as nothing",
			op:     apitype.OpCreate,
			new: map[string]any{
				"label": "main", "tags": []any{"a", "b"}, "pools": map[string]any{"size": "small", "empty": []any{}},
				"networkId": unknownMark, "token": secret, "__defaults": []any{},
			},
			want: []PropertyDiff{
				{Path: "label", Kind: "add", New: "main"},
				{Path: "networkId", Kind: "add"},
				{Path: "pools.empty", Kind: "add", New: []any{}},
				{Path: "pools.size", Kind: "add", New: "small"},
				{Path: "tags[0]", Kind: "add", New: "a"},
				{Path: "tags[1]", Kind: "add", New: "b"},
				{Path: "token", Kind: "add", New: "[secret]"},
			},
		},
		{
			reason: "a deleted one shows what it had, although the engine tells that as its new state, too",
			op:     apitype.OpDelete,
			old:    map[string]any{"label": "main"},
			new:    map[string]any{"label": "main"},
			want:   []PropertyDiff{{Path: "label", Kind: "delete", Old: "main"}},
		},
		{
			reason:     "an update shows what stays, too; a secret that differs looks the same and is told all the same",
			op:         apitype.OpUpdate,
			diffs:      []string{"nodeCount", "token", "gone", "id"},
			old:        map[string]any{"nodeCount": 2.0, "size": "small", "token": "[secret]", "kept": "[secret]", "gone": true, "id": "x"},
			new:        map[string]any{"nodeCount": 4.0, "size": "small", "token": "[secret]", "kept": "[secret]", "id": unknownMark},
			properties: 4,
			want: []PropertyDiff{
				{Path: "gone", Kind: "delete", Old: true},
				{Path: "id", Kind: "update", Old: "x"},
				{Path: "kept", Kind: "same", Old: "[secret]", New: "[secret]"},
				{Path: "nodeCount", Kind: "update", Old: 2.0, New: 4.0},
				{Path: "size", Kind: "same", Old: "small", New: "small"},
				{Path: "token", Kind: "update", Old: "[secret]", New: "[secret]"},
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			step := apitype.StepEventMetadata{Op: tc.op, URN: urn, Old: state(tc.old), New: state(tc.new), Diffs: tc.diffs}
			result := &Result{Resources: []Change{changeOf(step, step)}, sides: []sides{sidesOf(step, step)}}
			if len(result.Resources[0].Properties) != tc.properties {
				t.Errorf("the properties are %+v", result.Resources[0].Properties)
			}
			if diff := cmp.Diff(tc.want, result.Diff(0)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"civo API: POST /v2/networks: 409 Conflict (request id 8e0f-12ab-77)":                      "8e0f-12ab-77",
		`POST http://x/v2/vpcs: 422 (request "4f6e1c8a-0b0e-4a53-9c55-7d9a3d6f1f0e") a VPC exists`: "4f6e1c8a-0b0e-4a53-9c55-7d9a3d6f1f0e",
		"timed out (the last answer was 503 Service Unavailable, request id 00aa11bb22)":           "00aa11bb22",
		`Error: {"request_id": "aa-bb-cc-11", "code": "x"}`:                                        "aa-bb-cc-11",
		"make request: request something-or-other failed":                                          "",
		"Request ID: 7f3b1a2c-9d6e":                                                                "7f3b1a2c-9d6e",
		"the request timed out":                                                                    "",
	} {
		if got := requestIDIn(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
