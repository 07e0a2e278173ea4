package sizetable

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestTableIsCreatedWhenNeededAndDeletedWhenEmpty(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	var scaler *autoscalingv1beta1.VerticalScaler
	m.assertNoWrite(t, func() { scaler = testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web")) })

	setSizing(t, scaler, autoscalingv1beta1.ContainerSizing{
		ContainerName: "app", Requests: small, Limits: large, TemplateLimits: huge,
	})
	table := waitForTable(t, namespace, deployments{"web": {"app": {Requests: small, Limits: large, TemplateLimits: huge}}})
	assert.Equal(t, []string{http.MethodPost}, m.writes.methods())

	setSizing(t, scaler)
	waitUntilNoTable(t, namespace)
	writes := m.writes.all()
	require.Equal(t, []string{http.MethodPost, http.MethodDelete}, m.writes.methods())
	var options metav1.DeleteOptions
	require.NoError(t, json.Unmarshal([]byte(writes[1].body), &options))
	assert.Equal(t, &metav1.Preconditions{UID: &table.UID, ResourceVersion: &table.ResourceVersion}, options.Preconditions)

	setSizing(t, scaler, sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
}

// Nobody but the controller of the scalers reads the Deployments.
func TestEntryStaysWhenItsDeploymentIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	deployment := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	createScaler(t, namespace, "s", "web", sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})

	testenv.Delete(t, env, deployment)
	testenv.WaitUntilDeleted(t, env, deployment)

	createScaler(t, namespace, "other", "api", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}, "api": {"app": {Requests: small}}})
	assert.Equal(t, []string{http.MethodPost, http.MethodPatch}, m.writes.methods())
}

func TestEntriesOfScalersThatNoLongerApplyAreRemoved(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	setSpec := func(change func(*autoscalingv1beta1.VerticalScalerSpec)) func(*autoscalingv1beta1.VerticalScaler) {
		return func(scaler *autoscalingv1beta1.VerticalScaler) {
			testenv.Edit(t, env, scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { change(&scaler.Spec) })
		}
	}
	ends := map[string]func(*autoscalingv1beta1.VerticalScaler){
		"off":          setSpec(func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff }),
		"suspended":    setSpec(func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true }),
		"other-target": setSpec(func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = "next" }),
		"other-status": func(scaler *autoscalingv1beta1.VerticalScaler) {
			scaler.Status.DeploymentName = "next"
			require.NoError(t, env.Client.Status().Update(t.Context(), scaler))
		},
		"no-size": func(scaler *autoscalingv1beta1.VerticalScaler) { setSizing(t, scaler) },
		"deleted": func(scaler *autoscalingv1beta1.VerticalScaler) { testenv.Delete(t, env, scaler) },
		"terminating": func(scaler *autoscalingv1beta1.VerticalScaler) {
			testenv.AddFinalizer(t, env, scaler)
			testenv.Delete(t, env, scaler)
		},
		"unchanged": func(*autoscalingv1beta1.VerticalScaler) {},
	}
	created := map[string]*autoscalingv1beta1.VerticalScaler{}
	for name := range ends {
		created[name] = createScaler(t, namespace, name, name, sizing("app", large))
	}
	waitForEntries(t, namespace, slices.Collect(maps.Keys(ends))...)
	for name, end := range ends {
		end(created[name])
	}
	waitForEntries(t, namespace, "unchanged")
}

func TestYoungerScalerTakesTheEntryOver(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older := createScaler(t, namespace, "z-older", "web", sizing("app", large))
	testenv.WaitForNextSecond(t, older)
	createScaler(t, namespace, "a-younger", "web", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	testenv.Delete(t, env, older)
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: small}}})
}

func TestTableIsPutRightWhenSomebody(t *testing.T) {
	t.Parallel()
	want := deployments{"web": {"app": {Requests: large}}, "api": {"app": {Requests: small}}}
	edit := func(change func(*autoscalingv1beta1.SizeTable)) func(*testing.T, string) {
		return func(t *testing.T, namespace string) {
			t.Helper()
			testenv.Edit(t, env, sizeTable(namespace), change)
		}
	}
	for name, disturb := range map[string]func(t *testing.T, namespace string){
		"edits an entry": edit(func(table *autoscalingv1beta1.SizeTable) {
			table.Deployments["web"]["app"].Requests["cpu"] = huge["cpu"]
		}),
		"removes an entry": edit(func(table *autoscalingv1beta1.SizeTable) { delete(table.Deployments, "web") }),
		"adds an entry": edit(func(table *autoscalingv1beta1.SizeTable) {
			table.Deployments["foreign"] = podSize{"app": {Requests: small}}
		}),
		"removes all entries": edit(func(table *autoscalingv1beta1.SizeTable) { table.Deployments = nil }),
		"deletes the table": func(t *testing.T, namespace string) {
			t.Helper()
			testenv.Delete(t, env, sizeTable(namespace))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			m := startManager(t, namespace)
			createScaler(t, namespace, "s", "web", sizing("app", large))
			createScaler(t, namespace, "other", "api", sizing("app", small))
			before := waitForTable(t, namespace, want).ResourceVersion
			writes := len(m.writes.all())
			disturb(t, namespace)
			require.Eventually(t, func() bool { return len(m.writes.all()) > writes }, testenv.Timeout, testenv.Poll)
			assert.NotEqual(t, before, waitForTable(t, namespace, want).ResourceVersion)
		})
	}
}

func TestTableWithoutScalersIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	table := sizeTable(namespace)
	table.Deployments = deployments{"foreign": {"app": {Requests: small}}}
	testenv.Create(t, env, table)
	waitUntilNoTable(t, namespace)
}

func TestRestartWritesNothingThatIsInTheTable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	want := deployments{}
	for _, name := range []string{"web", "api", "cron"} {
		createScaler(t, namespace, name, name, sizing("app", large), sizing("proxy", small))
		want[name] = podSize{"app": {Requests: large}, "proxy": {Requests: small}}
	}
	before := waitForTable(t, namespace, want)
	m.Stop()

	m = startManager(t, namespace)
	m.assertNoWrite(t, func() {})
	assert.Equal(t, before.ResourceVersion, waitForTable(t, namespace, want).ResourceVersion)
}

func TestRestartWritesWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	changed := createScaler(t, namespace, "changed", "changed", sizing("app", small))
	deleted := createScaler(t, namespace, "deleted", "deleted", sizing("app", small))
	createScaler(t, namespace, "unchanged", "unchanged", sizing("app", small))
	before := waitForTable(t, namespace, deployments{
		"changed": {"app": {Requests: small}}, "deleted": {"app": {Requests: small}}, "unchanged": {"app": {Requests: small}},
	})
	m.Stop()
	setSizing(t, changed, sizing("app", testenv.Amounts("300m", "128Mi")))
	testenv.Delete(t, env, deleted)
	createScaler(t, namespace, "added", "added", sizing("app", large))

	m = startManager(t, namespace)
	waitForTable(t, namespace, deployments{
		"changed": {"app": {Requests: testenv.Amounts("300m", "128Mi")}}, "unchanged": {"app": {Requests: small}}, "added": {"app": {Requests: large}},
	})
	m.assertNoWrite(t, func() { testenv.Edit(t, env, sizeTable(namespace), addLabel) })
	require.Equal(t, []string{http.MethodPatch}, m.writes.methods(), "all changes are in one patch")
	metadata, entries := patchOf(t, m.writes.all()[0])
	assert.Equal(t, map[string]any{"resourceVersion": before.ResourceVersion}, metadata)
	testenv.AssertSameJSON(t, map[string]any{
		"changed": map[string]any{"app": map[string]any{"requests": map[string]any{"cpu": "300m"}}},
		"deleted": nil,
		"added":   podSize{"app": {Requests: large}},
	}, entries)
}

// addLabel changes nothing that the controller writes.
func addLabel(table *autoscalingv1beta1.SizeTable) { table.Labels = map[string]string{"team": "web"} }

func TestRestartDeletesALeftOverTable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	scaler := createScaler(t, namespace, "s", "web", sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	m.Stop()
	testenv.Delete(t, env, scaler)

	m = startManager(t, namespace)
	waitUntilNoTable(t, namespace)
	assert.Equal(t, []string{http.MethodDelete}, m.writes.methods())
}

func TestOtherNotationOfTheSameAmountCausesNoWrite(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	web := createScaler(t, namespace, "web", "web", sizing("app", large))
	api := createScaler(t, namespace, "api", "api", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}, "api": {"app": {Requests: small}}})
	const requests = `{"cpu": "0.5", "memory": "1024Mi"}`

	m.assertNoWrite(t, func() {
		patch := `{"status": {"sizing": [{"containerName": "app", "requests": ` + requests + `}]}}`
		require.NoError(t, env.Client.Status().Patch(t.Context(), web, client.RawPatch(types.MergePatchType, []byte(patch))))
		patch = `{"deployments": {"web": {"app": {"requests": ` + requests + `}}}}`
		require.NoError(t, env.Client.Patch(t.Context(), sizeTable(namespace), client.RawPatch(types.MergePatchType, []byte(patch))))
	})
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(autoscalingv1beta1.GroupVersion.WithKind("SizeTable"))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(sizeTable(namespace)), stored))
	cpu, _, err := unstructured.NestedString(stored.Object, "deployments", "web", "app", "requests", "cpu")
	require.NoError(t, err)
	require.Equal(t, "0.5", cpu, "the API server keeps the notation")

	setSizing(t, api, sizing("app", huge))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}, "api": {"app": {Requests: huge}}})
	writes := m.writes.all()
	_, entries := patchOf(t, writes[len(writes)-1])
	testenv.AssertSameJSON(t, map[string]any{"api": map[string]any{"app": map[string]any{"requests": huge}}}, entries)
}

func TestTablesOfNamespacesAreSeparate(t *testing.T) {
	t.Parallel()
	namespace, other := env.Namespace(t), env.Namespace(t)
	startManager(t, namespace)
	m := startManager(t, other)
	createScaler(t, namespace, "s", "web", sizing("app", large))
	createScaler(t, other, "s", "web", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	waitForTable(t, other, deployments{"web": {"app": {Requests: small}}})
	assert.Equal(t, []string{http.MethodPost}, m.writes.methods())
}
