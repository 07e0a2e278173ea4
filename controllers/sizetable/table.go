package sizetable

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// maxBytes is the greatest size of a SizeTable's deployments in JSON. etcd accepts 1.5 MiB by
// default (https://etcd.io/docs/v3.6/dev-guide/limit/).
const maxBytes = 1 << 20

// desiredTable returns the sizes of new pods that the status of a namespace's scalers asks for,
// and the Deployments whose sizes do not fit into the table. The oldest scalers come first.
func desiredTable(scalers []*autoscalingv1beta1.VerticalScaler) (table map[string]autoscalingv1beta1.PodSize, omitted map[string]bool) {
	table, omitted = map[string]autoscalingv1beta1.PodSize{}, map[string]bool{}
	bytes := len(`{}`)
	for _, scaler := range actingScalers(scalers) {
		if !appliesSizes(scaler) {
			continue
		}
		deployment, size := scaler.Spec.DeploymentName, PodSize(scaler.Status.Sizing)
		added := encodedSize(deployment, size)
		if bytes+added > maxBytes {
			omitted[deployment] = true
			continue
		}
		bytes += added
		table[deployment] = size
	}
	return table, omitted
}

// actingScalers returns the oldest scaler of each Deployment, the oldest first.
func actingScalers(scalers []*autoscalingv1beta1.VerticalScaler) []*autoscalingv1beta1.VerticalScaler {
	byAge := slices.DeleteFunc(slices.Clone(scalers), func(scaler *autoscalingv1beta1.VerticalScaler) bool {
		return !scaler.DeletionTimestamp.IsZero()
	})
	slices.SortFunc(byAge, func(a, b *autoscalingv1beta1.VerticalScaler) int {
		switch {
		case a.IsOlderThan(b):
			return -1
		case b.IsOlderThan(a):
			return 1
		default:
			return 0
		}
	})
	claimed := map[string]bool{}
	return slices.DeleteFunc(byAge, func(scaler *autoscalingv1beta1.VerticalScaler) bool {
		isClaimed := claimed[scaler.Spec.DeploymentName]
		claimed[scaler.Spec.DeploymentName] = true
		return isClaimed
	})
}

// appliesSizes reports whether new pods get the sizes in a scaler's status. It checks the spec
// too, so that a change of the spec counts before the status follows.
func appliesSizes(scaler *autoscalingv1beta1.VerticalScaler) bool {
	return !scaler.Spec.Suspend && scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeOff &&
		scaler.Status.DeploymentName == scaler.Spec.DeploymentName && len(scaler.Status.Sizing) > 0
}

// PodSize returns the size of new pods that a scaler's status describes.
func PodSize(sizing []autoscalingv1beta1.ContainerSizing) autoscalingv1beta1.PodSize {
	size := autoscalingv1beta1.PodSize{}
	for i := range sizing {
		requests := sizing[i].Requests
		if requests == nil {
			requests = corev1.ResourceList{} // The API server requires the field.
		}
		size[sizing[i].ContainerName] = autoscalingv1beta1.ContainerSize{
			Requests: requests, Limits: sizing[i].Limits, TemplateLimits: sizing[i].TemplateLimits,
		}
	}
	return size
}

// isEqual reports whether two sizes have the same amounts, in any notation.
func isEqual(a, b autoscalingv1beta1.PodSize) bool {
	sameAmount := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	return maps.EqualFunc(a, b, func(a, b autoscalingv1beta1.ContainerSize) bool {
		return maps.EqualFunc(a.Requests, b.Requests, sameAmount) &&
			maps.EqualFunc(a.Limits, b.Limits, sameAmount) &&
			maps.EqualFunc(a.TemplateLimits, b.TemplateLimits, sameAmount)
	})
}

// encodedSize returns how many bytes the size of a Deployment's pods adds to a table in JSON, at
// most. It is computed for each scaler in each reconcile, so it does not encode the size.
func encodedSize(deployment string, size autoscalingv1beta1.PodSize) int {
	bytes := len(deployment) + len(`"":{},`)
	for container, resources := range size {
		bytes += len(container) + len(`"":{},`) +
			max(listSize("requests", resources.Requests), len(`"requests":{},`)) +
			listSize("limits", resources.Limits) +
			listSize("templateLimits", resources.TemplateLimits)
	}
	return bytes
}

// listSize returns how many bytes a field with amounts has in JSON, which omits an empty field.
func listSize(field string, amounts corev1.ResourceList) int {
	if len(amounts) == 0 {
		return 0
	}
	var buffer [32]byte
	bytes := len(field) + len(`"":{},`)
	for name, amount := range amounts {
		number, suffix := amount.CanonicalizeBytes(buffer[:0])
		bytes += len(name) + len(number) + len(suffix) + len(`"":"",`)
	}
	return bytes
}
