package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// name is what the reports carry.
	name     = "gcp-nodepool-controller"
	platform = "gcp"
)

// cloud stands for Google's API: it counts the nodes of each pool, and takes its time.
type cloud struct {
	step time.Duration

	mu    sync.Mutex
	nodes map[string]int
}

// move brings the nodes of a pool one nearer to a count, and tells how many there are.
func (c *cloud) move(ctx context.Context, pool string, want int) (have int, err error) {
	c.mu.Lock()
	have = c.nodes[pool]
	c.mu.Unlock()
	if have == want {
		return have, nil
	}
	select {
	case <-ctx.Done():
		return have, ctx.Err()
	case <-time.After(c.step):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have < want {
		c.nodes[pool]++
	} else {
		c.nodes[pool]--
	}
	return c.nodes[pool], nil
}

// controller makes what node pools of the platform want.
type controller struct {
	api   *api
	cloud *cloud
	poll  time.Duration
	log   *log.Logger
}

// run works until the context ends. Lists find the work: they are asked for at every event, and every poll interval in case that one
// was missed.
func (c *controller) run(ctx context.Context) error {
	if err := c.register(ctx); err != nil {
		return err
	}
	changes := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			err := c.api.watch(ctx, platform, func() {
				select {
				case changes <- struct{}{}:
				default:
				}
			})
			if ctx.Err() == nil {
				c.log.Printf("the watch ended (%v) and begins anew", err)
				sleep(ctx, time.Second)
			}
		}
	}()
	for ctx.Err() == nil {
		if err := c.sync(ctx); err != nil && ctx.Err() == nil {
			c.log.Print(err)
		}
		select {
		case <-ctx.Done():
		case <-changes:
		case <-time.After(c.poll):
			// Registering again is a sign of life.
			if err := c.register(ctx); err != nil && ctx.Err() == nil {
				c.log.Print(err)
			}
		}
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *controller) register(ctx context.Context) error {
	err := c.api.send(ctx, http.MethodPut, "/api/v1/controllers/"+name, map[string]any{
		"name": name, "platforms": []string{platform}, "version": "example", "clusters": true,
	})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// sync works on everything that there is to do, side by side.
func (c *controller) sync(ctx context.Context) error {
	clusters, err := c.api.pending(ctx, "clusters", platform)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	pools, err := c.api.pending(ctx, "nodepools", platform)
	if err != nil {
		return fmt.Errorf("list node pools: %w", err)
	}
	var working sync.WaitGroup
	for _, cluster := range clusters {
		working.Go(func() { c.note(ctx, "cluster", cluster, c.cluster(ctx, cluster)) })
	}
	for _, pool := range pools {
		working.Go(func() { c.note(ctx, "node pool", pool, c.pool(ctx, pool)) })
	}
	working.Wait()
	return nil
}

// note logs what went wrong. That the object changed or went meanwhile is not wrong: the next list tells of it.
func (c *controller) note(ctx context.Context, kind string, o object, err error) {
	var no *refused
	if err == nil || ctx.Err() != nil || errors.As(err, &no) && (no.status == http.StatusConflict || no.status == http.StatusNotFound) {
		return
	}
	c.log.Printf("%s %s (%s): %v", kind, o.Name, o.ID, err)
}

// cluster reports about a cluster, of which this cloud knows nothing: it is there as soon as it is wanted.
func (c *controller) cluster(ctx context.Context, o object) error {
	if o.DeletionRequestedAt != nil {
		return c.report(ctx, "clusters", o, []condition{{"Deleted", "True", "Deleted", "nothing is left"}}, nil)
	}
	return c.report(ctx, "clusters", o, []condition{{"Ready", "True", "ClusterRunning", "the control plane answers"}},
		map[string]any{"platform": platform, "region": o.Spec.Platform.GCP.Region})
}

// pool makes one pool what it wants to be, a node at a time, and reports each.
func (c *controller) pool(ctx context.Context, o object) error {
	want := 0
	switch {
	case o.DeletionRequestedAt != nil:
	case o.Spec.NodeCount != nil:
		want = *o.Spec.NodeCount
	case o.Spec.Autoscaling.Enabled:
		want = o.Spec.Autoscaling.MinNodes
	}
	for {
		have, err := c.cloud.move(ctx, o.ID, want)
		if err != nil {
			return err
		}
		details := map[string]any{"platform": platform, "active_nodes": have, "desired_nodes": want, "ready_nodes": have}
		if zones := o.Spec.Platform.GCP.Zones; len(zones) > 0 {
			details["region"] = regionOf(zones[0])
		}
		message := fmt.Sprintf("%d of %d nodes are ready", have, want)
		switch {
		case have == want && o.DeletionRequestedAt != nil:
			return c.report(ctx, "nodepools", o, []condition{{"Deleted", "True", "NodesDeleted", "no nodes are left"}}, details)
		case have == want:
			message = fmt.Sprintf("All %d nodes are ready", have)
			return c.report(ctx, "nodepools", o, []condition{{"Ready", "True", "NodesReady", message}}, details)
		case o.DeletionRequestedAt != nil:
			err = c.report(ctx, "nodepools", o, []condition{{"Deleting", "True", "DeletingNodes", message}}, details)
		default:
			err = c.report(ctx, "nodepools", o, []condition{{"Ready", "False", "CreatingNodes", message}}, details)
		}
		if err != nil {
			return err
		}
	}
}

// regionOf is us-central1 for us-central1-a.
func regionOf(zone string) string {
	if at := strings.LastIndex(zone, "-"); at > 0 {
		return zone[:at]
	}
	return zone
}

func (c *controller) report(ctx context.Context, kind string, o object, conditions []condition, details map[string]any) error {
	return c.api.send(ctx, http.MethodPut, "/api/v1/"+kind+"/"+o.ID+"/status", report{
		ControllerName: name, ObservedGeneration: o.Generation, Conditions: conditions, Metadata: details,
	})
}
