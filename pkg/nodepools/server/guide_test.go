package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/internal/openapi/prism"
)

// The files in testdata/guide are the examples of the NodePools User Guide, byte for byte.

func guide(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "guide", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// expectShape fails where an answer lacks something that an example of the guide shows, or has another type there. What the example
// leaves out ("{ ... }") may be anything. Values are compared where they are named.
func expectShape(t *testing.T, example string, got answer, same ...string) {
	t.Helper()
	var want, have any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(guide(t, example), "{ ... }", "{}")), &want); err != nil {
		t.Fatalf("%s: %v", example, err)
	}
	if err := json.Unmarshal([]byte(got.body), &have); err != nil {
		t.Fatalf("%s: %v: %s", example, err, got.body)
	}
	equal := map[string]bool{}
	for _, path := range same {
		equal[path] = true
	}
	shape(t, example, "", want, have, equal)
	for path := range equal {
		t.Errorf("%s has nothing at %s that could be compared", example, path)
	}
}

func shape(t *testing.T, example, path string, want, have any, equal map[string]bool) {
	t.Helper()
	if wants, gets := fmt.Sprintf("%T", want), fmt.Sprintf("%T", have); wants != gets {
		t.Errorf("%s: %s is %s (%v), the guide shows %s", example, path, gets, have, wants)
		return
	}
	switch want := want.(type) {
	case map[string]any:
		for key, value := range want {
			shape(t, example, strings.TrimPrefix(path+"."+key, "."), value, have.(map[string]any)[key], equal)
		}
	case []any:
		if len(have.([]any)) < len(want) {
			t.Errorf("%s: %s has %d elements, the guide shows %d", example, path, len(have.([]any)), len(want))
			return
		}
		for i := range want {
			shape(t, example, fmt.Sprintf("%s[%d]", path, i), want[i], have.([]any)[i], equal)
		}
	default:
		if equal[path] && want != have {
			t.Errorf("%s: %s is %v, the guide shows %v", example, path, have, want)
		}
		delete(equal, path)
	}
}

// guideBench is a service that has the cluster that the guide presumes, and, when asked, the pool that its examples name.
func guideBench(t *testing.T, pool string) *bench {
	t.Helper()
	b := newBench(t)
	b.cluster()
	if pool != "" {
		got := b.do("POST", "/api/v1/nodepools", `{"id":"`+guidePool+`","name":"`+pool+`","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`}`)
		if got.status != http.StatusCreated {
			t.Fatalf("create the guide's pool: %d %s", got.status, got.body)
		}
	}
	return b
}

func TestGuideOperations(t *testing.T) {
	t.Parallel()
	b := guideBench(t, "")
	created := b.do("POST", "/api/v1/clusters/"+guideCluster+"/nodepools", guide(t, "create.json"))
	if created.status != http.StatusCreated {
		t.Fatalf("create: %d %s", created.status, created.body)
	}
	expectShape(t, "create-answer.json", created, "name", "cluster_id", "generation", "created_by")
	if id := created.at(t, "id").(string); len(id) != len(guidePool) {
		t.Errorf("id %s", id)
	}

	b = guideBench(t, "worker-pool-1")
	path := "/api/v1/nodepools/" + guidePool
	listed := b.do("GET", "/api/v1/clusters/"+guideCluster+"/nodepools", "")
	expectShape(t, "list-answer.json", listed, "nodepools[0].id", "nodepools[0].name", "nodepools[0].cluster_id", "nodepools[0].generation", "total", "offset")

	put := b.do("PUT", path, guide(t, "update.json"))
	if put.status != http.StatusOK || put.at(t, "name") != "worker-pool-1-updated" || put.at(t, "generation") != 2.0 {
		t.Errorf("update: %d %s", put.status, put.body)
	}
	got := b.do("GET", path, "")
	// The example of reading shows a disk type that the one of updating leaves out.
	var want map[string]any
	if err := json.Unmarshal([]byte(guide(t, "get-answer.json")), &want); err != nil {
		t.Fatal(err)
	}
	for key := range want {
		if got.at(t, key) == nil {
			t.Errorf("reading: no %s in %s", key, got.body)
		}
	}
	if got.at(t, "spec", "nodeCount") != 5.0 || got.at(t, "spec", "platform", "gcp", "machineType") != "n1-standard-8" {
		t.Errorf("reading after the update: %s", got.body)
	}

	reported := b.do("PUT", path+"/status", guide(t, "report.json"), "X-User-Email: controller@example.com")
	if reported.status != http.StatusOK {
		t.Fatalf("report: %d %s", reported.status, reported.body)
	}
	status := b.do("GET", path+"/status", "")
	expectShape(t, "status-answer.json", status, "nodepool_id", "controller_status[0].controller_name", "controller_status[0].observed_generation",
		"controller_status[0].conditions[0].type", "controller_status[0].conditions[0].status", "controller_status[0].conditions[0].reason",
		"controller_status[0].metadata.platform", "controller_status[0].metadata.active_nodes", "controller_status[0].metadata.desired_nodes")
	if status.at(t, "status", "phase") != "Ready" {
		t.Errorf("after the guide's report the pool is not Ready: %s", status.body)
	}
	if got := b.do("DELETE", path, ""); got.status != http.StatusNoContent || got.body != "" {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
}

func TestGuideErrors(t *testing.T) {
	t.Parallel()
	b := guideBench(t, "production-workers")
	nested := "/api/v1/clusters/" + guideCluster + "/nodepools"
	for _, test := range []struct {
		example string
		got     answer
		status  int
	}{
		{"error-400.json", b.malformed("POST", nested, `{"spec":`+gcpSpec+`}`), http.StatusBadRequest},
		{"error-404.json", b.do("GET", "/api/v1/nodepools/00000000-0000-4000-8000-000000000000", ""), http.StatusNotFound},
		{"error-409.json", b.do("POST", nested, `{"name":"production-workers","spec":`+gcpSpec+`}`), http.StatusConflict},
	} {
		if test.got.status != test.status {
			t.Errorf("%s: status %d", test.example, test.got.status)
		}
		expectShape(t, test.example, test.got, "error.code", "error.message", "error.details")
	}
}

func TestGuidePlatforms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, example := range []string{"gcp", "aws", "azure", "autoscaling"} {
		platform := example
		var given map[string]map[string]any
		if err := json.Unmarshal([]byte(guide(t, example+".json")), &given); err != nil {
			t.Fatal(err)
		}
		if example == "autoscaling" {
			// The example shows the one block alone; a pool needs a platform, too.
			platform = "gcp"
			given["spec"]["platform"] = map[string]any{"type": "gcp", "gcp": map[string]any{"machineType": "n1-standard-4"}}
		} else {
			given["spec"]["nodeCount"] = 3
		}
		cluster := fmt.Sprintf("550e8400-e29b-41d4-a716-44665544000%d", i)
		if got := b.do("POST", "/api/v1/clusters", fmt.Sprintf(`{"id":%q,"name":%q,"spec":{"platform":{"type":%q}}}`, cluster, example, platform)); got.status != http.StatusCreated {
			t.Fatalf("cluster of %s: %d %s", example, got.status, got.body)
		}
		spec, err := json.Marshal(given["spec"])
		if err != nil {
			t.Fatal(err)
		}
		got := b.do("POST", "/api/v1/clusters/"+cluster+"/nodepools", `{"name":"one","spec":`+string(spec)+`}`)
		if got.status != http.StatusCreated {
			t.Errorf("%s: %d %s", example, got.status, got.body)
			continue
		}
		// Nothing is dropped, and every name keeps its letter case.
		var kept map[string]any
		if err := json.Unmarshal(spec, &kept); err != nil {
			t.Fatal(err)
		}
		if example == "aws" {
			kept["platform"].(map[string]any)["aws"].(map[string]any)["userData"] = "(redacted)"
		}
		dropFalse(kept)
		have := got.json(t)["spec"].(map[string]any)
		dropFalse(have)
		wantText, _ := json.Marshal(kept)
		haveText, _ := json.Marshal(have)
		if string(wantText) != string(haveText) {
			t.Errorf("%s:\nkept %s\nsent %s", example, haveText, wantText)
		}
	}
}

// dropFalse takes away what means the same when it is absent.
func dropFalse(of map[string]any) {
	for key, value := range of {
		switch value := value.(type) {
		case bool:
			if !value {
				delete(of, key)
			}
		case map[string]any:
			dropFalse(value)
		}
	}
}

// TestGuideCommands runs the guide's curl commands as they are printed. They name localhost:8080; curl's own configuration leads them to
// the test's server, so not a byte of them changes; with the validating proxy, through it.
func TestGuideCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl on PATH to run the guide's commands with")
	}
	for _, test := range []struct {
		command, pool string
		check         func(t *testing.T, got answer)
	}{
		{"list.sh", "worker-pool-1", func(t *testing.T, got answer) {
			if got.at(t, "limit") != 10.0 || got.at(t, "total") != 0.0 {
				t.Errorf("none is Ready yet: %s", got.body)
			}
		}},
		{"curl-create.sh", "", func(t *testing.T, got answer) {
			if got.at(t, "name") != "production-workers" || got.at(t, "spec", "autoscaling", "maxNodes") != 10.0 || got.at(t, "created_by") != "user@example.com" {
				t.Errorf("%s", got.body)
			}
		}},
		{"curl-status.sh", "production-workers", func(t *testing.T, got answer) {
			if got.at(t, "nodepool_id") != guidePool {
				t.Errorf("%s", got.body)
			}
		}},
		{"curl-scale.sh", "production-workers", func(t *testing.T, got answer) {
			if got.at(t, "generation") != 2.0 || got.at(t, "spec", "nodeCount") != 6.0 {
				t.Errorf("%s", got.body)
			}
		}},
	} {
		t.Run(test.command, func(t *testing.T) {
			b := guideBench(t, test.pool)
			address, err := url.Parse(b.http.URL)
			if err != nil {
				t.Fatal(err)
			}
			home, host := t.TempDir(), address.Host
			told := filepath.Join(home, "header")
			settings := "silent\nshow-error\nfail-with-body\nnoproxy = \"*\"\ndump-header = \"" + told + "\"\n"
			proxy := through(t, &http.Client{})
			if proxy != nil {
				settings += "header = \"" + prism.UpstreamHeader + ": " + host + "\"\n"
				host = proxy.Host()
			}
			settings += "connect-to = \"localhost:8080:" + host + "\"\n"
			if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "sh", "-c", guide(t, test.command))
			command.Env = append(os.Environ(), "CURL_HOME="+home)
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			test.check(t, answer{body: string(out)})
			file, err := os.Open(told)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			header, err := http.ReadResponse(bufio.NewReader(file), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = header.Body.Close()
			if proxy == nil {
				return
			}
			if violations, err := proxy.Took(header); err != nil || len(violations) != 0 {
				t.Errorf("the proxy says %q (%v)", violations, err)
			}
		})
	}
}
