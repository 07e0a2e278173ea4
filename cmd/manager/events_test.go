package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"example.com/upright/internal/testenv"
)

// asManager returns a connection as a user with the manager's ClusterRole.
func asManager(t *testing.T) *rest.Config {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(testenv.Root(), "deploy", "rbac", "role.yaml"))
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(manifest, role))
	role.Name, role.GenerateName = "", "manager-"
	require.NoError(t, env.Client.Create(t.Context(), role))
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: role.Name}},
	}))
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: role.Name}
	return config
}

func TestManagerMayRecordAnEventAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	clients, err := kubernetes.NewForConfig(asManager(t))
	require.NoError(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	defer broadcaster.Shutdown()
	require.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	recorder := broadcaster.NewRecorder(env.Client.Scheme(), "upright-test")
	scaler := createOOMKilledPod(t, namespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		// The API server takes a moment to accept the new role, so it may refuse the first event.
		recorder.Eventf(scaler, nil, corev1.EventTypeNormal, "Tested", "Test", "A message.")
		var all eventsv1.EventList
		assert.NoError(c, env.Client.List(context.Background(), &all, client.InNamespace(namespace)))
		if assert.Len(c, all.Items, 1) && assert.NotNil(c, all.Items[0].Series) {
			assert.Greater(c, all.Items[0].Series.Count, int32(1))
		}
	}, timeout, pollInterval)
}
