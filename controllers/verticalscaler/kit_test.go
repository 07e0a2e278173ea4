package verticalscaler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

const (
	isTrue  = metav1.ConditionTrue
	isFalse = metav1.ConditionFalse
)

// waitForNotReady waits until a scaler's condition Ready is False with a reason for its current
// generation, and returns the scaler's status.
func waitForNotReady(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, reason string) autoscalingv1beta1.VerticalScalerStatus {
	t.Helper()
	return testenv.WaitForReady(t, env, scaler, isFalse, reason)
}

// message returns the message of a condition.
func message(status autoscalingv1beta1.VerticalScalerStatus, conditionType string) string {
	return testenv.ConditionMessage(status.Conditions, conditionType)
}

// setSpec changes the spec of a scaler.
func setSpec(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, change func(*autoscalingv1beta1.VerticalScalerSpec)) {
	t.Helper()
	testenv.Edit(t, env, scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { change(&scaler.Spec) })
}

// setTarget changes the Deployment that a scaler names.
func setTarget(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, deployment string) {
	t.Helper()
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = deployment })
}

// createConflict creates Deployment "web" and two scalers for it, and returns the scalers when
// the younger reports the conflict. The names have the opposite order of the ages.
func createConflict(t *testing.T, namespace string) (older, younger *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	older = testenv.Create(t, env, testenv.NewScaler(namespace, "z-older", "web"))
	testenv.WaitForNextSecond(t, older)
	younger = testenv.Create(t, env, testenv.NewScaler(namespace, "a-younger", "web"))
	status := waitForNotReady(t, younger, "Conflicted")
	testenv.AssertCondition(t, status.Conditions, "Conflicted", isTrue, "Conflicted")
	testenv.AssertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	assert.Contains(t, message(status, "Ready"), `"z-older"`)
	assert.Contains(t, message(status, "Conflicted"), `"z-older"`)
	waitForNotReady(t, older, "NoPods")
	return older, younger
}

// mapperLookups counts the mappers' lookups of a Deployment's scalers, and can make them fail.
type mapperLookups struct {
	toFail    atomic.Int64 // The number of next lookups that fail.
	succeeded atomic.Int64
}

// Observe is a testenv.Change that makes the manager use a cache whose lookups are counted.
func (l *mapperLookups) Observe(options *ctrl.Options, config *rest.Config) {
	testenv.WrapCache(func(inner cache.Cache) cache.Cache { return &lookupCache{inner, l} })(options, config)
}

type lookupCache struct {
	cache.Cache
	lookups *mapperLookups
}

func (c *lookupCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	_, isScalers := list.(*autoscalingv1beta1.VerticalScalerList)
	if !isScalers || options.FieldSelector == nil || controller.ReconcileIDFromContext(ctx) != "" {
		return c.Cache.List(ctx, list, opts...)
	}
	if c.lookups.toFail.Add(-1) >= 0 {
		return errors.New("the cache failed")
	}
	c.lookups.succeeded.Add(1)
	return c.Cache.List(ctx, list, opts...)
}

// mapperFailures returns the failed lookups that a manager has counted for a mapper.
func mapperFailures(t *testing.T, m *testenv.Manager, mapper string) int {
	t.Helper()
	return int(m.Value(t, "upright_map_failures_total", mapper))
}
