package indexers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodIsIndexedByTheDeploymentThatItBelongsTo(t *testing.T) {
	t.Parallel()
	const hash = "5d89bdfd"
	long := strings.Repeat("a", 240)
	apps := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: new(true)}
	}
	replicaSet := apps("ReplicaSet", "web-"+hash)
	other, mere := replicaSet, replicaSet
	other.APIVersion = "example.com/v1"
	mere.Controller = nil
	for name, test := range map[string]struct {
		hash   string
		owners []metav1.OwnerReference
		want   []string
	}{
		"of a Deployment":                          {hash, []metav1.OwnerReference{replicaSet}, []string{"web"}},
		"of one whose name begins like another's":  {hash, []metav1.OwnerReference{apps("ReplicaSet", "web-api-"+hash)}, []string{"web-api"}},
		"of one whose name ends like a hash":       {hash, []metav1.OwnerReference{apps("ReplicaSet", "web-"+hash+"-"+hash)}, []string{"web-" + hash}},
		"of one with a dot":                        {hash, []metav1.OwnerReference{apps("ReplicaSet", "web.blue-"+hash)}, []string{"web.blue"}},
		"of one with a long name":                  {hash, []metav1.OwnerReference{apps("ReplicaSet", long+"-"+hash)}, []string{long}},
		"with another owner besides":               {hash, []metav1.OwnerReference{{Kind: "Job", Name: "job-" + hash}, replicaSet}, []string{"web"}},
		"of a ReplicaSet without Deployment":       {"", []metav1.OwnerReference{apps("ReplicaSet", "web")}, nil},
		"of a ReplicaSet that is named like one's": {"", []metav1.OwnerReference{replicaSet}, nil},
		"of a ReplicaSet of an empty hash":         {"", []metav1.OwnerReference{apps("ReplicaSet", "web-")}, nil},
		"of a ReplicaSet of another hash":          {"6c7b8d9f", []metav1.OwnerReference{replicaSet}, nil},
		"whose hash is the end of another one":     {"bdfd", []metav1.OwnerReference{replicaSet}, nil},
		"of a ReplicaSet that is a hash alone":     {hash, []metav1.OwnerReference{apps("ReplicaSet", "-"+hash)}, nil},
		"of a StatefulSet":                         {hash, []metav1.OwnerReference{apps("StatefulSet", "web-"+hash)}, nil},
		"of a Job":                                 {"", []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "web", Controller: new(true)}}, nil},
		"of another group's ReplicaSet":            {hash, []metav1.OwnerReference{other}, nil},
		"with a ReplicaSet for a mere owner":       {hash, []metav1.OwnerReference{mere}, nil},
		"without owner":                            {hash, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash + "-x2v4z", OwnerReferences: test.owners}}
			if test.hash != "" {
				pod.Labels = map[string]string{"pod-template-hash": test.hash}
			}
			indexer := &fakeIndexer{}
			require.NoError(t, AddPodDeployment(t.Context(), indexer))
			assert.Equal(t, test.want, indexer.registrations[0].extract(pod))
			assert.Equal(t, strings.Join(test.want, ""), DeploymentOfPod(pod))
		})
	}
}
