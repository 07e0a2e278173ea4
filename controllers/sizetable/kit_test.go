package sizetable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// Requests of a container.
var (
	small = testenv.Amounts("100m", "128Mi")
	large = testenv.Amounts("500m", "1Gi")
	huge  = testenv.Amounts("2", "4Gi")
)

type (
	// deployments are the entries of a SizeTable.
	deployments = map[string]autoscalingv1beta1.PodSize
	podSize     = autoscalingv1beta1.PodSize
)

// waitForTable waits until the SizeTable of a namespace has exactly the given entries, and
// returns the table.
func waitForTable(t testing.TB, namespace string, want deployments) *autoscalingv1beta1.SizeTable {
	t.Helper()
	table := sizeTable(namespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		table = testenv.Refresh(c, env, sizeTable(namespace))
		assert.True(c, equality.Semantic.DeepEqual(want, table.Deployments), "the table has %v", table.Deployments)
	}, testenv.Timeout, testenv.Poll)
	return table
}

// waitForEntries waits until a namespace's table has entries of exactly the given Deployments.
func waitForEntries(t *testing.T, namespace string, names ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var found []string
		for name := range testenv.Refresh(c, env, sizeTable(namespace)).Deployments {
			found = append(found, name)
		}
		assert.ElementsMatch(c, names, found)
	}, testenv.Timeout, testenv.Poll)
}

// waitUntilNoTable waits until a namespace has no SizeTable.
func waitUntilNoTable(t testing.TB, namespace string) {
	t.Helper()
	testenv.WaitUntilDeleted(t, env, sizeTable(namespace))
}

// assertNoWrite asserts that the manager writes no table, although it reconciles: change
// triggers a reconcile.
func (m *manager) assertNoWrite(t testing.TB, change func()) {
	t.Helper()
	writes, reconciles := len(m.writes.all()), m.reconciles.started()
	change()
	require.Eventually(t, func() bool { return m.reconciles.started() > reconciles }, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(m.writes.all()) > writes }, testenv.Quiet, testenv.Poll)
}

// waitForReconcile waits until the manager has started a reconcile.
func (m *manager) waitForReconcile(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return m.reconciles.started() > 0 }, testenv.Timeout, testenv.Poll)
}

// tableWrite is a request that changes a SizeTable, and the response.
type tableWrite struct {
	method string
	body   string
	begin  time.Time
	// Status code and time of the response, zero before it.
	status int
	end    time.Time
}

// patchOf returns the metadata and the deployments in the body of a merge patch.
func patchOf(t testing.TB, write tableWrite) (metadata, changed map[string]any) {
	t.Helper()
	require.Equal(t, http.MethodPatch, write.method)
	var body map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(write.body), &body))
	metadata, changed = body["metadata"], body["deployments"]
	delete(body, "metadata")
	delete(body, "deployments")
	require.Empty(t, body, "the patch changes nothing else")
	return metadata, changed
}

// tableWrites records the requests with which a manager changes SizeTables.
type tableWrites struct {
	mutex sync.Mutex
	seen  []tableWrite
}

// record is a testenv.Change that records the manager's writes.
func (w *tableWrites) record(_ *ctrl.Options, config *rest.Config) {
	wrapTableWrites(config, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		body, err := readBody(request)
		if err != nil {
			return nil, err
		}
		setResponse := w.add(tableWrite{method: request.Method, body: string(body), begin: time.Now()})
		response, err := next.RoundTrip(request)
		if err == nil {
			setResponse(response.StatusCode)
		}
		return response, err
	})
}

// add records a request, and returns a function that records its response.
func (w *tableWrites) add(write tableWrite) (setResponse func(status int)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	i := len(w.seen)
	w.seen = append(w.seen, write)
	return func(status int) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.seen[i].status, w.seen[i].end = status, time.Now()
	}
}

// readBody returns the body of a request, and leaves the request as it was.
func readBody(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// all returns the writes so far, including one that is in progress.
func (w *tableWrites) all() []tableWrite {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.seen)
}

// methods returns the methods of the writes so far.
func (w *tableWrites) methods() []string {
	var methods []string
	for _, write := range w.all() {
		methods = append(methods, write.method)
	}
	return methods
}

// statuses returns the status codes of the writes so far, when none is in progress.
func (w *tableWrites) statuses(t testing.TB) []int {
	t.Helper()
	var statuses []int
	require.Eventually(t, func() bool {
		statuses = nil
		for _, write := range w.all() {
			statuses = append(statuses, write.status)
		}
		return !slices.Contains(statuses, 0)
	}, testenv.Timeout, testenv.Poll)
	return statuses
}

// wrapTableWrites makes the requests that change a SizeTable go through a function.
func wrapTableWrites(config *rest.Config, do func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/sizetables") {
				return next.RoundTrip(request)
			}
			return do(request, next)
		})
	})
}

// failWrites answers a number of writes of a method with status 500, before they reach the API
// server.
func failWrites(method string, count *atomic.Int64) testenv.Change {
	return testenv.Fault(func(request *http.Request) (*http.Response, error) {
		if request.Method == method && strings.Contains(request.URL.Path, "/sizetables") && count.Add(-1) >= 0 {
			return testenv.InternalError(), nil
		}
		return nil, nil
	})
}

// loseResponses lets a number of writes of a method succeed, and loses the response.
func loseResponses(method string, count *atomic.Int64) testenv.Change {
	return func(_ *ctrl.Options, config *rest.Config) {
		wrapTableWrites(config, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if request.Method != method || err != nil || count.Add(-1) < 0 {
				return response, err
			}
			return nil, errors.Join(errors.New("the connection was lost"), response.Body.Close())
		})
	}
}

// beforeWrite calls a function once, before a write of a method.
func beforeWrite(method string, do func()) testenv.Change {
	once := sync.OnceFunc(do)
	return func(_ *ctrl.Options, config *rest.Config) {
		wrapTableWrites(config, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			if request.Method == method {
				once()
			}
			return next.RoundTrip(request)
		})
	}
}

// reconciles counts a manager's reconciles: each lists the scalers from the cache.
type reconciles struct{ lists atomic.Int64 }

// count is a testenv.Change that counts the manager's reconciles.
func (r *reconciles) count(options *ctrl.Options, config *rest.Config) {
	testenv.WrapCache(func(inner cache.Cache) cache.Cache { return &countingCache{inner, r} })(options, config)
}

// started returns how many reconciles have started.
func (r *reconciles) started() int { return int(r.lists.Load()) }

type countingCache struct {
	cache.Cache
	reconciles *reconciles
}

func (c *countingCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, isScalers := list.(*autoscalingv1beta1.VerticalScalerList); isScalers && controller.ReconcileIDFromContext(ctx) != "" {
		c.reconciles.lists.Add(1)
	}
	return c.Cache.List(ctx, list, opts...)
}

// sizing returns the size of a container in a scaler's status.
func sizing(container string, requests corev1.ResourceList) autoscalingv1beta1.ContainerSizing {
	return autoscalingv1beta1.ContainerSizing{ContainerName: container, Requests: requests}
}
