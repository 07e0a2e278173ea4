package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// printSizes prints, for each pod of a scaler's Deployment, the size in the Deployment, the
// current size and the recommendation. Then it prints the Applied condition of each scaler.
func printSizes(
	out io.Writer, scalers []autoscalingv1beta1.VerticalScaler, deployments []appsv1.Deployment, pods []corev1.Pod,
) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  POD\tCONTAINER\tRESOURCE\tBEFORE (CHART)\tAFTER (NOW)\tRECOMMENDED\tLOWER BOUND\tUPPER BOUND\tRESTARTS")
	for i := range scalers {
		deployment := deploymentNamed(deployments, scalers[i].Spec.DeploymentName)
		if deployment == nil {
			continue
		}
		selected, err := podsOf(deployment, pods)
		if err != nil {
			return err
		}
		for _, pod := range selected {
			printPod(table, deployment, pod, scalers[i].Status.Recommendations)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the sizes: %w", err)
	}
	fmt.Fprint(out, "\n  A size is request / limit.\n")
	for i := range scalers {
		applied := conditionOf(scalers[i].Status.Conditions, autoscalingv1beta1.ConditionApplied)
		fmt.Fprintf(out, "  VerticalScaler %s, %s: %s\n", scalers[i].Name, applied.Reason, applied.Message)
	}
	return nil
}

// printPod prints a line for each container and resource of a pod that has a recommendation.
func printPod(
	table io.Writer, deployment *appsv1.Deployment, pod *corev1.Pod, recommendations []autoscalingv1beta1.ContainerRecommendation,
) {
	for i := range recommendations {
		recommended := &recommendations[i]
		before := resourcesOf(&deployment.Spec.Template.Spec, recommended.ContainerName)
		after := resourcesOf(&pod.Spec, recommended.ContainerName)
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n",
				pod.Name, recommended.ContainerName, resource, size(before, resource), size(after, resource),
				amount(recommended.Target, resource), amount(recommended.LowerBound, resource),
				amount(recommended.UpperBound, resource), restartsOf(pod, recommended.ContainerName))
		}
	}
}

func deploymentNamed(deployments []appsv1.Deployment, name string) *appsv1.Deployment {
	i := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &deployments[i]
}

// podsOf returns the pods of a Deployment, without those that are being deleted.
func podsOf(deployment *appsv1.Deployment, pods []corev1.Pod) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("parsing the selector of Deployment %s: %w", deployment.Name, err)
	}
	var selected []*corev1.Pod
	for i := range pods {
		if pods[i].DeletionTimestamp.IsZero() && selector.Matches(labels.Set(pods[i].Labels)) {
			selected = append(selected, &pods[i])
		}
	}
	return selected, nil
}

// resourcesOf returns the requests and limits of a container.
func resourcesOf(spec *corev1.PodSpec, container string) corev1.ResourceRequirements {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == container {
			return c.Resources
		}
	}
	return corev1.ResourceRequirements{}
}

func restartsOf(pod *corev1.Pod, container string) int32 {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return status.RestartCount
		}
	}
	return 0
}

// size returns the request and the limit of a resource.
func size(requirements corev1.ResourceRequirements, resource corev1.ResourceName) string {
	return amount(requirements.Requests, resource) + " / " + amount(requirements.Limits, resource)
}

// amount returns the amount of a resource in a list, in the format of a manifest.
func amount(list corev1.ResourceList, resource corev1.ResourceName) string {
	quantity, isSet := list[resource]
	if !isSet {
		return "-"
	}
	return quantity.String()
}
