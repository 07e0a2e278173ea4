package testenv

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ReleaseDeployment returns the Deployment of a typical chart: a web application with a sidecar
// that exports metrics.
func ReleaseDeployment(namespace, release string) *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/name": "store", "app.kubernetes.io/instance": release}
	labels := map[string]string{
		"app.kubernetes.io/name": "store", "app.kubernetes.io/instance": release,
		"app.kubernetes.io/version": "2.14.3", "app.kubernetes.io/component": "web",
		"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "store-4.7.1",
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: release, Labels: labels,
			Annotations: map[string]string{
				"deployment.kubernetes.io/revision": "7",
				"meta.helm.sh/release-name":         release,
				"meta.helm.sh/release-namespace":    namespace,
			},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(int32(3)),
			RevisionHistoryLimit: new(int32(5)),
			Selector:             &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels,
					Annotations: map[string]string{
						"checksum/config":      "5f2b8f3f0c8c7f6f1d8f2ce0c8f3d7f9f1f4a2a6f2d6f9a0c3e7b5d1a9e8c7b6",
						"prometheus.io/scrape": "true",
						"prometheus.io/port":   "9113",
					},
				},
				Spec: corev1.PodSpec{
					ServiceAccountName: release,
					SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(1001))},
					Containers:         []corev1.Container{webContainer(release), exporterContainer()},
					Volumes: []corev1.Volume{
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: release},
						}}},
					},
				},
			},
		},
	}
}

func webContainer(release string) corev1.Container {
	secret := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: release}, Key: key,
		}}
	}
	return corev1.Container{
		Name: "web", Image: "registry.example.com/store/web:2.14.3", ImagePullPolicy: corev1.PullIfNotPresent,
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Env: []corev1.EnvVar{
			{Name: "LOG_LEVEL", Value: "info"},
			{Name: "DATABASE_HOST", Value: release + "-postgresql"},
			{Name: "DATABASE_NAME", Value: "store"},
			{Name: "DATABASE_USER", ValueFrom: secret("database-user")},
			{Name: "DATABASE_PASSWORD", ValueFrom: secret("database-password")},
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		},
		Resources:      Resources("250m", "256Mi", "1", "512Mi"),
		LivenessProbe:  httpProbe("/healthz", 30),
		ReadinessProbe: httpProbe("/readyz", 5),
		VolumeMounts:   []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}, {Name: "config", MountPath: "/etc/store", ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func exporterContainer() corev1.Container {
	return corev1.Container{
		Name: "metrics", Image: "registry.example.com/store/exporter:1.3.0", ImagePullPolicy: corev1.PullIfNotPresent,
		Args:           []string{"--web.listen-address=:9113", "--scrape-uri=http://127.0.0.1:8080/status"},
		Ports:          []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9113}},
		Env:            []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}},
		Resources:      Resources("20m", "32Mi", "100m", "64Mi"),
		LivenessProbe:  httpProbe("/metrics", 30),
		ReadinessProbe: httpProbe("/metrics", 5),
	}
}

// Resources returns the resource requirements of a container.
func Resources(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse(cpuLimit), "memory": resource.MustParse(memoryLimit)},
	}
}

func httpProbe(path string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		InitialDelaySeconds: delay,
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}},
	}
}

// AvailableStatus returns the status that the Deployment controller writes when all pods are
// available.
func AvailableStatus() appsv1.DeploymentStatus {
	condition := func(of appsv1.DeploymentConditionType, reason, message string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{
			Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
		Conditions: []appsv1.DeploymentCondition{
			condition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable", "Deployment has minimum availability."),
			condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable",
				`ReplicaSet "store-6f7c9d5b8d" has successfully progressed.`),
		},
	}
}
