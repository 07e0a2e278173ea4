package verticalscaler

import (
	"bytes"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"example.com/upright/internal/sizing"
)

// annotationOwner is who, other than this controller, owns the annotation of a pod template that
// starts a rollout.
type annotationOwner struct {
	// declares is the field manager that sets it again with each of its changes, or "".
	declares string
	// hasSet is true if another one has set it once, as kubectl rollout restart does.
	hasSet bool
}

// Paths of the annotation, and of what everybody sets who declares a pod template.
var (
	restartedAtPath = fieldpath.MakePathOrDie("spec", "template", "metadata", "annotations", sizing.AnnotationRestartedAt)
	containersPath  = fieldpath.MakePathOrDie("spec", "template", "spec", "containers")
)

// ownerOfRestartedAt returns the owner of the annotation. Whoever applies it, or has set it
// together with containers, declares it: a chart does, a restart does not.
func ownerOfRestartedAt(d *appsv1.Deployment) annotationOwner {
	var owner annotationOwner
	for i := range d.ManagedFields {
		entry := &d.ManagedFields[i]
		fields := fieldsOf(entry)
		if entry.Manager == name || entry.Subresource != "" || !fields.Has(restartedAtPath) {
			continue
		}
		owner.hasSet = true
		if entry.Operation == metav1.ManagedFieldsOperationApply || hasContainers(fields) {
			owner.declares = entry.Manager
		}
	}
	return owner
}

// fieldsOf returns the fields of an entry. Fields in another format than today's are none.
func fieldsOf(entry *metav1.ManagedFieldsEntry) *fieldpath.Set {
	fields := &fieldpath.Set{}
	if entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return &fieldpath.Set{}
	}
	return fields
}

// hasContainers reports whether any field of a container is among the fields.
func hasContainers(fields *fieldpath.Set) bool {
	for _, element := range containersPath {
		fields = fields.WithPrefix(element)
	}
	return !fields.Empty()
}
