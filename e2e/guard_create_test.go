package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// expectRefusals lets pods of a namespace be refused: Upright learns of what refuses them only from
// the refusal.
func (g *guard) expectRefusals(namespace string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.refusing[namespace] = true
}

// expectsRefusals reports whether pods of a namespace may be refused.
func (g *guard) expectsRefusals(namespace string) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.refusing[namespace]
}

// checkFailedCreate checks the ReplicaSet of a FailedCreate event. It is a violation if the API server
// accepts the ReplicaSet's pods without Upright.
func (g *guard) checkFailedCreate(obj any) {
	event, ok := obj.(*corev1.Event)
	// Upright learns that a quota is exceeded from a refusal. checkAllCreatable checks quotas after the tests.
	if !ok || event.InvolvedObject.Kind != "ReplicaSet" || isOverQuota(event.Message) ||
		g.expectsRefusals(event.InvolvedObject.Namespace) {
		return
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}}
	err := g.client.Get(context.Background(), client.ObjectKeyFromObject(set), set)
	if err == nil {
		err = checkCreatable(context.Background(), g.client, set)
	}
	if client.IgnoreNotFound(err) == nil {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.violations[err.Error()] = true
}

// checkAllCreatable returns an error for each Deployment that a scaler sizes and whose pods the API
// server accepts only without Upright.
func checkAllCreatable(ctx context.Context, c client.Client) error {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := c.List(ctx, &scalers); err != nil {
		return fmt.Errorf("list the scalers: %w", err)
	}
	var all []error
	for i := range scalers.Items {
		scaler := &scalers.Items[i]
		if len(scaler.Status.Sizing) == 0 {
			continue
		}
		var sets appsv1.ReplicaSetList
		if err := c.List(ctx, &sets, client.InNamespace(scaler.Namespace)); err != nil {
			return fmt.Errorf("list the ReplicaSets: %w", err)
		}
		for j := range sets.Items {
			owner := metav1.GetControllerOf(&sets.Items[j])
			if owner != nil && owner.Name == scaler.Spec.DeploymentName && ptr.Deref(sets.Items[j].Spec.Replicas, 1) > 0 {
				all = append(all, checkCreatable(ctx, c, &sets.Items[j]))
			}
		}
	}
	return errors.Join(all...)
}

// checkCreatable returns an error if the API server refuses a ReplicaSet's pod and accepts the same
// pod without the label that the admission policy needs.
func checkCreatable(ctx context.Context, c client.Client, set *appsv1.ReplicaSet) error {
	create := func(change func(*corev1.Pod)) error {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = set.Namespace, set.Name+"-guarded"
		change(pod)
		return c.Create(ctx, pod, client.DryRunAll)
	}
	withoutUpright := create(func(pod *corev1.Pod) { delete(pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey) })
	withUpright := create(func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	})
	return blockedByUpright(set, withoutUpright, withUpright)
}

// blockedByUpright returns an error if Upright blocks the pods of a ReplicaSet. The arguments are the
// API server's answers for a pod without and with Upright. If the ReplicaSet has all its pods, a
// quota may refuse one more.
func blockedByUpright(set *appsv1.ReplicaSet, withoutUpright, withUpright error) error {
	isRefused := apierrors.IsInvalid(withUpright) || apierrors.IsForbidden(withUpright)
	isComplete := set.Status.Replicas == ptr.Deref(set.Spec.Replicas, 1)
	if withoutUpright == nil && isRefused && (!isComplete || !isOverQuota(withUpright.Error())) {
		return fmt.Errorf("ReplicaSet %s/%s: Upright blocks its pods: %w", set.Namespace, set.Name, withUpright)
	}
	return nil
}

func isOverQuota(message string) bool { return strings.Contains(message, "exceeded quota") }

func TestGuardFindsPodsThatUprightBlocks(t *testing.T) {
	t.Parallel()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "web-1"}}
	refusal := func(reason string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "web-1-x", errors.New(reason))
	}
	tooLarge, overQuota := refusal("maximum cpu usage per Container is 1"), refusal("exceeded quota: cpu")

	require.ErrorContains(t, blockedByUpright(set, nil, tooLarge), "ReplicaSet ours/web-1: Upright blocks its pods")
	require.ErrorContains(t, blockedByUpright(set, nil, overQuota), "Upright blocks its pods")
	require.NoError(t, blockedByUpright(set, nil, nil))
	require.NoError(t, blockedByUpright(set, tooLarge, tooLarge), "the API server refuses the pod without Upright too")
	require.NoError(t, blockedByUpright(set, nil, errors.New("connection refused")))
	set.Status.Replicas = 1
	require.NoError(t, blockedByUpright(set, nil, overQuota))
	require.ErrorContains(t, blockedByUpright(set, nil, tooLarge), "Upright blocks its pods")
}
