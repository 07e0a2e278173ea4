// Package bench measures the manager on a whole cluster. The manager runs with its own
// ServiceAccount and with the arguments of its Deployment. Each benchmark starts its own
// cluster and makes one measurement, which takes longer than -benchtime. Therefore the
// benchmarks ignore b.N.
package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/apis"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/e2e/cluster"
)

// Paths relative to this folder.
const (
	toolsDir   = "../../.tools/bin"
	deployDir  = "../../deploy"
	managerBin = "../../bin/manager"
)

const (
	// qps is high, so that kube-controller-manager and kube-scheduler do not limit what is measured.
	qps = 2000
	// users is the number of concurrent clients that create or change objects.
	users = 16
	// namespace contains all objects of a benchmark.
	namespace = "bench"
)

// upright is a cluster with Upright installed. manager is the one that was started last.
type upright struct {
	cluster *cluster.Cluster
	client  client.WithWatch
	manager *cluster.Manager
}

// start starts a cluster and the manager. They stop when the benchmark ends.
func start(b *testing.B) *upright {
	b.Helper()
	u := startCluster(b, 0)
	u.startManager(b)
	return u
}

// startCluster starts a cluster and installs Upright, but does not start the manager. With 0
// nodes, the cluster has the default number.
func startCluster(b *testing.B, nodes int) *upright {
	b.Helper()
	// Logs would be mixed into the lines with results.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	c, err := cluster.Start(b.Context(), cluster.Options{Dir: b.TempDir(), Tools: toolsDir, QPS: qps, Nodes: nodes})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, c.Stop(context.Background())) })
	require.NoError(b, c.InstallUpright(b.Context(), deployDir))
	config, err := c.Config()
	require.NoError(b, err)
	u := &upright{cluster: c}
	u.client, err = client.NewWithWatch(config, client.Options{Scheme: apis.NewScheme()})
	require.NoError(b, err)
	require.NoError(b, u.client.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	return u
}

// startManager starts the manager with the arguments of its Deployment and the given ones.
func (u *upright) startManager(b *testing.B, args ...string) {
	b.Helper()
	var err error
	u.manager, err = u.cluster.StartManager(b.Context(), cluster.ManagerOptions{
		Binary: managerBin, Deploy: deployDir, ExtraArgs: args,
	})
	require.NoError(b, err, "is the manager built? make build")
}

func (u *upright) stopManager(b *testing.B) {
	b.Helper()
	require.NoError(b, u.manager.Stop(b.Context()))
}

// create creates objects concurrently.
func (u *upright) create(b *testing.B, objects []client.Object) {
	b.Helper()
	each(b, objects, func(object client.Object) error {
		return u.client.Create(b.Context(), object.DeepCopyObject().(client.Object))
	})
}

// patch changes the spec of all objects concurrently.
func (u *upright) patch(b *testing.B, objects []client.Object, spec string) {
	b.Helper()
	change := client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))
	each(b, objects, func(object client.Object) error {
		return u.client.Patch(b.Context(), object.DeepCopyObject().(client.Object), change)
	})
}

// each calls do for all objects, up to users at a time.
func each(b *testing.B, objects []client.Object, do func(client.Object) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(users)
	for _, object := range objects {
		group.Go(func() error { return do(object) })
	}
	require.NoError(b, group.Wait())
}

// paced is like each, and starts perSecond calls per second.
func paced(b *testing.B, objects []client.Object, perSecond float32, do func(client.Object) error) {
	b.Helper()
	pace := flowcontrol.NewTokenBucketRateLimiter(perSecond, 1)
	defer pace.Stop()
	each(b, objects, func(object client.Object) error {
		if err := pace.Wait(b.Context()); err != nil {
			return err
		}
		return do(object)
	})
}

// busyboxes returns Busyboxes that do not exist on the cluster yet.
func busyboxes(count int, size int32) []client.Object {
	objects := make([]client.Object, count)
	for i := range objects {
		busybox := &examplev1alpha1.Busybox{Spec: examplev1alpha1.BusyboxSpec{Size: &size}}
		busybox.Namespace, busybox.Name = namespace, fmt.Sprintf("busybox-%d", i)
		objects[i] = busybox
	}
	return objects
}

// fullOr returns the first value, or the second one with -short.
func fullOr[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}
