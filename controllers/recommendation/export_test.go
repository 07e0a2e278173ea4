package recommendation

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/history"
)

// CheckpointPage is the number of checkpoints in one list request.
const CheckpointPage = checkpointPage

// RestoreCheckpoints returns the histories in the checkpoints of a namespace.
func RestoreCheckpoints(ctx context.Context, namespace string, c client.Client) (*history.Store, error) {
	checkpointer := &Checkpointer{client: c, namespaces: []string{namespace}, histories: history.NewStore()}
	return checkpointer.histories, checkpointer.restore(ctx)
}
