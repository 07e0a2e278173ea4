package verticalscaler

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/internal/pods"
)

// newPods is what decides about the size of new pods in the API server.
type newPods struct {
	// inTable is the size of new pods in the namespace's SizeTable, nil if it has none.
	inTable autoscalingv1beta1.PodSize
	// isOmitted is true if the size does not fit into the table.
	isOmitted bool
	// hasTableFailed is true if the table cannot be written.
	hasTableFailed bool
	// policyVersion changes when the admission policy or its binding is edited.
	policyVersion int64
	// notTaken is true if the last new pod was created without the size in the table.
	notTaken bool
}

// observeNewPods reads the size of new pods from the SizeTable, and compares the pods that were
// created since the last reconcile with it.
func (r *Reconciler) observeNewPods(ctx context.Context, s *scope) error {
	// A write of the table that hangs must not block the scalers.
	table, err := sizetable.Get(ctx, r.Client, s.scaler.Namespace, client.DisableReadYourWritesConsistency)
	if err != nil {
		return err
	}
	if table != nil {
		s.newPods.inTable = table.Deployments[s.scaler.Spec.DeploymentName]
	}
	isOmitted, isKnown := r.tables.IsOmitted(s.scaler.Namespace, s.scaler.Spec.DeploymentName)
	s.newPods.isOmitted = isOmitted || !isKnown && s.wasApplied(autoscalingv1beta1.ReasonSizeTableFull)
	s.newPods.policyVersion = r.admission.version.Load()
	s.newPods.hasTableFailed = r.tables.HasFailed(s.scaler.Namespace)
	s.newPods.notTaken = r.creations.observe(s)
	return nil
}

// wasApplied reports whether the published condition Applied has a reason. After a restart, it is
// all that the manager knows about new pods.
func (s *scope) wasApplied(reason string) bool {
	applied := meta.FindStatusCondition(s.scaler.Status.Conditions, autoscalingv1beta1.ConditionApplied)
	return applied != nil && applied.Reason == reason
}

// canSizeNewPods reports whether the API server sizes new pods.
func (s *scope) canSizeNewPods() bool {
	return !s.policyMissing && !s.newPods.isOmitted && !s.newPods.notTaken
}

// waitsForTable reports whether the scaler sizes only new pods, and they get no size yet. While the
// table has a previous size, new pods get that.
func (s *scope) waitsForTable() bool {
	return s.scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeInitial && len(s.status.Sizing) > 0 && len(s.newPods.inTable) == 0
}

// isInTable reports whether new pods get the sizes of this reconcile.
func (s *scope) isInTable() bool {
	return equality.Semantic.DeepEqual(s.newPods.inTable, sizetable.PodSize(s.status.Sizing))
}

// creations compares new pods with the size that the SizeTable had for them.
type creations struct {
	mutex    sync.Mutex
	byScaler map[types.NamespacedName]*creation
}

// creation is what is known of the creation of a target's pods.
type creation struct {
	scaler types.UID
	// size is the size in the table, and since is the time since when it is known to be there.
	size  autoscalingv1beta1.PodSize
	since time.Time
	// seen are the pods that have been compared, of those that were created after the horizon. All
	// older ones have been.
	seen          map[types.UID]bool
	horizon       time.Time
	policyVersion int64
	notTaken      bool
}

func newCreations() *creations {
	return &creations{byScaler: map[types.NamespacedName]*creation{}}
}

// forget drops a scaler that no longer exists.
func (c *creations) forget(scaler types.NamespacedName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.byScaler, scaler)
}

// observe compares the pods that it has not seen before, and reports whether the newest of those
// that could be compared was created without the size in the table. A pod is compared before the
// first resize: afterwards, its size says nothing about its creation.
func (c *creations) observe(s *scope) (notTaken bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := client.ObjectKeyFromObject(s.scaler)
	known := c.byScaler[key]
	if known == nil || known.scaler != s.scaler.UID {
		known = &creation{scaler: s.scaler.UID, since: s.now, size: s.newPods.inTable, policyVersion: s.newPods.policyVersion}
		known.see(s.pods)
		known.notTaken = s.wasApplied(autoscalingv1beta1.ReasonSizeNotTaken)
		c.byScaler[key] = known
	}
	if !equality.Semantic.DeepEqual(known.size, s.newPods.inTable) {
		known.size, known.since = s.newPods.inTable, s.now
	}
	if s.policyMissing || known.policyVersion != s.newPods.policyVersion {
		// Pods that are created from now on show whether the new policy has an effect.
		known.since, known.policyVersion, known.notTaken = s.now, s.newPods.policyVersion, false
	}
	var newest *corev1.Pod
	for i := range s.pods {
		pod := &s.pods[i]
		if known.isNew(pod) && known.isComparable(pod) &&
			(newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	if newest != nil {
		known.notTaken = !hasSize(newest, known.size)
	}
	known.see(s.pods)
	return known.notTaken && len(known.size) > 0
}

// isComparable reports whether the API server must have created a pod with the size: the size was
// in the table and the policy in effect long enough before.
func (c *creation) isComparable(pod *corev1.Pod) bool {
	return len(c.size) > 0 && pod.Spec.Resources == nil && pod.CreationTimestamp.After(c.since.Add(policyDelay))
}

// hasSize reports whether a pod's containers have the requests of a size, as far as the admission
// policy sets them. A container that the pod does not have does not matter.
func hasSize(pod *corev1.Pod, size autoscalingv1beta1.PodSize) bool {
	for container := range pods.EachSizable(&pod.Spec) {
		for name, request := range size[container.Name].Requests {
			actual := container.Resources.Requests[name]
			if actual.Cmp(request) != 0 && getsRequest(container.Resources, size[container.Name], name) {
				return false
			}
		}
	}
	return true
}

// lateWatch is how much later than a newer pod the watch may deliver a pod.
const lateWatch = time.Minute

// isNew reports whether a pod has not been seen.
func (c *creation) isNew(pod *corev1.Pod) bool {
	return pod.CreationTimestamp.After(c.horizon) && !c.seen[pod.UID]
}

// see remembers the pods that exist. Of most Deployments, all pods are older than the horizon.
func (c *creation) see(all []corev1.Pod) {
	for i := range all {
		if horizon := all[i].CreationTimestamp.Add(-lateWatch); horizon.After(c.horizon) {
			c.horizon = horizon
		}
	}
	c.seen = map[types.UID]bool{}
	for i := range all {
		if all[i].CreationTimestamp.After(c.horizon) {
			c.seen[all[i].UID] = true
		}
	}
}
