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

// oldMapper is the REST mapper of an API server that has no MutatingAdmissionPolicies, or
// cannot say whether it has.
type oldMapper struct {
	meta.RESTMapper
	err error
}

func (m oldMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind != "MutatingAdmissionPolicy" {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	if m.err != nil {
		return nil, m.err
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

// use makes it the manager's mapper.
func (m oldMapper) use(options *ctrl.Options) {
	options.MapperProvider = func(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
		inner, err := apiutil.NewDynamicRESTMapper(config, c)
		m.RESTMapper = inner
		return m, err
	}
}

func TestOnAnAPIServerWithoutSuchPoliciesRunningPodsAreResizedAndNoneIsReplaced(t *testing.T) {
	t.Parallel()
	onOld := func(options *ctrl.Options, _ *rest.Config) { oldMapper{}.use(options) }
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t, onOld)
	has(t, s.pods[0], 0, large, nil)
	s.applied(t, isFalse, "AdmissionPolicyMissing")
	stuck := newStuckShop(t, 1).open(t, onOld)
	stuck.applied(t, isFalse, "AdmissionPolicyMissing")
	stuck.neverRollsOut(t)
}

func TestSetupFailsWhereItCannotBeToldWhetherThereAreSuchPolicies(t *testing.T) {
	t.Parallel()
	broken := errors.New("no discovery today")
	mgr := newUnstartedManager(t, oldMapper{err: broken}.use)
	_, err := SetupWithManager(t.Context(), mgr, newOptions())
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "look up MutatingAdmissionPolicies: ")
}
