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

// scalerManager is the field manager of a VerticalScaler's controller. rolloutFields are the only
// fields of a Deployment that it may own.
const (
	scalerManager = "upright-verticalscaler"
	rolloutFields = `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`
)

// guard watches every Deployment of the cluster while the tests run. Upright must not write to a
// Deployment that it does not own, except to roll it out, and must not own a Deployment for a
// VerticalScaler. The guard also watches for pods that cannot be created because of Upright.
type guard struct {
	client client.Client

	mutex      sync.Mutex
	checked    int
	violations map[string]bool
	owned      map[string]bool // All Deployments that Upright owned at any time.
	refusing   map[string]bool // Namespaces in which something that Upright cannot know of refuses pods.
}

func startGuard(ctx context.Context, c client.WithWatch) (*guard, error) {
	g := &guard{client: c, violations: map[string]bool{}, owned: map[string]bool{}, refusing: map[string]bool{}}
	deployments := func() client.ObjectList { return &appsv1.DeploymentList{} }
	if err := watchAll(ctx, c, &appsv1.Deployment{}, deployments, "", g.checkDeployment); err != nil {
		return nil, fmt.Errorf("watch all Deployments: %w", err)
	}
	events := func() client.ObjectList { return &corev1.EventList{} }
	if err := watchAll(ctx, c, &corev1.Event{}, events, "reason=FailedCreate", g.checkFailedCreate); err != nil {
		return nil, fmt.Errorf("watch for pods that cannot be created: %w", err)
	}
	return g, nil
}

// watchAll calls check for each object of a kind that the field selector selects, now and at each change.
func watchAll(
	ctx context.Context, c client.WithWatch, kind client.Object, newList func() client.ObjectList, fields string, check func(any),
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
		AddFunc:    check,
		UpdateFunc: func(_, obj any) { check(obj) },
	}); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("interrupted")
	}
	return nil
}

func (g *guard) checkDeployment(obj any) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.checked++
	if controlledByUpright(deployment) {
		g.owned[deployment.Namespace+"/"+deployment.Name] = true
	}
	if violation := violationIn(deployment); violation != "" {
		g.violations[fmt.Sprintf("Deployment %s/%s: %s", deployment.Namespace, deployment.Name, violation)] = true
	}
}

// check returns an error with all violations and all forbidden writes.
func (g *guard) check(requests []request) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.checked == 0 {
		return errors.New("the guard checked no Deployment")
	}
	all := []error{forbiddenWrites(requests, g.owned)}
	for violation := range g.violations {
		all = append(all, errors.New(violation))
	}
	return errors.Join(all...)
}

// violationIn describes what a Deployment must not have, or returns an empty string.
func violationIn(deployment *appsv1.Deployment) string {
	for _, owner := range deployment.OwnerReferences {
		if owner.Kind == "VerticalScaler" {
			return fmt.Sprintf("an owner reference names VerticalScaler %q", owner.Name)
		}
	}
	isOwned := controlledByUpright(deployment)
	for _, entry := range deployment.ManagedFields {
		fields := entry.FieldsV1.GetRawString()
		switch {
		case entry.Manager == scalerManager && fields == rolloutFields:
		case entry.Manager == scalerManager, strings.HasPrefix(entry.Manager, "upright-") && !isOwned:
			return fmt.Sprintf("%s must not own these fields: %s", entry.Manager, fields)
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

func TestGuardFindsFieldsOfUprightInUnownedDeployments(t *testing.T) {
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

	assert.Empty(t, violationIn(owned("example.com/v1alpha1", "Foo", foo)))
	assert.Contains(t, violationIn(owned("elsewhere.com/v1alpha1", "Foo", foo)), "upright-foo must not own")
	assert.Contains(t, violationIn(owned("autoscaling.example.com/v1beta1", "VerticalScaler", nil)), "names VerticalScaler")
	assert.Contains(t, violationIn(unowned(foo)), "upright-foo must not own")
	assert.Empty(t, violationIn(unowned(foo[:1])))
	assert.Contains(t, violationIn(unowned(resized)), "upright-verticalscaler must not own")
	assert.Contains(t, violationIn(owned("example.com/v1alpha1", "Foo", resized)), "upright-verticalscaler must not own")
	assert.Empty(t, violationIn(unowned(writtenBy(scalerManager, rolloutFields))))
}
