package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/e2e/cluster"
)

const (
	managerUser = "system:serviceaccount:" + cluster.ManagerNamespace + ":" + cluster.ManagerServiceAccount
	lease       = "upright-manager"
)

// request is an entry of the API server's audit log.
type request struct {
	Verb  string `json:"verb"`
	Stage string `json:"stage"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s/%s %s/%s: %d", r.Received.Format(time.StampMilli), r.Verb,
		r.Object.Resource, r.Object.Subresource, r.Object.Namespace, r.Object.Name, r.Response.Code)
}

func (r request) isEvent() bool { return r.Object.Resource == "events" }

// concerns reports whether the request is for the object of that name, its Deployment or its events.
func (r request) concerns(name string) bool {
	return r.Object.Name == name || r.isEvent() && strings.HasPrefix(r.Object.Name, name+".")
}

// writes returns the manager's write requests, successful or not. It leaves out those for the
// lease and for the event of a new leader, and reviews of tokens and access, which write nothing.
func writes(b require.TestingT, auditLog string) []request {
	return selected(requests(b, auditLog), isWrite)
}

// requests returns the manager's requests.
func requests(b require.TestingT, auditLog string) []request {
	file, err := os.Open(auditLog)
	require.NoError(b, err)
	defer file.Close()
	decoder := json.NewDecoder(file)
	var found []request
	for {
		var r request
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(b, err)
		// The log contains a watch twice: when it starts, and when it ends.
		if r.User.Username == managerUser && (r.Verb != "watch" || r.Stage != "ResponseComplete") {
			found = append(found, r)
		}
	}
}

func isWrite(r request) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) &&
		!slices.Contains([]string{"tokenreviews", "subjectaccessreviews"}, r.Object.Resource) && !isLease(r)
}

func isLease(r request) bool {
	return r.Object.Resource == "leases" || r.isEvent() && r.Object.Namespace == cluster.ManagerNamespace && r.concerns(lease)
}

// between returns the requests that the API server received in an interval.
func between(requests []request, from, to time.Time) []request {
	return selected(requests, func(r request) bool { return !r.Received.Before(from) && r.Received.Before(to) })
}

// selected returns the requests that match.
func selected(requests []request, matches func(request) bool) []request {
	return slices.DeleteFunc(slices.Clone(requests), func(r request) bool { return !matches(r) })
}

func TestWritesLeaveOutTheLeaseAndOtherUsers(t *testing.T) {
	line := func(user, verb, resource, name string) string {
		return fmt.Sprintf(`{"verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"namespace":"upright-system","name":%q},`+
			`"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z"}`+"\n", verb, user, resource, name)
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(file, []byte(
		line(managerUser, "watch", "busyboxes", "")+
			line(managerUser, "patch", "busyboxes", "a")+
			line(managerUser, "create", "events", "a.18c1")+
			line(managerUser, "create", "events", "ab.18c1")+
			line(managerUser, "update", "leases", lease)+
			line(managerUser, "create", "events", lease+".18c1")+
			line("somebody", "create", "busyboxes", "a")), 0o600))

	found := writes(t, file)

	assert.Len(t, found, 3)
	assert.Len(t, selected(found, func(r request) bool { return r.concerns("a") }), 2)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	assert.Len(t, between(found, at, at.Add(1)), 3)
	assert.Empty(t, between(found, at.Add(1), at.Add(time.Hour)))
}
