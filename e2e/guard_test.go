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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guard watches every Deployment of the cluster while the tests run, for what must never be:
// Upright writing to a Deployment that is not its own, or owning one for a VerticalScaler.
type guard struct {
	mutex    sync.Mutex
	seen     int
	breaches map[string]bool
}

func startGuard(ctx context.Context, c client.WithWatch) (*guard, error) {
	g := &guard{breaches: map[string]bool{}}
	informer := toolscache.NewSharedInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &appsv1.DeploymentList{}
			return list, c.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &appsv1.DeploymentList{}, &client.ListOptions{Raw: &options})
		},
	}, &appsv1.Deployment{}, 0)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    g.look,
		UpdateFunc: func(_, obj any) { g.look(obj) },
	}); err != nil {
		return nil, fmt.Errorf("watch all Deployments: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("watch all Deployments: interrupted")
	}
	return g, nil
}

func (g *guard) look(obj any) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.seen++
	if breach := breachIn(deployment); breach != "" {
		g.breaches[fmt.Sprintf("Deployment %s/%s: %s", deployment.Namespace, deployment.Name, breach)] = true
	}
}

// check returns an error that names every breach.
func (g *guard) check() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.seen == 0 {
		return errors.New("the guard saw no Deployment at all")
	}
	var all []error
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
	if controlledByUpright(deployment) {
		return ""
	}
	for _, entry := range deployment.ManagedFields {
		if strings.HasPrefix(entry.Manager, "upright-") {
			return fmt.Sprintf("it is not Upright's, and %s owns fields of it: %s", entry.Manager, entry.FieldsV1.GetRawString())
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
	written := []metav1.ManagedFieldsEntry{
		{Manager: "helm", FieldsV1: metav1.NewFieldsV1("{}")},
		{Manager: "upright-foo", FieldsV1: metav1.NewFieldsV1("{}")},
	}
	owned := func(version, kind string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			ManagedFields:   written,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "x", Controller: new(true)}},
		}}
	}

	assert.Empty(t, breachIn(owned("example.com/v1alpha1", "Foo")))
	assert.Contains(t, breachIn(owned("elsewhere.com/v1alpha1", "Foo")), "upright-foo owns fields")
	assert.Contains(t, breachIn(owned("autoscaling.example.com/v1beta1", "VerticalScaler")), "points at VerticalScaler")
	assert.Contains(t, breachIn(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: written}}), "upright-foo owns fields")
	assert.Empty(t, breachIn(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: written[:1]}}))
}
