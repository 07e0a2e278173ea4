package v1alpha1

// Types of a Memcached's conditions. They and their reasons mean what they mean for every
// object of Upright's that owns a Deployment; they stand here anew so that a client needs
// this group alone.
const (
	ConditionReady       = "Ready"
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	ConditionDegraded    = "Degraded"
)
