package sizing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The API server rejects a status with a cap that the CRD lacks.
func TestAPIHasTheSameCapsAsRecommender(t *testing.T) {
	t.Parallel()
	caps := capConstants(t, "..", "recommender", "recommend.go")
	require.NotEmpty(t, caps)
	assert.Equal(t, caps, capConstants(t, "..", "..", "apis", "autoscaling", "v1beta1", "verticalscaler_status.go"))
	assert.ElementsMatch(t, slices.Collect(maps.Values(caps)), capEnum(t))
}

// capConstants returns the constants of type Cap in a Go file: the literal values by name.
func capConstants(t *testing.T, path ...string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(path...), nil, 0)
	require.NoError(t, err)
	caps := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, isValue := node.(*ast.ValueSpec); isValue {
			if kind, isNamed := spec.Type.(*ast.Ident); isNamed && kind.Name == "Cap" {
				caps[spec.Names[0].Name] = spec.Values[0].(*ast.BasicLit).Value
			}
		}
		return true
	})
	return caps
}

// capEnum returns the caps that the CRD allows, as Go literals.
func capEnum(t *testing.T) (caps []string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", "autoscaling.example.com_verticalscalers.yaml"))
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.Unmarshal(manifest, crd))
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	recommendation := status.Properties["recommendations"].Items.Schema
	for _, value := range recommendation.Properties["cappedBy"].AdditionalProperties.Schema.Enum {
		var name string
		require.NoError(t, yaml.Unmarshal(value.Raw, &name))
		caps = append(caps, strconv.Quote(name))
	}
	return caps
}
