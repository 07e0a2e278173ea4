package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

const (
	sizedScaler   = "web-0" // Its Deployment runs.
	waitingScaler = "late"  // Its Deployment does not exist at first.
)

// reactionBench is a manager that has no other work than to react to single changes.
type reactionBench struct {
	*upright
	follower *follower
	// scalers has the status of each VerticalScaler, by name.
	scalers map[string]autoscalingv1beta1.VerticalScalerStatus
	// controllers has the controller of each Deployment, by the Deployment's name.
	controllers map[string]types.UID
	// blocked reports, by the UID of an owner, that the name of its Deployment is taken.
	blocked map[types.UID]bool
	// took has the measured seconds, by what was measured.
	took map[string][]float64
}

// BenchmarkReaction makes one change at a time, and measures the time from the request to the
// event that shows its effect.
func BenchmarkReaction(b *testing.B) {
	rounds, takeovers := fullOr(50, 3), fullOr(5, 1)
	b.Run(fmt.Sprintf("rounds=%d", rounds), func(b *testing.B) {
		r := startReactionBench(b)
		for round := range rounds {
			r.changeTarget(b)
			r.changeHPA(b)
			r.changeLimitRange(b)
			r.freeNames(b, round)
		}
		for range takeovers {
			r.stopLeader(b)
		}
		for _, name := range []string{"target", "HPA", "LimitRange", "free-name"} {
			b.ReportMetric(percentile(r.took[name], 50), "p50-"+name+"-s")
			b.ReportMetric(percentile(r.took[name], 99), "p99-"+name+"-s")
		}
		b.ReportMetric(percentile(r.took["takeover"], 100), "max-takeover-s")
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is spent on preparations.
	})
}

// startReactionBench starts a cluster and the manager, and creates both scalers. Scalers size
// only new pods, so that a change has no other effect than the measured one.
func startReactionBench(b *testing.B) *reactionBench {
	b.Helper()
	r := &reactionBench{
		upright: startCluster(b, 0), scalers: map[string]autoscalingv1beta1.VerticalScalerStatus{},
		controllers: map[string]types.UID{}, blocked: map[types.UID]bool{}, took: map[string][]float64{},
	}
	spec := autoscalingv1beta1.VerticalScalerSpec{UpdateMode: autoscalingv1beta1.UpdateModeInitial}
	r.createScaled(b, 1, corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
	}, spec)
	spec.DeploymentName = waitingScaler
	require.NoError(b, r.client.Create(b.Context(), &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: waitingScaler}, Spec: spec,
	}))
	r.follower = newFollower(b, r.client)
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &autoscalingv1beta1.VerticalScalerList{},
		&examplev1alpha1.BusyboxList{}, &examplev1alpha1.FooList{}, &cachev1alpha1.MemcachedList{},
	} {
		r.follower.follow(b, list, r.add)
	}
	r.startManager(b)
	r.follower.wait(b, func() bool {
		return r.hasSize(corev1.ResourceCPU) && r.hasTarget(metav1.ConditionFalse)
	})
	return r
}

// startManager starts the manager, which reads usage only once, when it becomes the leader.
func (r *reactionBench) startManager(b *testing.B) {
	b.Helper()
	r.upright.startManager(b, "--metrics-interval=1h")
}

func (r *reactionBench) add(object runtime.Object) {
	switch object := object.(type) {
	case *autoscalingv1beta1.VerticalScaler:
		r.scalers[object.Name] = object.Status
	case *appsv1.Deployment:
		if controller := metav1.GetControllerOf(object); controller != nil {
			r.controllers[object.Name] = controller.UID
		}
	case *examplev1alpha1.Busybox:
		r.blocked[object.UID] = isBlocked(object.Status.Conditions)
	case *examplev1alpha1.Foo:
		r.blocked[object.UID] = isBlocked(object.Status.Conditions)
	case *cachev1alpha1.Memcached:
		r.blocked[object.UID] = isBlocked(object.Status.Conditions)
	}
}

func isBlocked(conditions []metav1.Condition) bool {
	degraded := meta.FindStatusCondition(conditions, examplev1alpha1.ConditionDegraded)
	return degraded != nil && degraded.Reason == examplev1alpha1.ReasonDeploymentNameTaken
}

// measure measures the time from before a change until isDone returns true.
func (r *reactionBench) measure(b *testing.B, name string, change func() error, isDone func() bool) {
	b.Helper()
	begin := time.Now()
	require.NoError(b, change())
	r.follower.wait(b, isDone)
	r.took[name] = append(r.took[name], time.Since(begin).Seconds())
}

// measureBoth creates an object and deletes it, and measures both.
func (r *reactionBench) measureBoth(b *testing.B, name string, object client.Object, isCreated, isDeleted func() bool) {
	b.Helper()
	r.measure(b, name, func() error { return r.client.Create(b.Context(), object) }, isCreated)
	r.measure(b, name, func() error { return r.client.Delete(b.Context(), object) }, isDeleted)
}

// changeTarget measures the time until a scaler's status shows whether its Deployment exists.
func (r *reactionBench) changeTarget(b *testing.B) {
	b.Helper()
	r.measureBoth(b, "target", emptyDeployment(waitingScaler),
		func() bool { return r.hasTarget(metav1.ConditionTrue) }, func() bool { return r.hasTarget(metav1.ConditionFalse) })
}

// changeHPA measures the time until a scaler's status leaves CPU to an HPA, and until it sizes CPU
// again.
func (r *reactionBench) changeHPA(b *testing.B) {
	b.Helper()
	r.measureBoth(b, "HPA", utilizationHPA(sizedScaler),
		func() bool { return !r.hasSize(corev1.ResourceCPU) }, func() bool { return r.hasSize(corev1.ResourceCPU) })
}

// changeLimitRange measures the time until a scaler's status has the minimum of a LimitRange, and
// until it has the recommended size again.
func (r *reactionBench) changeLimitRange(b *testing.B) {
	b.Helper()
	hasMinimum := func() bool {
		sizing := r.scalers[sizedScaler].Sizing
		return len(sizing) == 1 && sizing[0].Requests.Memory().Cmp(raisedMemory) >= 0
	}
	r.measureBoth(b, "LimitRange", minimumMemory(raisedMemory),
		hasMinimum, func() bool { return !hasMinimum() && r.hasSize(corev1.ResourceMemory) })
}

// freeNames measures the time from the deletion of a Deployment until an owner that waits for its
// name has created its own Deployment.
func (r *reactionBench) freeNames(b *testing.B, round int) {
	b.Helper()
	for _, owner := range ownersOf(fmt.Sprintf("taken-%d", round)) {
		name := owner.GetName()
		other := emptyDeployment(name)
		require.NoError(b, r.client.Create(b.Context(), other))
		require.NoError(b, r.client.Create(b.Context(), owner))
		r.follower.wait(b, func() bool { return r.blocked[owner.GetUID()] })

		r.measure(b, "free-name",
			func() error { return r.client.Delete(b.Context(), other) },
			func() bool { return r.controllers[name] == owner.GetUID() })
	}
}

// stopLeader starts a standby and stops the leader. It measures the time from the leader's end
// until the standby has created the Deployment of a new owner.
func (r *reactionBench) stopLeader(b *testing.B) {
	b.Helper()
	leader := r.manager
	r.startManager(b)
	require.NoError(b, leader.Stop(b.Context()))
	owner := &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "takeover-"}}
	r.measure(b, "takeover",
		func() error { return r.client.Create(b.Context(), owner) },
		func() bool { return r.controllers[owner.Name] == owner.UID })
}

// hasTarget reports whether the status of the waiting scaler has this TargetFound.
func (r *reactionBench) hasTarget(status metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(
		r.scalers[waitingScaler].Conditions, autoscalingv1beta1.ConditionTargetFound, status)
}

// hasSize reports whether the status of the sized scaler has a size for a resource.
func (r *reactionBench) hasSize(name corev1.ResourceName) bool {
	sizing := r.scalers[sizedScaler].Sizing
	if len(sizing) != 1 {
		return false
	}
	_, isSized := sizing[0].Requests[name]
	return isSized
}

// emptyDeployment returns a Deployment without pods.
func emptyDeployment(name string) *appsv1.Deployment {
	deployment := steadyDeployment(name, nil)
	deployment.Spec.Replicas = ptr.To[int32](0)
	return deployment
}

// ownersOf returns an owner of each kind. Its name, and that of its Deployment, starts with the
// prefix.
func ownersOf(prefix string) []client.Object {
	named := func(kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: prefix + "-" + kind}
	}
	foo := &examplev1alpha1.Foo{ObjectMeta: named("foo")}
	foo.Spec.DeploymentName = foo.Name
	return []client.Object{
		&examplev1alpha1.Busybox{ObjectMeta: named("busybox")}, &cachev1alpha1.Memcached{ObjectMeta: named("memcached")}, foo,
	}
}

// utilizationHPA returns an HPA that scales a Deployment on its CPU utilization, and keeps its
// number of pods.
func utilizationHPA(deployment string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			MinReplicas:    ptr.To[int32](podsEach), MaxReplicas: podsEach,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
				},
			}},
		},
	}
}
