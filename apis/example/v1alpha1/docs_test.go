package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firstCell matches a name at the start of a row in a table of conditions or reasons.
var firstCell = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|")

func TestDocsListExactlyTheDefinedConditionsAndReasons(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "owned-deployments.md"))
	require.NoError(t, err)
	tables := strings.SplitN(string(page), "| reason |", 2)
	require.Len(t, tables, 2, "the table of reasons follows the table of conditions")
	assert.ElementsMatch(t, constants(t, "Condition"), namesIn(tables[0]))
	assert.ElementsMatch(t, constants(t, "Reason"), namesIn(tables[1]))
}

// namesIn returns the first cells of the tables in a text.
func namesIn(text string) (names []string) {
	for _, match := range firstCell.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// constants returns the values of the constants in deployment_status.go whose name has a prefix.
func constants(t *testing.T, prefix string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "deployment_status.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, isValue := node.(*ast.ValueSpec); isValue && strings.HasPrefix(spec.Names[0].Name, prefix) {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, value)
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}
