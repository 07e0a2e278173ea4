package controllers

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/rand"
)

// podNameOf returns a name that Kubernetes gives a Deployment's pod: the Deployment controller
// calls a ReplicaSet <deployment>-<hash> (pkg/controller/deployment/sync.go), the ReplicaSet
// controller asks for a pod named <replicaset>-... (pkg/controller/controller_utils.go,
// GetPodFromTemplate), and the API server cuts that off to make room for 5 characters
// (k8s.io/apiserver/pkg/storage/names, SimpleNameGenerator).
func podNameOf(deployment string, templateHash uint32) string {
	prefix := deployment + "-" + rand.SafeEncodeString(strconv.FormatUint(uint64(templateHash), 10)) + "-"
	return prefix[:min(len(prefix), 58)] + rand.String(5)
}

func matches(deployment, pod string) bool {
	return regexp.MustCompile("^(?:" + podNames(deployment) + ")$").MatchString(pod)
}

func TestPodNamesAreThoseThatKubernetesGivesADeploymentsPods(t *testing.T) {
	t.Parallel()
	hashes := []uint32{0, 7, 42, 999, 12345, 678901, 2345678, 90123456, 123456789, 4294967295}
	for length := 1; length <= 253; length++ {
		deployment := strings.Repeat("a", length)
		for _, hash := range hashes {
			pod := podNameOf(deployment, hash)
			assert.True(t, matches(deployment, pod), "%d characters: %s", length, pod)
		}
	}
	dotted := "www.example.com"
	assert.True(t, matches(dotted, podNameOf(dotted, 42)))
	assert.False(t, matches(dotted, strings.ReplaceAll(podNameOf(dotted, 42), ".", "x")))
}

func TestPodNamesAreNotThoseOfOtherPods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ deployment, pod string }{
		"a Deployment with a longer name":          {"web", podNameOf("web-api", 4294967295)},
		"one whose name goes on like a hash":       {"web", podNameOf("web-bcdfg", 4294967295)},
		"a Deployment with a shorter name":         {"web-api", podNameOf("web", 4294967295)},
		"one whose name ends the same":             {"api", podNameOf("web-api", 4294967295)},
		"a StatefulSet":                            {"web", "web-0"},
		"a DaemonSet or a Job":                     {"web", "web-x7k2p"},
		"a pod of the same name":                   {"web", "web"},
		"a hash with a vowel":                      {"web", "web-5d8a7c9b6d-x7k2p"},
		"a hash that is too long":                  {"web", "web-5d8f7c9b6d2-x7k2p"},
		"another long name":                        {strings.Repeat("a", 50), podNameOf(strings.Repeat("a", 50)+"-b", 4294967295)},
		"a long name that goes on":                 {strings.Repeat("a", 46), podNameOf(strings.Repeat("a", 46)+"-bc", 4294967295)},
		"a long name without a hash":               {strings.Repeat("a", 50), strings.Repeat("a", 50) + "x7k2p"},
		"a Job of a long name":                     {strings.Repeat("a", 50), strings.Repeat("a", 50) + "-x7k2p"},
		"a long name with a hash that is too long": {strings.Repeat("a", 47), strings.Repeat("a", 47) + "-5d8f7c9b6d-x7k2p"},
	} {
		assert.False(t, matches(test.deployment, test.pod), "%s: %s has %s", name, podNames(test.deployment), test.pod)
	}
}
