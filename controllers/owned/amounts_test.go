package owned

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/apis/container"
	"example.com/upright/internal/ssa"
	"example.com/upright/internal/testenv"
)

// TestAmountInAnyNotationIsAppliedOnce applies amounts that the API server stores in another
// notation, or rounds.
func TestAmountInAnyNotationIsAppliedOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		c := newDirectClient(t, interceptor.Funcs{})
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		for name, amounts := range map[string]corev1.ResourceList{
			"cpu below a milli":         {corev1.ResourceCPU: resource.MustParse("0.0001")},
			"cpu of a fraction":         {corev1.ResourceCPU: resource.MustParse("10500u")},
			"cpu in nanos":              {corev1.ResourceCPU: resource.MustParse("1n")},
			"cpu with an exponent":      {corev1.ResourceCPU: resource.MustParse("1e-4")},
			"cpu with decimals":         {corev1.ResourceCPU: resource.MustParse("0.50")},
			"half a byte":               {corev1.ResourceMemory: resource.MustParse("0.5")},
			"memory below a milli":      {corev1.ResourceMemory: resource.MustParse("0.0001")},
			"memory of a binary part":   {corev1.ResourceMemory: resource.MustParse("0.00001Ki")},
			"memory of a binary half":   {corev1.ResourceMemory: resource.MustParse("1.5Ki")},
			"memory with an exponent":   {corev1.ResourceMemory: resource.MustParse("1e6")},
			"memory with a small part":  {corev1.ResourceMemory: resource.MustParse("1048576.0001")},
			"memory in another suffix":  {corev1.ResourceMemory: resource.MustParse("1024Mi")},
			"memory in a small suffix":  {corev1.ResourceMemory: resource.MustParse("1048576m")},
			"memory with a binary part": {corev1.ResourceMemory: resource.MustParse("1.0001Mi")},
		} {
			t.Run(name, func(t *testing.T) {
				desired := func() *appsv1ac.DeploymentApplyConfiguration {
					*kind.resources(obj) = container.Resources{Requests: amountsOf(amounts)}
					return kind.desired(obj)
				}
				require.NoError(t, c.Apply(t.Context(), desired(), client.FieldOwner("upright-test"), client.ForceOwnership))
				live := &appsv1.Deployment{}
				require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, live))
				drifted, err := ssa.WouldChange(live, desired())
				require.NoError(t, err)
				assert.False(t, drifted, "%v is stored as %v", amounts, live.Spec.Template.Spec.Containers[0].Resources.Requests)
			})
		}
	})
}

// amountsOf returns the amounts of a resource list as a user writes them.
func amountsOf(list corev1.ResourceList) container.Amounts {
	var amounts container.Amounts
	if cpu, isSet := list[corev1.ResourceCPU]; isSet {
		amounts.CPU = &cpu
	}
	if memory, isSet := list[corev1.ResourceMemory]; isSet {
		amounts.Memory = &memory
	}
	return amounts
}
