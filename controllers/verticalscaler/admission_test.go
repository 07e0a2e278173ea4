package verticalscaler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

// uninstallAdmission deletes the admission policy (0) or its binding (1) and returns a function
// that installs it again. A test that does this is not parallel: the policy sizes the pods of
// other tests too.
func uninstallAdmission(t *testing.T, index int) (install func()) {
	t.Helper()
	all, err := testenv.AdmissionObjects()
	require.NoError(t, err)
	testenv.Delete(t, env, all[index])
	install = sync.OnceFunc(func() {
		all, err := testenv.AdmissionObjects()
		require.NoError(t, err)
		testenv.Create(t, env, all[index])
	})
	t.Cleanup(install)
	return install
}

func TestMissingAdmissionPolicyAllowsResizesButNoRollouts(t *testing.T) {
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}).start(t)
	for _, pod := range w.pods {
		w.waitForResources(t, pod, 0, large, nil)
		testenv.RunPod(t, env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
	created := w.newPod(newContainer("web", small, nil))
	w.waitForNewPod(t, created, large, nil) // From now on, only the policy's removal stops this.
	install := uninstallAdmission(t, 0)
	assert.Contains(t, w.waitForApplied(t, isFalse, "AdmissionPolicyMissing"), "kubectl apply -k deploy/admission")
	w.waitForEvent(t, "AdmissionPolicyMissing")
	w.waitForNewPod(t, created, small, nil)
	testenv.RunPod(t, env, testenv.Create(t, env, created))
	w.waitForResources(t, created, 0, large, nil)
	testenv.RunPod(t, env, created)
	bestEffort := newUnresizableWorkload(t, env, 1).start(t)
	bestEffort.waitForApplied(t, isFalse, "AdmissionPolicyMissing")
	bestEffort.assertNoRollout(t)

	install()
	d := bestEffort.waitForRollout(t, "")
	replacement := bestEffort.newPod(newContainer("web", nil, nil))
	bestEffort.waitForNewPod(t, replacement, large, nil)
	testenv.RunPod(t, env, testenv.Create(t, env, replacement))
	testenv.Delete(t, env, bestEffort.pods[0])
	testenv.MarkAvailable(t, env, d)
	bestEffort.waitForApplied(t, isTrue, "Sized")
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, 3)
	assert.Len(t, bestEffort.writes.To("/deployments"), 1)
	assert.Empty(t, w.writes.To("/deployments"))
}

func TestAppliedReportsMissingBindingUntilItIsInstalled(t *testing.T) {
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", large, nil)}).start(t)
	w.waitForApplied(t, isTrue, "Sized")
	install := uninstallAdmission(t, 1)
	assert.Contains(t, w.waitForApplied(t, isFalse, "AdmissionPolicyMissing"), "kubectl apply -k deploy/admission")
	install()
	w.waitForApplied(t, isTrue, "Sized")
	assert.Zero(t, w.resizes())
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

// policyCache is a cache that has the admission policy and its binding.
type policyCache struct{ cache.Cache }

func (policyCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func TestInstalledPolicyIsMissingUntilTheAPIServerAppliesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &admission{cache: policyCache{}, changed: make(chan struct{}, 1)}
		a.onAdd(&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "upright-sizing"}}, false)
		isMissing, err := a.isMissing(t.Context())
		require.NoError(t, err)
		assert.True(t, isMissing)
		installed := time.Now()
		<-a.changed
		assert.Equal(t, policyDelay, time.Since(installed))
		isMissing, err = a.isMissing(t.Context())
		require.NoError(t, err)
		assert.False(t, isMissing)
	})
}

// brokenMapper is a REST mapper that cannot reach the API server.
type brokenMapper struct {
	meta.RESTMapper
	err error
}

func (m brokenMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.err
}

// managerWithMapper is a manager that only has a REST mapper.
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
