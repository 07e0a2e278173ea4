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

// request is a request in the API server's audit log.
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

// of reports whether the request is about the object, its Deployment or an event of it.
func (r request) of(name string) bool {
	return r.Object.Name == name || r.isEvent() && strings.HasPrefix(r.Object.Name, name+".")
}

// writes returns the manager's writes, tried or done, but for those of its lease,
// which include the event that it has become the leader. What asks the API server
// to authenticate or authorize somebody writes nothing.
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
		// A watch is in the log twice: when it begins, and when it has ended.
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
	return r.Object.Resource == "leases" || r.isEvent() && r.Object.Namespace == cluster.ManagerNamespace && r.of(lease)
}

// between returns the requests that were received from one time to another.
func between(requests []request, from, to time.Time) []request {
	return selected(requests, func(r request) bool { return !r.Received.Before(from) && r.Received.Before(to) })
}

func selected(requests []request, by func(request) bool) []request {
	return slices.DeleteFunc(slices.Clone(requests), func(r request) bool { return !by(r) })
}

func TestWritesAreThoseOfTheManagerButForItsLease(t *testing.T) {
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
	assert.Len(t, selected(found, func(r request) bool { return r.of("a") }), 2)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	assert.Len(t, between(found, at, at.Add(1)), 3)
	assert.Empty(t, between(found, at.Add(1), at.Add(time.Hour)))
}
