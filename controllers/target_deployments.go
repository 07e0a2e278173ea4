package controllers

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get

// targetDeployments reads the Deployments that scalers name. The cache has the metadata of
// Deployments alone; one that a scaler names is read as a whole when its resource version
// says that it has changed.
type targetDeployments struct {
	// server reads what the API server has, and no cache.
	server  client.Reader
	trimmer trimmer

	mutex sync.Mutex
	known map[types.NamespacedName]*appsv1.Deployment // By scaler.
}

// get returns a scaler's target, read-only, or nil where it is gone meanwhile.
func (t *targetDeployments) get(
	ctx context.Context, scaler types.NamespacedName, target *metav1.PartialObjectMetadata,
) (*appsv1.Deployment, error) {
	t.mutex.Lock()
	known := t.known[scaler]
	t.mutex.Unlock()
	if known != nil && known.UID == target.UID && known.ResourceVersion == target.ResourceVersion {
		return known, nil
	}
	deployment := &appsv1.Deployment{}
	if err := t.server.Get(ctx, client.ObjectKeyFromObject(target), deployment); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get the target: %w", err)
	}
	read := t.trimDeployment(deployment)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.known[scaler] = read
	return read, nil
}

// forget drops what is known of a scaler that is gone.
func (t *targetDeployments) forget(scaler types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.known, scaler)
}

// only returns the annotation of a name, nil where it is not among the annotations.
func only(annotations map[string]string, name string) map[string]string {
	value, isSet := annotations[name]
	if !isSet {
		return nil
	}
	return map[string]string{name: value}
}

// trimDeployment returns what is read of a target.
func (t *targetDeployments) trimDeployment(d *appsv1.Deployment) *appsv1.Deployment {
	trimmed := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion, Generation: d.Generation,
		},
		Spec:   appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Paused: d.Spec.Paused, Strategy: d.Spec.Strategy},
		Status: d.Status,
	}
	template := &d.Spec.Template
	trimmed.Annotations = only(d.Annotations, sizing.AnnotationRevision)
	trimmed.Spec.Template.Annotations = only(template.Annotations, sizing.AnnotationRestartedAt)
	trimmed.Spec.Template.Spec.InitContainers = t.trimmer.trimContainers(template.Spec.InitContainers)
	trimmed.Spec.Template.Spec.Containers = t.trimmer.trimContainers(template.Spec.Containers)
	return trimmed
}
