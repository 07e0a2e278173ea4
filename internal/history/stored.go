package history

// Stored is the checkpoint of a history at the API server, as far as it is known.
type Stored struct {
	// Version is the resource version of the checkpoint; empty if no checkpoint is known.
	Version string
	// IsUnreadable is true if a part of the data could not be restored. It must be kept.
	IsUnreadable bool
}

// Stored returns the checkpoint that the next one replaces.
func (h *WorkloadHistory) Stored() Stored {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.stored
}

// SetStored sets the checkpoint that the next one replaces.
func (h *WorkloadHistory) SetStored(stored Stored) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.stored = stored
}

// Supersede stops the checkpoints of a history: the stored one is of a later leader.
func (h *WorkloadHistory) Supersede() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.isSuperseded = true
}
