package v1beta1

// AnnotationPin is the annotation that pins the sizes of a VerticalScaler. While its value is
// "true", new recommendations do not change status.sizing.
const AnnotationPin = "autoscaling.example.com/pin"

// Types of the conditions of a VerticalScaler.
const (
	// ConditionReady is True when the VerticalScaler acts on its target. It is the condition to
	// wait for.
	ConditionReady = "Ready"
	// ConditionTargetFound is True while the target exists.
	ConditionTargetFound = "TargetFound"
	// ConditionConflicted is True while an older VerticalScaler targets the same Deployment.
	ConditionConflicted = "Conflicted"
	// ConditionRecommendationReady is True when each container of the target's pods has a
	// recommendation.
	ConditionRecommendationReady = "RecommendationReady"
	// ConditionApplied is True when the target's pods have the recommended size.
	ConditionApplied = "Applied"
)

// Reasons of the conditions of a VerticalScaler. The list is complete: conditions have no other reasons.
const (
	// ReasonPending means that no controller has reconciled the object yet.
	ReasonPending = "Pending"
	// ReasonObserveFailed means that the controller could not read the objects that the
	// VerticalScaler depends on. The controller retries.
	ReasonObserveFailed = "ObserveFailed"
	// ReasonSpecInvalid means that the spec cannot be decoded. Pods keep their sizes.
	ReasonSpecInvalid = "SpecInvalid"
	// ReasonDeploymentFound means that the target exists.
	ReasonDeploymentFound = "DeploymentFound"
	// ReasonDeploymentNotFound means that the target does not exist yet or no longer exists.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonDeploymentTerminating means that the target is being deleted.
	ReasonDeploymentTerminating = "DeploymentTerminating"
	// ReasonConflicted means that an older VerticalScaler targets the same Deployment and acts on it.
	ReasonConflicted = "Conflicted"
	// ReasonNotConflicted means that no older VerticalScaler targets the same Deployment.
	ReasonNotConflicted = "NotConflicted"
	// ReasonSuspended means that spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonRecommended means that each container has a recommendation from current usage.
	ReasonRecommended = "Recommended"
	// ReasonRecommendFailed means that no recommendation could be computed because of an error.
	// The controller retries.
	ReasonRecommendFailed = "RecommendFailed"
	// ReasonNoPods means that the target has no pods to measure.
	ReasonNoPods = "NoPods"
	// ReasonNoSamples means that there are no usage samples for a container yet.
	ReasonNoSamples = "NoSamples"
	// ReasonMetricsUnavailable means that usage cannot be read, or that no usage of running
	// containers arrives any more.
	ReasonMetricsUnavailable = "MetricsUnavailable"
	// ReasonHistoryDamaged means that saved usage could not be read, and that the history is not
	// complete again.
	ReasonHistoryDamaged = "HistoryDamaged"
	// ReasonPastUsageRefused means that usage from before the creation of the VerticalScaler cannot
	// be read until somebody changes something.
	ReasonPastUsageRefused = "PastUsageRefused"
	// ReasonHPAOnSameResource means that a resource is not sized because a
	// HorizontalPodAutoscaler scales on its utilization.
	ReasonHPAOnSameResource = "HPAOnSameResource"
	// ReasonSizedAtCreation means that new pods get the size in status.sizing. Running pods do not
	// change.
	ReasonSizedAtCreation = "SizedAtCreation"
	// ReasonUpdateModeOff means that spec.updateMode is Off.
	ReasonUpdateModeOff = "UpdateModeOff"
	// ReasonNothingToApply means that no container selected by spec.containerPolicies has a
	// recommendation.
	ReasonNothingToApply = "NothingToApply"
	// ReasonInsufficientHistory means that all targets are below the Deployment's template, and that
	// the usage history is too short to give pods less than that.
	ReasonInsufficientHistory = "InsufficientHistory"
	// ReasonReverted means that pods did worse after their size was lowered, and get at least the
	// last known good size again.
	ReasonReverted = "Reverted"
	// ReasonApplyFailed means that the sizes could not be applied because of an error. The
	// controller retries.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonSized means that all pods have the recommended size or are within what spec.behavior
	// allows.
	ReasonSized = "Sized"
	// ReasonStabilizing means that pods differ from the recommended size, but wait for the
	// stabilization window.
	ReasonStabilizing = "Stabilizing"
	// ReasonResizing means that pods are being resized.
	ReasonResizing = "Resizing"
	// ReasonResizeStalled means that the node of a pod does not report the end of a resize.
	ReasonResizeStalled = "ResizeStalled"
	// ReasonPodsNotRunning means that containers of a pod do not run, so that no size is in force.
	ReasonPodsNotRunning = "PodsNotRunning"
	// ReasonResourcesNotReported means that the node of a pod does not report the resources in
	// force.
	ReasonResourcesNotReported = "ResourcesNotReported"
	// ReasonResizeDeferred means that a node currently has no room to resize a pod.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonResizeInfeasible means that a node can never have room to resize a pod.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonResizeFailed means that a node tried to resize a pod and failed.
	ReasonResizeFailed = "ResizeFailed"
	// ReasonMemoryInUse means that a node could not lower the memory limit of a pod, because the
	// memory is in use. The pod keeps its memory, and lowering is tried again later.
	ReasonMemoryInUse = "MemoryInUse"
	// ReasonLimitTooLow means that a container of a pod has a limit below the request of its size.
	ReasonLimitTooLow = "LimitTooLow"
	// ReasonResizeRefused means that the API server rejects the resize of a pod.
	ReasonResizeRefused = "ResizeRefused"
	// ReasonResizeUnsupported means that the node of a pod does not support resizes.
	ReasonResizeUnsupported = "ResizeUnsupported"
	// ReasonQoSClassFixed means that a resize would change the QoS class of a pod. Kubernetes does
	// not allow this.
	ReasonQoSClassFixed = "QoSClassFixed"
	// ReasonPodLevelResources means that a pod is not resized because it has pod-level resources.
	ReasonPodLevelResources = "PodLevelResources"
	// ReasonRolloutInProgress means that pods are being replaced.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonRolloutCooldown means that the cooldown after the previous rollout is not over.
	ReasonRolloutCooldown = "RolloutCooldown"
	// ReasonRolloutNeedsOutage means that no pod would be running during a rollout.
	ReasonRolloutNeedsOutage = "RolloutNeedsOutage"
	// ReasonRolloutIneffective means that a rollout did not give pods their size. No further one
	// starts until its cause changes.
	ReasonRolloutIneffective = "RolloutIneffective"
	// ReasonRolloutQueued means that a rollout waits until other rollouts in the cluster have ended.
	ReasonRolloutQueued = "RolloutQueued"
	// ReasonRolloutNeedsHistory means that a rollout waits for more usage history.
	ReasonRolloutNeedsHistory = "RolloutNeedsHistory"
	// ReasonRolloutAnnotationOwned means that somebody else sets the annotation that starts a rollout.
	ReasonRolloutAnnotationOwned = "RolloutAnnotationOwned"
	// ReasonNoNodeFits means that no rollout starts because no node could hold a new pod.
	ReasonNoNodeFits = "NoNodeFits"
	// ReasonDeploymentPaused means that the target is paused and cannot be rolled out.
	ReasonDeploymentPaused = "DeploymentPaused"
	// ReasonRestartsLimited means that a resize restarts containers and waits for restarts in
	// other pods to finish.
	ReasonRestartsLimited = "RestartsLimited"
	// ReasonQuotaExceeded means that a ResourceQuota rejects new pods with the recommended size.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonCreationRefused means that something other than a ResourceQuota rejects new pods with the
	// recommended size.
	ReasonCreationRefused = "CreationRefused"
	// ReasonUnschedulable means that no node has room for new pods with the recommended size.
	ReasonUnschedulable = "Unschedulable"
	// ReasonSizeTableFull means that the sizes of new pods do not fit into the namespace's SizeTable.
	ReasonSizeTableFull = "SizeTableFull"
	// ReasonSizeTablePending means that the size is not in the namespace's SizeTable yet.
	ReasonSizeTablePending = "SizeTablePending"
	// ReasonSizeTableFailed means that the namespace's SizeTable cannot be written. The controller
	// retries.
	ReasonSizeTableFailed = "SizeTableFailed"
	// ReasonSizeNotTaken means that a pod was created without the size in the SizeTable, although
	// the admission policy is installed.
	ReasonSizeNotTaken = "SizeNotTaken"
	// ReasonAdmissionPolicyMissing means that the API server does not size new pods, because the
	// admission policy is missing.
	ReasonAdmissionPolicyMissing = "AdmissionPolicyMissing"
)
