package ssa_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/upright/internal/ssa"
)

// hash is the annotation that changes with the set of desired fields.
const hash = "hash"

// desiredDeployment returns an apply configuration with lists of objects, atomic lists and quantities.
func desiredDeployment(replicas int32) *appsv1ac.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "box"}
	return appsv1ac.Deployment("box", "default").
		WithLabels(labels).
		WithAnnotations(map[string]string{hash: "1"}).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(corev1ac.PodSpec().WithContainers(
					corev1ac.Container().WithName("main").WithImage("box:1").WithCommand("sh", "-c", "wait").
						WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(80)).
						WithResources(corev1ac.ResourceRequirements().
							WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.1")}).
							WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")})),
					corev1ac.Container().WithName("side").WithImage("side:1")))))
}

// liveDeployment returns the Deployment after desiredDeployment was applied, with some defaults.
func liveDeployment(t *testing.T, replicas int32) *appsv1.Deployment {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desiredDeployment(replicas))
	require.NoError(t, err)
	live := &appsv1.Deployment{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, live))
	live.UID, live.ResourceVersion, live.Generation = "1", "1", 1
	live.Spec.RevisionHistoryLimit = ptr.To[int32](10)
	live.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for i := range live.Spec.Template.Spec.Containers {
		live.Spec.Template.Spec.Containers[i].TerminationMessagePath = "/dev/termination-log"
		for j := range live.Spec.Template.Spec.Containers[i].Ports {
			live.Spec.Template.Spec.Containers[i].Ports[j].Protocol = corev1.ProtocolTCP
		}
	}
	return live
}

func TestWouldChangeReportsWhatApplyChanges(t *testing.T) {
	t.Parallel()
	main := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	for name, test := range map[string]struct {
		desired int32
		change  func(*appsv1.Deployment)
		changes bool
	}{
		"nothing":                   {2, func(*appsv1.Deployment) {}, false},
		"replicas":                  {2, func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 }, true},
		"replicas up from 0":        {2, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }, true},
		"replicas down to 0":        {0, func(d *appsv1.Deployment) { *d.Spec.Replicas = 2 }, true},
		"replicas 0":                {0, func(*appsv1.Deployment) {}, false},
		"replicas unset":            {0, func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
		"image":                     {2, func(d *appsv1.Deployment) { main(d).Image = "other" }, true},
		"label value":               {2, func(d *appsv1.Deployment) { d.Labels["app"] = "other" }, true},
		"label removed":             {2, func(d *appsv1.Deployment) { delete(d.Labels, "app") }, true},
		"all labels removed":        {2, func(d *appsv1.Deployment) { d.Labels = nil }, true},
		"pod labels removed":        {2, func(d *appsv1.Deployment) { d.Spec.Template.Labels = nil }, true},
		"extra label":               {2, func(d *appsv1.Deployment) { d.Labels["team"] = "web" }, false},
		"extra annotation":          {2, func(d *appsv1.Deployment) { d.Annotations["deployment.kubernetes.io/revision"] = "1" }, false},
		"extra pod annotation":      {2, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"restartedAt": "now"} }, false},
		"field that is not desired": {2, func(d *appsv1.Deployment) { d.Spec.Paused = true }, false},
		"status":                    {2, func(d *appsv1.Deployment) { d.Status.Replicas = 9 }, false},
		"order of containers": {2, func(d *appsv1.Deployment) {
			c := d.Spec.Template.Spec.Containers
			c[0], c[1] = c[1], c[0]
		}, false},
		"extra container": {2, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "injected"}}, d.Spec.Template.Spec.Containers...)
		}, false},
		"container removed": {2, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[:1]
		}, true},
		"all containers removed":      {2, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, true},
		"container name":              {2, func(d *appsv1.Deployment) { main(d).Name = "other" }, true},
		"command changed":             {2, func(d *appsv1.Deployment) { main(d).Command[2] = "exit" }, true},
		"command reordered":           {2, func(d *appsv1.Deployment) { main(d).Command = []string{"-c", "sh", "wait"} }, true},
		"command with extra argument": {2, func(d *appsv1.Deployment) { main(d).Command = append(main(d).Command, "more") }, true},
		"command removed":             {2, func(d *appsv1.Deployment) { main(d).Command = nil }, true},
		"port":                        {2, func(d *appsv1.Deployment) { main(d).Ports[0].ContainerPort = 81 }, true},
		"quantity": {2, func(d *appsv1.Deployment) {
			main(d).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("101m")
		}, true},
		"quantity as 100m": {2, func(d *appsv1.Deployment) {
			main(d).Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
		}, false},
		"quantity as 1024Mi": {2, func(d *appsv1.Deployment) {
			main(d).Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1024Mi")
		}, false},
		"extra limit":          {2, func(d *appsv1.Deployment) { main(d).Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1") }, false},
		"limits removed":       {2, func(d *appsv1.Deployment) { main(d).Resources.Limits = nil }, true},
		"hash of other fields": {2, func(d *appsv1.Deployment) { d.Annotations[hash] = "2" }, true},
		"hash removed":         {2, func(d *appsv1.Deployment) { d.Annotations = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := liveDeployment(t, test.desired)
			test.change(live)
			changes, err := ssa.WouldChange(live, desiredDeployment(test.desired))
			require.NoError(t, err)
			assert.Equal(t, test.changes, changes)
		})
	}
}

func TestWouldChangeDetectsRemovedFieldOnlyByHash(t *testing.T) {
	t.Parallel()
	desired := desiredDeployment(2)
	desired.Spec.Template.Spec.Containers[0].Resources.Limits = nil
	changes, err := ssa.WouldChange(liveDeployment(t, 2), desired)
	require.NoError(t, err)
	assert.False(t, changes, "fields that are not desired are ignored")

	desired.Annotations[hash] = "2"
	changes, err = ssa.WouldChange(liveDeployment(t, 2), desired)
	require.NoError(t, err)
	assert.True(t, changes)
}

func TestWouldChangeIgnoresEmptyFieldThatAPIServerDrops(t *testing.T) {
	t.Parallel()
	desired := desiredDeployment(2)
	desired.Spec.Template.Spec.Containers[1].WithSecurityContext(corev1ac.SecurityContext())
	changes, err := ssa.WouldChange(liveDeployment(t, 2), desired)
	require.NoError(t, err)
	assert.False(t, changes)
}

func TestWouldChangeFailsForNonObjects(t *testing.T) {
	t.Parallel()
	_, err := ssa.WouldChange("text", desiredDeployment(2))
	require.ErrorContains(t, err, "live")
	_, err = ssa.WouldChange(liveDeployment(t, 2), "text")
	require.ErrorContains(t, err, "desired")
}
