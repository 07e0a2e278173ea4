package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/indexers"
)

// intercept makes the manager's client go through functions.
func intercept(funcs interceptor.Funcs) func(*ctrl.Options, *rest.Config) {
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// writes are the requests by which a manager changes what the API server holds.
type writes struct {
	mu   sync.Mutex
	seen []string // Method and path of each.
}

// record makes the manager's writes known.
func (w *writes) record(_ *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				w.mu.Lock()
				w.seen = append(w.seen, request.Method+" "+request.URL.Path)
				w.mu.Unlock()
			}
			return next.RoundTrip(request)
		})
	})
}

// all returns every write so far.
func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

// to returns the writes so far whose path has a part.
func (w *writes) to(part string) []string {
	var found []string
	for _, write := range w.all() {
		if strings.Contains(write, part) {
			found = append(found, write)
		}
	}
	return found
}

// connection is a manager's connection to the API server, which can be cut.
type connection struct {
	mu      sync.Mutex
	broken  chan struct{} // Closed while the connection is cut.
	refused int           // Requests since then.
}

func newConnection() *connection { return &connection{broken: make(chan struct{})} }

// use makes the manager use the connection.
func (c *connection) use(_ *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
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

// open returns what is closed when the connection is cut, unless it is.
func (c *connection) open() (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.broken:
		c.refused++
		return nil, errors.New("no connection")
	default:
		return c.broken, nil
	}
}

// cut ends every request, watches included, and refuses further ones.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.broken)
	c.refused = 0
}

// restore lets requests through.
func (c *connection) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = make(chan struct{})
}

// refusals returns how many requests were refused since the connection was cut.
func (c *connection) refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// likeCached returns a client that reads from the API server what the manager's client reads
// from its cache: objects that know their kind, and lists by the index of a Deployment's
// controller. Writes, and reads where funcs has a Get, go through funcs.
func likeCached(t *testing.T, funcs interceptor.Funcs) client.Client {
	t.Helper()
	require.Nil(t, funcs.List)
	get := funcs.Get
	if get == nil {
		get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return c.Get(ctx, key, obj, opts...)
		}
	}
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := get(ctx, c, key, obj, opts...); err != nil {
			return err
		}
		gvk, err := c.GroupVersionKindFor(obj)
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		return err
	}
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var options client.ListOptions
		options.ApplyOptions(opts)
		field, uid, _ := strings.Cut(options.FieldSelector.String(), "=")
		if field != indexers.DeploymentController {
			return fmt.Errorf("no index %q", field)
		}
		if err := c.List(ctx, list, client.InNamespace(options.Namespace)); err != nil {
			return err
		}
		deployments := list.(*appsv1.DeploymentList)
		deployments.Items = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool {
			controller := metav1.GetControllerOf(&d)
			return controller == nil || string(controller.UID) != uid
		})
		return nil
	}
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	return interceptor.NewClient(c, funcs)
}
