package metricsauth

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	tokenReviews  = "/apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

// apiServer answers reviews and records them.
type apiServer struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// users are the users of the valid tokens.
	users map[string]authenticationv1.UserInfo
	// access is the answer for each user that has one. All other users are not allowed.
	access map[string]authorizationv1.SubjectAccessReviewStatus
	// broken maps a path to the status code that all its requests fail with.
	broken map[string]int
	// requests counts the requests for each path.
	requests map[string]int
	// reviewed is the spec of the latest SubjectAccessReview.
	reviewed authorizationv1.SubjectAccessReviewSpec
}

// newAPIServer starts an API server with the users reader, who is allowed, and stranger.
// Their tokens are reader-token and stranger-token.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{
		t: t,
		users: map[string]authenticationv1.UserInfo{
			"reader-token":   {Username: "reader"},
			"stranger-token": {Username: "stranger"},
		},
		access:   map[string]authorizationv1.SubjectAccessReviewStatus{"reader": {Allowed: true}},
		broken:   map[string]int{},
		requests: map[string]int{},
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[req.URL.Path]++
	if code, ok := s.broken[req.URL.Path]; ok {
		http.Error(w, http.StatusText(code), code)
		return
	}
	assert.Equal(s.t, http.MethodPost, req.Method)
	switch req.URL.Path {
	case tokenReviews:
		review := &authenticationv1.TokenReview{}
		s.decode(req, review)
		review.Status.User, review.Status.Authenticated = s.users[review.Spec.Token]
		if !review.Status.Authenticated {
			review.Status.Error = "invalid bearer token"
		}
		s.respond(w, review)
	case accessReviews:
		review := &authorizationv1.SubjectAccessReview{}
		s.decode(req, review)
		s.reviewed = review.Spec
		review.Status = s.access[review.Spec.User]
		s.respond(w, review)
	default:
		http.NotFound(w, req)
	}
}

// decode decodes a review, which may be JSON or protobuf.
func (s *apiServer) decode(req *http.Request, into runtime.Object) {
	body, readErr := io.ReadAll(req.Body)
	_, _, decodeErr := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	assert.NoError(s.t, errors.Join(readErr, decodeErr))
}

func (s *apiServer) respond(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	assert.NoError(s.t, json.NewEncoder(w).Encode(review))
}

// change changes the answers of the API server.
func (s *apiServer) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// assertRequests asserts the number of requests so far.
func (s *apiServer) assertRequests(t *testing.T, tokens, access int, msg string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, tokens, s.requests[tokenReviews], "TokenReviews: %s", msg)
	assert.Equal(t, access, s.requests[accessReviews], "SubjectAccessReviews: %s", msg)
}
