package apis_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestListShowsPrinterColumns(t *testing.T) {
	t.Parallel()
	scalerColumns := []string{"Name", "Deployment", "Mode", "CPU", "Memory", "Ready", "Reason", "Applied", "Age"}
	for name, test := range map[string]struct {
		kind, spec, status string
		columns            []string
		row                []any
	}{
		"Busybox": {"Busybox", "{size: 2}", "",
			[]string{"Name", "Size", "Available", "Ready", "Reason", "Image", "Age"},
			[]any{"a", 2., 0., "Unknown", "Pending", "busybox:1.37.0"}},
		"Memcached": {"Memcached", "{size: 2}", "",
			[]string{"Name", "Size", "Available", "Ready", "Reason", "Image", "Age"},
			[]any{"a", 2., 0., "Unknown", "Pending", "memcached:1.6.26-alpine3.19"}},
		"Foo": {"Foo", "{deploymentName: web}", "",
			[]string{"Name", "Deployment", "Replicas", "Available", "Ready", "Reason", "Age"},
			[]any{"a", "web", 1., 0., "Unknown", "Pending"}},
		"VerticalScaler": {"VerticalScaler", "{deploymentName: web}", "",
			scalerColumns, []any{"a", "web", "InPlaceOrRollout", nil, nil, "Unknown", "Pending", nil}},
		"VerticalScaler with a recommendation": {
			"VerticalScaler", "{deploymentName: web}", `{"podTarget": {"cpu": "1200m", "memory": "363Mi"}, "conditions": [{"type": "Applied",
				"status": "True", "reason": "Sized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`,
			scalerColumns, []any{"a", "web", "InPlaceOrRollout", "1200m", "363Mi", nil, nil, "Sized"}},
		"VerticalScaler with a recommendation of whole cores": {
			"VerticalScaler", "{deploymentName: web}", `{"podTarget": {"cpu": "2"}}`,
			scalerColumns, []any{"a", "web", "InPlaceOrRollout", "2", nil, "Unknown", "Pending"}},
		"VerticalScalerCheckpoint": {"VerticalScalerCheckpoint", "{deploymentName: web}", "",
			[]string{"Name", "Deployment", "Age"}, []any{"a", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := object(t, env.Namespace(t), test.kind, test.spec)
			obj.SetName("a")
			require.NoError(t, createStrictly(t, obj))
			if test.status != "" {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"status": `+test.status+`}`))
				require.NoError(t, env.Client.Status().Patch(t.Context(), obj, patch))
			}
			table := listAsTable(t, obj)
			var columns []string
			for _, column := range table.ColumnDefinitions {
				columns = append(columns, column.Name)
			}
			assert.Equal(t, test.columns, columns)
			require.Len(t, table.Rows, 1)
			assert.Equal(t, test.row, table.Rows[0].Cells[:len(test.row)])
		})
	}
}

// listAsTable lists the objects with the namespace and kind of obj in the format that kubectl prints.
func listAsTable(t *testing.T, obj *unstructured.Unstructured) *metav1.Table {
	t.Helper()
	transport, err := rest.TransportFor(env.Config)
	require.NoError(t, err)
	server, _, err := rest.DefaultServerUrlFor(env.Config)
	require.NoError(t, err)
	plural := definitions(t)[obj.GetKind()].Spec.Names.Plural
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		server.JoinPath("apis", obj.GetAPIVersion(), "namespaces", obj.GetNamespace(), plural).String(), http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, yaml.Unmarshal(body, table))
	return table
}
