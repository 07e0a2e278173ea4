package verticalscaler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

func TestOwnerOfTheAnnotationIsWhoeverDeclaresIt(t *testing.T) {
	t.Parallel()
	const (
		update     = metav1.ManagedFieldsOperationUpdate
		apply      = metav1.ManagedFieldsOperationApply
		annotation = `"f:metadata":{"f:annotations":{"f:` + sizing.AnnotationRestartedAt + `":{}}}`
		containers = `"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}`
	)
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, template string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{"f:replicas":{},"f:template":{` + template + `}}}`)}
	}
	for name, test := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  annotationOwner
	}{
		"nobody":                     {entry("helm", apply, containers), annotationOwner{}},
		"this controller":            {entry("upright-verticalscaler", apply, annotation), annotationOwner{}},
		"kubectl rollout restart":    {entry("kubectl-rollout", update, annotation), annotationOwner{hasSet: true}},
		"another tool that restarts": {entry("k9s", update, annotation), annotationOwner{hasSet: true}},
		"Helm 4":                     {entry("helm", apply, annotation+","+containers), annotationOwner{hasSet: true, declares: "helm"}},
		"an applier of nothing else": {entry("restarter", apply, annotation), annotationOwner{hasSet: true, declares: "restarter"}},
		"Helm 3 or kubectl apply":    {entry("helm", update, annotation+","+containers), annotationOwner{hasSet: true, declares: "helm"}},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{test.entry}}}
		assert.Equal(t, test.want, ownerOfRestartedAt(d), name)
	}
	broken := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "empty"}, {Manager: "broken", FieldsV1: metav1.NewFieldsV1("{")},
	}}}
	assert.Zero(t, ownerOfRestartedAt(broken))
}

func TestRolloutIsLeftToWhoeverDeclaresTheAnnotation(t *testing.T) {
	t.Parallel()
	w := newUnresizableWorkload(t, env, 1)
	testenv.Edit(t, env, w.deployment(t), func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{sizing.AnnotationRestartedAt: "2026-01-01T00:00:00Z"}
	})
	testenv.MarkAvailable(t, env, w.deployment(t))
	w.start(t)
	assert.Contains(t, w.waitForApplied(t, isFalse, "RolloutAnnotationOwned"), `(field manager "`)
	w.assertNoRollout(t)
	w.waitForEvent(t, "RolloutAnnotationOwned")
	assert.Nil(t, w.scaler.Status.Rollout)

	// The user restarts the pods, and owns the annotation from then on.
	d := w.deployment(t)
	setRestartedAt(t, d, "kubectl-rollout")
	testenv.MarkAvailable(t, env, d)
	w.waitForRollout(t, restartedAt(d))
}

// A chart that renders an empty map of annotations with Helm 4 keeps the annotation of a rollout.
func TestApplierOfNoAnnotationsKeepsTheRollout(t *testing.T) {
	t.Parallel()
	for _, annotations := range []any{nil, map[string]any{}} {
		w := newUnresizableWorkload(t, env, 1)
		w.start(t)
		d := w.waitForRollout(t, "")
		chart := map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": w.namespace},
			"spec": map[string]any{
				"selector": d.Spec.Selector, "template": map[string]any{
					"metadata": map[string]any{"labels": d.Spec.Template.Labels, "annotations": annotations},
					"spec":     corev1.PodSpec{Containers: []corev1.Container{newContainer("web", nil, nil)}},
				},
			},
		}
		manifest, err := json.Marshal(chart)
		require.NoError(t, err)
		require.NoError(t, env.Client.Patch(t.Context(), w.deployment(t),
			client.RawPatch(types.ApplyPatchType, manifest), client.FieldOwner("helm"), client.ForceOwnership))
		assert.Equal(t, restartedAt(d), restartedAt(w.deployment(t)), "%v", annotations)
	}
}
