package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// request is the audit log's entry for one request of the manager.
type request struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
}

// permission is a verb on a resource. In a rule, an empty name stands for all names.
type permission struct {
	verb, group, resource, name string
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	if p.name != "" {
		text += " " + p.name
	}
	return text
}

// permission returns the permission that the request needs.
func (r *request) permission() permission {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return permission{r.Verb, r.ObjectRef.APIGroup, resource, r.ObjectRef.Name}
}

// deniedPermission is in the message with which the API server denies a permission
// (pkg/endpoints/handlers/responsewriters in k8s.io/apiserver). Admission answers with the same
// code: a quota, a LimitRange that the manager has not seen yet, or a namespace that is being deleted.
var deniedPermission = regexp.MustCompile(`User ".*" cannot `)

// refused reports whether the manager lacked the permission for the request.
func (r *request) refused() bool {
	return r.ResponseStatus.Code == 401 || r.ResponseStatus.Code == 403 && deniedPermission.MatchString(r.ResponseStatus.Message)
}

// writes reports whether the request changed an object. The manager's Lease and the Lease's events,
// which are in the core group, do not count. Neither do reviews: the API server does not store them.
func (r *request) writes() bool {
	needed := r.permission()
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, needed.verb) &&
		!slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, needed.resource) &&
		(needed.group != "" || needed.resource != "events")
}

// auditedRequests returns all requests that the audit log has of the manager.
func auditedRequests() ([]request, error) {
	log, err := os.Open(env.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer log.Close()
	return readRequests(log)
}

func readRequests(log io.Reader) ([]request, error) {
	var requests []request
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, nil // The API server is still writing the last line.
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the audit log: %w: %s", err, line)
		}
		// The audit log has two entries for a watch: when it starts and when it ends.
		if r.Stage != "ResponseStarted" {
			requests = append(requests, r)
		}
	}
}

// refusals returns an error for each permission that the manager lacked.
func refusals(requests []request) error {
	reported := map[permission]bool{}
	var all []error
	for i := range requests {
		r := &requests[i]
		if r.refused() && !reported[r.permission()] {
			reported[r.permission()] = true
			all = append(all, fmt.Errorf("the manager is not allowed to %v (%s): %s",
				r.permission(), r.RequestURI, r.ResponseStatus.Message))
		}
	}
	return errors.Join(all...)
}

// indirect reports whether no request of the manager shows that it needs the permission: an
// admission plugin checks update on finalizers, a patch that creates an object needs create, and
// only an event that is repeated within minutes is patched.
func (p permission) indirect() bool {
	return p.verb == "update" && strings.HasSuffix(p.resource, "/finalizers") ||
		p == permission{"create", "apps", "deployments", ""} ||
		p == permission{"patch", "events.k8s.io", "events", ""}
}

// unused returns an error for each permission that no successful request needed.
func unused(allowed []permission, requests []request) error {
	var all []error
	for _, p := range allowed {
		isUsed := slices.ContainsFunc(requests, func(r request) bool {
			needed := r.permission()
			return needed.verb == p.verb && needed.group == p.group && needed.resource == p.resource &&
				(p.name == "" || needed.name == p.name) && r.ResponseStatus.Code < 300
		})
		if !isUsed && !p.indirect() {
			all = append(all, fmt.Errorf("the manager's role has a permission that no test uses: %v", p))
		}
	}
	return errors.Join(all...)
}

const sampleLog = `
{"stage":"ResponseStarted","verb":"watch","objectRef":{"apiGroup":"apps","resource":"deployments"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"watch","objectRef":{"apiGroup":"apps","resource":"deployments"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"update","objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","name":"mine"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"apiGroup":"example.com","resource":"foos","subresource":"status","name":"a"},"responseStatus":{"code":409}}
{"stage":"ResponseComplete","verb":"create","objectRef":{"resource":"pods","namespace":"n"},"responseStatus":{"code":403,"message":"pods is forbidden: User \"upright\" cannot create resource \"pods\""}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"resource":"pods"},"responseStatus":{"code":403,"message":"unable to create new content in namespace x because it is being terminated"}}
{"stage":"Respon`

func TestAuditCheckFindsRefusalsAndUnusedPermissions(t *testing.T) {
	t.Parallel()

	requests, err := readRequests(strings.NewReader(strings.TrimPrefix(sampleLog, "\n")))

	require.NoError(t, err)
	assert.Len(t, requests, 5)
	require.EqualError(t, refusals(requests), `the manager is not allowed to create pods (): pods is forbidden: User "upright" cannot create resource "pods"`)
	require.NoError(t, unused([]permission{
		{"watch", "apps", "deployments", ""},
		{"update", "coordination.k8s.io", "leases", "mine"},
		{"update", "example.com", "foos/finalizers", ""},
	}, requests))
	for _, p := range []permission{
		{"list", "apps", "deployments", ""},
		{"watch", "", "deployments", ""},
		{"update", "coordination.k8s.io", "leases", "other"},
		{"patch", "example.com", "foos", ""},
		{"patch", "example.com", "foos/status", ""},
		{"create", "", "pods", ""},
	} {
		require.EqualError(t, unused([]permission{p}, requests),
			"the manager's role has a permission that no test uses: "+p.String())
	}
}
