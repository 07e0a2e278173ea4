package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
)

// leaderElectionID is the name of the leader election Lease.
const leaderElectionID = "upright-manager"

// Another manager may acquire a Lease that has not been renewed for leaseDuration. A leader stops
// when it cannot renew its Lease for renewDeadline. These are controller-runtime's defaults.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
)

var (
	errLost   = errors.New("another manager has held the leader election Lease in the meantime")
	errFenced = errors.New("not sent, because this manager does not hold the leader election Lease")
)

// lease is the lock of the leader election. A manager can be stopped for longer than its Lease is
// valid (SIGSTOP, a suspended machine). client-go notices that only after some time. Until then it
// goes on, and on its way out it releases the Lease, even if another manager holds it. So the lock
// never changes a Lease that this manager has lost, and its fence stops all other writes.
type lease struct {
	resourcelock.Interface

	mutex   sync.Mutex
	isHeld  bool      // As of the last answer of the API server.
	isLost  bool      // True for good after the Lease was held and is held no longer.
	renewed time.Time // Start of the last renewal that succeeded.
}

// use sets the lock of a namespace, or of the pod's own namespace if it is empty. Its requests do not
// pass the fence. It records events with the manager.
func (l *lease) use(kubeConfig *rest.Config, mgr ctrl.Manager, namespace string) (err error) {
	l.Interface, err = leaderelection.NewResourceLock(kubeConfig, mgr, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: namespace, RenewDeadline: renewDeadline,
	})
	return err
}

// Get reads the Lease, and notices whether this manager has lost it.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.observe(record.HolderIdentity == l.Identity())
	}
	return record, raw, err
}

// Create creates the Lease, unless this manager has held another one.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the Lease, unless this manager has lost it.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lease) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if l.hasLost() {
		return errLost
	}
	start := time.Now()
	// The resource version of the Lease that was read last protects a Lease that has changed since.
	if err := write(ctx, record); err != nil {
		return err
	}
	if record.HolderIdentity == l.Identity() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.isHeld, l.renewed = true, start
	}
	return nil
}

func (l *lease) observe(isHolder bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.isLost = l.isLost || l.isHeld && !isHolder
	l.isHeld = isHolder
}

func (l *lease) hasLost() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.isLost
}

// mayWrite reports whether no other manager can hold the Lease.
func (l *lease) mayWrite(now time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// The monotonic clock stops while the machine is suspended. The wall clock can be set back.
	age := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	return !l.isLost && age < renewDeadline
}

// fence returns a transport that sends a write only if no other manager can hold the Lease. Reviews
// of tokens and access write nothing, and every replica needs them for its metrics.
func (l *lease) fence(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		isReview := strings.HasPrefix(request.URL.Path, "/apis/authentication.k8s.io/") ||
			strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/")
		if request.Method == http.MethodGet || isReview || l.mayWrite(time.Now()) {
			return next.RoundTrip(request)
		}
		if request.Body != nil {
			_ = request.Body.Close() // A transport must close the body, also if it fails.
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errFenced)
	})
}

// roundTripper makes a function an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
