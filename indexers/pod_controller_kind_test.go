package indexers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyPodsOfDaemonSetsAreIndexedByControllerKind(t *testing.T) {
	t.Parallel()
	owned := func(kind string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	index := registered(t, "PodControllerKind")
	assert.Equal(t, []string{KindDaemonSet}, index.extract(owned("DaemonSet", corev1.PodRunning)))
	assert.Equal(t, []string{KindDaemonSet}, index.extract(owned("DaemonSet", corev1.PodPending)))
	assert.Nil(t, index.extract(owned("DaemonSet", corev1.PodFailed)))
	assert.Nil(t, index.extract(owned("DaemonSet", corev1.PodSucceeded)))
	assert.Nil(t, index.extract(owned("ReplicaSet", corev1.PodRunning)))
	assert.Nil(t, index.extract(&corev1.Pod{}))
}
