package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scalerManager is the field manager of what a VerticalScaler's controller writes, and
// rolledOut are the only fields of a Deployment that it may own.
const (
	scalerManager = "upright-verticalscaler"
	rolledOut     = `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`
)

// guard watches every Deployment of the cluster while the tests run, for what must never be:
// Upright writing more to a Deployment that is not its own than it takes to roll it out, or
// owning one for a VerticalScaler; and for pods that cannot be created because of Upright.
type guard struct {
	client client.Client

	mutex    sync.Mutex
	seen     int
	breaches map[string]bool
	owned    map[string]bool // The Deployments that have been Upright's.
}

func startGuard(ctx context.Context, c client.WithWatch) (*guard, error) {
	g := &guard{client: c, breaches: map[string]bool{}, owned: map[string]bool{}}
	deployments := func() client.ObjectList { return &appsv1.DeploymentList{} }
	if err := watchAll(ctx, c, &appsv1.Deployment{}, deployments, "", g.look); err != nil {
		return nil, fmt.Errorf("watch all Deployments: %w", err)
	}
	events := func() client.ObjectList { return &corev1.EventList{} }
	if err := watchAll(ctx, c, &corev1.Event{}, events, "reason=FailedCreate", g.lookAtRefusal); err != nil {
		return nil, fmt.Errorf("watch for pods that could not be created: %w", err)
	}
	return g, nil
}

// watchAll looks at each object of a kind that fields select, now and whenever it changes.
func watchAll(
	ctx context.Context, c client.WithWatch, kind client.Object, newList func() client.ObjectList, fields string, look func(any),
) error {
	informer := toolscache.NewSharedInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = fields
			list := newList()
			return list, c.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fields
			return c.Watch(ctx, newList(), &client.ListOptions{Raw: &options})
		},
	}, kind, 0)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, obj any) { look(obj) },
	}); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("interrupted")
	}
	return nil
}

func (g *guard) look(obj any) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.seen++
	if controlledByUpright(deployment) {
		g.owned[deployment.Namespace+"/"+deployment.Name] = true
	}
	if breach := breachIn(deployment); breach != "" {
		g.breaches[fmt.Sprintf("Deployment %s/%s: %s", deployment.Namespace, deployment.Name, breach)] = true
	}
}

// check returns an error that names every breach, and every request that was one.
func (g *guard) check(requests []request) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.seen == 0 {
		return errors.New("the guard saw no Deployment at all")
	}
	all := []error{trespasses(requests, g.owned)}
	for breach := range g.breaches {
		all = append(all, errors.New(breach))
	}
	return errors.Join(all...)
}

// breachIn says what is in a Deployment that must not be there, and nothing where all is well.
func breachIn(deployment *appsv1.Deployment) string {
	for _, owner := range deployment.OwnerReferences {
		if owner.Kind == "VerticalScaler" {
			return fmt.Sprintf("an owner reference points at VerticalScaler %q", owner.Name)
		}
	}
	isOurs := controlledByUpright(deployment)
	for _, entry := range deployment.ManagedFields {
		fields := entry.FieldsV1.GetRawString()
		switch {
		case entry.Manager == scalerManager && fields == rolledOut:
		case entry.Manager == scalerManager, strings.HasPrefix(entry.Manager, "upright-") && !isOurs:
			return fmt.Sprintf("%s owns fields of it that are not its own: %s", entry.Manager, fields)
		}
	}
	return ""
}

func controlledByUpright(deployment *appsv1.Deployment) bool {
	controller := metav1.GetControllerOf(deployment)
	return controller != nil && slices.ContainsFunc(kinds, func(k kind) bool {
		return controller.APIVersion == k.version && controller.Kind == k.name
	})
}

func TestGuardSeesFieldsOfUprightOnAnothersDeployment(t *testing.T) {
	t.Parallel()
	writtenBy := func(manager, fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{
			{Manager: "helm", FieldsV1: metav1.NewFieldsV1("{}")}, {Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)},
		}
	}
	owned := func(version, kind string, fields []metav1.ManagedFieldsEntry) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			ManagedFields:   fields,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "x", Controller: new(true)}},
		}}
	}
	unowned := func(fields []metav1.ManagedFieldsEntry) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}}
	}
	foo, resized := writtenBy("upright-foo", "{}"), writtenBy(scalerManager, `{"f:spec":{"f:replicas":{}}}`)

	assert.Empty(t, breachIn(owned("example.com/v1alpha1", "Foo", foo)))
	assert.Contains(t, breachIn(owned("elsewhere.com/v1alpha1", "Foo", foo)), "upright-foo owns fields")
	assert.Contains(t, breachIn(owned("autoscaling.example.com/v1beta1", "VerticalScaler", nil)), "points at VerticalScaler")
	assert.Contains(t, breachIn(unowned(foo)), "upright-foo owns fields")
	assert.Empty(t, breachIn(unowned(foo[:1])))
	assert.Contains(t, breachIn(unowned(resized)), "upright-verticalscaler owns fields")
	assert.Contains(t, breachIn(owned("example.com/v1alpha1", "Foo", resized)), "upright-verticalscaler owns fields")
	assert.Empty(t, breachIn(unowned(writtenBy(scalerManager, rolledOut))))
}
