package apis_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizeTableMustBeNamedUpright(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const sizes = `{web: {app: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1}, templateLimits: {cpu: 200m}}}}`
	require.NoError(t, createStrictly(t, object(t, namespace, "SizeTable", sizes)))
	other := object(t, namespace, "SizeTable", sizes)
	other.SetName("other")
	assert.ErrorContains(t, createStrictly(t, other), "metadata.name must be upright: a namespace has one SizeTable")
}

func TestSizeTableRejectsInvalidAmounts(t *testing.T) {
	t.Parallel()
	for _, sizes := range []string{`{web: {app: {requests: {cpu: a lot}}}}`, `{web: {app: {}}}`, `{web: {app: {requests: {cpu: 1}, size: 1}}}`} {
		assert.Error(t, createStrictly(t, object(t, env.Namespace(t), "SizeTable", sizes)), sizes)
	}
}
