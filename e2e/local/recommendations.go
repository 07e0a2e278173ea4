package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/e2e/cluster"
)

// printRecommendations prints what each scaler recommends beside what the Deployment's
// containers request.
func printRecommendations(ctx context.Context, c *cluster.Cluster, deployments []appsv1.Deployment) error {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := list(ctx, c, "verticalscalers", &scalers); err != nil {
		return err
	}
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  SCALER\tDEPLOYMENT\tCONTAINER\tRESOURCE\tREQUESTED\tRECOMMENDED\tLOWER BOUND\tUPPER BOUND")
	for i := range scalers.Items {
		scaler := &scalers.Items[i]
		for j := range scaler.Status.Recommendations {
			recommended := &scaler.Status.Recommendations[j]
			requested := requestsOf(deployments, scaler.Spec.DeploymentName, recommended.ContainerName)
			for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
					scaler.Name, scaler.Spec.DeploymentName, recommended.ContainerName, resource, amount(requested, resource),
					amount(recommended.Target, resource), amount(recommended.LowerBound, resource), amount(recommended.UpperBound, resource))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the recommendations: %w", err)
	}
	return nil
}

// requestsOf returns what a container requests in a Deployment's template.
func requestsOf(deployments []appsv1.Deployment, deployment, container string) corev1.ResourceList {
	for i := range deployments {
		if deployments[i].Name != deployment {
			continue
		}
		for _, c := range deployments[i].Spec.Template.Spec.Containers {
			if c.Name == container {
				return c.Resources.Requests
			}
		}
	}
	return nil
}

// amount returns how much a list has of a resource, as it is written in a manifest.
func amount(list corev1.ResourceList, resource corev1.ResourceName) string {
	quantity, isSet := list[resource]
	if !isSet {
		return "-"
	}
	return quantity.String()
}
