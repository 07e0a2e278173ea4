package metricsauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const metrics = "# the metrics\n"

// metricsServer serves metrics behind the filter.
type metricsServer struct {
	t        *testing.T
	handler  http.Handler
	reviewer *reviewer
	clock    *clocktesting.FakeClock
	log      *strings.Builder
}

func newMetricsServer(t *testing.T, api *apiServer) *metricsServer {
	t.Helper()
	s := &metricsServer{t: t, clock: clocktesting.NewFakeClock(time.Now()), log: &strings.Builder{}}
	var err error
	s.reviewer, err = newReviewer(&rest.Config{Host: api.URL, QPS: -1}, api.Client(), s.clock)
	require.NoError(t, err)
	log := funcr.New(func(_, args string) { s.log.WriteString(args + "\n") }, funcr.Options{})
	s.handler, err = s.reviewer.filter(log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(metrics))
		assert.NoError(t, err)
	}))
	require.NoError(t, err)
	return s
}

// get requests the metrics with an Authorization header and returns the status code. It asserts
// that the metrics are served with 200 only.
func (s *metricsServer) get(authorization string) int {
	s.t.Helper()
	return s.send(http.MethodGet, "/metrics", authorization)
}

func (s *metricsServer) send(method, path, authorization string) int {
	s.t.Helper()
	request := httptest.NewRequestWithContext(s.t.Context(), method, path, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response := httptest.NewRecorder()
	s.handler.ServeHTTP(response, request)
	if response.Code == http.StatusOK {
		assert.Equal(s.t, metrics, response.Body.String())
	} else {
		assert.Equal(s.t, http.StatusText(response.Code)+"\n", response.Body.String())
	}
	return response.Code
}

func TestFilterServesAllowedClientsOnly(t *testing.T) {
	for name, test := range map[string]struct {
		authorization  string
		code           int
		tokens, access int
	}{
		"no header":                 {"", http.StatusUnauthorized, 0, 0},
		"no token":                  {"Bearer ", http.StatusUnauthorized, 0, 0},
		"a token without a scheme":  {"reader-token", http.StatusUnauthorized, 0, 0},
		"another scheme":            {"Basic reader-token", http.StatusUnauthorized, 0, 0},
		"an invalid token":          {"Bearer made-up", http.StatusUnauthorized, 1, 0},
		"a user without permission": {"Bearer stranger-token", http.StatusForbidden, 1, 1},
		"a user that is denied":     {"Bearer denied-token", http.StatusForbidden, 1, 1},
		"a user that is allowed":    {"Bearer reader-token", http.StatusOK, 1, 1},
		"a scheme in lower case":    {"bearer reader-token", http.StatusOK, 1, 1},
		"extra spaces":              {"  Bearer  reader-token ", http.StatusOK, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer(t)
			api.users["denied-token"] = authenticationv1.UserInfo{Username: "denied"}
			api.access["denied"] = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
			server := newMetricsServer(t, api)
			assert.Equal(t, test.code, server.get(test.authorization))
			api.assertRequests(t, test.tokens, test.access, name)
			assert.Empty(t, server.log.String())
		})
	}
}

func TestAccessReviewDescribesUserAndRequest(t *testing.T) {
	api := newAPIServer(t)
	api.users["full-token"] = authenticationv1.UserInfo{
		Username: "system:serviceaccount:monitoring:prometheus", UID: "1", Groups: []string{"system:serviceaccounts"},
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
	}
	assert.Equal(t, http.StatusForbidden, newMetricsServer(t, api).send(http.MethodPost, "/metrics", "Bearer full-token"))
	assert.Equal(t, authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:monitoring:prometheus", UID: "1", Groups: []string{"system:serviceaccounts"},
		Extra:                 map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "post"},
	}, api.reviewed)
}

func TestAllowedClientIsReviewedOnce(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	for range 3 {
		assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	}
	api.assertRequests(t, 1, 1, "three requests")
}

func TestDeniedClientIsReviewedOnce(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	for range 3 {
		assert.Equal(t, http.StatusForbidden, server.get("Bearer stranger-token"))
	}
	api.assertRequests(t, 1, 1, "three requests")
}

func TestInvalidTokenIsNotCached(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	assert.Equal(t, http.StatusUnauthorized, server.get("Bearer made-up"))
	assert.Equal(t, http.StatusUnauthorized, server.get("Bearer made-up"))
	api.assertRequests(t, 2, 0, "two requests")
	assert.Empty(t, server.reviewer.users.Keys())
}

func TestCachedResultsApplyToOneTokenAndRequestOnly(t *testing.T) {
	api := newAPIServer(t)
	api.users["new-reader-token"] = authenticationv1.UserInfo{Username: "reader"}
	server := newMetricsServer(t, api)
	require.Equal(t, http.StatusOK, server.get("Bearer reader-token"))

	assert.Equal(t, http.StatusForbidden, server.get("Bearer stranger-token"))
	api.assertRequests(t, 2, 2, "another user")
	assert.Equal(t, http.StatusOK, server.get("Bearer new-reader-token"))
	api.assertRequests(t, 3, 2, "another token of the same user")

	api.change(func() { delete(api.access, "reader") })
	assert.Equal(t, http.StatusForbidden, server.send(http.MethodGet, "/debug", "Bearer reader-token"))
	api.assertRequests(t, 3, 3, "another path")
	assert.Equal(t, http.StatusForbidden, server.send(http.MethodPost, "/metrics", "Bearer reader-token"))
	api.assertRequests(t, 3, 4, "another method")
	assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.assertRequests(t, 3, 4, "the first request again")
}

func TestRevokedTokenIsRejectedAfterOneMinute(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	require.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.change(func() { delete(api.users, "reader-token") })

	server.clock.Step(time.Minute)
	assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.assertRequests(t, 1, 1, "the token is still cached")
	server.clock.Step(time.Nanosecond)
	assert.Equal(t, http.StatusUnauthorized, server.get("Bearer reader-token"))
	api.assertRequests(t, 2, 1, "the token has expired from the cache")
}

func TestRevokedPermissionEndsAfterFiveMinutes(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	require.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.change(func() { delete(api.access, "reader") })

	server.clock.Step(5 * time.Minute)
	assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.assertRequests(t, 2, 1, "the permission is still cached, the token is not")
	server.clock.Step(time.Nanosecond)
	assert.Equal(t, http.StatusForbidden, server.get("Bearer reader-token"))
	api.assertRequests(t, 2, 2, "the permission has expired from the cache")
}

func TestNewPermissionTakesEffectAfterTenSeconds(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	require.Equal(t, http.StatusForbidden, server.get("Bearer stranger-token"))
	api.change(func() { api.access["stranger"] = authorizationv1.SubjectAccessReviewStatus{Allowed: true} })

	server.clock.Step(10 * time.Second)
	assert.Equal(t, http.StatusForbidden, server.get("Bearer stranger-token"))
	api.assertRequests(t, 1, 1, "the denial is still cached")
	server.clock.Step(time.Nanosecond)
	assert.Equal(t, http.StatusOK, server.get("Bearer stranger-token"))
	api.assertRequests(t, 1, 2, "the denial has expired from the cache")
}

func TestFailedReviewDeniesAccessAndIsNotCached(t *testing.T) {
	for _, path := range []string{tokenReviews, accessReviews} {
		for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusForbidden} {
			t.Run(fmt.Sprintf("%s %d", path, code), func(t *testing.T) {
				api := newAPIServer(t)
				server := newMetricsServer(t, api)
				api.change(func() { api.broken[path] = code })
				for _, token := range []string{"reader-token", "stranger-token"} {
					assert.Equal(t, http.StatusInternalServerError, server.get("Bearer "+token))
				}
				assert.Empty(t, server.reviewer.decisions.Keys())
				assert.Equal(t, 2, strings.Count(server.log.String(), "Failed to authorize a request for metrics"))

				api.change(func() { delete(api.broken, path) })
				assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
				assert.Equal(t, http.StatusForbidden, server.get("Bearer stranger-token"))
			})
		}
	}
}

func TestUnreachableAPIServerDeniesAccess(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	require.Equal(t, http.StatusOK, server.get("Bearer reader-token"))
	api.Close()

	assert.Equal(t, http.StatusInternalServerError, server.get("Bearer stranger-token"))
	assert.Contains(t, server.log.String(), "create a TokenReview")
	assert.Equal(t, http.StatusOK, server.get("Bearer reader-token"), "cached results stay in effect")

	server.clock.Step(validTokenTTL + time.Nanosecond)
	assert.Equal(t, http.StatusInternalServerError, server.get("Bearer reader-token"), "until they expire")
}

func TestCachesAreBounded(t *testing.T) {
	api := newAPIServer(t)
	server := newMetricsServer(t, api)
	for i := range cacheSize + 10 {
		token := fmt.Sprintf("token-%d", i)
		api.users[token] = authenticationv1.UserInfo{Username: token}
		require.Equal(t, http.StatusForbidden, server.get("Bearer "+token))
	}
	assert.Len(t, server.reviewer.users.Keys(), cacheSize)
	assert.Len(t, server.reviewer.decisions.Keys(), cacheSize)
}

func TestReviewsHaveADeadline(t *testing.T) {
	var requests int
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		requests++
		_, ok := req.Context().Deadline()
		assert.True(t, ok)
		return nil, errors.New("no answer")
	})}
	reviewer, err := newReviewer(&rest.Config{Host: "http://api.example.com", QPS: -1}, client, clock.RealClock{})
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	request.Header.Set("Authorization", "Bearer reader-token")
	_, err = reviewer.review(request)
	require.ErrorContains(t, err, "no answer")
	assert.Equal(t, 1, requests)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
