// Package metricsauth serves metrics only to clients that Kubernetes authenticates and authorizes.
//
// It does what controller-runtime's filters.WithAuthenticationAndAuthorization does: it creates a
// TokenReview and a SubjectAccessReview, and caches their results. That filter also links
// k8s.io/apiserver: with it, the manager's binary has 79 MB instead of 49 MB, and an idle manager
// uses 57 MB of memory instead of 38 MB.
//
// An error denies access and is not cached.
package metricsauth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// How long the result of a review is cached. An invalid token is not cached, as in kube-apiserver:
// anybody can make up tokens, and they must not push valid tokens out of the cache.
const (
	// validTokenTTL and allowedTTL are the values of controller-runtime's filter. A token or a
	// permission that is revoked may stay in effect for that long.
	validTokenTTL = time.Minute
	allowedTTL    = 5 * time.Minute

	// deniedTTL is the default of kube-scheduler and kube-controller-manager for their own metrics
	// (--authorization-webhook-cache-unauthorized-ttl). controller-runtime's filter has 30 seconds.
	// The shorter time lets a new ClusterRoleBinding take effect sooner.
	deniedTTL = 10 * time.Second
)

const (
	// cacheSize is the maximum number of cached results per kind of review. The clients are few:
	// usually one per Prometheus replica.
	cacheSize = 256

	// reviewTimeout limits the two reviews of one request together.
	reviewTimeout = 10 * time.Second
)

// reviewer authenticates and authorizes requests.
type reviewer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	// users caches the user of a valid token.
	users *cache.LRUExpireCache
	// decisions caches whether a user may do what a SubjectAccessReview describes.
	decisions *cache.LRUExpireCache
}

// cacheKey is a hash. It keeps tokens out of the cache, and it bounds the size of a key.
type cacheKey [sha256.Size]byte

// NewFilter returns a filter for the metrics server. It is a FilterProvider.
//
// The manager needs permission to create tokenreviews and subjectaccessreviews. A client needs
// permission to get the nonResourceURL of the metrics.
func NewFilter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	r, err := newReviewer(config, httpClient, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	return r.filter, nil
}

func newReviewer(config *rest.Config, httpClient *http.Client, now cache.Clock) (*reviewer, error) {
	authentication, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create a client for TokenReviews: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create a client for SubjectAccessReviews: %w", err)
	}
	return &reviewer{
		tokens:    authentication.TokenReviews(),
		access:    authorization.SubjectAccessReviews(),
		users:     cache.NewLRUExpireCacheWithClock(cacheSize, now),
		decisions: cache.NewLRUExpireCacheWithClock(cacheSize, now),
	}, nil
}

// filter passes on to next the requests of allowed clients, and answers all others itself.
func (r *reviewer) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status, err := r.review(req)
		if err != nil {
			log.Error(err, "Failed to authorize a request for metrics")
			status = http.StatusInternalServerError
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, req)
	}), nil
}

// review returns 200 if the client may send the request, 401 if it has no valid token, and 403
// if its user lacks permission.
func (r *reviewer) review(req *http.Request) (status int, err error) {
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	user, err := r.authenticate(ctx, bearerToken(req))
	if err != nil {
		return 0, err
	}
	if user == nil {
		return http.StatusUnauthorized, nil
	}
	allowed, err := r.authorize(ctx, user, req)
	if err != nil {
		return 0, err
	}
	if !allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// bearerToken returns the token that a request carries, or "".
func bearerToken(req *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(req.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authenticate returns the user of a token, or nil if the token is empty or invalid.
func (r *reviewer) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	if token == "" {
		return nil, nil
	}
	key := cacheKey(sha256.Sum256([]byte(token)))
	if user, ok := r.users.Get(key); ok {
		return user.(*authenticationv1.UserInfo), nil
	}
	review, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a TokenReview: %w", err)
	}
	// Status.Error needs no check: kube-apiserver also sets it for every invalid token.
	if !review.Status.Authenticated {
		return nil, nil
	}
	r.users.Add(key, &review.Status.User, validTokenTTL)
	return &review.Status.User, nil
}

// authorize reports whether a user may send a request.
func (r *reviewer) authorize(ctx context.Context, user *authenticationv1.UserInfo, req *http.Request) (bool, error) {
	spec := accessSpec(user, req)
	contents, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("encode a SubjectAccessReview: %w", err)
	}
	key := cacheKey(sha256.Sum256(contents))
	if allowed, ok := r.decisions.Get(key); ok {
		return allowed.(bool), nil
	}
	review, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("create a SubjectAccessReview: %w", err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	ttl := deniedTTL
	if allowed {
		ttl = allowedTTL
	}
	r.decisions.Add(key, allowed, ttl)
	return allowed, nil
}

// accessSpec describes a request of a user: "get /metrics" for example.
func accessSpec(user *authenticationv1.UserInfo, req *http.Request) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{
			Path: req.URL.Path, Verb: strings.ToLower(req.Method),
		},
	}
}
