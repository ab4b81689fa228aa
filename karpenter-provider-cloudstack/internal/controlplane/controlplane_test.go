package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
)

func TestMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(assetsVariable, "")
	_, err := Start(t.Context(), Options{Scheduler: true})
	if !IsMissing(err) {
		t.Fatalf("got %v, want a MissingError", err)
	}
	for _, want := range []string{etcd, apiServer, scheduler, "make tools", assetsVariable} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not tell of %s", err, want)
		}
	}
	if strings.Contains(err.Error(), kwok) {
		t.Errorf("the error %q names a program that was not asked for", err)
	}
}

func TestAssetsGoFirst(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(assetsVariable, folder)
	want := filepath.Join(folder, etcd)
	if err := os.WriteFile(want, []byte("#!/bin/sh\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := Binary(etcd)
	if err != nil || got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

// A program that cannot start is told of with what it wrote, at once and not after the time that a slow one has.
func TestStartFails(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(assetsVariable, folder)
	for _, name := range []string{etcd, apiServer} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\necho the disk is full >&2; exit 7\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Start(t.Context(), Options{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"etcd", "exit status 7", "the disk is full"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q lacks %q", err, want)
		}
	}
}

func TestControlPlane(t *testing.T) {
	o := Options{Scheduler: true, ControllerManager: true, Kwok: true, CRDs: crds.All()}
	if err := Check(o); IsMissing(err) {
		t.Skipf("############ NOT TESTED: %v", err)
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := client.Discovery().ServerResourcesForGroupVersion("karpenter.k8s.cloudstack/v1")
	if err != nil || len(resources.APIResources) == 0 {
		t.Errorf("the definitions are not installed: %v, %v", resources, err)
	}

	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	for _, node := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "alive", Annotations: map[string]string{NodeAnnotation: "fake"}}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size}},
		// The scheduler would take it, until it is marked as not ready.
		{ObjectMeta: metav1.ObjectMeta{Name: "not-kwoks"}, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size}},
	} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Scheduler, controller manager (the node's mark as not ready is taken away) and kwok have each done their part when the pod runs.
	eventually(t, c, "the pod runs on the node that is alive", func(ctx context.Context) (bool, error) {
		got, err := client.CoreV1().Pods("default").Get(ctx, "pod", metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning && got.Spec.NodeName == "alive", err
	})
	node, err := client.CoreV1().Nodes().Get(t.Context(), "not-kwoks", metav1.GetOptions{})
	if err != nil || len(node.Status.Conditions) > 0 {
		t.Errorf("a node without the annotation was touched: %v, %v", node.Status.Conditions, err)
	}
	// A pod that is deleted goes only when its kubelet says so.
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the pod is gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods("default").Get(ctx, "pod", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})

	folder := c.Directory
	c.Stop()
	if err := c.Err(); err != nil {
		t.Errorf("after Stop there is the error %v", err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the temporary folder is still there (%v)", err)
	}
}

func eventually(t *testing.T, c *ControlPlane, what string, met func(context.Context) (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := c.Err(); err != nil {
			return false, err
		}
		return met(ctx)
	})
	if err != nil {
		t.Fatalf("not so: %s: %v", what, err)
	}
}
