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

// lookAtRefusal looks at an event that tells of a pod which could not be created, for one that
// could be created without Upright.
func (g *guard) lookAtRefusal(obj any) {
	event, ok := obj.(*corev1.Event)
	// Of a quota it takes a refusal to learn that it is exceeded. How that ends is seen in the end.
	if !ok || event.InvolvedObject.Kind != "ReplicaSet" || isOverQuota(event.Message) {
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
	g.breaches[err.Error()] = true
}

// checkAllCreatable returns an error for each Deployment that a scaler sizes and of which pods
// could be created without Upright alone.
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

// checkCreatable returns an error where the API server refuses a ReplicaSet's pod, and not the
// same one where no policy knows it for the ReplicaSet's.
func checkCreatable(ctx context.Context, c client.Client, set *appsv1.ReplicaSet) error {
	create := func(change func(*corev1.Pod)) error {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = set.Namespace, set.Name+"-guarded"
		change(pod)
		return c.Create(ctx, pod, client.DryRunAll)
	}
	unknown := create(func(pod *corev1.Pod) { delete(pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey) })
	known := create(func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	})
	return stoppedBy(set, unknown, known)
}

// stoppedBy returns an error where Upright stops the pods of a ReplicaSet, given what the API
// server says of one that Upright does not know and of one that it does. A quota may have no
// room for one more than there are to be.
func stoppedBy(set *appsv1.ReplicaSet, unknown, known error) error {
	isRefused := apierrors.IsInvalid(known) || apierrors.IsForbidden(known)
	isComplete := set.Status.Replicas == ptr.Deref(set.Spec.Replicas, 1)
	if unknown == nil && isRefused && (!isComplete || !isOverQuota(known.Error())) {
		return fmt.Errorf("ReplicaSet %s/%s: Upright stops its pods: %w", set.Namespace, set.Name, known)
	}
	return nil
}

func isOverQuota(message string) bool { return strings.Contains(message, "exceeded quota") }

func TestGuardSeesPodsThatUprightStops(t *testing.T) {
	t.Parallel()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "web-1"}}
	refusal := func(reason string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "web-1-x", errors.New(reason))
	}
	tooLarge, overQuota := refusal("maximum cpu usage per Container is 1"), refusal("exceeded quota: cpu")

	require.ErrorContains(t, stoppedBy(set, nil, tooLarge), "ReplicaSet ours/web-1: Upright stops its pods")
	require.ErrorContains(t, stoppedBy(set, nil, overQuota), "Upright stops its pods")
	require.NoError(t, stoppedBy(set, nil, nil))
	require.NoError(t, stoppedBy(set, tooLarge, tooLarge), "without Upright too")
	require.NoError(t, stoppedBy(set, nil, errors.New("connection refused")))
	set.Status.Replicas = 1
	require.NoError(t, stoppedBy(set, nil, overQuota))
	require.ErrorContains(t, stoppedBy(set, nil, tooLarge), "Upright stops its pods")
}
