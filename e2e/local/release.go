package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// compareRelease returns an error unless the cluster has each Deployment of a Helm release's
// manifest, with all fields of the manifest. The resources of the containers must be equal.
func compareRelease(manifest string, live []appsv1.Deployment) error {
	compared := 0
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var charted appsv1.Deployment
		if err := documents.Decode(&charted); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("parsing the release's manifest: %w", err)
		}
		if charted.Kind != "Deployment" {
			continue
		}
		if err := compareDeployment(&charted, deploymentNamed(live, charted.Name)); err != nil {
			return err
		}
		compared++
	}
	if compared == 0 {
		return errors.New("the release's manifest contains no Deployment")
	}
	return nil
}

func compareDeployment(charted, live *appsv1.Deployment) error {
	if live == nil {
		return fmt.Errorf("deployment %s of the chart is not on the cluster", charted.Name)
	}
	for _, c := range charted.Spec.Template.Spec.Containers {
		if actual := resourcesOf(&live.Spec.Template.Spec, c.Name); !equality.Semantic.DeepEqual(c.Resources, actual) {
			return fmt.Errorf("container %s of Deployment %s does not have the resources of the chart: cpu %s and memory %s, expected %s and %s",
				c.Name, live.Name, size(actual, corev1.ResourceCPU), size(actual, corev1.ResourceMemory),
				size(c.Resources, corev1.ResourceCPU), size(c.Resources, corev1.ResourceMemory))
		}
	}
	// The live Deployment also has the defaults of the API server.
	if !equality.Semantic.DeepDerivative(charted.Spec, live.Spec) {
		return fmt.Errorf("deployment %s differs from the chart", live.Name)
	}
	return nil
}
