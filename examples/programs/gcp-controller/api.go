package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The contract: what a controller reads of an object, and what it reports. Everything else it need not know.

// object is a node pool or a cluster.
type object struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Generation int    `json:"generation"`
	Spec       struct {
		NodeCount   *int `json:"nodeCount"`
		Autoscaling struct {
			Enabled  bool `json:"enabled"`
			MinNodes int  `json:"minNodes"`
		} `json:"autoscaling"`
		Platform struct {
			GCP struct {
				Region string   `json:"region"`
				Zones  []string `json:"zones"`
			} `json:"gcp"`
		} `json:"platform"`
	} `json:"spec"`
	DeletionRequestedAt *time.Time `json:"deletion_requested_at"`
}

// report is the body of PUT …/status.
type report struct {
	ControllerName     string         `json:"controller_name"`
	ObservedGeneration int            `json:"observed_generation"`
	Conditions         []condition    `json:"conditions"`
	Metadata           map[string]any `json:"metadata,omitempty"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// api speaks to the service.
type api struct {
	server, user, token string
}

// refused is an answer other than success.
type refused struct {
	status int
	body   string
}

func (r *refused) Error() string { return fmt.Sprintf("the service answered %d: %s", r.status, r.body) }

func (a *api) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.server, "/")+path, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if a.user != "" {
		request.Header.Set("X-User-Email", a.user)
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		return nil, &refused{status: response.StatusCode, body: strings.TrimSpace(string(text))}
	}
	return response, nil
}

// send writes, and reads an answer of no interest.
func (a *api) send(ctx context.Context, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	response, err := a.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return err
}

// pending lists what controllers of a platform have yet to work on: what has a generation that was not observed, and what is to go.
func (a *api) pending(ctx context.Context, kind, platform string) ([]object, error) {
	var all []object
	cursor := ""
	for {
		query := url.Values{"platform": {platform}, "needs_reconcile": {"true"}, "limit": {"100"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		page := struct {
			NodePools  []object `json:"nodepools"`
			Clusters   []object `json:"clusters"`
			NextCursor string   `json:"next_cursor"`
		}{}
		if err := a.get(ctx, "/api/v1/"+kind+"?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(append(all, page.Clusters...), page.NodePools...)
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

func (a *api) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	response, err := a.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(into)
}

// watch calls changed for every event of a platform, until the connection ends. What was missed is found by listing.
func (a *api) watch(ctx context.Context, platform string, changed func()) error {
	response, err := a.do(ctx, http.MethodGet, "/api/v1/watch?platform="+platform, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "data:") {
			changed()
		}
	}
}
