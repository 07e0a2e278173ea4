package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	isTrue  = metav1.ConditionTrue
	isFalse = metav1.ConditionFalse
)

func newScaler(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployment},
	}
}

// scalerIs waits until a scaler's Ready has a status and reason for its current generation.
func scalerIs(
	t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, ready metav1.ConditionStatus, reason string,
) autoscalingv1beta1.VerticalScalerStatus {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status := refresh(c, scaler).Status
		assertCondition(c, status.Conditions, "Ready", ready, reason)
		assert.Equal(c, scaler.Generation, status.ObservedGeneration)
	}, soon, often)
	for _, condition := range scaler.Status.Conditions {
		assert.Equal(t, scaler.Generation, condition.ObservedGeneration, condition.Type)
	}
	return scaler.Status
}

// nextSecond waits until an object created now is younger than obj by its creation time.
func nextSecond(t *testing.T, obj client.Object) {
	t.Helper()
	next := obj.GetCreationTimestamp().Add(time.Second)
	require.Eventually(t, func() bool { return !time.Now().Before(next) }, soon, often)
}

// finalize has an object wait for the returned function when it is deleted.
func finalize[T client.Object](t *testing.T, obj T) (release func()) {
	t.Helper()
	set := func(finalizers []string) func() {
		return func() { edit(t, obj, func(obj T) { obj.SetFinalizers(finalizers) }) }
	}
	set([]string{"example.com/wait"})()
	return set(nil)
}

func remove(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, env.Client.Delete(t.Context(), obj))
}

// told returns the reasons of all events of an object, each with how often it was told.
func told(t assert.TestingT, obj client.Object) map[string]int {
	var all eventsv1.EventList
	assert.NoError(t, env.Client.List(context.Background(), &all, client.InNamespace(obj.GetNamespace())))
	reasons := map[string]int{}
	for _, event := range all.Items {
		if event.Regarding.UID != obj.GetUID() {
			continue
		}
		reasons[event.Reason]++
		if event.Series != nil {
			reasons[event.Reason] += int(event.Series.Count) - 1
		}
	}
	return reasons
}

// flakyCache is a manager's cache whose lists of a Deployment's VerticalScalers, where a mapper
// asks and not a pass, fail as often as it is told. It counts those that do not fail: one a pass, and one
// an event that is mapped.
type flakyCache struct {
	cache.Cache
	failures, lists atomic.Int64
}

func (f *flakyCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	_, isScalers := list.(*autoscalingv1beta1.VerticalScalerList)
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	if isScalers && options.FieldSelector != nil {
		if controller.ReconcileIDFromContext(ctx) == "" && f.failures.Add(-1) >= 0 {
			return errors.New("the cache is not in the mood")
		}
		f.lists.Add(1)
	}
	return f.Cache.List(ctx, list, opts...)
}

// use makes it the manager's cache.
func (f *flakyCache) use(options *ctrl.Options, _ *rest.Config) {
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		inner, err := cache.New(config, options)
		f.Cache = inner
		return f, err
	}
}

// mapFailures returns what upright_map_failures_total says of a mapper.
func mapFailures(t *testing.T, m *manager, mapper string) float64 {
	t.Helper()
	families, err := m.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "upright_map_failures_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == mapper {
				return metric.GetCounter().GetValue()
			}
		}
	}
	require.Fail(t, "no such metric", mapper)
	return 0
}

// condition returns a scaler's condition of a type.
func condition(status autoscalingv1beta1.VerticalScalerStatus, conditionType string) metav1.Condition {
	if found := meta.FindStatusCondition(status.Conditions, conditionType); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// scalerStatus returns the status that a scaler gets for findings.
func scalerStatus(
	scaler *autoscalingv1beta1.VerticalScaler, found findings, now time.Time,
) autoscalingv1beta1.VerticalScalerStatus {
	if found.resized == nil {
		found.resized = newResizes()
	}
	status := newStatus(scaler, found, now)
	setConditions(scaler, &status, found, now)
	return status
}
