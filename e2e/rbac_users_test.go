package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func requireForbidden(t *testing.T, err error, request string) {
	t.Helper()
	require.True(t, apierrors.IsForbidden(err), "%s: %v", request, err)
}

// everyKind returns an object of each of Upright's kinds for users.
func everyKind(namespace, name string) []client.Object {
	all := []client.Object{newScaler(namespace, name, "some-deployment")}
	for _, k := range kinds {
		all = append(all, k.newOwner(namespace, name+"-"+k.resource, 1))
	}
	return all
}

func TestEditorsManageObjectsAndCannotWriteStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	editor := accountBoundTo(t, namespace, "editor", clusterRole("edit"))

	for _, obj := range everyKind(namespace, "mine") {
		kind := obj.DeepCopyObject()
		// The controller manager adds Upright's rules to the cluster's own role after a while.
		eventually(t, func(c *assert.CollectT) {
			require.NoError(c, client.IgnoreAlreadyExists(editor.Create(t.Context(), obj)), "create %T", kind)
		})
		before, ok := obj.DeepCopyObject().(client.Object)
		require.True(t, ok)
		obj.SetLabels(map[string]string{"changed": "yes"})
		require.NoError(t, editor.Patch(t.Context(), obj, client.MergeFrom(before)), "change %T", kind)
		requireForbidden(t, editor.Status().Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json",
			[]byte(`{"status": {"conditions": []}}`))), "write a status")
		requireForbidden(t, editor.Status().Update(t.Context(), obj), "write a status")
	}
	for _, k := range kinds {
		owner := k.newOwner(namespace, "mine-"+k.resource, 1)
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
		require.NoError(t, editor.SubResource("scale").Update(t.Context(), owner, client.WithSubResourceBody(scale)), k.resource)
		waitForReady(t, owner)
		assert.Equal(t, int32(2), *getDeployment(t, namespace, "mine-"+k.resource).Spec.Replicas)
	}
	for _, obj := range everyKind(namespace, "mine") {
		require.NoError(t, editor.Delete(t.Context(), obj), "delete %T", obj)
	}
}

func TestViewersReadObjectsAndCannotWrite(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	viewer := accountBoundTo(t, namespace, "viewer", clusterRole("view"))

	for _, obj := range everyKind(namespace, "theirs") {
		create(t, obj)
		eventually(t, func(c *assert.CollectT) {
			require.NoError(c, viewer.Get(t.Context(), client.ObjectKeyFromObject(obj), obj), "read %T", obj)
		})
		requireForbidden(t, viewer.Update(t.Context(), obj), "change")
		requireForbidden(t, viewer.Status().Update(t.Context(), obj), "write a status")
		requireForbidden(t, viewer.Delete(t.Context(), obj), "delete")
	}
	for _, obj := range everyKind(namespace, "another") {
		requireForbidden(t, viewer.Create(t.Context(), obj), "create")
	}
	for _, k := range kinds {
		owner := k.newOwner(namespace, "theirs-"+k.resource, 1)
		scale := &autoscalingv1.Scale{}
		require.NoError(t, viewer.SubResource("scale").Get(t.Context(), owner, scale), "read the scale of %s", k.resource)
		requireForbidden(t, viewer.SubResource("scale").Update(t.Context(), owner, client.WithSubResourceBody(scale)), "scale")
	}
}

// A checkpoint decides what its scaler recommends.
func TestUsersCannotReadOrWriteCheckpoints(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	saved := &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "saved"},
		Data:       autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: "some-deployment"},
	}
	create(t, saved.DeepCopy())
	for _, role := range []string{"view", "edit", "admin"} {
		user := accountBoundTo(t, namespace, role, clusterRole(role))
		// The controller manager adds Upright's rules to the cluster's own role after a while.
		eventually(t, func(c *assert.CollectT) {
			require.NoError(c, user.List(t.Context(), &autoscalingv1beta1.VerticalScalerList{}, client.InNamespace(namespace)))
		})
		another := saved.DeepCopy()
		another.Name = "another"
		requireForbidden(t, user.Create(t.Context(), another), role+": create")
		requireForbidden(t, user.Get(t.Context(), client.ObjectKeyFromObject(saved), &autoscalingv1beta1.VerticalScalerCheckpoint{}), role+": read")
		requireForbidden(t, user.Update(t.Context(), saved), role+": change")
		requireForbidden(t, user.Patch(t.Context(), saved, client.RawPatch(types.MergePatchType, []byte(`{"data": {"deploymentName": "x"}}`))), role+": change")
		requireForbidden(t, user.Delete(t.Context(), saved), role+": delete")
		requireForbidden(t, user.DeleteAllOf(t.Context(), saved, client.InNamespace(namespace)), role+": delete")
	}
}

// A SizeTable decides about the resources of new pods.
func TestUsersReadSizeTablesAndCannotWriteThem(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	table := &autoscalingv1beta1.SizeTable{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName}}
	for _, role := range []string{"view", "edit", "admin"} {
		user := accountBoundTo(t, namespace, role, clusterRole(role))
		eventually(t, func(c *assert.CollectT) {
			require.NoError(c, user.List(t.Context(), &autoscalingv1beta1.SizeTableList{}, client.InNamespace(namespace)), role+": read")
		})
		requireForbidden(t, user.Create(t.Context(), table.DeepCopy()), role+": create")
		requireForbidden(t, user.Update(t.Context(), table.DeepCopy()), role+": change")
		requireForbidden(t, user.Patch(t.Context(), table.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"deployments": {}}`))), role+": change")
		requireForbidden(t, user.Delete(t.Context(), table.DeepCopy()), role+": delete")
		requireForbidden(t, user.DeleteAllOf(t.Context(), table.DeepCopy(), client.InNamespace(namespace)), role+": delete")
	}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}
