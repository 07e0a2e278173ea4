package sizetable

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// newSized returns a scaler with sizes in its status. It was created some seconds after the first.
func newSized(
	name, deployment string, seconds int, sizes ...autoscalingv1beta1.ContainerSizing,
) *autoscalingv1beta1.VerticalScaler {
	scaler := testenv.NewScaler("default", name, deployment)
	scaler.CreationTimestamp = metav1.Unix(1_700_000_000+int64(seconds), 0)
	scaler.Status.DeploymentName, scaler.Status.Sizing = deployment, sizes
	return scaler
}

// padded returns the size of a container that adds a number of bytes to a table.
func padded(bytes int) autoscalingv1beta1.ContainerSizing {
	return sizing(strings.Repeat("c", bytes-len(`"x":{"":{"requests":{"cpu":"100m","memory":"128Mi"}}},`)), small)
}

func TestTableHasTheSizesInTheStatusOfEachScaler(t *testing.T) {
	t.Parallel()
	web := newSized("s-web", "web", 0,
		autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: small, Limits: large, TemplateLimits: huge},
		sizing("proxy", large))
	api := newSized("s-api", "api", 1, sizing("app", huge))

	table, omitted := desiredTable([]*autoscalingv1beta1.VerticalScaler{api, web})

	assert.Equal(t, deployments{
		"web": {"app": {Requests: small, Limits: large, TemplateLimits: huge}, "proxy": {Requests: large}},
		"api": {"app": {Requests: huge}},
	}, table)
	assert.Empty(t, omitted)
}

func TestOnlyTheOldestScalerOfADeploymentIsInTheTable(t *testing.T) {
	t.Parallel()
	oldest, youngers := podSize{"app": {Requests: large}}, podSize{"app": {Requests: small}}
	for name, test := range map[string]struct {
		change func(oldest *autoscalingv1beta1.VerticalScaler)
		want   podSize // nil if there is no entry.
	}{
		"and applies": {func(*autoscalingv1beta1.VerticalScaler) {}, oldest},
		"and applies at creation only": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
		}, oldest},
		"unless it is terminating": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.DeletionTimestamp = &s.CreationTimestamp
		}, youngers},
		"unless it names another Deployment": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.DeploymentName = "other"
		}, youngers},
		"also if it is Off": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
		}, nil},
		"also if it is suspended": {func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true }, nil},
		"also if its status is about another Deployment": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Status.DeploymentName = "previous"
		}, nil},
		"also if it has no size": {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.Sizing = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The names have the opposite order of the ages.
			scaler := newSized("z-oldest", "web", 0, sizing("app", large))
			younger := newSized("a-younger", "web", 1, sizing("app", small))
			unrelated := newSized("m-unrelated", "api", 2, sizing("app", huge))
			test.change(scaler)
			want := deployments{"api": {"app": {Requests: huge}}}
			if test.want != nil {
				want["web"] = test.want
			}
			for _, scalers := range [][]*autoscalingv1beta1.VerticalScaler{{scaler, younger, unrelated}, {unrelated, younger, scaler}} {
				table, omitted := desiredTable(scalers)
				assert.Equal(t, want, table)
				assert.Empty(t, omitted)
			}
		})
	}
}

func TestNameDecidesBetweenScalersOfTheSameSecond(t *testing.T) {
	t.Parallel()
	first, second := newSized("a", "web", 0, sizing("app", large)), newSized("b", "web", 0, sizing("app", small))
	table, _ := desiredTable([]*autoscalingv1beta1.VerticalScaler{second, first})
	assert.Equal(t, deployments{"web": {"app": {Requests: large}}}, table)
}

func TestDesiredTableDoesNotChangeTheScalers(t *testing.T) {
	t.Parallel()
	first, second := newSized("a", "web", 1, sizing("app", large)), newSized("b", "web", 0, sizing("app", small))
	scalers := []*autoscalingv1beta1.VerticalScaler{first, second}
	copies := []*autoscalingv1beta1.VerticalScaler{first.DeepCopy(), second.DeepCopy()}
	desiredTable(scalers)
	assert.Equal(t, copies, scalers, "the scalers and their order")
}

// The API server rejects a SizeTable in which a container has no requests.
func TestContainerWithoutRequestsHasEmptyRequests(t *testing.T) {
	t.Parallel()
	table, _ := desiredTable([]*autoscalingv1beta1.VerticalScaler{
		newSized("s", "web", 0, autoscalingv1beta1.ContainerSizing{ContainerName: "app", Limits: small}),
	})
	encoded, err := json.Marshal(table)
	require.NoError(t, err)
	assert.JSONEq(t, `{"web": {"app": {"requests": {}, "limits": {"cpu": "100m", "memory": "128Mi"}}}}`, string(encoded))
}

func TestTableOfOneMebibyteKeepsTheOldestScalers(t *testing.T) {
	t.Parallel()
	const kibibyte = 1 << 10
	scalers := []*autoscalingv1beta1.VerticalScaler{
		newSized("i-1", "a", 1, padded(300*kibibyte)),
		newSized("h-2", "b", 2, padded(300*kibibyte)),
		newSized("g-3", "c", 3, padded(300*kibibyte)),
		newSized("f-4", "d", 4, padded(300*kibibyte)), // Does not fit.
		newSized("e-5", "e", 5, padded(100*kibibyte)),
		newSized("d-6", "f", 6, padded(100*kibibyte)), // Does not fit.
		newSized("c-7", "g", 7, padded(kibibyte)),
		newSized("b-8", "d", 8, padded(kibibyte)), // Does not step in for an older scaler that does not fit.
		newSized("a-9", "h", 9, padded(22*kibibyte)),
		newSized("0-10", "i", 10, padded(2*kibibyte)), // Does not fit.
	}
	for range 3 {
		rand.Shuffle(len(scalers), func(i, j int) { scalers[i], scalers[j] = scalers[j], scalers[i] })
		table, omitted := desiredTable(scalers)

		var names []string
		for name := range table {
			names = append(names, name)
		}
		assert.ElementsMatch(t, []string{"a", "b", "c", "e", "g", "h"}, names)
		assert.Equal(t, map[string]bool{"d": true, "f": true, "i": true}, omitted)
		encoded, err := json.Marshal(table)
		require.NoError(t, err)
		assert.Len(t, encoded, (900+100+1+22)*kibibyte+len(`{}`)-len(`,`), "the sizes of this test")
		assert.LessOrEqual(t, len(encoded), 1<<20)
	}
}

func TestTableHasAtMostOneMebibyte(t *testing.T) {
	t.Parallel()
	for bytes, fits := range map[int]bool{1<<20 - 10: true, 1 << 20: false} {
		table, omitted := desiredTable([]*autoscalingv1beta1.VerticalScaler{newSized("s", "x", 0, padded(bytes))})
		assert.Equal(t, fits, len(table) == 1, "%d bytes", bytes)
		assert.Equal(t, !fits, omitted["x"], "%d bytes", bytes)
	}
}

func TestEmptyTableHasNoEntries(t *testing.T) {
	t.Parallel()
	table, omitted := desiredTable(nil)
	assert.Empty(t, table)
	assert.Empty(t, omitted)
	assert.True(t, isUpToDate(nil, table))
	assert.False(t, isUpToDate(&autoscalingv1beta1.SizeTable{}, table), "an empty table is deleted")
}

func TestTableIsUpToDateIfAllAmountsAreEqual(t *testing.T) {
	t.Parallel()
	size := func() podSize {
		return podSize{"app": {Requests: small.DeepCopy(), Limits: large.DeepCopy(), TemplateLimits: huge.DeepCopy()}, "proxy": {Requests: small}}
	}
	edit := func(change func(*autoscalingv1beta1.ContainerSize)) func(podSize) {
		return func(live podSize) {
			container := live["app"]
			change(&container)
			live["app"] = container
		}
	}
	for name, test := range map[string]struct {
		change func(live podSize)
		want   bool
	}{
		"nothing": {func(podSize) {}, true},
		"notation": {edit(func(c *autoscalingv1beta1.ContainerSize) {
			c.Requests = testenv.Amounts("0.1", "134217728")
			c.Limits = testenv.Amounts("5e-1", "1024Mi")
		}), true},
		"empty instead of missing": {func(live podSize) {
			live["proxy"] = autoscalingv1beta1.ContainerSize{Requests: small, Limits: corev1.ResourceList{}}
		}, true},
		"request":               {edit(func(c *autoscalingv1beta1.ContainerSize) { c.Requests["cpu"] = huge["cpu"] }), false},
		"limit":                 {edit(func(c *autoscalingv1beta1.ContainerSize) { c.Limits["cpu"] = huge["cpu"] }), false},
		"limit of the template": {edit(func(c *autoscalingv1beta1.ContainerSize) { c.TemplateLimits["cpu"] = small["cpu"] }), false},
		"missing request":       {edit(func(c *autoscalingv1beta1.ContainerSize) { delete(c.Requests, "cpu") }), false},
		"missing limits":        {edit(func(c *autoscalingv1beta1.ContainerSize) { c.Limits = nil }), false},
		"another resource":      {edit(func(c *autoscalingv1beta1.ContainerSize) { c.Requests["ephemeral-storage"] = small["memory"] }), false},
		"missing container":     {func(live podSize) { delete(live, "proxy") }, false},
		"another container":     {func(live podSize) { live["cron"] = live["proxy"] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := &autoscalingv1beta1.SizeTable{Deployments: deployments{"web": size(), "api": size()}}
			test.change(live.Deployments["web"])
			assert.Equal(t, test.want, isUpToDate(live, deployments{"web": size(), "api": size()}))
		})
	}
	live := &autoscalingv1beta1.SizeTable{Deployments: deployments{"web": size()}}
	assert.False(t, isUpToDate(live, deployments{"web": size(), "api": size()}), "a missing entry")
	assert.False(t, isUpToDate(live, deployments{"api": size()}), "an entry of another Deployment")
	assert.False(t, isUpToDate(nil, deployments{"web": size()}), "no table")
	assert.False(t, isUpToDate(live, deployments{}), "an entry too many")
}
