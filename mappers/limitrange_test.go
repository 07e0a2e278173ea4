package mappers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestLimitRangeMapsToAllScalersInItsNamespace(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).LimitRangeToVerticalScalers(), newQueue(t)
	for namespace, want := range map[string][]string{
		"one": {"one/scaler-a", "one/scaler-b", "one/web"}, "two": {"two/scaler-c"}, "three": nil,
	} {
		limits := &corev1.LimitRange{ObjectMeta: named(namespace, "limits")}
		mapper.Create(t.Context(), event.CreateEvent{Object: limits}, q)
		assert.ElementsMatch(t, want, drain(q), "create in %s", namespace)
		mapper.Update(t.Context(), event.UpdateEvent{ObjectOld: limits, ObjectNew: limits}, q)
		assert.ElementsMatch(t, want, drain(q), "update in %s", namespace)
		mapper.Delete(t.Context(), event.DeleteEvent{Object: limits}, q)
		assert.ElementsMatch(t, want, drain(q), "delete in %s", namespace)
	}
}
