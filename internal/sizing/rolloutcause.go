package sizing

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// RolloutCause is what a rollout is for. After one rollout, a second one for the same cause
// achieves nothing.
type RolloutCause struct {
	// Reason is why pods have to be replaced.
	Reason string
	// Deployment identifies the Deployment.
	Deployment types.UID
	// Template is a hash of its pod template, without the annotation that starts a rollout.
	Template string
	// Policy identifies the version of the admission policy.
	Policy string
	// Sizes are those of new pods.
	Sizes []autoscalingv1beta1.ContainerSizing
}

// causeSeparator separates the two hashes of a cause.
const causeSeparator = "-"

// String returns a hash of the cause without amounts, and one of the amounts.
func (c RolloutCause) String() string {
	what := []string{c.Reason, string(c.Deployment), c.Template, c.Policy}
	var amounts []string
	for i := range c.Sizes {
		for _, r := range sizedResources {
			if _, isSized := c.Sizes[i].Requests[r.name]; isSized {
				what = append(what, c.Sizes[i].ContainerName, string(r.name))
				for _, list := range []corev1.ResourceList{c.Sizes[i].Requests, c.Sizes[i].Limits} {
					amounts = append(amounts, strconv.FormatInt(r.amountIn(list), 10))
				}
			}
		}
	}
	return shortHash(what) + causeSeparator + shortHash(amounts)
}

func shortHash(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// isSameWithoutAmounts reports whether two causes are the same without amounts.
func isSameWithoutAmounts(a, b string) bool {
	withoutAmounts, _, _ := strings.Cut(a, causeSeparator)
	other, _, _ := strings.Cut(b, causeSeparator)
	return withoutAmounts == other
}

// reasonsWithoutAmounts are the reasons to replace a pod that another amount does not change.
var reasonsWithoutAmounts = []string{
	autoscalingv1beta1.ReasonQoSClassFixed,
	autoscalingv1beta1.ReasonResizeUnsupported,
}

// isRepeated reports whether a rollout would be the second for its cause. For some reasons, after
// a rollout without effect, other amounts are no other cause.
func (r *Rollout) isRepeated(last *autoscalingv1beta1.RolloutStatus) bool {
	return last != nil && last.State == autoscalingv1beta1.RolloutIneffective &&
		(last.Cause == r.Cause || slices.Contains(reasonsWithoutAmounts, r.Reason) && isSameWithoutAmounts(last.Cause, r.Cause))
}
