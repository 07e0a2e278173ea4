package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

const (
	day  = 24 * time.Hour
	mebi = 1 << 20
)

// monday is the start of a day. Only one memory peak counts per day.
var monday = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// newScaler returns a scaler that targets Deployment web.
func newScaler(name string, uid types.UID) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"},
	}
}

// withHalfLife returns a copy of a scaler with a half-life.
func withHalfLife(scaler *autoscalingv1beta1.VerticalScaler, halfLife time.Duration) *autoscalingv1beta1.VerticalScaler {
	scaler = scaler.DeepCopy()
	scaler.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: halfLife}}
	return scaler
}

func addUsage(t *testing.T, history *WorkloadHistory, container string, at time.Time, cores float64) {
	t.Helper()
	require.NoError(t, history.AddUsage(container, at, cores, 300*mebi))
}

// recommend returns a recommendation without limits, so it depends on usage alone.
func recommend(history *WorkloadHistory, container string) recommender.Recommendation {
	policy := recommender.DefaultPolicy(1)
	policy.CPU, policy.Memory = recommender.Limits{}, recommender.Limits{}
	return history.Recommend(container, policy)
}

func TestEachScalerHasItsOwnHistory(t *testing.T) {
	t.Parallel()
	store := NewStore()
	scaler := newScaler("web", "1")
	history := store.History(scaler, monday)
	addUsage(t, history, "app", monday, 0.12)

	assert.Same(t, history, store.History(scaler, monday.Add(day)), "the same scaler later")
	key, uid := history.Scaler()
	assert.Equal(t, types.NamespacedName{Namespace: "default", Name: "web"}, key)
	assert.Equal(t, types.UID("1"), uid)

	otherNamespace := newScaler("web", "3")
	otherNamespace.Namespace = "other"
	for name, other := range map[string]*autoscalingv1beta1.VerticalScaler{
		"another name": newScaler("api", "2"), "another namespace": otherNamespace,
	} {
		assert.Zero(t, recommend(store.History(other, monday), "app"), name)
	}
	assert.Equal(t, int64(1), recommend(store.History(scaler, monday), "app").Samples)
}

func TestHistoryRestartsForAnotherWorkload(t *testing.T) {
	t.Parallel()
	retargeted := newScaler("web", "1")
	retargeted.Spec.DeploymentName = "api"
	for name, scaler := range map[string]*autoscalingv1beta1.VerticalScaler{
		"re-created scaler": newScaler("web", "2"),
		"new target":        retargeted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewStore()
			before := store.History(newScaler("web", "1"), monday)
			addUsage(t, before, "app", monday, 0.12)
			before.Backfill(nil, Past{})

			after := store.History(scaler, monday)
			assert.Zero(t, recommend(after, "app"))
			assert.False(t, after.Backfilled())
			_, uid := after.Scaler()
			assert.Equal(t, scaler.UID, uid)
			assert.Equal(t, scaler.Spec.DeploymentName, after.Checkpoint(monday).DeploymentName)
		})
	}
}

// A sample that is one day old has a third of the total weight at a half-life of 24 h. At 6 h it has
// a seventeenth, which is too little for the 90th percentile.
func TestHalfLifeAppliesToOldAndNewSamples(t *testing.T) {
	t.Parallel()
	store, scaler := NewStore(), newScaler("web", "1")
	history := store.History(scaler, monday)
	assert.Equal(t, recommender.DefaultHalfLife, history.HalfLife())
	addUsage(t, history, "old", monday, 0.5)

	short := withHalfLife(scaler, 6*time.Hour)
	require.Same(t, history, store.History(short, monday))
	assert.Equal(t, 6*time.Hour, history.HalfLife())
	addUsage(t, history, "new", monday, 0.5)
	for _, container := range []string{"old", "new"} {
		addUsage(t, history, container, monday.Add(day), 0.12)
		assert.Equal(t, int64(145), recommend(history, container).CPU.Target, container)
	}

	store.History(scaler, monday)
	assert.Equal(t, recommender.DefaultHalfLife, history.HalfLife(), "the half-life is removed from the spec")
	unset := newScaler("web", "1")
	unset.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{}
	store.History(withHalfLife(scaler, time.Hour), monday)
	store.History(unset, monday)
	assert.Equal(t, recommender.DefaultHalfLife, history.HalfLife(), "a policy without a half-life")
}

func TestForgetDropsOnlyGivenScalers(t *testing.T) {
	t.Parallel()
	store := NewStore()
	for _, scaler := range []*autoscalingv1beta1.VerticalScaler{newScaler("web", "1"), newScaler("api", "2"), newScaler("job", "3")} {
		addUsage(t, store.History(scaler, monday), "app", monday, 0.12)
	}
	assert.Equal(t, map[types.UID]bool{"1": true, "2": true, "3": true}, store.Scalers())
	store.Forget(map[types.UID]bool{"2": true, "3": true, "4": true})
	assert.Equal(t, map[types.UID]bool{"1": true}, store.Scalers())
	samples := func(name string, uid types.UID) int64 {
		return recommend(store.History(newScaler(name, uid), monday), "app").Samples
	}
	assert.Equal(t, int64(1), samples("web", "1"))
	assert.Zero(t, samples("api", "2"))
	assert.Zero(t, samples("job", "3"))
}

func TestSkippedOOMKillNeverCounts(t *testing.T) {
	t.Parallel()
	history := NewStore().History(newScaler("web", "1"), monday)
	kill, now := oomKill("pod", "app", monday), monday.Add(time.Hour)
	history.SkipOOMKill(kill, now)
	assert.False(t, history.AddOOMKill(kill, now))
	assert.Zero(t, recommend(history, "app").Memory)

	kill.FinishedAt = monday.Add(time.Minute)
	assert.True(t, history.AddOOMKill(kill, now), "the next kill counts")
	kill.FinishedAt = monday
	history.SkipOOMKill(kill, now)
	assert.Len(t, history.Checkpoint(monday).OOMKills, 1)
	assert.Equal(t, monday.Add(time.Minute).Unix(), history.Checkpoint(monday).OOMKills[0].FinishedAt.Unix(), "an older kill changes nothing")
}

func TestRestoredReturnsNewestRestoredSample(t *testing.T) {
	t.Parallel()
	before := NewStore().History(newScaler("web", "1"), monday)
	assert.True(t, before.Restored().IsZero())
	addUsage(t, before, "app", monday.Add(2*time.Minute), 0.1)
	addUsage(t, before, "sidecar", monday.Add(time.Minute), 0.1)
	assert.True(t, before.Restored().IsZero(), "nothing was restored")

	store := NewStore()
	require.NoError(t, store.Restore(stored(t, before, monday), monday.Add(time.Hour)))
	assert.Equal(t, monday.Add(2*time.Minute), store.History(newScaler("web", "1"), monday).Restored())
}

// dueAfter is the minimum time between two checkpoints of a history.
const dueAfter = 10 * time.Minute

// due returns the histories whose checkpoint is due at the given time after monday.
func due(store *Store, after time.Duration) []*WorkloadHistory {
	return store.Unsaved(monday.Add(after - dueAfter))
}

func TestChangedHistoryIsDueOncePerInterval(t *testing.T) {
	t.Parallel()
	store := NewStore()
	history := store.History(newScaler("web", "1"), monday)
	store.History(newScaler("idle", "2"), monday)
	assert.Empty(t, due(store, day), "no change")

	addUsage(t, history, "app", monday, 0.12)
	assert.Empty(t, due(store, dueAfter-1), "the interval starts with the history")
	assert.Equal(t, []*WorkloadHistory{history}, due(store, dueAfter))

	history.Checkpoint(monday.Add(dueAfter))
	assert.Empty(t, due(store, day), "no change after the checkpoint")
	addUsage(t, history, "app", monday.Add(dueAfter), 0.12)
	assert.Empty(t, due(store, 2*dueAfter-1), "the interval is not over")
	assert.Equal(t, []*WorkloadHistory{history}, due(store, 2*dueAfter))

	history.Checkpoint(monday.Add(2 * dueAfter))
	history.MarkUnsaved()
	assert.Equal(t, []*WorkloadHistory{history}, due(store, 2*dueAfter), "the checkpoint was not written")
}

// observe returns a function that observes pods.
func observe(targetPods ...corev1.Pod) func(*Store, *WorkloadHistory) error {
	return func(_ *Store, h *WorkloadHistory) error {
		h.ObservePods(targetPods, nil, monday)
		return nil
	}
}

func TestOnlyChangesMakeHistoryDue(t *testing.T) {
	t.Parallel()
	kill := oomKill("pod", "app", monday)
	scaler := newScaler("web", "1")
	for name, test := range map[string]struct {
		change func(*Store, *WorkloadHistory) error
		isDue  bool
	}{
		"no change":    {func(*Store, *WorkloadHistory) error { return nil }, false},
		"usage":        {func(_ *Store, h *WorkloadHistory) error { return h.AddUsage("app", monday, 1, 1) }, true},
		"zero usage":   {func(_ *Store, h *WorkloadHistory) error { return h.AddUsage("app", monday, 0, 0) }, true},
		"counted kill": {func(_ *Store, h *WorkloadHistory) error { h.AddOOMKill(kill, monday); return nil }, false},
		"new kill": {func(_ *Store, h *WorkloadHistory) error {
			h.AddOOMKill(oomKill("b", "app", monday), monday)
			return nil
		}, true},
		"skipped kill": {func(_ *Store, h *WorkloadHistory) error {
			h.SkipOOMKill(oomKill("b", "app", monday), monday)
			return nil
		}, true},
		"all pods are present": {observe(newPod("pod").pod), false},
		"a new pod":            {observe(newPod("pod").pod, newPod("b").pod), false},
		"a deleted pod":        {observe(newPod("b").pod), true},
		"backfill":             {func(_ *Store, h *WorkloadHistory) error { h.Backfill(nil, Past{}); return nil }, true},
		"same half-life":       {func(s *Store, _ *WorkloadHistory) error { s.History(scaler, monday); return nil }, false},
		"new half-life": {func(s *Store, _ *WorkloadHistory) error {
			s.History(withHalfLife(scaler, time.Hour), monday)
			return nil
		}, true},
		"recommendation": {func(_ *Store, h *WorkloadHistory) error { recommend(h, "other"); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewStore()
			history := store.History(scaler, monday)
			addUsage(t, history, "app", monday, 0.12)
			require.True(t, history.AddOOMKill(kill, monday))
			require.NoError(t, observe(newPod("pod").pod)(store, history))
			history.Checkpoint(monday)

			require.NoError(t, test.change(store, history))
			assert.Equal(t, test.isDue, len(due(store, day)) == 1)
		})
	}
}

func TestHistoryWithOnlyAHalfLifeIsNotDue(t *testing.T) {
	t.Parallel()
	store := NewStore()
	store.History(withHalfLife(newScaler("web", "1"), time.Hour), monday)
	assert.Empty(t, due(store, day))
}
