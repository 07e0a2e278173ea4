package controllers

import (
	"context"
	"fmt"
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

// admissionPolicy is the name of the policy that sizes new pods, and of its binding, in
// deploy/admission.
const admissionPolicy = "upright-sizing"

// takesEffect is how long after it was installed the API server certainly goes by a policy: it
// looks for new ones once a second.
const takesEffect = 3 * time.Second

// policyAndBinding returns an empty object of each, since the one does nothing without the other.
func policyAndBinding() []client.Object {
	return []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	}
}

// admission knows whether the API server sizes new pods.
type admission struct {
	cache cache.Cache
	// unserved says that the API server has no such policies at all.
	unserved bool
	// fresh counts what was installed so recently that pods may still be born without it.
	fresh   atomic.Int32
	changed chan struct{}
	wakeAll func(context.Context) error
}

// newAdmission returns what watches the policy, and wakes all scalers when it comes or goes.
func newAdmission(ctx context.Context, mgr ctrl.Manager, wakeAll func(context.Context) error) (*admission, error) {
	a := &admission{cache: mgr.GetCache(), changed: make(chan struct{}, 1), wakeAll: wakeAll}
	policies := admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
	if _, err := mgr.GetRESTMapper().RESTMapping(policies.GroupKind(), policies.Version); meta.IsNoMatchError(err) {
		a.unserved = true
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
			AddFunc:    a.tellInstalled,
			DeleteFunc: func(any) { a.tellChanged() },
		}); err != nil {
			return nil, fmt.Errorf("watch %T: %w", obj, err)
		}
	}
	return a, nil
}

// tellInstalled tells of the policy and its binding when they have taken effect, as those have
// that were there before.
func (a *admission) tellInstalled(obj any, isInInitialList bool) {
	if isInInitialList {
		a.tellChanged()
		return
	}
	if installed, isObject := obj.(client.Object); !isObject || installed.GetName() != admissionPolicy {
		return
	}
	a.fresh.Add(1)
	time.AfterFunc(takesEffect, func() {
		a.fresh.Add(-1)
		a.tellChanged()
	})
}

func (a *admission) tellChanged() {
	select {
	case a.changed <- struct{}{}:
	default: // Somebody is about to look anyway.
	}
}

// NeedLeaderElection says that only the leader wakes scalers.
func (*admission) NeedLeaderElection() bool { return true }

// Start wakes all scalers when the policy comes or goes.
func (a *admission) Start(ctx context.Context) error {
	var was *bool // Nil until all have been woken once: some may have looked before this began.
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
		}
		is, err := a.missing(ctx)
		if err == nil && (was == nil || is != *was) {
			was = &is
			err = a.wakeAll(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// missing reports whether the API server does not size new pods.
func (a *admission) missing(ctx context.Context) (bool, error) {
	if a.unserved || a.fresh.Load() > 0 {
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
