package cache_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"example.com/upright/internal/cache"
)

func TestTrimKeepsThePodsGenerationsAndOperatingSystem(t *testing.T) {
	t.Parallel()
	pod := fullPod()
	pod.Generation, pod.Status.ObservedGeneration = 4, 3
	pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, ObservedGeneration: 2,
	}}
	want := pod.Status.Conditions[0]
	out, err := new(cache.Trimmer).Trim(pod)
	require.NoError(t, err)
	trimmed, isPod := out.(*corev1.Pod)
	require.True(t, isPod)
	assert.EqualValues(t, 4, trimmed.Generation)
	assert.EqualValues(t, 3, trimmed.Status.ObservedGeneration)
	assert.Equal(t, []corev1.PodCondition{want}, trimmed.Status.Conditions)
	assert.Equal(t, corev1.Windows, trimmed.Spec.OS.Name)
}
