package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/e2e/cluster"
)

// object has the fields of Upright's kinds that the overview shows.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// printOverview prints the objects in the demo's namespace, and commands to explore them.
func printOverview(ctx context.Context, c *cluster.Cluster) error {
	var objects struct {
		Items []object `json:"items"`
	}
	if err := list(ctx, c, "upright", &objects); err != nil {
		return err
	}
	var deployments appsv1.DeploymentList
	if err := list(ctx, c, "deployments", &deployments); err != nil {
		return err
	}
	slices.SortFunc(objects.Items, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})

	fmt.Printf("\nIn namespace %s:\n\n", demoNamespace)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  KIND\tNAME\tREADY\tABOUT")
	for _, o := range objects.Items {
		ready := conditionOf(o.Status.Conditions, "Ready")
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", o.Kind, o.Name, ready.Status, ready.Message)
	}
	for _, d := range deployments.Items {
		fmt.Fprintf(table, "  Deployment\t%s\t%d/%d\t%s\n", d.Name, d.Status.ReadyReplicas, d.Status.Replicas, owner(&d))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if err := printApplied(ctx, c, deployments.Items); err != nil {
		return err
	}
	fmt.Printf(`
To explore further:

  export KUBECONFIG=%s
  bin/kubectl get upright,deployments,pods --namespace %s
  bin/kubectl describe verticalscalers --namespace %[2]s
  bin/kubectl top pods --namespace %[2]s
  bin/kubectl explain verticalscaler.spec
  bin/helm list --namespace %[2]s
  tail -f %[3]s

To stop everything: make down
`, c.Kubeconfig(), demoNamespace, c.ManagerLog())
	return nil
}

// printApplied prints the sizes of pods before and after. It returns an error unless the Helm
// release is unchanged.
func printApplied(ctx context.Context, c *cluster.Cluster, deployments []appsv1.Deployment) error {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := list(ctx, c, "verticalscalers", &scalers); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := list(ctx, c, "pods", &pods); err != nil {
		return err
	}
	fmt.Println()
	if err := printSizes(os.Stdout, scalers.Items, deployments, pods.Items); err != nil {
		return err
	}
	manifest, err := c.Helm(ctx, helmVersion, "get", "manifest", demoRelease, "--namespace", demoNamespace)
	if err != nil {
		return err
	}
	if err := compareRelease(manifest, deployments); err != nil {
		return fmt.Errorf("comparing the Helm release %s with the cluster: %w", demoRelease, err)
	}
	fmt.Printf("  Helm release %s is unchanged: helm get manifest and the live Deployment agree.\n", demoRelease)
	return nil
}

// list reads all objects of a resource or category in the demo's namespace.
func list(ctx context.Context, c *cluster.Cluster, resource string, into any) error {
	out, err := c.Kubectl(ctx, "get", resource, "--namespace", demoNamespace, "--output", "json")
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource, err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("parsing the list of %s: %w", resource, err)
	}
	return nil
}

func conditionOf(conditions []metav1.Condition, conditionType string) metav1.Condition {
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return metav1.Condition{Status: metav1.ConditionUnknown}
	}
	return conditions[i]
}

// owner describes the owner of a Deployment.
func owner(d *appsv1.Deployment) string {
	if controller := metav1.GetControllerOf(d); controller != nil {
		return fmt.Sprintf("owned by %s %s", controller.Kind, controller.Name)
	}
	if release, ok := d.Annotations["meta.helm.sh/release-name"]; ok {
		return "part of the Helm release " + release + ", not owned by Upright"
	}
	return "not owned by Upright"
}
