package recommendation

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/rand"
)

// newPodName returns a name that Kubernetes gives a Deployment's pod. The Deployment controller
// names a ReplicaSet <deployment>-<hash> (pkg/controller/deployment/sync.go). The ReplicaSet
// controller creates a pod with the generateName <replicaset>- (pkg/controller/controller_utils.go,
// GetPodFromTemplate). The API server truncates it to make room for 5 random characters
// (k8s.io/apiserver/pkg/storage/names, SimpleNameGenerator).
func newPodName(deployment string, templateHash uint32) string {
	prefix := deployment + "-" + rand.SafeEncodeString(strconv.FormatUint(uint64(templateHash), 10)) + "-"
	return prefix[:min(len(prefix), 58)] + rand.String(5)
}

func matches(deployment, pod string) bool {
	return regexp.MustCompile("^(?:" + podNames(deployment) + ")$").MatchString(pod)
}

func TestPodNamesMatchPodsOfDeployment(t *testing.T) {
	t.Parallel()
	hashes := []uint32{0, 7, 42, 999, 12345, 678901, 2345678, 90123456, 123456789, 4294967295}
	for length := 1; length <= 253; length++ {
		deployment := strings.Repeat("a", length)
		for _, hash := range hashes {
			pod := newPodName(deployment, hash)
			assert.True(t, matches(deployment, pod), "%d characters: %s", length, pod)
		}
	}
	withDots := "www.example.com"
	assert.True(t, matches(withDots, newPodName(withDots, 42)))
	assert.False(t, matches(withDots, strings.ReplaceAll(newPodName(withDots, 42), ".", "x")))
}

func TestPodNamesDoNotMatchOtherPods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ deployment, pod string }{
		"Deployment with a longer name":             {"web", newPodName("web-api", 4294967295)},
		"Deployment whose name continues as a hash": {"web", newPodName("web-bcdfg", 4294967295)},
		"Deployment with a shorter name":            {"web-api", newPodName("web", 4294967295)},
		"Deployment whose name has the same end":    {"api", newPodName("web-api", 4294967295)},
		"StatefulSet":                               {"web", "web-0"},
		"DaemonSet or Job":                          {"web", "web-x7k2p"},
		"pod with the name of the Deployment":       {"web", "web"},
		"hash with a vowel":                         {"web", "web-5d8a7c9b6d-x7k2p"},
		"hash that is too long":                     {"web", "web-5d8f7c9b6d2-x7k2p"},
		"other long name":                           {strings.Repeat("a", 50), newPodName(strings.Repeat("a", 50)+"-b", 4294967295)},
		"long name that continues":                  {strings.Repeat("a", 46), newPodName(strings.Repeat("a", 46)+"-bc", 4294967295)},
		"long name without a hash":                  {strings.Repeat("a", 50), strings.Repeat("a", 50) + "x7k2p"},
		"Job with a long name":                      {strings.Repeat("a", 50), strings.Repeat("a", 50) + "-x7k2p"},
		"long name with a hash that is too long":    {strings.Repeat("a", 47), strings.Repeat("a", 47) + "-5d8f7c9b6d-x7k2p"},
	} {
		assert.False(t, matches(test.deployment, test.pod), "%s: %s matches %s", name, podNames(test.deployment), test.pod)
	}
}
