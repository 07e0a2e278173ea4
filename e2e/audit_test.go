package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// request is what the audit log says of one request of the manager.
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

// permission is the right to do one thing. In a rule an empty name means any.
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

// permission returns what the request took.
func (r *request) permission() permission {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return permission{r.Verb, r.ObjectRef.APIGroup, resource, r.ObjectRef.Name}
}

// roomless are the refusals that have nothing to do with permissions: a namespace that is being
// deleted takes nothing more, and a node or a quota not all that is asked for.
var roomless = []string{
	"because it is being terminated", "node didn't have enough allocatable resources", "exceeded quota",
}

// refused reports whether the manager was not allowed what it asked for.
func (r *request) refused() bool {
	return r.ResponseStatus.Code == 401 || r.ResponseStatus.Code == 403 &&
		!slices.ContainsFunc(roomless, func(reason string) bool { return strings.Contains(r.ResponseStatus.Message, reason) })
}

// writes reports whether the request changed an object, other than the manager's Lease and
// the events of it, which are of the core group. A review is created too, but not kept.
func (r *request) writes() bool {
	taken := r.permission()
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, taken.verb) &&
		!slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, taken.resource) &&
		(taken.group != "" || taken.resource != "events")
}

// auditedRequests returns the manager's requests so far.
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
			return requests, nil // What follows the last line break is still being written.
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the audit log: %w: %s", err, line)
		}
		// A watch is logged when it starts, and again when it ends.
		if r.Stage != "ResponseStarted" {
			requests = append(requests, r)
		}
	}
}

// refusals returns an error for each thing that was refused to the manager.
func refusals(requests []request) error {
	told := map[permission]bool{}
	var all []error
	for i := range requests {
		r := &requests[i]
		if r.refused() && !told[r.permission()] {
			told[r.permission()] = true
			all = append(all, fmt.Errorf("the manager was refused to %v (%s): %s",
				r.permission(), r.RequestURI, r.ResponseStatus.Message))
		}
	}
	return errors.Join(all...)
}

// indirect reports whether no request takes the permission: an admission plugin asks for
// the one to update finalizers, and a patch that creates for the one to create.
func (p permission) indirect() bool {
	return p.verb == "update" && strings.HasSuffix(p.resource, "/finalizers") ||
		p == permission{"create", "apps", "deployments", ""} ||
		p == permission{"create", "autoscaling.example.com", "verticalscalercheckpoints", ""}
}

// unused returns an error for each permission that no successful request took.
func unused(allowed []permission, requests []request) error {
	var all []error
	for _, p := range allowed {
		isUsed := slices.ContainsFunc(requests, func(r request) bool {
			taken := r.permission()
			return taken.verb == p.verb && taken.group == p.group && taken.resource == p.resource &&
				(p.name == "" || taken.name == p.name) && r.ResponseStatus.Code < 300
		})
		if !isUsed && !p.indirect() {
			all = append(all, fmt.Errorf("the manager's role allows what no test made it do: %v", p))
		}
	}
	return errors.Join(all...)
}

const sampleLog = `
{"stage":"ResponseStarted","verb":"watch","objectRef":{"apiGroup":"apps","resource":"deployments"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"watch","objectRef":{"apiGroup":"apps","resource":"deployments"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"update","objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","name":"mine"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"apiGroup":"example.com","resource":"foos","subresource":"status","name":"a"},"responseStatus":{"code":409}}
{"stage":"ResponseComplete","verb":"create","objectRef":{"resource":"pods","namespace":"n"},"responseStatus":{"code":403,"message":"User cannot create pods"}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"resource":"pods"},"responseStatus":{"code":403,"message":"unable to create new content in namespace x because it is being terminated"}}
{"stage":"Respon`

func TestAuditCheckFindsWhatWasRefusedAndWhatWasNotUsed(t *testing.T) {
	t.Parallel()

	requests, err := readRequests(strings.NewReader(strings.TrimPrefix(sampleLog, "\n")))

	require.NoError(t, err)
	assert.Len(t, requests, 5)
	require.EqualError(t, refusals(requests), "the manager was refused to create pods (): User cannot create pods")
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
			"the manager's role allows what no test made it do: "+p.String())
	}
}
