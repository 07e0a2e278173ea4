package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func TestCompareReleaseFailsIfADeploymentDiffersFromTheChart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"as installed": {change: func(*appsv1.Deployment) {}},
		"with the API server's defaults, and restarted": {change: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
		}},
		"with another request": {
			change: func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("226m")
			},
			want: "container main of Deployment web does not have the resources of the chart: " +
				"cpu 226m / 200m and memory 128Mi / 256Mi, expected 20m / 200m and 128Mi / 256Mi",
		},
		"with an additional resource": {
			change: func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
			},
			want: "container main of Deployment web does not have the resources of the chart",
		},
		"with another image": {
			change: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "main:2" },
			want:   "deployment web differs from the chart",
		},
		"deleted": {
			change: func(d *appsv1.Deployment) { d.Name = "api" },
			want:   "deployment web of the chart is not on the cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			charted := newDeployment("web")
			manifest, err := yaml.Marshal(&charted)
			require.NoError(t, err)
			live := newDeployment("web")
			test.change(&live)

			err = compareRelease("---\nkind: Service\n---\n"+string(manifest), []appsv1.Deployment{live})

			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestCompareReleaseFailsWithoutADeployment(t *testing.T) {
	assert.Error(t, compareRelease("---\nkind: Service\n", nil))
}
