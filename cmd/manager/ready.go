package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// checkTimeout limits how long a check of the readiness waits.
const checkTimeout = time.Second

// cachesFilled returns a check that succeeds when all caches are filled.
func cachesFilled(mgr ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), checkTimeout)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
}

// leaderReconciles returns a check that fails while the leader does not reconcile yet. A replica that
// waits for the Lease is ready: it has nothing to do, and a rolling update waits for it.
func leaderReconciles(mgr ctrl.Manager, leaderElection bool, reconciling <-chan struct{}) healthz.Checker {
	return func(*http.Request) error {
		if leaderElection && !isClosed(mgr.Elected()) || isClosed(reconciling) {
			return nil
		}
		return errors.New("the controllers do not reconcile yet")
	}
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
