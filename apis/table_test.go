package apis_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestAListShowsTheColumnsOfItsKind(t *testing.T) {
	t.Parallel()
	transport, err := rest.TransportFor(env.Config)
	require.NoError(t, err)
	server, _, err := rest.DefaultServerUrlFor(env.Config)
	require.NoError(t, err)
	namespace := env.Namespace(t)
	for kind, test := range map[string]struct {
		path, spec string
		columns    []string
		row        []any
	}{
		"Busybox": {"example.com/v1alpha1", "{size: 2}",
			[]string{"Name", "Size", "Available", "Ready", "Reason", "Image", "Age"},
			[]any{"a", 2., 0., "Unknown", "Pending", "busybox:1.37.0"}},
		"Memcached": {"cache.example.com/v1alpha1", "{size: 2}",
			[]string{"Name", "Size", "Available", "Ready", "Reason", "Image", "Age"},
			[]any{"a", 2., 0., "Unknown", "Pending", "memcached:1.6.26-alpine3.19"}},
		"Foo": {"example.com/v1alpha1", "{deploymentName: web}",
			[]string{"Name", "Deployment", "Replicas", "Available", "Ready", "Reason", "Age"},
			[]any{"a", "web", 1., 0., "Unknown", "Pending"}},
		"VerticalScaler": {"autoscaling.example.com/v1beta1", "{deploymentName: web}",
			[]string{"Name", "Deployment", "Mode", "Ready", "Reason", "Age"},
			[]any{"a", "web", "InPlaceOrRollout", "Unknown", "Pending"}},
	} {
		obj := object(t, namespace, kind, test.spec)
		obj.SetGenerateName("")
		obj.SetName("a")
		require.NoError(t, createStrictly(t, obj), kind)
		plural := definitions(t)[kind].Spec.Names.Plural
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			server.JoinPath("apis", test.path, "namespaces", namespace, plural).String(), http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		table := readTable(t, transport, request)
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		assert.Equal(t, test.columns, columns, kind)
		require.Len(t, table.Rows, 1, kind)
		assert.Equal(t, test.row, table.Rows[0].Cells[:len(test.row)], kind)
	}
}

// readTable asks for a list in the form that kubectl prints.
func readTable(t *testing.T, transport http.RoundTripper, request *http.Request) *metav1.Table {
	t.Helper()
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, yaml.Unmarshal(body, table))
	return table
}
