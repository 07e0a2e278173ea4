package sizetable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestNamespaceHasOneSizeTable(t *testing.T) {
	t.Parallel()
	table := sizeTable(env.Namespace(t))
	table.Name = "another"
	err := env.Client.Create(t.Context(), table)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "metadata.name must be upright: a namespace has one SizeTable")
}

func TestContainerInATableNeedsRequests(t *testing.T) {
	t.Parallel()
	table := sizeTable(env.Namespace(t))
	table.Deployments = deployments{"web": {"app": {}}}
	err := env.Client.Create(t.Context(), table)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "requests")
	table.Deployments = deployments{"web": {"app": {Requests: corev1.ResourceList{}}}}
	require.NoError(t, env.Client.Create(t.Context(), table))
}

func TestUsersReadAndCannotWriteTheTable(t *testing.T) {
	t.Parallel()
	for name, role := range userRoles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			user := userWith(t, namespace, role.Rules)
			table := testenv.Create(t, env, sizeTable(namespace))
			// The API server's authorizer gets roles from a watch.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NoError(c, user.List(t.Context(), &autoscalingv1beta1.VerticalScalerList{}, client.InNamespace(namespace)))
			}, testenv.Timeout, testenv.Poll)

			require.NoError(t, user.Get(t.Context(), client.ObjectKeyFromObject(table), table))
			var tables autoscalingv1beta1.SizeTableList
			require.NoError(t, user.List(t.Context(), &tables, client.InNamespace(namespace)))
			assert.Len(t, tables.Items, 1)
			for verb, err := range map[string]error{
				"create":     user.Create(t.Context(), sizeTable(namespace)),
				"update":     user.Update(t.Context(), table),
				"patch":      user.Patch(t.Context(), table, client.RawPatch(types.MergePatchType, []byte(`{"deployments": null}`))),
				"delete":     user.Delete(t.Context(), table),
				"delete all": user.DeleteAllOf(t.Context(), table, client.InNamespace(namespace)),
			} {
				assert.True(t, apierrors.IsForbidden(err), "%s: %v", verb, err)
			}
		})
	}
}

// The controller manager adds the rules of roles with these labels to the cluster's own roles.
func TestUserRolesAreAggregated(t *testing.T) {
	t.Parallel()
	roles := userRoles(t)
	for name, labels := range map[string][]string{
		"upright-viewer": {"rbac.authorization.k8s.io/aggregate-to-view"},
		"upright-editor": {"rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-admin"},
	} {
		for _, label := range labels {
			assert.Equal(t, "true", roles[name].Labels[label], "%s: %s", name, label)
		}
	}
	assert.Len(t, roles, 2)
}

// userRoles returns the ClusterRoles of users in deploy, by name.
func userRoles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	manifest, err := os.Open(filepath.Join(testenv.Root(), "deploy", "rbac", "user_roles.yaml"))
	require.NoError(t, err)
	defer func() { require.NoError(t, manifest.Close()) }()
	roles := map[string]*rbacv1.ClusterRole{}
	decoder := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		role := &rbacv1.ClusterRole{}
		err := decoder.Decode(role)
		if errors.Is(err, io.EOF) {
			return roles
		}
		require.NoError(t, err)
		roles[role.Name] = role
	}
}

// userWith returns a client of a user with rules in a namespace.
func userWith(t *testing.T, namespace string, rules []rbacv1.PolicyRule) client.Client {
	t.Helper()
	name := "user-of-" + namespace
	testenv.Create(t, env, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})
	testenv.Create(t, env, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = name
	user, err := client.New(config, client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
	require.NoError(t, err)
	return user
}
