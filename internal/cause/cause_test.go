package cause_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"example.com/upright/internal/cause"
)

func TestCauseIsTheSameForRepeatedErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"InternalError":         fmt.Errorf("resize pod web-1: %w", apierrors.NewInternalError(errors.New("port 1234"))),
		"Conflict":              errors.Join(errors.New("other"), apierrors.NewConflict(schema.GroupResource{}, "web", nil)),
		"Timeout":               fmt.Errorf("get the target: %w", context.DeadlineExceeded),
		"see the manager's log": errors.New("read tcp 127.0.0.1:1234: connection reset"),
	} {
		assert.Equal(t, want, cause.Of(err))
	}
}
