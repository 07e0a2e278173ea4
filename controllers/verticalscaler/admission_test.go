package controllers

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"example.com/upright/internal/testenv"
)

// Not parallel: the other tests' pods are sized by the same policy.
func TestAppliedSaysThatTheAdmissionPolicyIsMissingAndThatItIsBack(t *testing.T) {
	s := newShop(t, 2, []corev1.Container{sells("web", small, nil)}).open(t)
	has(t, s.pods[0], 0, large, nil)
	has(t, s.pods[1], 0, large, nil)
	runs(t, s.pods[0])
	runs(t, s.pods[1])
	s.applied(t, isTrue, "Sized")
	all, err := admissionObjects()
	require.NoError(t, err)
	for i, obj := range all { // The policy first, then its binding.
		remove(t, obj)
		assert.Contains(t, s.applied(t, isFalse, "AdmissionPolicyMissing"), "kubectl apply -k deploy/admission")
		again, err := admissionObjects()
		require.NoError(t, err)
		create(t, again[i])
		s.applied(t, isTrue, "Sized")
	}
	assert.Equal(t, 2, s.resizes())
}

// brokenMapper is the REST mapper of an API server that cannot say whether it has
// MutatingAdmissionPolicies.
type brokenMapper struct {
	meta.RESTMapper
	err error
}

func (m brokenMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind != "MutatingAdmissionPolicy" {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	return nil, m.err
}

// use makes it the manager's mapper.
func (m brokenMapper) use(options *ctrl.Options) {
	options.MapperProvider = func(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
		inner, err := apiutil.NewDynamicRESTMapper(config, c)
		m.RESTMapper = inner
		return m, err
	}
}

// Not parallel: the other tests have an API server that has such policies.
func TestOnAnAPIServerWithoutSuchPoliciesRunningPodsAreResizedAndNoneIsReplaced(t *testing.T) {
	usual := env
	t.Cleanup(func() { env = usual })
	env = testenv.Start(t, map[string]string{
		"feature-gates": "MutatingAdmissionPolicy=false",
		"runtime-config": "admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false," +
			"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false",
	})
	require.ErrorContains(t, installAdmission(env.Client), `no matches for kind "MutatingAdmissionPolicy"`)
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t)
	has(t, s.pods[0], 0, large, nil)
	s.applied(t, isFalse, "AdmissionPolicyMissing")
	stuck := newStuckShop(t, 1).open(t)
	stuck.applied(t, isFalse, "AdmissionPolicyMissing")
	stuck.neverRollsOut(t)
}

func TestSetupFailsWhereItCannotBeToldWhetherThereAreSuchPolicies(t *testing.T) {
	t.Parallel()
	broken := errors.New("no discovery today")
	mgr := newUnstartedManager(t, brokenMapper{err: broken}.use)
	_, err := SetupWithManager(t.Context(), mgr, newOptions())
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "look up MutatingAdmissionPolicies: ")
}
