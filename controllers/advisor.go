package controllers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/histories"
	"example.com/upright/internal/sizing"
)

// advisor says what the containers of a scaler's target should request, by what has been
// learned so far.
type advisor struct {
	cache       client.Reader
	histories   *histories.Store
	largestNode atomic.Pointer[corev1.ResourceList]
}

// advice is what there is to say about a scaler's target.
type advice struct {
	// pods are the target's.
	pods []corev1.Pod
	// limitRanges are those of the namespace.
	limitRanges []corev1.LimitRange
	// largestNode is the most that any node can give; empty where none is known.
	largestNode corev1.ResourceList
	// containers are those that should have a recommendation, and running says whether there
	// is a pod that has them now.
	containers []string
	running    bool
	// recommendations are of those of the containers of which something is known.
	recommendations []autoscalingv1beta1.ContainerRecommendation
}

// advise returns what there is to say about a scaler's target.
func (a *advisor) advise(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, record *histories.Record, pods []corev1.Pod,
) (advice, error) {
	var limitRanges corev1.LimitRangeList
	if err := a.cache.List(ctx, &limitRanges, client.InNamespace(scaler.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return advice{}, fmt.Errorf("list the LimitRanges: %w", err)
	}
	node, err := a.node(ctx)
	if err != nil {
		return advice{}, err
	}
	around := sizing.Surroundings{LimitRanges: limitRanges.Items, LargestNode: node}
	said := advice{pods: pods, limitRanges: limitRanges.Items, largestNode: node}
	said.containers, said.running = containersOf(scaler, pods)
	for _, container := range said.containers {
		policy := sizing.Policy(&scaler.Spec, container, len(said.containers), around)
		recommendation := sizing.ContainerRecommendation(container, record.Recommend(container, policy))
		if recommendation.Target == nil {
			// What was said before holds until something is learned.
			recommendation = published(scaler, container)
		}
		if recommendation.Target != nil {
			said.recommendations = append(said.recommendations, recommendation)
		}
	}
	return said, nil
}

// published returns what a scaler's status says of a container, nothing where it does not, or
// where it speaks of another spec: that may have named another Deployment.
func published(scaler *autoscalingv1beta1.VerticalScaler, container string) autoscalingv1beta1.ContainerRecommendation {
	if scaler.Status.ObservedGeneration != scaler.Generation {
		return autoscalingv1beta1.ContainerRecommendation{}
	}
	return ptr.Deref(recommendationOf(scaler.Status.Recommendations, container), autoscalingv1beta1.ContainerRecommendation{})
}

// containersOf returns the names of the containers to size, and whether a pod runs that has
// them. Where none does, they are those that were recommended for last.
func containersOf(scaler *autoscalingv1beta1.VerticalScaler, pods []corev1.Pod) (names []string, running bool) {
	if pod := newest(pods); pod != nil {
		for _, container := range sizable(pod) {
			names = append(names, container.Name)
		}
		return names, true
	}
	for i := range scaler.Status.Recommendations {
		names = append(names, scaler.Status.Recommendations[i].ContainerName)
	}
	return names, false
}

// record returns what has been learned for a scaler.
func (a *advisor) record(scaler *autoscalingv1beta1.VerticalScaler) *histories.Record {
	return a.histories.Record(scaler, time.Now())
}

// node returns what the largest node has to give. It is looked up with each reading of usage,
// and not with each pass: a cluster may have thousands of nodes.
func (a *advisor) node(ctx context.Context) (corev1.ResourceList, error) {
	if known := a.largestNode.Load(); known != nil {
		return *known, nil
	}
	return a.measureNodes(ctx)
}

// measureNodes looks up the largest node.
func (a *advisor) measureNodes(ctx context.Context) (corev1.ResourceList, error) {
	var nodes corev1.NodeList
	if err := a.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	largest := sizing.LargestNode(nodes.Items)
	a.largestNode.Store(&largest)
	return largest, nil
}
