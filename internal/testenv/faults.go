package testenv

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Intercept makes the manager's client go through functions.
func Intercept(funcs interceptor.Funcs) Change {
	return func(options *ctrl.Options, _ *rest.Config) {
		options.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, funcs), nil
		}
	}
}

// RoundTripper makes a function an http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// Fault answers the requests of a manager that respond returns a response or an error for. The
// others go to the API server.
func Fault(respond func(*http.Request) (*http.Response, error)) Change {
	return func(_ *ctrl.Options, config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return RoundTripper(func(request *http.Request) (*http.Response, error) {
				if response, err := respond(request); response != nil || err != nil {
					return response, err
				}
				return next.RoundTrip(request)
			})
		})
	}
}

// InternalError is the response of an API server that has failed.
func InternalError() *http.Response {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}
}

// Writes records the requests with which a manager changes objects.
type Writes struct {
	mutex sync.Mutex
	seen  []string // Method and path of each.
}

// Record is a Change that records the manager's writes.
func (w *Writes) Record(_ *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				w.mutex.Lock()
				w.seen = append(w.seen, request.Method+" "+request.URL.Path)
				w.mutex.Unlock()
			}
			return next.RoundTrip(request)
		})
	})
}

// All returns the method and path of every write so far.
func (w *Writes) All() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.seen)
}

// To returns the writes so far whose path contains part.
func (w *Writes) To(part string) []string {
	return slices.DeleteFunc(w.All(), func(write string) bool { return !strings.Contains(write, part) })
}

// Connection is a manager's connection to the API server, which can be cut.
type Connection struct {
	mutex   sync.Mutex
	broken  chan struct{} // Closed while the connection is cut.
	refused int           // Requests since then.
}

// NewConnection returns a connection that is not cut.
func NewConnection() *Connection { return &Connection{broken: make(chan struct{})} }

// Use is a Change that makes the manager use the connection.
func (c *Connection) Use(_ *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			broken, err := c.open()
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(request.Context())
			go func() {
				defer cancel()
				select {
				case <-broken:
				case <-request.Context().Done():
				}
			}()
			return next.RoundTrip(request.WithContext(ctx))
		})
	})
}

// open returns a channel that is closed when the connection is cut, or an error if it is cut.
func (c *Connection) open() (<-chan struct{}, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case <-c.broken:
		c.refused++
		return nil, errors.New("no connection")
	default:
		return c.broken, nil
	}
}

// Cut ends all requests, including watches, and refuses new ones.
func (c *Connection) Cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	close(c.broken)
	c.refused = 0
}

// Restore accepts requests again.
func (c *Connection) Restore() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.broken = make(chan struct{})
}

// Refused returns how many requests were refused since the connection was cut.
func (c *Connection) Refused() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.refused
}
