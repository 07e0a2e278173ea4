package verticalscaler

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// creationTest has the entry of a container in the table, the container's own resources in a new
// pod, and those that it gets.
type creationTest struct {
	entry     autoscalingv1beta1.ContainerSize
	own, want corev1.ResourceRequirements
}

// resources returns requests and limits of the same amount of CPU and MiB of memory.
func resources(request, limit string) corev1.ResourceRequirements {
	list := func(amount string) corev1.ResourceList {
		if amount == "" {
			return nil
		}
		return testenv.Amounts(amount+"m", amount+"Mi")
	}
	return corev1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
}

// entry returns the size of a container that requests 250.
func entry(limit, templateLimit string) autoscalingv1beta1.ContainerSize {
	size := resources("250", limit)
	return autoscalingv1beta1.ContainerSize{Requests: size.Requests, Limits: size.Limits, TemplateLimits: resources("", templateLimit).Limits}
}

// creationTests have new pods whose template is, or is not, the one that the entry in the table was
// computed from.
func creationTests() map[string]creationTest {
	above, equal, requestsOnly := entry("500", "200"), entry("250", "200"), entry("", "")
	return map[string]creationTest{
		"same template":                               {above, resources("100", "200"), resources("250", "500")},
		"another limit":                               {above, resources("100", "300"), resources("250", "300")},
		"limit that is now equal to the request":      {above, resources("200", "200"), resources("200", "200")},
		"another limit, equal to the request":         {above, resources("300", "300"), resources("300", "300")},
		"another limit, equal to the entry's request": {above, resources("100", "250"), resources("100", "250")},
		"no limit":                                         {above, resources("100", ""), resources("250", "")},
		"limit without templateLimits":                     {entry("500", ""), resources("100", "300"), resources("250", "300")},
		"Guaranteed":                                       {equal, resources("200", "200"), resources("250", "250")},
		"Guaranteed, limit without a request":              {equal, resources("", "200"), resources("250", "250")},
		"Guaranteed, another limit":                        {equal, resources("300", "300"), resources("300", "300")},
		"no longer Guaranteed":                             {equal, resources("100", "200"), resources("100", "200")},
		"no longer Guaranteed, another limit":              {equal, resources("100", "300"), resources("250", "300")},
		"requests only":                                    {requestsOnly, resources("100", "400"), resources("250", "400")},
		"requests only, limit equal to the request":        {requestsOnly, resources("400", "400"), resources("250", "400")},
		"requests only, limit equal to the entry's":        {requestsOnly, resources("100", "250"), resources("250", "250")},
		"requests only, limit below the entry's request":   {requestsOnly, resources("100", "200"), resources("100", "200")},
		"entry whose request exceeds its limit by mistake": {entry("240", "200"), resources("100", "200"), resources("100", "240")},
	}
}

func TestEntryOfAnotherTemplateKeepsLimitsAndQoSClass(t *testing.T) {
	t.Parallel()
	for name, test := range creationTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			testenv.Create(t, env, &autoscalingv1beta1.SizeTable{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName},
				Deployments: map[string]autoscalingv1beta1.PodSize{
					"web": {"web": test.entry, "probe": {Requests: huge}},
				},
			})
			pod := testenv.NewPod(namespace, "web", "", "web", "probe")
			pod.GenerateName, pod.Name = pod.Name, ""
			pod.Spec.Containers[0].Resources = test.own
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				created := pod.DeepCopy()
				if assert.NoError(c, env.Client.Create(context.Background(), created, client.DryRunAll)) {
					testenv.AssertSameJSON(c, huge, created.Spec.Containers[1].Resources.Requests)
					testenv.AssertSameJSON(c, test.want, created.Spec.Containers[0].Resources)
				}
			}, testenv.Timeout, testenv.Poll)
		})
	}
}

// TestPolicyAndComparisonAgree shows that a pod which did not get a request was not meant to.
func TestPolicyAndComparisonAgree(t *testing.T) {
	t.Parallel()
	for name, test := range creationTests() {
		own := test.own
		if own.Requests == nil {
			own.Requests = own.Limits // The API server's default.
		}
		isSized := assert.ObjectsAreEqual(test.entry.Requests, test.want.Requests)
		assert.Equal(t, isSized, getsRequest(own, test.entry, corev1.ResourceCPU), name)
		pod := testenv.NewPod("default", "web", "")
		for resources, want := range map[*corev1.ResourceRequirements]bool{&test.want: true, &own: !isSized} {
			pod.Spec.Containers = []corev1.Container{{Name: "web", Resources: *resources}}
			assert.Equal(t, want, hasSize(pod, autoscalingv1beta1.PodSize{"web": test.entry}), name)
		}
	}
}
