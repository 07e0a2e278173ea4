package v1alpha1

// Types of the conditions of a Memcached. They and their reasons have the same meaning as in the
// group example.com. They are repeated here so that a client needs to import this group only.
const (
	ConditionReady       = "Ready"
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	ConditionDegraded    = "Degraded"
)
