package v1beta1

// AnnotationPin is the annotation that, with the value true on a VerticalScaler, keeps
// status.sizing as it is, whatever is recommended, until it is removed.
const AnnotationPin = "autoscaling.example.com/pin"

// Types of a VerticalScaler's conditions.
const (
	// ConditionReady is the one to wait for: True when this scaler acts on its target.
	ConditionReady = "Ready"
	// ConditionTargetFound is True while the Deployment exists.
	ConditionTargetFound = "TargetFound"
	// ConditionConflicted is True while an older VerticalScaler names the same Deployment.
	ConditionConflicted = "Conflicted"
	// ConditionRecommendationReady is True when there is a recommendation for each container
	// of the target's pods.
	ConditionRecommendationReady = "RecommendationReady"
	// ConditionApplied is True when the target's pods have the recommended size.
	ConditionApplied = "Applied"
)

// Reasons of those conditions. The list is closed: no condition has another.
const (
	// ReasonPending says that no controller has looked at the object yet.
	ReasonPending = "Pending"
	// ReasonDeploymentFound says that the target exists.
	ReasonDeploymentFound = "DeploymentFound"
	// ReasonDeploymentNotFound says that the target does not exist (yet, or any more).
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonDeploymentTerminating says that the target is being deleted.
	ReasonDeploymentTerminating = "DeploymentTerminating"
	// ReasonConflicted says that an older VerticalScaler names the same Deployment and acts on it.
	ReasonConflicted = "Conflicted"
	// ReasonNotConflicted says that no older VerticalScaler names the same Deployment.
	ReasonNotConflicted = "NotConflicted"
	// ReasonSuspended says that spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonRecommended says that each container has a recommendation from current usage.
	ReasonRecommended = "Recommended"
	// ReasonNoPods says that the target has no pods whose usage could be measured.
	ReasonNoPods = "NoPods"
	// ReasonNoSamples says that the usage of a container has not been measured yet.
	ReasonNoSamples = "NoSamples"
	// ReasonMetricsUnavailable says that usage cannot be read.
	ReasonMetricsUnavailable = "MetricsUnavailable"
	// ReasonHPAOnSameResource says that a resource is left to a HorizontalPodAutoscaler which
	// scales by its utilization.
	ReasonHPAOnSameResource = "HPAOnSameResource"
	// ReasonSizedAtBirth says that new pods are born at the size in status.sizing.
	ReasonSizedAtBirth = "SizedAtBirth"
	// ReasonUpdateModeOff says that spec.updateMode is Off.
	ReasonUpdateModeOff = "UpdateModeOff"
	// ReasonNothingToApply says that no container has a size: nothing is recommended for those
	// that the policies size.
	ReasonNothingToApply = "NothingToApply"
	// ReasonSized says that all pods have the recommended size, or one that spec.behavior leaves them.
	ReasonSized = "Sized"
	// ReasonStabilizing says that pods are off the recommended size, but not for long enough.
	ReasonStabilizing = "Stabilizing"
	// ReasonResizing says that pods are being resized.
	ReasonResizing = "Resizing"
	// ReasonResizeDeferred says that a node has no room for a resize now.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonResizeInfeasible says that a node cannot resize a pod ever.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonResizeFailed says that a node tried to resize a pod and could not.
	ReasonResizeFailed = "ResizeFailed"
	// ReasonResizeRefused says that the API server refuses to resize a pod.
	ReasonResizeRefused = "ResizeRefused"
	// ReasonResizeUnsupported says that a pod's node does not support resizes.
	ReasonResizeUnsupported = "ResizeUnsupported"
	// ReasonQoSClassFixed says that a resize would change a pod's quality of service class,
	// which cannot be.
	ReasonQoSClassFixed = "QoSClassFixed"
	// ReasonPodLevelResources says that a pod has a size as a whole, which is left alone.
	ReasonPodLevelResources = "PodLevelResources"
	// ReasonRolloutInProgress says that pods are being replaced.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonRolloutCooldown says that the last rollout is not long enough ago for another.
	ReasonRolloutCooldown = "RolloutCooldown"
	// ReasonRolloutNeedsOutage says that no pod would run during a rollout.
	ReasonRolloutNeedsOutage = "RolloutNeedsOutage"
	// ReasonDeploymentPaused says that the Deployment is paused and cannot be rolled out.
	ReasonDeploymentPaused = "DeploymentPaused"
	// ReasonRestartsLimited says that pods wait for others in which a container restarts.
	ReasonRestartsLimited = "RestartsLimited"
	// ReasonQuotaExceeded says that a ResourceQuota refuses new pods at the recommended size.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonUnschedulable says that no node has room for new pods at the recommended size.
	ReasonUnschedulable = "Unschedulable"
	// ReasonAdmissionPolicyMissing says that the API server does not size new pods.
	ReasonAdmissionPolicyMissing = "AdmissionPolicyMissing"
)
