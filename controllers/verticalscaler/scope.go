package verticalscaler

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/cause"
	"example.com/upright/internal/history"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// scope is what one reconcile observes and decides. The five steps share nothing else: each
// step adds to the scope, and publish derives the conditions from it.
type scope struct {
	now    time.Time
	scaler *autoscalingv1beta1.VerticalScaler // As it was read.

	// Observed.

	// target is the metadata of the Deployment, nil if it does not exist.
	target *metav1.PartialObjectMetadata
	// older is the older scaler that acts on the same Deployment, nil if there is none.
	older *autoscalingv1beta1.VerticalScaler
	pods  []corev1.Pod
	// running are the running pods, nil until runningPods is called.
	running []*corev1.Pod
	// constraints limit the sizes of the namespace.
	constraints sizing.Constraints
	// deployment is the whole target, nil unless its pods are to be sized.
	deployment *appsv1.Deployment
	// templateHash identifies its pod template.
	templateHash string
	// restartedAtOwner is who owns the annotation that starts its rollouts.
	restartedAtOwner annotationOwner
	// scaledByHPA maps the resources that are left to a HorizontalPodAutoscaler to its name.
	scaledByHPA map[corev1.ResourceName]string
	// policyMissing is true if the API server does not size new pods.
	policyMissing bool
	// newPods is how new pods get their size.
	newPods newPods

	// Recommended.

	workload       *history.WorkloadHistory
	recommendation recommendation.Result
	// unavailable is why there is no current usage, and what to do; empty if there is.
	unavailable string
	// incomplete is why the history lacks older usage; its reason is empty if it does not.
	incomplete recommendation.Problem

	// unproven are the containers that do not get less than the template requests, because their
	// history is too short.
	unproven []string

	// recommendedSizing is the size of new pods without a fallback.
	recommendedSizing []autoscalingv1beta1.ContainerSizing

	// status is the status to publish. Recommend and size fill it in.
	status autoscalingv1beta1.VerticalScalerStatus

	// Applied.

	result *result

	// failure is the first error of a step. Later steps are skipped.
	failure *failure
}

// failure is the error of a step, as a reason and message of the conditions that it affects.
type failure struct {
	reason  string
	message string
	err     error
}

// newScope returns the scope of a reconcile. Its status is the published one, without what
// belongs to a previous target.
func newScope(scaler *autoscalingv1beta1.VerticalScaler, now time.Time) *scope {
	s := &scope{now: now, scaler: scaler, status: *scaler.Status.DeepCopy(), result: newResult()}
	if s.status.DeploymentName != scaler.Spec.DeploymentName {
		s.status.DeploymentName = scaler.Spec.DeploymentName
		s.status.Recommendations, s.status.Sizing, s.status.Fallback = nil, nil, nil
		s.status.LastKnownGood, s.status.Trial, s.status.Revert, s.status.Rollout = nil, nil, nil, nil
	}
	return s
}

// fail stops the reconcile before the next step that is not publish.
func (s *scope) fail(reason, message string, err error) {
	if err != nil && s.failure == nil {
		s.failure = &failure{reason: reason, message: message + " (" + cause.Of(err) + "). The controller retries.", err: err}
	}
}

func (s *scope) hasFailed() bool { return s.failure != nil }

// failedWith returns the failure of a step by the reason of its conditions, or nil.
func (s *scope) failedWith(reasons ...string) *failure {
	for _, reason := range reasons {
		if s.failure != nil && s.failure.reason == reason {
			return s.failure
		}
	}
	return nil
}

// appliesSizes reports whether this scaler is to size the pods of a target that exists.
func (s *scope) appliesSizes() bool {
	return s.target != nil && s.older == nil && !s.scaler.Spec.Suspend &&
		s.scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeOff
}

// runningPods returns the running pods, sorted by name.
func (s *scope) runningPods() []*corev1.Pod {
	if s.running == nil {
		s.running = pods.Running(s.pods)
	}
	return s.running
}

// isPinned reports whether the published sizing must not change.
func (s *scope) isPinned() bool {
	return s.scaler.Annotations[autoscalingv1beta1.AnnotationPin] == "true"
}
