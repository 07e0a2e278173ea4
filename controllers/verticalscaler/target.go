package verticalscaler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/cache"
	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get

// targets reads the Deployments that scalers name. The manager's cache has only the metadata of
// Deployments, so a target is read from the API server when its resource version changes.
type targets struct {
	server  client.Reader // Without a cache.
	trimmer cache.Trimmer

	mutex sync.Mutex
	known map[types.NamespacedName]*target // By scaler.
}

// target is what is read of a Deployment.
type target struct {
	*appsv1.Deployment // Trimmed.
	// templateHash identifies the pod template, without the annotation that starts a rollout.
	templateHash     string
	restartedAtOwner annotationOwner
}

// get returns a scaler's target, read-only, or nil if it no longer exists.
func (t *targets) get(
	ctx context.Context, scaler types.NamespacedName, metadata *metav1.PartialObjectMetadata,
) (*target, error) {
	t.mutex.Lock()
	known := t.known[scaler]
	t.mutex.Unlock()
	if known != nil && known.UID == metadata.UID && known.ResourceVersion == metadata.ResourceVersion {
		return known, nil
	}
	deployment := &appsv1.Deployment{}
	if err := t.server.Get(ctx, client.ObjectKeyFromObject(metadata), deployment); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get the target: %w", err)
	}
	hash, err := templateHash(&deployment.Spec.Template)
	if err != nil {
		return nil, err
	}
	read := &target{t.trim(deployment), hash, ownerOfRestartedAt(deployment)}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.known[scaler] = read
	return read, nil
}

// forget drops the target of a scaler that no longer exists, or whose target is to be read again.
func (t *targets) forget(scaler types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.known, scaler)
}

// templateHash returns a hash of a pod template without the annotation that starts a rollout.
func templateHash(template *corev1.PodTemplateSpec) (string, error) {
	template = template.DeepCopy()
	delete(template.Annotations, sizing.AnnotationRestartedAt)
	if len(template.Annotations) == 0 {
		template.Annotations = nil
	}
	encoded, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encode the target's pod template: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}

// trim returns the fields of a target that the controller reads.
func (t *targets) trim(d *appsv1.Deployment) *appsv1.Deployment {
	trimmed := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion, Generation: d.Generation,
		},
		Spec:   appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Paused: d.Spec.Paused, Strategy: d.Spec.Strategy},
		Status: d.Status,
	}
	template := &d.Spec.Template
	trimmed.Annotations = keepAnnotation(d.Annotations, sizing.AnnotationRevision)
	trimmed.Spec.Template.Annotations = keepAnnotation(template.Annotations, sizing.AnnotationRestartedAt)
	trimmed.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: t.trimmer.Containers(template.Spec.InitContainers),
		Containers:     t.trimmer.Containers(template.Spec.Containers),
		Overhead:       template.Spec.Overhead,
		NodeSelector:   template.Spec.NodeSelector,
		Affinity:       template.Spec.Affinity,
		Tolerations:    template.Spec.Tolerations,
	}
	return trimmed
}

// keepAnnotation returns the annotations without all but one, or nil if that is not set.
func keepAnnotation(annotations map[string]string, name string) map[string]string {
	value, isSet := annotations[name]
	if !isSet {
		return nil
	}
	return map[string]string{name: value}
}
