package apis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// undecodable are amounts that are close to valid ones. The manager cannot decode them, or the
// decoding takes forever.
var undecodable = []string{"1e1.5", "1e99999999999999999999", "1e2147483648", "1e-2147483648", "1E100000000", "1e+1000000000", "1e100"}

func TestAmountsThatCannotBeDecodedAreRejected(t *testing.T) {
	t.Parallel()
	const (
		cpu       = "cpu must be from 0 to 1M cores: use an amount such as 250m"
		memory    = "memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"
		tolerance = "tolerance must be a fraction from 0 to 10, such as 0.1 for 10%"
	)
	for name, field := range map[string]struct{ kind, spec, message string }{
		"request of a Busybox":   {"Busybox", "{resources: {requests: {cpu: AMOUNT}}}", cpu},
		"limit of a Busybox":     {"Busybox", "{resources: {limits: {memory: AMOUNT}}}", memory},
		"both of a Busybox":      {"Busybox", "{resources: {requests: {cpu: AMOUNT}, limits: {cpu: AMOUNT}}}", cpu},
		"request of a Memcached": {"Memcached", "{resources: {requests: {memory: AMOUNT}}}", memory},
		"both of a Memcached":    {"Memcached", "{resources: {requests: {memory: AMOUNT}, limits: {memory: AMOUNT}}}", memory},
		"limit of a Foo":         {"Foo", "{deploymentName: web, resources: {limits: {cpu: AMOUNT}}}", cpu},
		"minAllowed":             {"VerticalScaler", "{deploymentName: web, containerPolicies: [{containerName: app, minAllowed: {cpu: AMOUNT}}]}", cpu},
		"maxAllowed":             {"VerticalScaler", "{deploymentName: web, containerPolicies: [{containerName: app, maxAllowed: {memory: AMOUNT}}]}", memory},
		"podMinimum":             {"VerticalScaler", "{deploymentName: web, recommendation: {podMinimum: {cpu: AMOUNT}}}", cpu},
		"tolerance up":           {"VerticalScaler", "{deploymentName: web, behavior: {scaleUp: {tolerance: AMOUNT}}}", tolerance},
		"tolerance down":         {"VerticalScaler", "{deploymentName: web, behavior: {scaleDown: {tolerance: AMOUNT}}}", tolerance},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := env.Namespace(t)
			require.NoError(t, createStrictly(t, object(t, namespace, field.kind, strings.ReplaceAll(field.spec, "AMOUNT", "1"))))
			for _, amount := range undecodable {
				if len(amount) > 16 && field.message == tolerance {
					continue // Too long for a tolerance, whatever it is.
				}
				quoted := fmt.Sprintf("%q", amount)
				err := createStrictly(t, object(t, namespace, field.kind, strings.ReplaceAll(field.spec, "AMOUNT", quoted)))
				assert.ErrorContains(t, err, field.message, amount)
			}
		})
	}
}

func TestAcceptedAmountsCanBeDecoded(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for _, amount := range []string{"1", "+1", "1.", ".5", "1.5", "1m", "100k", "1M", "1Ki", "1e6", "1E-99", "0e99", "0.000000000000000000000000001"} {
		obj := object(t, namespace, "Busybox", fmt.Sprintf("{resources: {requests: {cpu: %q, memory: %q}}}", amount, amount))
		require.NoError(t, createStrictly(t, obj), amount)
		assert.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), &examplev1alpha1.Busybox{}), amount)
	}
}

func TestNumbersOutsideInt32AreRejected(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[string]string{
		"Busybox":        "{size: 2147483648}",
		"Foo":            "{deploymentName: web, replicas: 2147483648}",
		"Memcached":      "{size: 2147483648}",
		"VerticalScaler": "{deploymentName: web, behavior: {rollout: {cooldownSeconds: 2147483648}}}",
	} {
		assert.Error(t, createStrictly(t, object(t, env.Namespace(t), kind, spec)), kind)
	}
}
