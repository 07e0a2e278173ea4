package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/e2e/cluster"
)

// checkPermissions returns an error if the manager lacked a permission. After a run of the whole
// suite, it also returns an error if the manager's roles have a permission that no test uses.
func checkPermissions(ctx context.Context, requests []request, whole bool) error {
	if err := refusals(requests); err != nil || !whole {
		return err
	}
	allowed, err := managerPermissions(ctx)
	if err != nil {
		return err
	}
	return unused(allowed, requests)
}

// managerPermissions returns the permissions that the roles in deploy/ give the manager.
func managerPermissions(ctx context.Context) ([]permission, error) {
	clusterRole := &rbacv1.ClusterRole{}
	role := &rbacv1.Role{}
	if err := errors.Join(
		env.client.Get(ctx, client.ObjectKey{Name: "upright-manager"}, clusterRole),
		env.client.Get(ctx, client.ObjectKey{Namespace: cluster.ManagerNamespace, Name: "upright-leader-election"}, role),
	); err != nil {
		return nil, fmt.Errorf("get the manager's roles: %w", err)
	}
	return permissionsIn(slices.Concat(clusterRole.Rules, role.Rules)), nil
}

// permissionsIn returns all permissions in rules.
func permissionsIn(rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		if len(rule.ResourceNames) == 0 {
			rule.ResourceNames = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range rule.ResourceNames {
						all = append(all, permission{verb, group, resource, name})
					}
				}
			}
		}
	}
	return all
}

func TestManagerNeedsUpdateOnFinalizersOfEachOwner(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		create(t, owner)
		managerRole := managerClusterRole(t)
		version, err := schema.ParseGroupVersion(k.version)
		require.NoError(t, err)
		blocking := newDeployment(namespace, "blocking", 0)
		blocking.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, version.WithKind(k.name)), // It has blockOwnerDeletion set.
		}

		withAll := accountWith(t, namespace, "with-all", managerRole.Rules)
		require.NoError(t, withAll.Create(t.Context(), blocking.DeepCopy(), client.DryRunAll))

		withoutOne := accountWith(t, namespace, "without-one", rulesWithout(managerRole.Rules,
			permission{"update", version.Group, k.resource + "/finalizers", ""}))
		err = withoutOne.Create(t.Context(), blocking.DeepCopy(), client.DryRunAll)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on")
		require.NoError(t, withoutOne.Create(t.Context(), newDeployment(namespace, "plain", 0), client.DryRunAll))
	})
}

// The manager creates Deployments by server-side apply. This is a patch, and the API server also
// checks the create permission.
func TestManagerNeedsCreateOnDeployments(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	managerRole := managerClusterRole(t)
	withAll := accountWith(t, namespace, "with-all", managerRole.Rules)
	withoutOne := accountWith(t, namespace, "without-one", rulesWithout(managerRole.Rules, permission{"create", "apps", "deployments", ""}))
	apply := func(account client.Client, name string) error {
		deployment := newDeployment(namespace, name, 0)
		deployment.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
		fields, err := json.Marshal(deployment)
		require.NoError(t, err)
		return account.Patch(t.Context(), deployment, client.RawPatch(types.ApplyPatchType, fields), client.FieldOwner("e2e"))
	}

	require.NoError(t, apply(withAll, "present"))
	require.NoError(t, apply(withoutOne, "present"))
	requireForbidden(t, apply(withoutOne, "absent"), "create by apply")
}

func managerClusterRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	return refresh(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "upright-manager"}})
}

// rulesWithout returns rules with the same permissions except one. It panics if that one is missing.
func rulesWithout(rules []rbacv1.PolicyRule, one permission) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	found := false
	for _, p := range permissionsIn(rules) {
		if p == one {
			found = true
			continue
		}
		left = append(left, rbacv1.PolicyRule{
			Verbs: []string{p.verb}, APIGroups: []string{p.group}, Resources: []string{p.resource},
		})
	}
	if !found {
		panic(fmt.Sprintf("the rules lack permission %v", one))
	}
	return left
}

// accountWith returns a client for a new ServiceAccount with these rules in its namespace.
func accountWith(t *testing.T, namespace, name string, rules []rbacv1.PolicyRule) client.Client {
	t.Helper()
	create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})
	return accountBoundTo(t, namespace, name, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name})
}

// accountBoundTo returns a client for a new ServiceAccount with a role in its namespace.
func accountBoundTo(t *testing.T, namespace, name string, role rbacv1.RoleRef) client.Client {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    role,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
	config := rest.CopyConfig(env.config)
	config.Impersonate.UserName = strings.Join([]string{"system:serviceaccount", namespace, name}, ":")
	account, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
	require.NoError(t, err)
	// The API server's authorizer gets roles from a watch.
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, account.List(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(namespace)))
	})
	return account
}
