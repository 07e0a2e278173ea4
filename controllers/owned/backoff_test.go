package owned

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"example.com/upright/internal/testenv"
)

// attempts fails each apply of a Deployment and records its time.
type attempts struct {
	mutex sync.Mutex
	times []time.Time
	errOf func(attempt int) error
}

func (a *attempts) fail(*appsv1ac.DeploymentApplyConfiguration) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.times = append(a.times, time.Now())
	return a.errOf(len(a.times))
}

// waitFor waits for a number of attempts and returns the time between the last two of them.
func (a *attempts) waitFor(t *testing.T, count int) time.Duration {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		assert.GreaterOrEqual(c, len(a.times), count)
	}, testenv.Timeout, testenv.Poll)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.times[count-1].Sub(a.times[count-2])
}

// connectionReset returns an error whose text is different for each port.
func connectionReset(port int) error {
	return &url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: fmt.Errorf("read tcp 127.0.0.1:%d: %w", port, syscall.ECONNRESET)}
}

func TestRepeatedErrorIsWrittenToTheStatusOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		var writes testenv.Writes
		failing := attempts{errOf: connectionReset}
		startManager(t, namespace, writes.Record, testenv.Intercept(onDeploymentApply(failing.fail)))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		failing.waitFor(t, 6)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "ApplyFailed")
		failing.waitFor(t, 8)
		assert.Len(t, writes.To("/status"), 1)
		assert.Len(t, eventsOf(t, obj, "ApplyFailed"), 1)
	})
}

// TestStatusWriteDoesNotShortenTheBackoff returns another error to each second attempt, so that
// each attempt is followed by a write of the status.
func TestStatusWriteDoesNotShortenTheBackoff(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		failing := attempts{errOf: func(attempt int) error {
			if attempt%2 == 0 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return connectionReset(attempt)
		}}
		startManager(t, namespace, testenv.Intercept(onDeploymentApply(failing.fail)))
		testenv.Create(t, env, kind.newObject(namespace, "web"))
		// The eighth retry waits 5 ms * 2^7.
		assert.GreaterOrEqual(t, failing.waitFor(t, 9), 640*time.Millisecond)
	})
}
