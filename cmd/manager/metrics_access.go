package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// accessTimeout bounds the time in which the API server says who may read metrics.
const accessTimeout = 10 * time.Second

// metricsAccess lets those read metrics whom the API server knows by their token, and allows
// to get the path. It asks with each request. controller-runtime's own filter does the same,
// but links the API server's machinery for it: a third of the binary, all of it resident.
type metricsAccess struct {
	api     client.Client
	log     logr.Logger
	handler http.Handler
}

// newMetricsAccess returns the filter of a metrics server.
func newMetricsAccess(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	api, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("create a client to ask who may read metrics: %w", err)
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return &metricsAccess{api: api, log: log, handler: handler}, nil
	}, nil
}

// ServeHTTP answers those who may not read metrics, and hands on the others.
func (a *metricsAccess) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), accessTimeout)
	defer cancel()
	user, err := a.authenticate(ctx, r)
	if err != nil || user == nil {
		a.refuse(w, http.StatusUnauthorized, err)
		return
	}
	allowed, err := a.authorize(ctx, user, r)
	if err != nil || !allowed {
		a.refuse(w, http.StatusForbidden, err)
		return
	}
	a.handler.ServeHTTP(w, r)
}

// authenticate returns whose token a request carries, nil where it is nobody's.
func (a *metricsAccess) authenticate(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(kind, "Bearer") || token == "" {
		return nil, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := a.api.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, nil
	}
	return &review.Status.User, nil
}

// authorize reports whether a user may get the path of a request.
func (a *metricsAccess) authorize(ctx context.Context, user *authenticationv1.UserInfo, r *http.Request) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}}
	if err := a.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("create a SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}

// refuse answers that metrics may not be read, or that nobody can say so now.
func (a *metricsAccess) refuse(w http.ResponseWriter, status int, err error) {
	if err != nil {
		a.log.Error(err, "Whether somebody may read metrics could not be found out")
		status = http.StatusInternalServerError
	}
	http.Error(w, http.StatusText(status), status)
}
