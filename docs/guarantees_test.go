package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w+`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
)

func TestGuaranteesNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range testFunc.FindAllStringSubmatch(string(source), -1) {
			exists[match[1]] = true
		}
		return nil
	}))
	guarantees, err := os.ReadFile("guarantees.md")
	require.NoError(t, err)
	named := testName.FindAllString(string(guarantees), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		assert.True(t, exists[name], "%s does not exist", name)
	}
}
