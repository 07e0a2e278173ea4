package recommendation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/usage"
)

// Problem is why a recommendation may not follow usage, as reason and message of the condition
// RecommendationReady.
type Problem struct {
	Reason, Message string
}

// problems are what this leader has found out about the usage of the scalers' targets. A new leader
// knows nothing yet. What it does not know stays as it is published, so that a change of leader
// writes no status.
type problems struct {
	mutex sync.Mutex
	known map[types.UID]known
}

// known are the messages of a scaler's problems; empty messages mean that there is none. They are nil
// if nothing is known.
type known struct {
	deployment  string // The target that they are about.
	usage, past *string
}

// change changes what is known of a scaler's target.
func (p *problems) change(scaler *autoscalingv1beta1.VerticalScaler, change func(*known)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	k := p.known[scaler.UID]
	if k.deployment != scaler.Spec.DeploymentName {
		k = known{deployment: scaler.Spec.DeploymentName}
	}
	change(&k)
	if p.known == nil {
		p.known = map[types.UID]known{}
	}
	p.known[scaler.UID] = k
}

// setUsage sets why there is no current usage of a scaler's target; empty if there is.
func (p *problems) setUsage(scaler *autoscalingv1beta1.VerticalScaler, message string) {
	p.change(scaler, func(k *known) {
		if k.usage == nil || *k.usage != message {
			k.usage = new(message)
		}
	})
}

// of returns what is known of a scaler's target.
func (p *problems) of(scaler *autoscalingv1beta1.VerticalScaler) known {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if k := p.known[scaler.UID]; k.deployment == scaler.Spec.DeploymentName {
		return k
	}
	return known{}
}

func (p *problems) forget(scaler types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.known, scaler)
}

// Unavailable returns why there is no current usage of a scaler's target and what to do about it, or
// "" if there is.
func (r *Recommender) Unavailable(scaler *autoscalingv1beta1.VerticalScaler) string {
	if advice := r.unavailable.Load(); advice != nil {
		return fmt.Sprintf("Cannot read usage: %s.", *advice)
	}
	if message := r.problems.of(scaler).usage; message != nil {
		return *message
	}
	return publishedMessage(scaler, autoscalingv1beta1.ReasonMetricsUnavailable)
}

// Incomplete returns why the history of a scaler's target lacks older usage. Its reason is empty if it
// does not.
func (r *Recommender) Incomplete(scaler *autoscalingv1beta1.VerticalScaler, workload *history.WorkloadHistory) Problem {
	if lost := workload.Lost(); len(lost) > 0 {
		return Problem{autoscalingv1beta1.ReasonHistoryDamaged, lostMessage(scaler.Name, lost)}
	}
	message := ""
	if known := r.problems.of(scaler).past; known != nil {
		message = *known
	} else if r.readsPast && !workload.Backfilled() {
		message = publishedMessage(scaler, autoscalingv1beta1.ReasonPastUsageRefused)
	}
	if message == "" {
		return Problem{}
	}
	return Problem{autoscalingv1beta1.ReasonPastUsageRefused, message}
}

func lostMessage(scaler string, lost []string) string {
	of := "its containers"
	if lost[0] != history.AllContainers {
		quoted := make([]string, len(lost))
		for i := range lost {
			quoted[i] = strconv.Quote(lost[i])
		}
		of = "container " + strings.Join(quoted, ", ")
	}
	return fmt.Sprintf("The saved usage of %s could not be read, so it is learned again. "+
		"VerticalScalerCheckpoint %q keeps the unreadable data.", of, scaler)
}

// setPastProblem stores whether past usage of a scaler's target was refused. Other errors show
// nothing, because they can be momentary.
func (r *Recommender) setPastProblem(scaler *autoscalingv1beta1.VerticalScaler, err error) {
	message := ""
	if err != nil {
		explained, ok := errors.AsType[*usage.Error](err)
		if !ok || !explained.IsPermanent {
			return
		}
		message = fmt.Sprintf("The recommendation lacks usage from before the creation of the VerticalScaler: %s.", explained.Advice)
	}
	r.problems.change(scaler, func(k *known) { k.past = &message })
}

// hasNewProblem reports whether a published condition does not show what is known about a scaler's
// usage.
func (r *Recommender) hasNewProblem(scaler *autoscalingv1beta1.VerticalScaler, workload *history.WorkloadHistory) bool {
	if r.Unavailable(scaler) != publishedMessage(scaler, autoscalingv1beta1.ReasonMetricsUnavailable) {
		return true
	}
	condition := meta.FindStatusCondition(scaler.Status.Conditions, autoscalingv1beta1.ConditionRecommendationReady)
	if condition == nil {
		return false
	}
	switch condition.Reason {
	case autoscalingv1beta1.ReasonRecommended:
		return r.Incomplete(scaler, workload).Reason != ""
	case autoscalingv1beta1.ReasonHistoryDamaged, autoscalingv1beta1.ReasonPastUsageRefused:
		return r.Incomplete(scaler, workload) != Problem{condition.Reason, condition.Message}
	default:
		return false // Other reasons take precedence.
	}
}

// publishedMessage returns the message of the condition RecommendationReady if it has the reason, and
// is about the present target.
func publishedMessage(scaler *autoscalingv1beta1.VerticalScaler, reason string) string {
	condition := meta.FindStatusCondition(scaler.Status.Conditions, autoscalingv1beta1.ConditionRecommendationReady)
	if condition == nil || condition.Reason != reason || scaler.Status.DeploymentName != scaler.Spec.DeploymentName {
		return ""
	}
	return condition.Message
}
