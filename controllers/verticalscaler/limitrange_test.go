package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newLimitRange(namespace string, item corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}},
	}
}

func TestAPodThatALimitRangeOfPodsAdmitsIsBornAtASizeThatItAdmits(t *testing.T) {
	t.Parallel()
	small, limits := amounts("100m", "128Mi"), amounts("200m", "256Mi")
	for name, test := range map[string]struct {
		item          corev1.LimitRangeItem
		target        corev1.ResourceList
		request, most corev1.ResourceList
		message       string
	}{
		"max": {
			item: corev1.LimitRangeItem{Max: amounts("800m", "1Gi")}, target: large,
			request: amounts("200m", "256Mi"), most: amounts("400m", "512Mi"),
			message: `allows no more, get: "web", "log"`,
		},
		"min": {
			item: corev1.LimitRangeItem{Min: amounts("200m", "256Mi")}, target: amounts("50m", "32Mi"),
			request: amounts("100m", "128Mi"), most: amounts("200m", "256Mi"),
		},
		"ratio": {
			item: corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("2", "2")}, target: large,
			request: large, most: amounts("1", "2Gi"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			containers := []corev1.Container{sells("web", small, limits), sells("log", small, limits)}
			s := newShop(t, 1, containers, initially, func(s *shop) {
				s.scaler.Spec.ContainerPolicies = always(test.target)
			})
			test.item.Type = corev1.LimitTypePod
			create(t, newLimitRange(s.namespace, test.item))
			s.open(t)
			s.sizing(t, size("web", test.request, test.most), size("log", test.request, test.most))
			s.born(t, s.newcomer(containers...), test.request, test.most)
			message := s.applied(t, isTrue, "SizedAtCreation")
			if test.message == "" {
				assert.NotContains(t, message, "Less than their targets")
			} else {
				assert.Contains(t, message, test.message)
			}

			// The LimitRange is not there for nothing.
			pod := s.newcomer(containers...)
			pod.Labels, pod.OwnerReferences = nil, nil
			for i := range pod.Spec.Containers {
				pod.Spec.Containers[i].Resources.Requests = test.target.DeepCopy()
				pod.Spec.Containers[i].Resources.Limits = amounts("2", "4Gi")
			}
			require.ErrorContains(t, env.Client.Create(t.Context(), pod, client.DryRunAll), "per Pod is")
		})
	}
}

func TestRunningPodsFollowALimitRangeOfPodsWhateverIsRecommended(t *testing.T) {
	t.Parallel()
	limits := amounts("200m", "512Mi")
	s := newShop(t, 1, []corev1.Container{sells("web", small, limits), sells("log", small, limits)}, inPlace, func(s *shop) {
		s.pods[0].Spec.Containers = []corev1.Container{sells("web", large, huge), sells("log", large, huge)}
	}).open(t)
	s.applied(t, isTrue, "Sized")
	create(t, newLimitRange(s.namespace, corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("1600m", "4Gi")}))
	has(t, s.pods[0], 0, amounts("400m", "1Gi"), amounts("800m", "2Gi"))
	has(t, s.pods[0], 1, amounts("400m", "1Gi"), amounts("800m", "2Gi"))
	s.asksNoMoreThan(t, 1)
}
