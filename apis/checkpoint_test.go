package apis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestCheckpointIsReadAsWritten(t *testing.T) {
	t.Parallel()
	written := &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "a"},
		Data: autoscalingv1beta1.VerticalScalerCheckpointData{
			DeploymentName: "web",
			Containers:     []autoscalingv1beta1.ContainerCheckpoint{{ContainerName: "app", History: []byte{0, 1, 0xff}}},
			OOMKills:       []autoscalingv1beta1.OOMKill{{PodUID: "1", ContainerName: "app", FinishedAt: metav1.Unix(time.Now().Unix(), 0)}},
			Targets: []autoscalingv1beta1.PastTarget{
				{ContainerName: "app", Resource: "memory", Since: metav1.Unix(time.Now().Unix(), 0), Amount: 1 << 40},
				{ContainerName: "app", Resource: "memory", Since: metav1.Unix(time.Now().Unix(), 0), Amount: 1},
			},
			Backfilled: true,
		},
	}
	require.NoError(t, createStrictly(t, written.DeepCopy()))
	read := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(written), read))
	assert.Equal(t, written.Data, read.Data)
}

func TestVerticalScalerCheckpointRejectsInvalidData(t *testing.T) {
	t.Parallel()
	containers := func(list string) string { return "{deploymentName: web, containers: [" + list + "]}" }
	oomKills := func(kill string) string { return "{deploymentName: web, oomKills: [" + kill + "]}" }
	const target = "{containerName: a, resource: cpu, since: '2026-01-05T00:00:00Z', amount: 1}"
	targets := func(target string) string { return "{deploymentName: web, targets: [" + target + "]}" }
	assertRules(t, "VerticalScalerCheckpoint", []rule{
		{"deploymentName is required", "{deploymentName: web}", "{}", "data.deploymentName: Required value"},
		{"a container has one history", containers("{containerName: a, history: AAE=}, {containerName: b, history: AAE=}"),
			containers("{containerName: a, history: AAE=}, {containerName: a, history: AAE=}"), "Duplicate value"},
		{"a container has a history", containers("{containerName: a, history: AAE=}"), containers("{containerName: a}"),
			"data.containers[0].history: Required value"},
		{"a history is encoded in Base64", containers("{containerName: a, history: AAE=}"), containers("{containerName: a, history: '?'}"),
			"data.containers[0].history"},
		{"an OOM kill has a time", oomKills("{podUID: a, containerName: a, finishedAt: '2026-01-05T00:00:00Z'}"),
			oomKills("{podUID: a, containerName: a}"), "data.oomKills[0].finishedAt: Required value"},
		{"the time of an OOM kill is valid", oomKills("{podUID: a, containerName: a, finishedAt: '2026-01-05T00:00:00Z'}"),
			oomKills("{podUID: a, containerName: a, finishedAt: yesterday}"), "data.oomKills[0].finishedAt"},
		{"the resource of a target is cpu or memory", targets(target), targets(strings.Replace(target, "cpu", "disk", 1)),
			`supported values: "cpu", "memory"`},
		{"a target has a time", targets(target), targets("{containerName: a, resource: cpu, amount: 1}"),
			"data.targets[0].since: Required value"},
		{"a target has an amount", targets(target), targets("{containerName: a, resource: cpu, since: '2026-01-05T00:00:00Z'}"),
			"data.targets[0].amount: Required value"},
	})
}
