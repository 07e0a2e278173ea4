package histories

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

const (
	day  = 24 * time.Hour
	mebi = 1 << 20
)

// monday is the beginning of a day, of which one memory peak counts.
var monday = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// newScaler returns a scaler of Deployment web.
func newScaler(name string, uid types.UID) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"},
	}
}

// withHalfLife has a scaler ask for a half-life.
func withHalfLife(scaler *autoscalingv1beta1.VerticalScaler, halfLife time.Duration) *autoscalingv1beta1.VerticalScaler {
	scaler = scaler.DeepCopy()
	scaler.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: halfLife}}
	return scaler
}

func addUsage(t *testing.T, record *Record, container string, at time.Time, cores float64) {
	t.Helper()
	require.NoError(t, record.AddUsage(container, at, cores, 300*mebi))
}

// recommend returns what usage alone recommends.
func recommend(record *Record, container string) recommender.Recommendation {
	policy := recommender.DefaultPolicy(1)
	policy.CPU, policy.Memory = recommender.Limits{}, recommender.Limits{}
	return record.Recommend(container, policy)
}

func TestEachScalerHasARecordOfItsOwn(t *testing.T) {
	t.Parallel()
	store := NewStore()
	scaler := newScaler("web", "1")
	record := store.Record(scaler, monday)
	addUsage(t, record, "app", monday, 0.12)

	assert.Same(t, record, store.Record(scaler, monday.Add(day)), "the same scaler later")
	key, uid := record.Scaler()
	assert.Equal(t, types.NamespacedName{Namespace: "shop", Name: "web"}, key)
	assert.Equal(t, types.UID("1"), uid)

	elsewhere := newScaler("web", "3")
	elsewhere.Namespace = "office"
	for name, other := range map[string]*autoscalingv1beta1.VerticalScaler{
		"another name": newScaler("api", "2"), "another namespace": elsewhere,
	} {
		assert.Zero(t, recommend(store.Record(other, monday), "app"), name)
	}
	assert.Equal(t, int64(1), recommend(store.Record(scaler, monday), "app").Samples)
}

func TestAScalerOfAnotherWorkloadStartsAnew(t *testing.T) {
	t.Parallel()
	turned := newScaler("web", "1")
	turned.Spec.DeploymentName = "api"
	for name, scaler := range map[string]*autoscalingv1beta1.VerticalScaler{
		"created anew under its name":  newScaler("web", "2"),
		"turned to another Deployment": turned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewStore()
			before := store.Record(newScaler("web", "1"), monday)
			addUsage(t, before, "app", monday, 0.12)
			before.Backfill(nil)

			after := store.Record(scaler, monday)
			assert.Zero(t, recommend(after, "app"))
			assert.False(t, after.Backfilled())
			_, uid := after.Scaler()
			assert.Equal(t, scaler.UID, uid)
			assert.Equal(t, scaler.Spec.DeploymentName, after.Checkpoint(monday).DeploymentName)
		})
	}
}

// At a half-life of 24 h, what is a day old has a third of the weight, and at one of 6 h
// a seventeenth: too little for the 90th percentile.
func TestTheHalfLifeThatAScalerAsksForAppliesToOldAndNewHistories(t *testing.T) {
	t.Parallel()
	store, scaler := NewStore(), newScaler("web", "1")
	record := store.Record(scaler, monday)
	assert.Equal(t, recommender.DefaultHalfLife, record.HalfLife())
	addUsage(t, record, "old", monday, 0.5)

	short := withHalfLife(scaler, 6*time.Hour)
	require.Same(t, record, store.Record(short, monday))
	assert.Equal(t, 6*time.Hour, record.HalfLife())
	addUsage(t, record, "new", monday, 0.5)
	for _, container := range []string{"old", "new"} {
		addUsage(t, record, container, monday.Add(day), 0.12)
		assert.Equal(t, int64(145), recommend(record, container).CPU.Target, container)
	}

	store.Record(scaler, monday)
	assert.Equal(t, recommender.DefaultHalfLife, record.HalfLife(), "it is no longer asked for")
	unset := newScaler("web", "1")
	unset.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{}
	store.Record(withHalfLife(scaler, time.Hour), monday)
	store.Record(unset, monday)
	assert.Equal(t, recommender.DefaultHalfLife, record.HalfLife(), "a policy that does not say")
}

func TestForgetDropsTheRecordsOfTheGivenScalersAlone(t *testing.T) {
	t.Parallel()
	store := NewStore()
	for _, scaler := range []*autoscalingv1beta1.VerticalScaler{newScaler("web", "1"), newScaler("api", "2"), newScaler("job", "3")} {
		addUsage(t, store.Record(scaler, monday), "app", monday, 0.12)
	}
	assert.Equal(t, map[types.UID]bool{"1": true, "2": true, "3": true}, store.Scalers())
	store.Forget(map[types.UID]bool{"2": true, "3": true, "4": true})
	assert.Equal(t, map[types.UID]bool{"1": true}, store.Scalers())
	samples := func(name string, uid types.UID) int64 {
		return recommend(store.Record(newScaler(name, uid), monday), "app").Samples
	}
	assert.Equal(t, int64(1), samples("web", "1"))
	assert.Zero(t, samples("api", "2"))
	assert.Zero(t, samples("job", "3"))
}

func TestAKillThatIsSkippedNeverCounts(t *testing.T) {
	t.Parallel()
	record := NewStore().Record(newScaler("web", "1"), monday)
	kill := Kill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi}
	record.SkipKill(kill)
	counts, err := record.AddKill(kill)
	require.NoError(t, err)
	assert.False(t, counts)
	assert.Zero(t, recommend(record, "app").Memory)

	kill.FinishedAt = monday.Add(time.Minute)
	counts, err = record.AddKill(kill)
	require.NoError(t, err)
	assert.True(t, counts, "the next one does")
	kill.FinishedAt = monday
	record.SkipKill(kill)
	assert.Len(t, record.Checkpoint(monday).OOMKills, 1)
	assert.Equal(t, monday.Add(time.Minute).Unix(), record.Checkpoint(monday).OOMKills[0].FinishedAt.Unix(), "an older one changes nothing")
}

func TestARestoredRecordKnowsTheNewestSampleOfBefore(t *testing.T) {
	t.Parallel()
	before := NewStore().Record(newScaler("web", "1"), monday)
	assert.True(t, before.Restored().IsZero())
	addUsage(t, before, "app", monday.Add(2*time.Minute), 0.1)
	addUsage(t, before, "sidecar", monday.Add(time.Minute), 0.1)
	assert.True(t, before.Restored().IsZero(), "it was not restored")

	store := NewStore()
	require.NoError(t, store.Restore(stored(t, before, monday), monday))
	assert.Equal(t, monday.Add(2*time.Minute), store.Record(newScaler("web", "1"), monday).Restored())
}

// dueAfter is the least time between two checkpoints of a record.
const dueAfter = 10 * time.Minute

// due returns the records whose checkpoint is due a while after monday.
func due(store *Store, after time.Duration) []*Record {
	return store.Unsaved(monday.Add(after - dueAfter))
}

func TestARecordIsDueOnceAnIntervalWhileItChanges(t *testing.T) {
	t.Parallel()
	store := NewStore()
	record := store.Record(newScaler("web", "1"), monday)
	store.Record(newScaler("idle", "2"), monday)
	assert.Empty(t, due(store, day), "nothing is learned")

	addUsage(t, record, "app", monday, 0.12)
	assert.Empty(t, due(store, dueAfter-1), "the interval begins with the record")
	assert.Equal(t, []*Record{record}, due(store, dueAfter))

	record.Checkpoint(monday.Add(dueAfter))
	assert.Empty(t, due(store, day), "it is saved and did not change")
	addUsage(t, record, "app", monday.Add(dueAfter), 0.12)
	assert.Empty(t, due(store, 2*dueAfter-1), "it changed within the interval")
	assert.Equal(t, []*Record{record}, due(store, 2*dueAfter))

	record.Checkpoint(monday.Add(2 * dueAfter))
	record.Unsave()
	assert.Equal(t, []*Record{record}, due(store, 2*dueAfter), "it could not be written")
}

func TestOnlyWhatChangesARecordHasItSavedAnew(t *testing.T) {
	t.Parallel()
	kill := Kill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi}
	scaler := newScaler("web", "1")
	for name, test := range map[string]struct {
		change  func(*Store, *Record) error
		isSaved bool
	}{
		"nothing":            {func(*Store, *Record) error { return nil }, false},
		"usage":              {func(_ *Store, r *Record) error { return r.AddUsage("app", monday, 1, 1) }, true},
		"usage of nothing":   {func(_ *Store, r *Record) error { return r.AddUsage("app", monday, 0, 0) }, true},
		"a known kill":       {func(_ *Store, r *Record) error { _, err := r.AddKill(kill); return err }, false},
		"an unknown kill":    {func(_ *Store, r *Record) error { _, err := r.AddKill(Kill{"b", "app", monday, 0}); return err }, true},
		"all pods present":   {func(_ *Store, r *Record) error { r.KeepKills(only("pod")); return nil }, false},
		"a pod gone":         {func(_ *Store, r *Record) error { r.KeepKills(only("b")); return nil }, true},
		"the past":           {func(_ *Store, r *Record) error { r.Backfill(nil); return nil }, true},
		"the same half-life": {func(s *Store, _ *Record) error { s.Record(scaler, monday); return nil }, false},
		"another half-life":  {func(s *Store, _ *Record) error { s.Record(withHalfLife(scaler, time.Hour), monday); return nil }, true},
		"a recommendation":   {func(_ *Store, r *Record) error { recommend(r, "other"); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewStore()
			record := store.Record(scaler, monday)
			addUsage(t, record, "app", monday, 0.12)
			_, err := record.AddKill(kill)
			require.NoError(t, err)
			record.Checkpoint(monday)

			require.NoError(t, test.change(store, record))
			assert.Equal(t, test.isSaved, len(due(store, day)) == 1)
		})
	}
}

func TestAHalfLifeAloneIsNothingToSave(t *testing.T) {
	t.Parallel()
	store := NewStore()
	store.Record(withHalfLife(newScaler("web", "1"), time.Hour), monday)
	assert.Empty(t, due(store, day))
}
