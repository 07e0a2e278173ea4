package verticalscaler

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

// Not parallel: the same policy sizes the pods of other tests.
func TestAppliedReportsMissingAdmissionPolicyUntilItIsInstalled(t *testing.T) {
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}).start(t)
	for _, pod := range w.pods {
		w.waitForResources(t, pod, 0, large, nil)
		testenv.RunPod(t, env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
	installed, err := testenv.AdmissionObjects()
	require.NoError(t, err)
	for i, obj := range installed { // The policy, then its binding.
		testenv.Delete(t, env, obj)
		assert.Contains(t, w.waitForApplied(t, isFalse, "AdmissionPolicyMissing"), "kubectl apply -k deploy/admission")
		recreated, err := testenv.AdmissionObjects()
		require.NoError(t, err)
		testenv.Create(t, env, recreated[i])
		w.waitForApplied(t, isTrue, "Sized")
	}
	assert.Equal(t, 2, w.resizes())
}

// Not parallel: a second API server slows down other tests.
func TestAPIServerWithoutPoliciesAllowsResizesButNoRollouts(t *testing.T) {
	environment := testenv.Start(t, map[string]string{
		"feature-gates": "MutatingAdmissionPolicy=false",
		"runtime-config": "admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false," +
			"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false",
	})
	require.ErrorContains(t, environment.InstallAdmission(), `no matches for kind "MutatingAdmissionPolicy"`)
	w := newWorkloadIn(t, environment, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForResources(t, w.pods[0], 0, large, nil)
	w.waitForApplied(t, isFalse, "AdmissionPolicyMissing")
	unresizable := newUnresizableWorkload(t, environment, 1).start(t)
	unresizable.waitForApplied(t, isFalse, "AdmissionPolicyMissing")
	unresizable.assertNoRollout(t)
}

// brokenMapper is the REST mapper of an API server that fails when it is asked for
// MutatingAdmissionPolicies.
type brokenMapper struct {
	meta.RESTMapper
	err error
}

func (m brokenMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.err
}

// managerWithMapper is a manager of which only the REST mapper is used.
type managerWithMapper struct {
	ctrl.Manager
	mapper meta.RESTMapper
}

func (m managerWithMapper) GetRESTMapper() meta.RESTMapper { return m.mapper }

func (managerWithMapper) GetCache() cache.Cache { return nil }

func TestSetupFailsIfSupportForPoliciesIsUnknown(t *testing.T) {
	t.Parallel()
	broken := errors.New("discovery failed")
	mgr := managerWithMapper{mapper: brokenMapper{err: broken}}
	err := AddToManager(t.Context(), mgr, nil, &recommendation.Recommender{}, Options{Metrics: prometheus.NewRegistry()})
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "look up MutatingAdmissionPolicies: ")
}
