package v1beta1

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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// pages are the pages about the VerticalScaler.
var pages = []string{"verticalscaler.md", "recommendations.md", "no-recommendation.md", "applying.md", "not-applied.md"}

var (
	// listedReason matches the reason at the start of a row in a table of reasons.
	listedReason = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|")
	// conditionReason matches the status and the reason in a row of the table of conditions.
	conditionReason = regexp.MustCompile("\\| (?:True|False|Unknown|True or False) `([A-Za-z]+)` \\|")
	// fieldPath matches the path of a field in the spec or the status.
	fieldPath = regexp.MustCompile("`(spec|status)((?:\\.[A-Za-z]+(?:\\[\\])?)+)`")
	// example matches a whole manifest or only its spec.
	example = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

func TestDocsListExactlyTheDefinedReasons(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, match := range listedReason.FindAllStringSubmatch(page(t, "no-recommendation.md")+page(t, "not-applied.md"), -1) {
		listed = append(listed, match[1])
	}
	// The tables omit these two reasons, because they need no explanation.
	assert.Subset(t, append(listed, "DeploymentFound", "NotConflicted"), reasons(t))
	assert.Subset(t, reasons(t), listed)
	var inConditions []string
	for _, match := range conditionReason.FindAllStringSubmatch(page(t, "verticalscaler.md"), -1) {
		inConditions = append(inConditions, match[1])
	}
	require.NotEmpty(t, inConditions)
	assert.Subset(t, reasons(t), inConditions)
}

func TestFieldsInDocsExist(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	found := 0
	for _, name := range pages {
		for _, match := range fieldPath.FindAllStringSubmatch(page(t, name), -1) {
			// In these pages, spec.resources is a field of pods.
			if match[0] == "`spec.resources`" {
				continue
			}
			found++
			assert.True(t, hasField(schema, match[1]+match[2]), "%s in %s", match[0], name)
		}
	}
	assert.Greater(t, found, 20)
}

func TestExamplesInDocsAreVerticalScalers(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range pages {
		for _, match := range example.FindAllStringSubmatch(page(t, name), -1) {
			found++
			var scaler VerticalScaler
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[1]), &scaler), "%s in %s", match[1], name)
			// The spec's own UnmarshalJSON accepts unknown fields.
			type spec VerticalScalerSpec
			var strict struct {
				metav1.TypeMeta   `json:",inline"`
				metav1.ObjectMeta `json:"metadata"`
				Spec              spec `json:"spec"`
			}
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[1]), &strict), "%s in %s", match[1], name)
			assert.NotEmpty(t, scaler.Spec.DeploymentName, "%s in %s", match[1], name)
		}
	}
	assert.Positive(t, found)
}

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	require.NoError(t, err)
	return string(content)
}

// reasons returns the values of all Reason constants in conditions.go.
func reasons(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, isValue := node.(*ast.ValueSpec); isValue && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			all = append(all, reason)
		}
		return true
	})
	require.NotEmpty(t, all)
	return all
}

func schemaOf(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "crds", "autoscaling.example.com_verticalscalers.yaml"))
	require.NoError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(manifest, &crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// hasField reports whether a schema has the field at a path. For a list, the path continues in its items.
func hasField(schema *apiextensionsv1.JSONSchemaProps, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		property, exists := schema.Properties[name]
		if !exists || isList && property.Items == nil {
			return false
		}
		schema = &property
		if property.Items != nil {
			schema = property.Items.Schema
		}
	}
	return true
}
