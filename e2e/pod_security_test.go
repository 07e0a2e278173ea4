package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNamespaceThatEnforcesTheRestrictedPodSecurityStandardRunsAllKinds(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t, "pod-security.kubernetes.io/enforce", "restricted")

		createReady(t, k.newOwner(namespace, "app", 2))

		runsPodsOf(t, deploymentOf(t, namespace, "app"), 2)
		careless := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "careless"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/other:1"}}},
		}
		err := env.client.Create(t.Context(), careless)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, `violates PodSecurity "restricted`)
	})
}
