package apis_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rule is a validation rule with a valid spec, an invalid spec, and the message for the invalid spec.
type rule struct {
	name, valid, invalid, message string
}

// assertRules creates an object with each valid spec and each invalid spec.
func assertRules(t *testing.T, kind string, rules []rule) {
	t.Helper()
	namespace := env.Namespace(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			require.NoError(t, createStrictly(t, object(t, namespace, kind, r.valid)))
			assert.ErrorContains(t, createStrictly(t, object(t, namespace, kind, r.invalid)), r.message)
		})
	}
}

// resourceRules returns the rules of spec.resources, which three kinds have in common. otherFields
// are the other required fields of the spec, followed by a comma.
func resourceRules(otherFields string) []rule {
	spec := func(resources string) string { return "{" + otherFields + "resources: " + resources + "}" }
	return []rule{
		{
			name:    "a CPU request is at most the limit",
			valid:   spec("{requests: {cpu: 1}, limits: {cpu: 1000m}}"),
			invalid: spec("{requests: {cpu: 1001m}, limits: {cpu: 1}}"),
			message: "resources.requests.cpu must be at most resources.limits.cpu: raise the limit or lower the request",
		},
		{
			name:    "a memory request is at most the limit",
			valid:   spec("{requests: {memory: 1Gi}, limits: {memory: 1024Mi}}"),
			invalid: spec("{requests: {memory: 1025Mi}, limits: {memory: 1Gi}}"),
			message: "resources.requests.memory must be at most resources.limits.memory: raise the limit or lower the request",
		},
		{
			name:    "there are only requests and limits",
			valid:   spec("{limits: {memory: 64Mi}}"),
			invalid: spec("{claims: [{name: gpu}]}"),
			message: `unknown field "spec.resources.claims"`,
		},
		{
			name:    "requests have only cpu and memory",
			valid:   spec("{requests: {cpu: 10m, memory: 64Mi}}"),
			invalid: spec("{requests: {ephemeral-storage: 1Gi}}"),
			message: `unknown field "spec.resources.requests.ephemeral-storage"`,
		},
		{
			name:    "limits have only cpu and memory",
			valid:   spec("{limits: {cpu: 10m, memory: 64Mi}}"),
			invalid: spec("{limits: {nvidia.com/gpu: 1}}"),
			message: `unknown field "spec.resources.limits.nvidia.com/gpu"`,
		},
		{
			name:    "an amount of CPU is not negative",
			valid:   spec("{requests: {cpu: 0}}"),
			invalid: spec("{requests: {cpu: -1}}"),
			message: "cpu must be from 0 to 1M cores: use an amount such as 250m",
		},
		{
			name:    "an amount of CPU is at most 1M cores",
			valid:   spec("{limits: {cpu: 1M}}"),
			invalid: spec("{limits: {cpu: 1000001}}"),
			message: "cpu must be from 0 to 1M cores: use an amount such as 250m",
		},
		{
			name:    "an amount of memory is not negative",
			valid:   spec("{limits: {memory: 0}}"),
			invalid: spec("{limits: {memory: -1Mi}}"),
			message: "memory must be from 0 to 1Ei bytes: use an amount such as 64Mi",
		},
		{
			name:    "an amount of memory is at most 1Ei",
			valid:   spec("{requests: {memory: 1Ei}}"),
			invalid: spec("{requests: {memory: '1e19'}}"),
			message: "memory must be from 0 to 1Ei bytes: use an amount such as 64Mi",
		},
		{
			name:    "an amount is a quantity",
			valid:   spec("{requests: {memory: 1e6}}"),
			invalid: spec("{requests: {memory: plenty}}"),
			message: "spec.resources.requests.memory",
		},
	}
}

func TestBusyboxRejectsInvalidSpec(t *testing.T) {
	t.Parallel()
	assertRules(t, "Busybox", append(resourceRules(""),
		rule{"size is 0 or more", "{size: 0}", "{size: -1}", "size must be 0 or more: use 0 to run no pods"},
		rule{"image has no spaces", "{image: 'registry.example/busybox@sha256:ab'}", "{image: 'busy box'}",
			"image must be an image reference without spaces, such as busybox:1.37.0"},
		rule{"image is not empty", "{image: a}", "{image: ''}", "image must be an image reference without spaces"},
		rule{"image has at most 1024 characters", "{image: " + strings.Repeat("a", 1024) + "}", "{image: " + strings.Repeat("a", 1025) + "}",
			"may not be more than 1024"},
	))
}

func TestMemcachedRejectsInvalidSpec(t *testing.T) {
	t.Parallel()
	assertRules(t, "Memcached", append(resourceRules(""),
		rule{"size is at least 1", "{size: 1}", "{size: 0}", "size must be 1, 2 or 3"},
		rule{"size is at most 3", "{size: 3}", "{size: 4}", "size must be 1, 2 or 3"},
		rule{"image is not empty", "{image: a}", "{image: ''}", "image must be an image reference without spaces"},
		rule{"image has no spaces", "{image: 'memcached:1.6.26-alpine3.19'}", "{image: ' memcached'}",
			"image must be an image reference without spaces, such as memcached:1.6.26-alpine3.19"},
		rule{"image has at most 1024 characters", "{image: " + strings.Repeat("a", 1024) + "}", "{image: " + strings.Repeat("a", 1025) + "}",
			"may not be more than 1024"},
	))
}

func TestFooRejectsInvalidSpec(t *testing.T) {
	t.Parallel()
	assertRules(t, "Foo", append(resourceRules("deploymentName: a, "),
		rule{"deploymentName is required", "{deploymentName: a}", "{}", "spec.deploymentName: Required value"},
		rule{"deploymentName is a valid Deployment name", "{deploymentName: web-1.blue}", "{deploymentName: Web_1}",
			"deploymentName must be a valid Deployment name: use lowercase letters, digits, '-' and '.', and start and end with a letter or digit"},
		rule{"deploymentName is not empty", "{deploymentName: a}", "{deploymentName: ''}", "deploymentName must be a valid Deployment name"},
		rule{"deploymentName is at most as long as a label", "{deploymentName: " + strings.Repeat("a", 63) + "}",
			"{deploymentName: " + strings.Repeat("a", 64) + "}", "may not be more than 63"},
		rule{"replicas is 0 or more", "{deploymentName: a, replicas: 0}", "{deploymentName: a, replicas: -1}",
			"replicas must be 0 or more: use 0 to run no pods"},
	))
}

func TestVerticalScalerRejectsInvalidSpec(t *testing.T) {
	t.Parallel()
	policy := func(fields string) string {
		return "{deploymentName: web, containerPolicies: [{containerName: app, " + fields + "}]}"
	}
	policies := func(list string) string { return "{deploymentName: web, containerPolicies: [" + list + "]}" }
	var many []string
	for i := range 65 {
		many = append(many, "{containerName: c"+strings.Repeat("x", i%60)+string(rune('a'+i/60))+"}")
	}
	assertRules(t, "VerticalScaler", []rule{
		{"deploymentName is required", "{deploymentName: web}", "{}", "spec.deploymentName: Required value"},
		{"deploymentName is a valid Deployment name", "{deploymentName: web-1.blue}", "{deploymentName: -web}",
			"deploymentName must be a valid Deployment name: use lowercase letters, digits, '-' and '.', and start and end with a letter or digit"},
		{"deploymentName is at most as long as a Deployment name", "{deploymentName: " + strings.Repeat("a", 253) + "}",
			"{deploymentName: " + strings.Repeat("a", 254) + "}", "may not be more than 253"},
		{"updateMode is one of four values", "{deploymentName: web, updateMode: Initial}", "{deploymentName: web, updateMode: Auto}",
			`supported values: "Off", "Initial", "InPlace", "InPlaceOrRollout"`},
		{"suspend is a boolean", "{deploymentName: web, suspend: true}", "{deploymentName: web, suspend: maybe}", "must be of type boolean"},
		{"a container has one policy", policies("{containerName: a}, {containerName: '*'}"),
			policies("{containerName: a}, {containerName: a}"), "Duplicate value"},
		{"a policy has a container name", policies("{containerName: '*'}"), policies("{mode: Off}"), "containerName: Required value"},
		{"containerName is a valid container name", policies("{containerName: side-car}"), policies("{containerName: Side.Car}"),
			"containerName must be '*' or a valid container name: use lowercase letters, digits and '-', and start and end with a letter or digit"},
		{"there are at most 64 policies", policies(strings.Join(many[:64], ", ")), policies(strings.Join(many, ", ")),
			"must have at most 64 items"},
		{"mode is Auto or Off", policy("mode: 'Off'"), policy("mode: Initial"), `supported values: "Auto", "Off"`},
		{"minAllowed.cpu is at most maxAllowed.cpu", policy("minAllowed: {cpu: 1}, maxAllowed: {cpu: 1000m}"),
			policy("minAllowed: {cpu: 2}, maxAllowed: {cpu: 1000m}"), "minAllowed.cpu must be at most maxAllowed.cpu: lower minAllowed.cpu or raise maxAllowed.cpu"},
		{"minAllowed.memory is at most maxAllowed.memory", policy("minAllowed: {memory: 1Gi}, maxAllowed: {memory: 1024Mi}"),
			policy("minAllowed: {memory: 1Gi}, maxAllowed: {memory: 1G}"), "minAllowed.memory must be at most maxAllowed.memory: lower minAllowed.memory or raise maxAllowed.memory"},
		{"amounts of CPU are not negative", policy("minAllowed: {cpu: 0}"), policy("minAllowed: {cpu: -1}"),
			"cpu must be from 0 to 1M cores: use an amount such as 250m"},
		{"amounts of memory are not negative", policy("minAllowed: {memory: 0}"), policy("minAllowed: {memory: -1Mi}"),
			"memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"},
		{"amounts of CPU are at most 1M cores", policy("maxAllowed: {cpu: '1e6'}"), policy("maxAllowed: {cpu: 2M}"),
			"cpu must be from 0 to 1M cores: use an amount such as 250m"},
		{"amounts of memory are at most 1Ei", policy("maxAllowed: {memory: 1E}"), policy("maxAllowed: {memory: 2E}"),
			"memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"},
		{"maxAllowed.cpu is greater than 0", policy("maxAllowed: {cpu: 1m, memory: 1}"), policy("maxAllowed: {cpu: 0}"),
			"maxAllowed must be greater than 0: to leave the container unchanged, set mode to Off"},
		{"maxAllowed.memory is greater than 0", policy("maxAllowed: {memory: 1}"), policy("maxAllowed: {memory: '0'}"),
			"maxAllowed must be greater than 0: to leave the container unchanged, set mode to Off"},
		{"an amount is a quantity", policy("minAllowed: {cpu: '1.5'}"), policy("minAllowed: {cpu: lots}"), "minAllowed.cpu"},
		{"an amount has at most 32 characters", policy("minAllowed: {cpu: '" + strings.Repeat("0", 31) + "1'}"),
			policy("minAllowed: {cpu: '" + strings.Repeat("0", 32) + "1'}"), "may not be more than 32"},
		{"maxAllowed has only cpu and memory", policy("maxAllowed: {cpu: 1, memory: 1Gi}"), policy("maxAllowed: {nvidia.com/gpu: 1}"),
			`unknown field "spec.containerPolicies[0].maxAllowed.nvidia.com/gpu"`},
		{"controlledResources contains only cpu and memory", policy("controlledResources: [memory]"), policy("controlledResources: [disk]"),
			`supported values: "cpu", "memory"`},
		{"controlledResources has at least one item", policy("controlledResources: [cpu]"), policy("controlledResources: []"),
			"should have at least 1 items"},
		{"controlledResources has each item once", policy("controlledResources: [cpu, memory]"), policy("controlledResources: [cpu, cpu]"),
			"Duplicate value"},
		{"controlledValues is one of two values", policy("controlledValues: RequestsOnly"), policy("controlledValues: LimitsOnly"),
			`supported values: "RequestsAndLimits", "RequestsOnly"`},
	})
}

func TestNameLongerThanALabelIsRejected(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for _, kind := range []string{"Busybox", "Memcached"} {
		for length, want := range map[int]string{63: "", 64: "metadata.name must be at most 63 characters: use a shorter name, because it becomes a label of the pods"} {
			obj := object(t, namespace, kind, "{}")
			obj.SetGenerateName("")
			obj.SetName(strings.Repeat("a", length))
			err := createStrictly(t, obj)
			if want == "" {
				require.NoError(t, err, kind)
			} else {
				require.ErrorContains(t, err, want, kind)
			}
		}
	}
}
