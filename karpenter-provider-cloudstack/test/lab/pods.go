package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// concurrency is how many objects are created or deleted at a time.
const concurrency = 16

// PodSpec is the spec of a pod that wants so much, such as "500m" and "1Gi", of a node of a NodePool.
func PodSpec(nodePool, cpu, memory string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{karpv1.NodePoolLabelKey: nodePool},
		// Nothing runs in these pods that could end in its own time.
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}},
		}},
	}
}

// CreatePods creates pods name-0, name-1, …, all of one spec, with the label app=name.
func (l *Lab) CreatePods(ctx context.Context, name string, count int, spec corev1.PodSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range count {
		group.Go(func() error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name}},
				Spec:       *spec.DeepCopy(),
			}
			return errors.Wrapf(l.Client.Create(ctx, pod), "creating pod %s", pod.Name)
		})
	}
	return group.Wait()
}

// DeletePods deletes the pods with the label app=name, one by one: an API server has a minute for a request, and thousands of pods may take longer.
func (l *Lab) DeletePods(ctx context.Context, name string) error {
	var pods corev1.PodList
	if err := l.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": name}); err != nil {
		return errors.Wrapf(err, "listing the pods %s", name)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range pods.Items {
		group.Go(func() error {
			err := l.Client.Delete(ctx, &pods.Items[i])
			return errors.Wrapf(client.IgnoreNotFound(err), "deleting pod %s", pods.Items[i].Name)
		})
	}
	return group.Wait()
}

// Count counts what belongs to a NodePool, or to all with an empty name.
type Count struct {
	// Pending and Bound are pods; those that are being deleted count as neither.
	Pending, Bound int
	// Claims are NodeClaims, Registered those with a node that has joined.
	Claims, Registered int
	// Nodes are nodes, Ready those that are ready and take pods.
	Nodes, Ready int
	// Machines are machines of CloudStack that have not been deleted, whatever their state.
	Machines int
}

// String has the counts in one line.
func (c Count) String() string {
	return fmt.Sprintf("%d pods pending, %d bound, %d node claims (%d registered), %d nodes (%d ready), %d machines",
		c.Pending, c.Bound, c.Claims, c.Registered, c.Nodes, c.Ready, c.Machines)
}

// Count counts.
func (l *Lab) Count(ctx context.Context, nodePool string) (Count, error) {
	var (
		c      Count
		pods   corev1.PodList
		claims karpv1.NodeClaimList
		nodes  corev1.NodeList
		of     []client.ListOption
	)
	if nodePool != "" {
		of = append(of, client.MatchingLabels{karpv1.NodePoolLabelKey: nodePool})
	}
	if err := l.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return c, errors.Wrap(err, "listing pods")
	}
	if err := l.Client.List(ctx, &claims, of...); err != nil {
		return c, errors.Wrap(err, "listing node claims")
	}
	if err := l.Client.List(ctx, &nodes, of...); err != nil {
		return c, errors.Wrap(err, "listing nodes")
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.DeletionTimestamp != nil, nodePool != "" && pod.Spec.NodeSelector[karpv1.NodePoolLabelKey] != nodePool:
		case pod.Spec.NodeName == "":
			c.Pending++
		default:
			c.Bound++
		}
	}
	for i := range claims.Items {
		c.Claims++
		if claims.Items[i].StatusConditions().Get(karpv1.ConditionTypeRegistered).IsTrue() {
			c.Registered++
		}
	}
	for i := range nodes.Items {
		c.Nodes++
		if ready(&nodes.Items[i]) {
			c.Ready++
		}
	}
	c.Machines = len(l.Machines(nodePool))
	return c, nil
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !node.Spec.Unschedulable
		}
	}
	return false
}

// Until waits until the counts are as they should be. The error has the last counts and the end of the provider's log.
func (l *Lab) Until(ctx context.Context, timeout time.Duration, nodePool string, met func(Count) bool) (Count, error) {
	return l.UntilEvery(ctx, 200*time.Millisecond, timeout, nodePool, met)
}

// UntilEvery is Until with a pause between two looks: to look at thousands of objects all the time is work for the control plane.
func (l *Lab) UntilEvery(ctx context.Context, pause, timeout time.Duration, nodePool string, met func(Count) bool) (Count, error) {
	var last Count
	var failed error
	// Requests have the caller's context: one that the timeout cuts off would hide what was waited for.
	err := wait.PollUntilContextTimeout(ctx, pause, timeout, true, func(context.Context) (bool, error) {
		if err := l.Err(); err != nil {
			return false, err
		}
		// An API server that has too much to do may do better next time; one that has ended is told of above.
		now, err := l.Count(ctx, nodePool)
		if failed = err; err != nil {
			return false, ctx.Err()
		}
		last = now
		return met(now), nil
	})
	if wait.Interrupted(err) && failed != nil {
		err = failed
	}
	return last, errors.Wrapf(err, "last there were %s; %s\nfor", last, l.Tails())
}
