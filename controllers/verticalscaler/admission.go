package verticalscaler

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=list;watch

// admissionPolicy is the name of the policy that sizes new pods, and of its binding
// (deploy/admission).
const admissionPolicy = "upright-sizing"

// policyDelay is the time after which the API server certainly applies a new policy: it looks
// for new ones once a second.
const policyDelay = 3 * time.Second

// policyAndBinding returns an empty object of each. One has no effect without the other.
func policyAndBinding() []client.Object {
	return []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	}
}

// admission watches whether the API server sizes new pods, and triggers a reconcile of all
// scalers when that changes.
type admission struct {
	cache cache.Cache
	// isUnserved is true if the API server has no MutatingAdmissionPolicies.
	isUnserved bool
	// pending counts the objects that were installed less than policyDelay ago.
	pending atomic.Int32
	// version counts the changes of the policy and its binding.
	version    atomic.Int64
	changed    chan struct{}
	triggerAll func(context.Context) error
}

// newAdmission returns the watch, with informers for the policy and its binding.
func newAdmission(ctx context.Context, mgr ctrl.Manager, triggerAll func(context.Context) error) (*admission, error) {
	a := &admission{cache: mgr.GetCache(), changed: make(chan struct{}, 1), triggerAll: triggerAll}
	policies := admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
	if _, err := mgr.GetRESTMapper().RESTMapping(policies.GroupKind(), policies.Version); meta.IsNoMatchError(err) {
		a.isUnserved = true
		return a, nil
	} else if err != nil {
		return nil, fmt.Errorf("look up MutatingAdmissionPolicies: %w", err)
	}
	for _, obj := range policyAndBinding() {
		informer, err := a.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("cache %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    a.onAdd,
			UpdateFunc: a.onUpdate,
			DeleteFunc: func(any) { a.notify() },
		}); err != nil {
			return nil, fmt.Errorf("watch %T: %w", obj, err)
		}
	}
	return a, nil
}

// onAdd notifies when an installed object has taken effect. An object of the initial list has.
func (a *admission) onAdd(obj any, isInInitialList bool) {
	if isInInitialList {
		a.notify()
		return
	}
	if installed, isObject := obj.(client.Object); !isObject || installed.GetName() != admissionPolicy {
		return
	}
	a.pending.Add(1)
	time.AfterFunc(policyDelay, func() {
		a.pending.Add(-1)
		a.notify()
	})
}

// onUpdate notifies when the policy or its binding has been edited. A resync is no edit.
func (a *admission) onUpdate(oldObj, newObj any) {
	previous, wasObject := oldObj.(client.Object)
	edited, isObject := newObj.(client.Object)
	if wasObject && isObject && edited.GetName() == admissionPolicy && previous.GetGeneration() != edited.GetGeneration() {
		a.version.Add(1)
		a.notify()
	}
}

func (a *admission) notify() {
	select {
	case a.changed <- struct{}{}:
	default: // A notification is pending already.
	}
}

// NeedLeaderElection returns true: only the leader reconciles scalers.
func (*admission) NeedLeaderElection() bool { return true }

// Start triggers a reconcile of all scalers when the policy is installed, edited or removed.
func (a *admission) Start(ctx context.Context) error {
	type state struct {
		isMissing bool
		version   int64
	}
	var previous *state // Nil until all have been triggered once: some may have been reconciled before.
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
		}
		isMissing, err := a.isMissing(ctx)
		current := state{isMissing, a.version.Load()}
		if err == nil && (previous == nil || current != *previous) {
			previous = &current
			err = a.triggerAll(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// identity identifies the versions of the policy and its binding.
func (a *admission) identity(ctx context.Context) (string, error) {
	var versions []string
	for _, obj := range policyAndBinding() {
		if err := a.cache.Get(ctx, client.ObjectKey{Name: admissionPolicy}, obj); err != nil {
			return "", fmt.Errorf("get the admission policy: %w", err)
		}
		versions = append(versions, fmt.Sprintf("%s/%d", obj.GetUID(), obj.GetGeneration()))
	}
	return strings.Join(versions, ","), nil
}

// isMissing reports whether the API server does not size new pods.
func (a *admission) isMissing(ctx context.Context) (bool, error) {
	if a.isUnserved || a.pending.Load() > 0 {
		return true, nil
	}
	for _, obj := range policyAndBinding() {
		if err := a.cache.Get(ctx, client.ObjectKey{Name: admissionPolicy}, obj); apierrors.IsNotFound(err) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("get the admission policy: %w", err)
		}
	}
	return false, nil
}
