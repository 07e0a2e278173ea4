package owned

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/cache"
)

func TestOwnerChangedAcceptsAllButChangesOfTheStatus(t *testing.T) {
	t.Parallel()
	changed := func(change func(*examplev1alpha1.Busybox)) *examplev1alpha1.Busybox {
		owner := newBusybox("default", "web")
		owner.UID, owner.Generation, owner.ResourceVersion = "u1", 1, "1"
		change(owner)
		return owner
	}
	before := changed(func(*examplev1alpha1.Busybox) {})
	accepts := ownerChanged()
	assert.True(t, accepts.Create(event.CreateEvent{Object: before}))
	assert.True(t, accepts.Delete(event.DeleteEvent{Object: before}))
	for name, test := range map[string]struct {
		change func(*examplev1alpha1.Busybox)
		want   bool
	}{
		"status": {func(b *examplev1alpha1.Busybox) { b.ResourceVersion, b.Status.Replicas = "2", 3 }, false},
		// The API server counts a deletion as a new generation too.
		"generation":  {func(b *examplev1alpha1.Busybox) { b.Generation = 2 }, true},
		"labels":      {func(b *examplev1alpha1.Busybox) { b.Labels = map[string]string{"a": "b"} }, true},
		"annotations": {func(b *examplev1alpha1.Busybox) { b.Annotations = map[string]string{"a": "b"} }, true},
		"re-created":  {func(b *examplev1alpha1.Busybox) { b.UID = "u2" }, true},
	} {
		assert.Equal(t, test.want, accepts.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed(test.change)}), name)
	}
}

func TestControllerChangedAcceptsEventsThatFreeOrTakeAName(t *testing.T) {
	t.Parallel()
	deployment := func(owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
		d := cache.NewDeploymentMetadata()
		d.Name, d.OwnerReferences = "web", owners
		return d
	}
	otherOwner := metav1.OwnerReference{UID: "not-a-controller"}
	controller := func(uid string) metav1.OwnerReference {
		return metav1.OwnerReference{UID: types.UID(uid), Controller: new(true)}
	}
	free, referenced := deployment(), deployment(otherOwner)
	controlled := deployment(otherOwner, controller("u1"))
	edited := deployment()
	edited.Generation, edited.Labels = 5, map[string]string{"a": "b"}

	accepts := controllerChanged()
	assert.True(t, accepts.Create(event.CreateEvent{Object: free}))
	assert.True(t, accepts.Delete(event.DeleteEvent{Object: free}))
	for name, test := range map[string]struct {
		before, after *metav1.PartialObjectMetadata
		want          bool
	}{
		"no change":                           {free, free, false},
		"other fields change":                 {free, edited, false},
		"an owner that is not the controller": {free, referenced, false},
		"a controller is added":               {free, controlled, true},
		"the controller is removed":           {controlled, referenced, true},
		"the controller is replaced":          {controlled, deployment(controller("u2")), true},
		"the controller stays":                {controlled, controlled, false},
	} {
		assert.Equal(t, test.want, accepts.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), name)
	}
}
