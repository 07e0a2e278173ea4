package cache

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestInternerStartsAgainWhenItIsFull(t *testing.T) {
	t.Parallel()
	var numbers interner[int, *int]
	for i := range 2*maxInterned + 1 {
		assert.Equal(t, i, *numbers.get(i, func() *int { return &i }))
	}
	assert.Len(t, numbers.known, 1)
}
