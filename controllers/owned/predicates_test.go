package owned

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"example.com/upright/internal/cache"
)

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
