package v1beta1

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
)
