package indexers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodIsIndexedByItsDeployment(t *testing.T) {
	t.Parallel()
	const hash = "5d89bdfd"
	long := strings.Repeat("a", 240)
	apps := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: new(true)}
	}
	replicaSet := apps("ReplicaSet", "web-"+hash)
	otherGroup, noController := replicaSet, replicaSet
	otherGroup.APIVersion = "example.com/v1"
	noController.Controller = nil
	for name, test := range map[string]struct {
		hash   string
		owners []metav1.OwnerReference
		want   []string
	}{
		"Deployment": {hash, []metav1.OwnerReference{replicaSet}, []string{"web"}},
		"Deployment whose name starts with another Deployment's name": {hash, []metav1.OwnerReference{apps("ReplicaSet", "web-api-"+hash)}, []string{"web-api"}},
		"Deployment whose name ends with the hash":                    {hash, []metav1.OwnerReference{apps("ReplicaSet", "web-"+hash+"-"+hash)}, []string{"web-" + hash}},
		"Deployment with a dot in its name":                           {hash, []metav1.OwnerReference{apps("ReplicaSet", "web.blue-"+hash)}, []string{"web.blue"}},
		"Deployment with a long name":                                 {hash, []metav1.OwnerReference{apps("ReplicaSet", long+"-"+hash)}, []string{long}},
		"Deployment and another owner":                                {hash, []metav1.OwnerReference{{Kind: "Job", Name: "job-" + hash}, replicaSet}, []string{"web"}},
		"ReplicaSet without a Deployment":                             {"", []metav1.OwnerReference{apps("ReplicaSet", "web")}, nil},
		"ReplicaSet named like a Deployment's, pod without a hash":    {"", []metav1.OwnerReference{replicaSet}, nil},
		"ReplicaSet named with an empty hash":                         {"", []metav1.OwnerReference{apps("ReplicaSet", "web-")}, nil},
		"ReplicaSet of another hash":                                  {"6c7b8d9f", []metav1.OwnerReference{replicaSet}, nil},
		"hash that is the end of the ReplicaSet's hash":               {"bdfd", []metav1.OwnerReference{replicaSet}, nil},
		"ReplicaSet named with the hash alone":                        {hash, []metav1.OwnerReference{apps("ReplicaSet", "-"+hash)}, nil},
		"StatefulSet":                                                 {hash, []metav1.OwnerReference{apps("StatefulSet", "web-"+hash)}, nil},
		"Job":                                                         {"", []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "web", Controller: new(true)}}, nil},
		"ReplicaSet of another group":                                 {hash, []metav1.OwnerReference{otherGroup}, nil},
		"ReplicaSet that is an owner but not the controller":          {hash, []metav1.OwnerReference{noController}, nil},
		"no owner": {hash, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash + "-x2v4z", OwnerReferences: test.owners}}
			if test.hash != "" {
				pod.Labels = map[string]string{"pod-template-hash": test.hash}
			}
			assert.Equal(t, test.want, registered(t, "PodDeployment").extract(pod))
			assert.Equal(t, strings.Join(test.want, ""), DeploymentOfPod(pod))
		})
	}
}
