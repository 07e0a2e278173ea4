package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestControllerChangedLetsThroughWhatFreesOrTakesAName(t *testing.T) {
	t.Parallel()
	of := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		d := newDeploymentMetadata()
		d.Name = "web"
		change(d)
		return d
	}
	free := of(func(*metav1.PartialObjectMetadata) {})
	owned := of(func(d *metav1.PartialObjectMetadata) {
		d.OwnerReferences = []metav1.OwnerReference{{UID: "not-a-controller"}, {UID: "u1", Controller: new(true)}}
	})
	ownedByOther := of(func(d *metav1.PartialObjectMetadata) {
		d.OwnerReferences = []metav1.OwnerReference{{UID: "u2", Controller: new(true)}}
	})
	referenced := of(func(d *metav1.PartialObjectMetadata) {
		d.OwnerReferences = []metav1.OwnerReference{{UID: "not-a-controller"}}
	})
	grown := of(func(d *metav1.PartialObjectMetadata) { d.Generation, d.Labels = 5, map[string]string{"a": "b"} })

	passes := controllerChanged()
	assert.True(t, passes.Create(event.CreateEvent{Object: free}))
	assert.True(t, passes.Delete(event.DeleteEvent{Object: free}))
	for name, test := range map[string]struct {
		before, after *metav1.PartialObjectMetadata
		want          bool
	}{
		"nothing":                        {free, free, false},
		"anything but the controller":    {free, grown, false},
		"an owner that is no controller": {free, referenced, false},
		"a controller comes":             {free, owned, true},
		"the controller goes":            {owned, referenced, true},
		"another controller":             {owned, ownedByOther, true},
		"the same controller":            {owned, owned, false},
	} {
		assert.Equal(t, test.want, passes.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), name)
	}
}

func TestClaimChangedLetsThroughWhatChangesAScalersClaim(t *testing.T) {
	t.Parallel()
	of := func(deployment string, deleted bool) *autoscalingv1beta1.VerticalScaler {
		scaler := &autoscalingv1beta1.VerticalScaler{Spec: autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployment}}
		if deleted {
			scaler.DeletionTimestamp = new(metav1.Now())
		}
		return scaler
	}
	suspended := of("web", false)
	suspended.Spec.Suspend = true
	suspended.Generation = 2

	passes := claimChanged()
	assert.True(t, passes.Create(event.CreateEvent{Object: suspended}))
	assert.True(t, passes.Delete(event.DeleteEvent{Object: suspended}))
	for name, test := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"nothing":            {of("web", false), of("web", false), false},
		"another field":      {of("web", false), suspended, false},
		"another Deployment": {of("web", false), of("shop", false), true},
		"deletion":           {of("web", false), of("web", true), true},
		"being deleted":      {of("web", true), of("web", true), false},
		"not a scaler":       {newDeploymentMetadata(), newDeploymentMetadata(), false},
	} {
		assert.Equal(t, test.want, passes.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), name)
	}
}
