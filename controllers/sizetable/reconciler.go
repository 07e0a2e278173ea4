// Package sizetable keeps the SizeTable of each namespace in line with the status of the
// namespace's VerticalScalers.
package sizetable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=sizetables,verbs=list;watch;create;patch;delete

// writeInterval is the minimum time between two writes of a table. Each write sends the whole
// table to all API servers and to the manager.
const writeInterval = time.Second

// Reconciler writes the SizeTables.
type Reconciler struct {
	client.Client
	fieldOwner client.FieldOwner
	// changed is called with the scalers whose place in the table has changed, or which must report
	// that the table cannot be written.
	changed func(ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler) error

	mutex   sync.Mutex
	written map[string]time.Time       // Time of the last write, by namespace.
	omitted map[string]map[string]bool // Deployments that do not fit, by namespace.
	failed  map[string]int             // Failed writes in a row, by namespace.
}

// Reconcile writes the changed entries of a namespace's table in one patch.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// Before the desired table is computed, which takes long if it is large.
	if wait := r.timeToWait(req.Namespace); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	scalers, err := r.scalers(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	live, err := Get(ctx, r.Client, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	desired, omitted := desiredTable(scalers)
	if len(scalers) == 0 {
		omitted = nil // Nothing needs to be known about the namespace.
	}
	if err := r.setOmitted(ctx, req.Namespace, omitted, scalers); err != nil {
		return ctrl.Result{}, err
	}
	if isUpToDate(live, desired) {
		return ctrl.Result{}, r.setFailures(ctx, req.Namespace, 0, scalers)
	}
	if err := r.write(ctx, req.Namespace, live, desired); err != nil {
		return ctrl.Result{}, errors.Join(err, r.setFailures(ctx, req.Namespace, r.failures(req.Namespace)+1, scalers))
	}
	r.setWritten(req.Namespace)
	return ctrl.Result{}, r.setFailures(ctx, req.Namespace, 0, scalers)
}

// Get returns the SizeTable of a namespace from the cache, read-only, or nil if there is none.
func Get(ctx context.Context, cache client.Reader, namespace string, options ...client.GetOption) (*autoscalingv1beta1.SizeTable, error) {
	table := &autoscalingv1beta1.SizeTable{}
	key := client.ObjectKey{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName}
	if err := cache.Get(ctx, key, table, append(options, client.UnsafeDisableDeepCopy)...); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get the SizeTable: %w", err)
	}
	return table, nil
}

// scalers returns the scalers of a namespace, read-only.
func (r *Reconciler) scalers(ctx context.Context, namespace string) ([]*autoscalingv1beta1.VerticalScaler, error) {
	var list autoscalingv1beta1.VerticalScalerList
	if err := r.List(ctx, &list, client.InNamespace(namespace),
		client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency, // The controller writes no scaler. Others do, in all namespaces.
	); err != nil {
		return nil, fmt.Errorf("list the VerticalScalers: %w", err)
	}
	scalers := make([]*autoscalingv1beta1.VerticalScaler, len(list.Items))
	for i := range list.Items {
		scalers[i] = &list.Items[i]
	}
	return scalers, nil
}

// isUpToDate reports whether a table has exactly the desired sizes. An empty table is deleted.
func isUpToDate(live *autoscalingv1beta1.SizeTable, desired map[string]autoscalingv1beta1.PodSize) bool {
	if live == nil || len(desired) == 0 {
		return live == nil && len(desired) == 0
	}
	if live.DecodeError != "" {
		return false
	}
	return maps.EqualFunc(live.Deployments, desired, isEqual)
}

// write creates, patches or deletes the table. If the table has changed since it was read, the API
// server returns a conflict, and the reconcile is retried.
func (r *Reconciler) write(
	ctx context.Context, namespace string, live *autoscalingv1beta1.SizeTable, desired map[string]autoscalingv1beta1.PodSize,
) error {
	switch {
	case live == nil:
		table := &autoscalingv1beta1.SizeTable{
			ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName},
			Deployments: desired,
		}
		err := r.Create(ctx, table, r.fieldOwner)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create the SizeTable: %w", err)
		}
	case len(desired) == 0 || live.DecodeError != "": // A deleted table is created with the desired sizes.
		err := r.Delete(ctx, live.DeepCopy(), client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the SizeTable: %w", err)
		}
	default:
		table := live.DeepCopy()
		table.Deployments = desired
		patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
		if err := r.Patch(ctx, table, patch, r.fieldOwner); err != nil {
			return fmt.Errorf("patch the SizeTable: %w", err)
		}
	}
	return nil
}

// failuresToReport is how many writes in a row must fail before the scalers report it: with
// backoff, those of about a second.
const failuresToReport = 8

// HasFailed reports whether the table of a namespace cannot be written.
func (r *Reconciler) HasFailed(namespace string) bool {
	return r.failures(namespace) >= failuresToReport
}

func (r *Reconciler) failures(namespace string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.failed[namespace]
}

// setFailures stores the number of failed writes in a row. If the scalers of the namespace must
// report the failure, or its end, it triggers their reconcile.
func (r *Reconciler) setFailures(
	ctx context.Context, namespace string, count int, scalers []*autoscalingv1beta1.VerticalScaler,
) error {
	hadFailed := r.HasFailed(namespace)
	r.mutex.Lock()
	delete(r.failed, namespace)
	if count > 0 {
		r.failed[namespace] = count
	}
	r.mutex.Unlock()
	if hadFailed == r.HasFailed(namespace) {
		return nil
	}
	for _, scaler := range scalers {
		if err := r.changed(ctx, scaler); err != nil {
			return fmt.Errorf("trigger the reconcile of VerticalScaler %s: %w", scaler.Name, err)
		}
	}
	return nil
}

// timeToWait returns how long the next write of a namespace's table has to wait.
func (r *Reconciler) timeToWait(namespace string) time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return time.Until(r.written[namespace].Add(writeInterval))
}

func (r *Reconciler) setWritten(namespace string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.written[namespace] = time.Now()
	for other, at := range r.written {
		if time.Since(at) > writeInterval {
			delete(r.written, other)
		}
	}
}

// IsOmitted reports whether the size of a Deployment's pods does not fit into the table. It is not
// known until the table has been reconciled.
func (r *Reconciler) IsOmitted(namespace, deployment string) (isOmitted, isKnown bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	omitted, isKnown := r.omitted[namespace]
	return omitted[deployment], isKnown
}

// setOmitted stores the Deployments that do not fit, and triggers the reconcile of the scalers
// for which that has changed.
func (r *Reconciler) setOmitted(
	ctx context.Context, namespace string, omitted map[string]bool, scalers []*autoscalingv1beta1.VerticalScaler,
) error {
	previous := r.swapOmitted(namespace, omitted)
	for _, scaler := range scalers {
		if name := scaler.Spec.DeploymentName; previous[name] != omitted[name] {
			if err := r.changed(ctx, scaler); err != nil {
				r.swapOmitted(namespace, previous) // So that the retry triggers the remaining scalers.
				return fmt.Errorf("trigger the reconcile of VerticalScaler %s: %w", scaler.Name, err)
			}
		}
	}
	return nil
}

// swapOmitted stores the Deployments that do not fit, and returns the previous ones. It forgets the
// namespace if they are nil.
func (r *Reconciler) swapOmitted(namespace string, omitted map[string]bool) (previous map[string]bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	previous = r.omitted[namespace]
	r.omitted[namespace] = omitted
	if omitted == nil {
		delete(r.omitted, namespace)
	}
	return previous
}
