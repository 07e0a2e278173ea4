package sizing

import (
	"math"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Container returns what a container of a new pod gets, given what it has in the Deployment's
// template and what it should request. There is nothing in it where the scaler's policy leaves
// the container alone, or where no target is known.
//
// The limit keeps its proportion to the request, unless the policy sizes requests only. A
// request never exceeds the limit that the container ends up with, nor do the two leave what
// the LimitRanges allow: such a pod would be refused. So would one that requests anything of a
// resource that it limits to nothing.
func Container(
	spec *autoscalingv1beta1.VerticalScalerSpec, template *corev1.Container, target corev1.ResourceList, ranges []corev1.LimitRange,
) autoscalingv1beta1.ContainerSizing {
	size := autoscalingv1beta1.ContainerSizing{ContainerName: template.Name}
	policy := policyOf(spec, template.Name)
	if policy != nil && policy.Mode == autoscalingv1beta1.ContainerModeOff {
		return size
	}
	requestsOnly := policy != nil && policy.ControlledValues == autoscalingv1beta1.ControlledValuesRequestsOnly
	has := withDefaults(template.Resources, ranges)
	for _, r := range sizedResources {
		request, isKnown := target[r.name]
		if !isKnown || !controls(policy, r.name) {
			continue
		}
		was := r.pairOf(has)
		if _, isLimited := has.Limits[r.name]; isLimited && was.limit == 0 {
			continue
		}
		now := was.sized(r, r.amount(&request), requestsOnly, limitsAllowed(ranges, r))
		r.put(&size.Requests, now.request)
		if !requestsOnly && now.limit > 0 {
			r.put(&size.Limits, now.limit)
		}
	}
	return size
}

// controls reports whether a policy sizes a resource; without one, all are.
func controls(policy *autoscalingv1beta1.ContainerPolicy, name corev1.ResourceName) bool {
	return policy == nil || len(policy.ControlledResources) == 0 ||
		slices.Contains(policy.ControlledResources, autoscalingv1beta1.ControlledResource(name))
}

// sizedResource is a resource that is sized, in milli-CPU or bytes.
type sizedResource struct {
	name   corev1.ResourceName
	amount func(*resource.Quantity) int64
	step   int64 // Limits are rounded up to a multiple of it.
}

var (
	cpu    = sizedResource{name: corev1.ResourceCPU, amount: (*resource.Quantity).MilliValue, step: 1}
	memory = sizedResource{name: corev1.ResourceMemory, amount: (*resource.Quantity).Value, step: 1 << 20}

	sizedResources = [...]sizedResource{cpu, memory}
)

// quantity returns an amount of the resource.
func (r sizedResource) quantity(amount int64) *resource.Quantity {
	if r.name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	return resource.NewQuantity(amount, resource.BinarySI)
}

// of returns how much a list has of the resource, 0 where it has none.
func (r sizedResource) of(list corev1.ResourceList) int64 {
	quantity := list[r.name]
	return r.amount(&quantity)
}

// put adds an amount of the resource to a list.
func (r sizedResource) put(list *corev1.ResourceList, amount int64) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[r.name] = *r.quantity(amount)
}

// pair is a request and a limit; 0 where there is none.
type pair struct {
	request, limit int64
}

// pairOf returns a container's request and limit. A limit without a request is its own request.
func (r sizedResource) pairOf(has corev1.ResourceRequirements) pair {
	p := pair{request: r.of(has.Requests), limit: r.of(has.Limits)}
	if _, isSet := has.Requests[r.name]; !isSet {
		p.request = p.limit
	}
	return p
}

// sized returns the pair for another request.
func (p pair) sized(r sizedResource, request int64, requestsOnly bool, allowed limits) pair {
	request = allowed.clamp(request)
	if p.limit == 0 {
		return pair{request: request}
	}
	if requestsOnly {
		if allowed.ratio > 0 {
			request = max(request, int64(math.Ceil(float64(p.limit)/allowed.ratio)))
		}
		return pair{request: min(request, p.limit), limit: p.limit}
	}
	limit := max(request, p.limit)
	if p.request > 0 {
		limit = inProportion(request, p.limit, p.request)
	}
	if limit != request {
		limit = (limit + r.step - 1) / r.step * r.step
	}
	limit = allowed.clamp(limit)
	request = min(request, limit)
	if allowed.ratio > 0 {
		limit = max(request, min(limit, int64(float64(request)*allowed.ratio)))
	}
	return pair{request, limit}
}

// endless is a limit that nothing reaches: an exbibyte, or a million billion cores.
const endless = 1 << 60

// inProportion returns amount * of / to, rounded up, and no more than endless. The product may
// take more than 64 bits, and so may the quotient where next to nothing is requested.
func inProportion(amount, of, to int64) int64 {
	high, low := bits.Mul64(uint64(amount), uint64(of))
	low, carry := bits.Add64(low, uint64(to-1), 0)
	if high += carry; high >= uint64(to) {
		return endless
	}
	quotient, _ := bits.Div64(high, low, uint64(to))
	return int64(min(quotient, endless))
}

// limits is what LimitRanges allow the requests and limits of a container.
type limits struct {
	least int64
	most  int64   // 0 for any.
	ratio float64 // The most that a limit may be of its request; 0 for any.
}

// clamp returns the amount that is allowed and closest.
func (l limits) clamp(amount int64) int64 {
	amount = max(amount, l.least)
	if l.most > 0 {
		amount = min(amount, l.most)
	}
	return amount
}

// limitsAllowed returns what every LimitRange of the namespace allows.
func limitsAllowed(ranges []corev1.LimitRange, r sizedResource) limits {
	items := itemsOf(ranges, corev1.LimitTypeContainer)
	amounts := r.allowedBy(items)
	allowed := limits{least: amounts.Min, most: amounts.Max}
	for _, item := range items {
		ratio, isSet := item.MaxLimitRequestRatio[r.name]
		if most := ratio.AsApproximateFloat64(); isSet && (allowed.ratio == 0 || most < allowed.ratio) {
			allowed.ratio = most
		}
	}
	return allowed
}

// withDefaults returns what a container has once the LimitRanges' defaults are added, as the
// API server adds them before a pod is sized (plugin/pkg/admission/limitranger in
// k8s.io/kubernetes, mergeContainerResources). A limit without a request becomes its own
// request before that.
func withDefaults(has corev1.ResourceRequirements, ranges []corev1.LimitRange) corev1.ResourceRequirements {
	has = *has.DeepCopy()
	for _, r := range sizedResources {
		addDefault(&has.Requests, has.Limits, r.name)
	}
	for _, item := range itemsOf(ranges, corev1.LimitTypeContainer) {
		for _, r := range sizedResources {
			addDefault(&has.Limits, item.Default, r.name)
			addDefault(&has.Requests, item.DefaultRequest, r.name)
		}
	}
	return has
}

// addDefault adds a default where a list has nothing of a resource.
func addDefault(list *corev1.ResourceList, defaults corev1.ResourceList, name corev1.ResourceName) {
	amount, isSet := defaults[name]
	if _, hasOne := (*list)[name]; hasOne || !isSet {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = amount
}
