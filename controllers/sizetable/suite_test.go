package sizetable

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) { env = e }))
}

// manager is a running manager with nothing but the controller of SizeTables.
type manager struct {
	*testenv.Manager
	tables *Reconciler
	client client.Client
	// writes are the requests with which the manager changed SizeTables.
	writes *tableWrites
	// reconciles counts the reconciles.
	reconciles *reconciles
	triggers   *triggers
}

// startManager runs the controller of SizeTables for one namespace.
func startManager(t testing.TB, namespace string, changes ...testenv.Change) *manager {
	t.Helper()
	return startManagerWith(t, namespace, &triggers{}, changes...)
}

// startManagerWith is startManager with a receiver of the triggered reconciles.
func startManagerWith(t testing.TB, namespace string, triggered *triggers, changes ...testenv.Change) *manager {
	t.Helper()
	m := &manager{writes: &tableWrites{}, reconciles: &reconciles{}, triggers: triggered}
	setup := func(_ context.Context, mgr ctrl.Manager, _ *prometheus.Registry) (err error) {
		m.client = mgr.GetClient()
		m.tables, err = AddToManager(mgr, controller.Options{MaxConcurrentReconciles: 4}, m.triggers.add)
		return err
	}
	changes = append([]testenv.Change{m.writes.record, m.reconciles.count}, changes...)
	m.Manager = env.StartManager(t, []string{namespace}, setup, changes...)
	return m
}

// triggers are the scalers whose reconcile the controller has triggered.
type triggers struct {
	mutex sync.Mutex
	err   error // If set, the next trigger fails with it.
	names []string
}

func (s *triggers) add(_ context.Context, scaler *autoscalingv1beta1.VerticalScaler) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.err; err != nil {
		s.err = nil
		return err
	}
	s.names = append(s.names, scaler.Name)
	return nil
}

// take returns the names of the scalers since the last call.
func (s *triggers) take() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := s.names
	s.names = nil
	return names
}

// sizeTable returns an empty SizeTable of a namespace, to read into.
func sizeTable(namespace string) *autoscalingv1beta1.SizeTable {
	table := &autoscalingv1beta1.SizeTable{}
	table.Namespace, table.Name = namespace, autoscalingv1beta1.SizeTableName
	return table
}

// setSizing writes the sizes of a scaler's containers into its status, as the controller of
// VerticalScalers does.
func setSizing(t testing.TB, scaler *autoscalingv1beta1.VerticalScaler, sizes ...autoscalingv1beta1.ContainerSizing) {
	t.Helper()
	require.NoError(t, writeSizing(scaler, sizes...))
}

// writeSizing is setSizing for a goroutine.
func writeSizing(scaler *autoscalingv1beta1.VerticalScaler, sizes ...autoscalingv1beta1.ContainerSizing) error {
	before := scaler.DeepCopy()
	scaler.Status.DeploymentName = scaler.Spec.DeploymentName
	scaler.Status.Sizing = nil
	for i := range sizes {
		// A copy, because the response is decoded into the same amounts, which all scalers share.
		scaler.Status.Sizing = append(scaler.Status.Sizing, *sizes[i].DeepCopy())
	}
	return env.Client.Status().Patch(context.Background(), scaler, client.MergeFrom(before))
}

// createScaler creates a scaler of a Deployment, with sizes in its status.
func createScaler(
	t testing.TB, namespace, name, deployment string, sizes ...autoscalingv1beta1.ContainerSizing,
) *autoscalingv1beta1.VerticalScaler {
	t.Helper()
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, name, deployment))
	setSizing(t, scaler, sizes...)
	return scaler
}
