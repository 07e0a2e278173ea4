package sizing

import (
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Template returns what those containers of a new pod get that have a target, in the order in
// which a Deployment's template has them. A pod that LimitRanges let be created as the template
// says can be created at these sizes too: what they allow a pod as a whole is shared by its
// containers in proportion to their targets.
func Template(
	spec *autoscalingv1beta1.VerticalScalerSpec, template *corev1.PodSpec, targets map[string]corev1.ResourceList, ranges []corev1.LimitRange,
) []autoscalingv1beta1.ContainerSizing {
	t := newTemplate(template, ranges)
	at := func(share float64) []autoscalingv1beta1.ContainerSizing {
		var sizes []autoscalingv1beta1.ContainerSizing
		for _, container := range containersOf(template) {
			if target, isKnown := targets[container.Name]; isKnown {
				sizes = append(sizes, Container(spec, container, shareOf(target, share), ranges))
			}
		}
		return sizes
	}
	sizes := at(1)
	for _, r := range sizedResources {
		if t.admits(r, sizes) || !t.admits(r, nil) {
			continue
		}
		take(sizes, r, at(t.share(r, at)))
		if !t.admits(r, sizes) {
			t.approach(r, sizes)
		}
	}
	return nonEmpty(sizes)
}

// template is what LimitRanges look at: the containers of a new pod, with the defaults that
// they add.
type template struct {
	corev1.PodSpec
	ranges []corev1.LimitRange
}

func newTemplate(spec *corev1.PodSpec, ranges []corev1.LimitRange) *template {
	t := &template{ranges: ranges}
	t.InitContainers, t.Containers = slices.Clone(spec.InitContainers), slices.Clone(spec.Containers)
	for _, container := range containersOf(&t.PodSpec) {
		container.Resources = withDefaults(container.Resources, ranges)
	}
	return t
}

// container returns the one of a name, nil where there is none.
func (t *template) container(name string) *corev1.Container {
	return containerOf(&t.PodSpec, name)
}

// sized returns the template with sizes.
func (t *template) sized(sizes []autoscalingv1beta1.ContainerSizing) *corev1.PodSpec {
	spec := &corev1.PodSpec{InitContainers: slices.Clone(t.InitContainers), Containers: slices.Clone(t.Containers)}
	for _, container := range containersOf(spec) {
		for i := range sizes {
			if sizes[i].ContainerName == container.Name {
				container.Resources = with(container.Resources, sizes[i])
			}
		}
	}
	return spec
}

// admits reports whether a pod with sizes can be created, so far as a resource goes.
func (t *template) admits(r sizedResource, sizes []autoscalingv1beta1.ContainerSizing) bool {
	return len(t.ranges) == 0 || admits(t.ranges, t.sized(sizes), r)
}

// finest is how finely shares and ways are searched for.
const finest = 1 << 20

// share returns the share of all targets, above or below 1, at which a pod as a whole has what
// LimitRanges allow it of a resource, and is closest to its targets; 1 where there is none.
func (t *template) share(r sizedResource, at func(float64) []autoscalingv1beta1.ContainerSizing) float64 {
	allowed := r.allowedBy(itemsOf(t.ranges, corev1.LimitTypePod))
	isTooLarge := func(share float64) bool {
		whole := total(t.sized(at(share)))
		return allowed.Max > 0 && max(r.of(whole.Requests), r.of(whole.Limits)) > allowed.Max
	}
	isTooSmall := func(share float64) bool {
		return r.of(total(t.sized(at(share))).Requests) < allowed.Min
	}
	less := func(i int) float64 { return 1 - float64(i)/finest }
	more := func(i int) float64 { return finest / float64(finest-i) }
	found, share := 0, less
	switch {
	case isTooLarge(1):
		found = sort.Search(finest, func(i int) bool { return !isTooLarge(less(i)) })
	case isTooSmall(1):
		share = more
		found = sort.Search(finest, func(i int) bool { return !isTooSmall(more(i)) })
	}
	if found == finest {
		return 1
	}
	return share(found)
}

// approach moves the sizes of a resource back towards what the template says, just so far that
// LimitRanges admit the pod. They admit what is between any two pods that they admit, so that
// of the way from the template to the sizes they admit the first part.
func (t *template) approach(r sizedResource, sizes []autoscalingv1beta1.ContainerSizing) {
	between := func(way float64) []autoscalingv1beta1.ContainerSizing {
		moved := copied(sizes)
		for i := range moved {
			r.move(&moved[i], t.container(moved[i].ContainerName).Resources, way)
		}
		return moved
	}
	way := sort.Search(finest, func(i int) bool { return !t.admits(r, between(float64(i+1)/finest)) })
	take(sizes, r, between(float64(way)/finest))
}

// move makes a size one that is some way from what a container has to what the size was. At
// the beginning of the way it is none.
func (r sizedResource) move(size *autoscalingv1beta1.ContainerSizing, has corev1.ResourceRequirements, way float64) {
	if way == 0 {
		r.drop(size)
	}
	request, isSized := size.Requests[r.name]
	if !isSized {
		return
	}
	was := r.pairOf(has)
	between := func(from, to int64) float64 { return float64(from) + float64(to-from)*way }
	// Rounded so that the limit is no more of its request than it was at both ends of the way.
	now := pair{request: int64(math.Ceil(between(was.request, r.amount(&request)))), limit: was.limit}
	if limit, isSet := size.Limits[r.name]; isSet {
		now.limit = int64(between(was.limit, r.amount(&limit)))
		r.put(&size.Limits, now.limit)
	}
	if now.limit > 0 {
		now.request = min(now.request, now.limit)
	}
	r.put(&size.Requests, now.request)
}

// drop takes the resource out of a size.
func (r sizedResource) drop(size *autoscalingv1beta1.ContainerSizing) {
	delete(size.Requests, r.name)
	delete(size.Limits, r.name)
}

// take gives sizes what others of the same containers have of a resource.
func take(sizes []autoscalingv1beta1.ContainerSizing, r sizedResource, from []autoscalingv1beta1.ContainerSizing) {
	for i := range sizes {
		r.drop(&sizes[i])
		if request, isSet := from[i].Requests[r.name]; isSet {
			r.put(&sizes[i].Requests, r.amount(&request))
		}
		if limit, isSet := from[i].Limits[r.name]; isSet {
			r.put(&sizes[i].Limits, r.amount(&limit))
		}
	}
}

// shareOf returns a share of amounts.
func shareOf(amounts corev1.ResourceList, share float64) corev1.ResourceList {
	if share == 1 {
		return amounts
	}
	var list corev1.ResourceList
	for _, r := range sizedResources {
		if amount, isSet := amounts[r.name]; isSet {
			r.put(&list, int64(min(float64(r.amount(&amount))*share, endless)))
		}
	}
	return list
}

// nonEmpty returns those sizes that say anything.
func nonEmpty(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	sizes = slices.DeleteFunc(sizes, func(size autoscalingv1beta1.ContainerSizing) bool { return len(size.Requests) == 0 })
	if len(sizes) == 0 {
		return nil
	}
	return sizes
}

func copied(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	all := make([]autoscalingv1beta1.ContainerSizing, len(sizes))
	for i := range sizes {
		sizes[i].DeepCopyInto(&all[i])
	}
	return all
}

// containersOf returns all containers of a pod, to be changed in place.
func containersOf(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i])
		}
	}
	return all
}

// containerOf returns the container of a name, to be changed in place, nil where there is none.
func containerOf(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, container := range containersOf(spec) {
		if container.Name == name {
			return container
		}
	}
	return nil
}
