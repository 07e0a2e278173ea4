package sizing

import (
	"math/rand"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// limitRanges returns one LimitRange for each item. An item without a type is for containers.
func limitRanges(items ...corev1.LimitRangeItem) []corev1.LimitRange {
	ranges := make([]corev1.LimitRange, len(items))
	for i, item := range items {
		if item.Type == "" {
			item.Type = corev1.LimitTypeContainer
		}
		ranges[i].Spec.Limits = []corev1.LimitRangeItem{item}
	}
	return ranges
}

// container returns a container with requests and limits.
func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// specOf returns the spec of a scaler with a policy for the container "app".
func specOf(policy autoscalingv1beta1.ContainerPolicy) *autoscalingv1beta1.VerticalScalerSpec {
	policy.ContainerName = "app"
	return &autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{policy}}
}

// assertAmounts asserts that both lists have the same amounts, in any notation.
func assertAmounts(t *testing.T, want, got corev1.ResourceList, what string) {
	t.Helper()
	assert.Len(t, got, len(want), what)
	for name, amount := range want {
		actual := got[name]
		assert.Equal(t, amount.String(), actual.String(), "%s: %s", what, name)
	}
}

// sizingTest has a container's resources in the template and the expected size.
type sizingTest struct {
	requests, limits corev1.ResourceList
	target           corev1.ResourceList
	policy           autoscalingv1beta1.ContainerPolicy
	ranges           []corev1.LimitRange
	largestNode      corev1.ResourceList

	wantRequests, wantLimits corev1.ResourceList
}

func checkSizes(t *testing.T, tests map[string]sizingTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := container("app", test.requests, test.limits)
			before := template.DeepCopy()
			got := sizeContainer(specOf(test.policy), &template, test.target, Constraints{LimitRanges: test.ranges, LargestNode: test.largestNode})
			assert.Equal(t, "app", got.ContainerName)
			assertAmounts(t, test.wantRequests, got.Requests, "requests")
			assertAmounts(t, test.wantLimits, got.Limits, "limits")
			assert.Equal(t, before, &template, "the template must not change")
		})
	}
}

func TestLimitKeepsItsRatioToTheRequest(t *testing.T) {
	t.Parallel()
	checkSizes(t, map[string]sizingTest{
		"limit of twice the request": {
			requests: list("100m", "128Mi"), limits: list("200m", "256Mi"), target: list("300m", "512Mi"),
			wantRequests: list("300m", "512Mi"), wantLimits: list("600m", "1Gi")},
		"CPU limit is rounded up to whole milli-CPU": {
			requests: list("300m", ""), limits: list("1", ""), target: list("100m", ""),
			wantRequests: list("100m", ""), wantLimits: list("334m", "")},
		"memory limit is rounded up to whole Mi": {
			requests: list("", "300Mi"), limits: list("", "1000Mi"), target: list("", "100Mi"),
			wantRequests: list("", "100Mi"), wantLimits: list("", "334Mi")},
		"limit equal to the request stays equal, to the byte": {
			requests: list("1", "1Gi"), limits: list("1", "1Gi"), target: list("25m", "262144001"),
			wantRequests: list("25m", "262144001"), wantLimits: list("25m", "262144001")},
		"limit above the request stays above it": {
			requests: list("1000m", ""), limits: list("1001m", ""), target: list("25m", ""),
			wantRequests: list("25m", ""), wantLimits: list("26m", "")},
		"terabytes are exact to the byte": {
			requests: list("", "3Ti"), limits: list("", "5Ti"), target: list("", "900Gi"),
			wantRequests: list("", "900Gi"), wantLimits: list("", "1500Gi")},
		"memory limit above the maximum becomes the maximum": {
			requests: list("", "1"), limits: list("", "3"), target: list("", "512Pi"),
			wantRequests: list("", "512Pi"), wantLimits: list("", "1Ei")},
		"CPU limit above the maximum becomes the maximum": {
			requests: list("1m", ""), limits: list("3m", ""), target: list("1P", ""),
			wantRequests: list("1P", ""), wantLimits: list("1152921504606846976m", "")},
		"no limit": {
			requests: list("100m", "128Mi"), target: list("300m", "512Mi"), wantRequests: list("300m", "512Mi")},
		"no request and no limit": {target: list("300m", "512Mi"), wantRequests: list("300m", "512Mi")},
		"limit without a request counts as the request": {
			limits: list("1", "1Gi"), target: list("300m", "512Mi"),
			wantRequests: list("300m", "512Mi"), wantLimits: list("300m", "512Mi")},
		"limit of one resource": {
			requests: list("100m", "128Mi"), limits: list("200m", ""), target: list("300m", "512Mi"),
			wantRequests: list("300m", "512Mi"), wantLimits: list("600m", "")},
		"limit of 0 allows no request": {
			limits: list("0", "128Mi"), target: list("300m", "512Mi"),
			wantRequests: list("", "512Mi"), wantLimits: list("", "512Mi")},
		"no target": {requests: list("100m", "128Mi"), limits: list("200m", "256Mi")},
		"target for memory only": {
			requests: list("100m", "128Mi"), limits: list("200m", "256Mi"), target: list("", "512Mi"),
			wantRequests: list("", "512Mi"), wantLimits: list("", "1Gi")},
	})
}

// A limit of four times the request or more does not follow it: a multiple of such a limit would not
// protect anything, and a fraction would restrict bursts that the chart allows.
func TestWideLimitStaysUntilTheRequestComesNearIt(t *testing.T) {
	t.Parallel()
	flux := list("", "64Mi")
	checkSizes(t, map[string]sizingTest{
		"request fits under the limit": {
			requests: flux, limits: list("", "1Gi"), target: list("", "500Mi"),
			wantRequests: list("", "500Mi"), wantLimits: list("", "1Gi")},
		"request is a quarter below the limit": {
			requests: flux, limits: list("", "1000Mi"), target: list("", "800Mi"),
			wantRequests: list("", "800Mi"), wantLimits: list("", "1000Mi")},
		"request comes near the limit": {
			requests: flux, limits: list("", "1000Mi"), target: list("", "801Mi"),
			wantRequests: list("", "801Mi"), wantLimits: list("", "1002Mi")},
		"request above the limit": {
			requests: flux, limits: list("", "1Gi"), target: list("", "2Gi"),
			wantRequests: list("", "2Gi"), wantLimits: list("", "2560Mi")},
		"request below the template's": {
			requests: list("100m", "256Mi"), limits: list("1", "1Gi"), target: list("25m", "64Mi"),
			wantRequests: list("25m", "64Mi"), wantLimits: list("1", "1Gi")},
		"CPU limit of 100 times the request": {
			requests: list("10m", ""), limits: list("1", ""), target: list("500m", ""),
			wantRequests: list("500m", ""), wantLimits: list("1", "")},
		"limit of four times the request": {
			requests: list("100m", "100Mi"), limits: list("400m", "400Mi"), target: list("200m", "200Mi"),
			wantRequests: list("200m", "200Mi"), wantLimits: list("400m", "400Mi")},
		"limit of almost four times the request": {
			requests: list("100m", "100Mi"), limits: list("399m", "399Mi"), target: list("200m", "200Mi"),
			wantRequests: list("200m", "200Mi"), wantLimits: list("798m", "798Mi")},
		"limit that is not a whole Mi": {
			requests: flux, limits: list("", "1000000Ki"), target: list("", "500Mi"),
			wantRequests: list("", "500Mi"), wantLimits: list("", "1000000Ki")},
		"request of 0": {
			requests: list("0", "0"), limits: list("200m", "1Gi"), target: list("300m", "512Mi"),
			wantRequests: list("300m", "512Mi"), wantLimits: list("375m", "1Gi")},
		"LimitRange allows a lower ratio": {
			requests: list("100m", ""), limits: list("1", ""), target: list("50m", ""),
			ranges:       limitRanges(corev1.LimitRangeItem{MaxLimitRequestRatio: list("10", "")}),
			wantRequests: list("50m", ""), wantLimits: list("500m", "")},
	})
}

func TestLimitIsRaisedUpToMaxAllowedAndTheLargestNode(t *testing.T) {
	t.Parallel()
	requests, limits, target := list("100m", "128Mi"), list("200m", "256Mi"), list("500m", "1Gi")
	allowed := func(cpu, memory string) autoscalingv1beta1.ContainerPolicy {
		return autoscalingv1beta1.ContainerPolicy{MaxAllowed: amountsOf(cpu, memory)}
	}
	checkSizes(t, map[string]sizingTest{
		"maxAllowed": {
			requests: requests, limits: limits, target: target, policy: allowed("800m", "1536Mi"),
			wantRequests: target, wantLimits: list("800m", "1536Mi")},
		"largest node": {
			requests: requests, limits: limits, target: target, largestNode: list("900m", "1100Mi"),
			wantRequests: target, wantLimits: list("900m", "1100Mi")},
		"the lower of both": {
			requests: requests, limits: limits, target: target, policy: allowed("800m", "2Gi"), largestNode: list("4", "1100Mi"),
			wantRequests: target, wantLimits: list("800m", "1100Mi")},
		"maxAllowed for one resource": {
			requests: requests, limits: limits, target: target, policy: allowed("800m", ""),
			wantRequests: target, wantLimits: list("800m", "2Gi")},
		"limit stays above a request at maxAllowed, as the QoS class requires": {
			requests: requests, limits: limits, target: target, policy: allowed("500m", "1Gi"),
			wantRequests: target, wantLimits: list("501m", "1025Mi")},
		"limit that equals the request stays equal": {
			requests: requests, limits: requests, target: target, policy: allowed("500m", "1Gi"), largestNode: target,
			wantRequests: target, wantLimits: target},
		"wide limit that is raised": {
			requests: list("10m", "16Mi"), limits: list("200m", "256Mi"), target: target, policy: allowed("600m", "1200Mi"),
			wantRequests: target, wantLimits: list("600m", "1200Mi")},
		"the template's own limit is not lowered": {
			requests: requests, limits: list("300m", "384Mi"), target: list("110m", "130Mi"),
			policy: allowed("150m", "200Mi"), largestNode: list("150m", "200Mi"),
			wantRequests: list("110m", "130Mi"), wantLimits: list("300m", "384Mi")},
	})
}

func TestContainerPolicySelectsWhatIsSized(t *testing.T) {
	t.Parallel()
	requestsOnly := autoscalingv1beta1.ContainerPolicy{ControlledValues: autoscalingv1beta1.ControlledValuesRequestsOnly}
	requests, limits, target := list("100m", "128Mi"), list("200m", "256Mi"), list("300m", "192Mi")
	checkSizes(t, map[string]sizingTest{
		"mode Off": {
			requests: requests, limits: limits, target: target,
			policy: autoscalingv1beta1.ContainerPolicy{Mode: autoscalingv1beta1.ContainerModeOff}},
		"mode Auto": {
			requests: requests, limits: limits, target: target,
			policy:       autoscalingv1beta1.ContainerPolicy{Mode: autoscalingv1beta1.ContainerModeAuto},
			wantRequests: target, wantLimits: list("600m", "384Mi")},
		"controlled resources": {
			requests: requests, limits: limits, target: target,
			policy: autoscalingv1beta1.ContainerPolicy{
				ControlledResources: []autoscalingv1beta1.ControlledResource{"memory"}},
			wantRequests: list("", "192Mi"), wantLimits: list("", "384Mi")},
		// A request that equals the limit could change the QoS class of the pod.
		"requests only, up to just below the limit": {
			requests: requests, limits: limits, target: list("300m", "256Mi"), policy: requestsOnly, wantRequests: list("199m", "255Mi")},
		"requests only, up to the limit if that is the request": {
			requests: limits, limits: limits, target: target, policy: requestsOnly, wantRequests: list("200m", "192Mi")},
		"requests only, not below the template's request": {
			requests: list("", "262144k"), limits: list("", "262145k"), target: list("", "1Gi"), policy: requestsOnly,
			wantRequests: list("", "256000Ki")},
		"requests only, up to a default limit": {
			target: target, policy: requestsOnly, ranges: limitRanges(corev1.LimitRangeItem{Default: list("250m", "1Gi")}),
			wantRequests: list("250m", "192Mi")},
		"requests only, without a limit": {
			requests: requests, target: target, policy: requestsOnly, wantRequests: target},
		// A limit of 200m is four times a request of 50m.
		"requests only, as low as the maximum ratio allows": {
			requests: requests, limits: limits, target: list("10m", "10Mi"), policy: requestsOnly,
			ranges:       limitRanges(corev1.LimitRangeItem{MaxLimitRequestRatio: list("4", "2.5")}),
			wantRequests: list("50m", "107374183")},
	})
}

func TestContainerIgnoresPolicyOfAnotherContainer(t *testing.T) {
	t.Parallel()
	spec := specOf(autoscalingv1beta1.ContainerPolicy{Mode: autoscalingv1beta1.ContainerModeOff})
	sidecar := container("sidecar", nil, nil)
	assertAmounts(t, list("1", ""), sizeContainer(spec, &sidecar, list("1", ""), Constraints{}).Requests, "requests")
}

func TestSizeIsWithinAllLimitRangesForContainers(t *testing.T) {
	t.Parallel()
	requests, limits := list("100m", "128Mi"), list("200m", "256Mi")
	ratio := func(cpu, memory string) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{MaxLimitRequestRatio: list(cpu, memory)}
	}
	checkSizes(t, map[string]sizingTest{
		"limit above the max": {
			requests: requests, limits: limits, target: list("300m", "512Mi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Max: list("500m", "700Mi")}),
			wantRequests: list("300m", "512Mi"), wantLimits: list("500m", "700Mi")},
		"lowest max of several": {
			requests: requests, limits: limits, target: list("300m", "512Mi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Max: list("500m", "2Gi")}, corev1.LimitRangeItem{Max: list("2", "700Mi")}),
			wantRequests: list("300m", "512Mi"), wantLimits: list("500m", "700Mi")},
		"request above the max": {
			requests: requests, limits: limits, target: list("2", "2Gi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Max: list("1", "1Gi")}),
			wantRequests: list("999m", "1023Mi"), wantLimits: list("1", "1Gi")},
		"request above the max, equal to the limit": {
			requests: limits, limits: limits, target: list("2", "2Gi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Max: list("1", "1Gi")}),
			wantRequests: list("1", "1Gi"), wantLimits: list("1", "1Gi")},
		"only one amount allowed": {
			requests: list("1", "1Gi"), limits: list("2", "2Gi"), target: list("2", "2Gi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Min: list("1", "1Gi"), Max: list("1", "1Gi")}),
			wantRequests: list("1", "1Gi"), wantLimits: list("1", "1Gi")},
		"request above the max without a limit": {
			requests: requests, target: list("2", "2Gi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Max: list("1", "1Gi")}),
			wantRequests: list("1", "1Gi")},
		"request below the min": {
			requests: requests, limits: limits, target: list("10m", "16Mi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Min: list("20m", "32Mi")}),
			wantRequests: list("20m", "32Mi"), wantLimits: list("40m", "64Mi")},
		"highest min of several": {
			requests: requests, target: list("10m", "16Mi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Min: list("20m", "8Mi")}, corev1.LimitRangeItem{Min: list("5m", "32Mi")}),
			wantRequests: list("20m", "32Mi")},
		// 1.5 times 3Mi is rounded up to 5Mi; 1.5 times 1m to 2m.
		"limit that rounding lifts above the maximum ratio": {
			requests: list("2m", "3Mi"), limits: list("3m", "4608Ki"), target: list("1m", "3Mi"), ranges: limitRanges(ratio("1.5", "1.5")),
			wantRequests: list("1m", "3Mi"), wantLimits: list("1m", "4608Ki")},
		"lowest ratio of several": {
			requests: requests, limits: limits, target: list("300m", "512Mi"),
			ranges:       limitRanges(ratio("3", "1.5"), ratio("1.5", "3")),
			wantRequests: list("300m", "512Mi"), wantLimits: list("450m", "768Mi")},
		"default limit keeps its ratio to the default request": {
			target: list("300m", "512Mi"),
			ranges: limitRanges(corev1.LimitRangeItem{
				Default: list("400m", "256Mi"), DefaultRequest: list("200m", "256Mi")}),
			wantRequests: list("300m", "512Mi"), wantLimits: list("600m", "512Mi")},
		"default request is ignored if the container has a limit": {
			limits: list("1", ""), target: list("300m", ""),
			ranges:       limitRanges(corev1.LimitRangeItem{DefaultRequest: list("100m", "")}),
			wantRequests: list("300m", ""), wantLimits: list("300m", "")},
		"default is ignored if the container has its own value": {
			requests: requests, limits: limits, target: list("300m", "512Mi"),
			ranges:       limitRanges(corev1.LimitRangeItem{Default: list("4", "4Gi"), DefaultRequest: list("1m", "1Mi")}),
			wantRequests: list("300m", "512Mi"), wantLimits: list("600m", "1Gi")},
		"first default of several": {
			target:       list("300m", ""),
			ranges:       limitRanges(corev1.LimitRangeItem{Default: list("400m", "")}, corev1.LimitRangeItem{Default: list("4", ""), DefaultRequest: list("200m", "")}),
			wantRequests: list("300m", ""), wantLimits: list("600m", "")},
		"items for pods are ignored": {
			requests: requests, limits: limits, target: list("300m", "512Mi"),
			ranges: limitRanges(corev1.LimitRangeItem{
				Type: corev1.LimitTypePod, Min: list("1", "1Gi"), Max: list("1m", "1Mi"), MaxLimitRequestRatio: list("1", "1")}),
			wantRequests: list("300m", "512Mi"), wantLimits: list("600m", "1Gi")},
	})
}

// randomAmount returns an amount of a random order of magnitude.
func randomAmount(r *rand.Rand) int64 { return r.Int63n(1 << (1 + r.Intn(42))) }

func TestPropertySizeIsWithinLimitAndLimitRange(t *testing.T) {
	t.Parallel()
	property := func(seed int64, requestsOnly bool) bool {
		r := rand.New(rand.NewSource(seed))
		bytes := func(amount int64) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(amount, resource.BinarySI)}
		}
		// The container's own resources are within the LimitRange. Otherwise, the pod would not exist.
		lower := randomAmount(r)
		request := lower + randomAmount(r)
		limit := request + randomAmount(r)
		upper := max(1, limit+randomAmount(r))
		policy := autoscalingv1beta1.ContainerPolicy{}
		highest := randomAmount(r)
		if r.Intn(2) > 0 {
			policy.MaxAllowed = &autoscalingv1beta1.ResourceAmounts{Memory: resource.NewQuantity(max(1, highest), resource.BinarySI)}
		}
		if requestsOnly {
			policy.ControlledValues = autoscalingv1beta1.ControlledValuesRequestsOnly
		}
		template := container("app", bytes(request), nil)
		if limit > 0 && r.Intn(4) > 0 {
			template.Resources.Limits = bytes(limit)
		}
		size := sizeContainer(specOf(policy), &template, bytes(randomAmount(r)),
			Constraints{LimitRanges: limitRanges(corev1.LimitRangeItem{Min: bytes(lower), Max: bytes(upper)})})

		sized := withSize(template.Resources, size)
		newRequest, newLimit := sized.Requests.Memory().Value(), sized.Limits.Memory().Value()
		hasLimit := template.Resources.Limits != nil
		return assert.True(t, lower <= newRequest && newRequest <= upper, "request %d, LimitRange %d to %d", newRequest, lower, upper) &&
			assert.True(t, !hasLimit || newRequest <= newLimit && newLimit <= upper,
				"request %d, limit %d, LimitRange max %d", newRequest, newLimit, upper) &&
			assert.True(t, request != limit || requestsOnly || !hasLimit || newRequest == newLimit,
				"request %d and limit %d were equal", newRequest, newLimit) &&
			assert.True(t, request == limit || requestsOnly || !hasLimit || newRequest < newLimit || newRequest <= lower || newLimit <= mebi,
				"request %d and limit %d were not equal", newRequest, newLimit) &&
			assert.True(t, policy.MaxAllowed == nil || requestsOnly || !hasLimit ||
				newLimit <= max(highest, limit, newRequest+mebi, lower),
				"request %d, limit %d, limit in the template %d, maxAllowed %d", newRequest, newLimit, limit, highest)
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 5000, Rand: rand.New(rand.NewSource(1))}))
}
