package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// ofScaler reports whether a VerticalScaler's controller made the request.
func (r *request) ofScaler() bool {
	return strings.Contains(r.RequestURI, "fieldManager="+scalerManager)
}

// scalerWrites are the resources that a VerticalScaler's controller writes. Requests for two of them can
// set owner references: that of a checkpoint is intended, and the guard checks those of Deployments.
var scalerWrites = []string{
	"verticalscalers/status", "verticalscalercheckpoints", "pods/resize", "deployments",
}

// forbiddenWrites returns an error for each request that deleted a Deployment that Upright never
// owned, created one for a VerticalScaler, wrote another resource for a VerticalScaler than
// scalerWrites, or wrote for one in a namespace without VerticalScalers. The keys of owned are all
// Deployments that Upright owned at any time.
func forbiddenWrites(requests []request, owned map[string]bool) error {
	scaled := map[string]bool{}
	for i := range requests {
		if requests[i].ofScaler() && requests[i].ObjectRef.Resource == "verticalscalers" {
			scaled[requests[i].ObjectRef.Namespace] = true
		}
	}
	var all []error
	for i := range requests {
		r := &requests[i]
		isDeployment := r.ObjectRef.Resource == "deployments"
		var what string
		switch {
		case r.ResponseStatus.Code >= 300:
		case isDeployment && r.Verb == "delete" && !owned[r.ObjectRef.Namespace+"/"+r.ObjectRef.Name]:
			what = "deleted a Deployment that it never owned"
		case isDeployment && r.ofScaler() && r.ResponseStatus.Code == 201:
			what = "created a Deployment for a VerticalScaler"
		case r.ofScaler() && !scaled[r.ObjectRef.Namespace]:
			what = "wrote for a VerticalScaler in a namespace without VerticalScalers"
		case r.ofScaler() && !slices.Contains(scalerWrites, r.permission().resource):
			what = "wrote an unexpected resource for a VerticalScaler"
		}
		if what != "" {
			all = append(all, fmt.Errorf("the manager %s: %s %s", what, r.Verb, r.RequestURI))
		}
	}
	return errors.Join(all...)
}

// checkOwners returns an error for each remaining object that has a VerticalScaler among its owners.
// Only checkpoints may have one: no other object is deleted with a VerticalScaler.
func checkOwners(ctx context.Context) error {
	server, err := discovery.NewDiscoveryClientForConfig(env.config)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	served, err := server.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("list the API server's resources: %w", err)
	}
	var all []error
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for i := range list.APIResources {
			if slices.Contains(list.APIResources[i].Verbs, "list") && version.Group != "metrics.k8s.io" {
				all = append(all, ownedByScaler(ctx, version.WithKind(list.APIResources[i].Kind)))
			}
		}
	}
	return errors.Join(all...)
}

// ownedByScaler returns an error for each object of a kind that has a VerticalScaler among its owners.
func ownedByScaler(ctx context.Context, kind schema.GroupVersionKind) error {
	if kind.Kind == "VerticalScalerCheckpoint" {
		return nil
	}
	var objects metav1.PartialObjectMetadataList
	objects.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := env.client.List(ctx, &objects); apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list %s objects: %w", kind.Kind, err)
	}
	var all []error
	for i := range objects.Items {
		for _, owner := range objects.Items[i].OwnerReferences {
			if owner.Kind == "VerticalScaler" {
				all = append(all, fmt.Errorf("%s %s/%s: an owner reference names VerticalScaler %q",
					kind.Kind, objects.Items[i].Namespace, objects.Items[i].Name, owner.Name))
			}
		}
	}
	return errors.Join(all...)
}

func TestGuardFindsForbiddenWrites(t *testing.T) {
	t.Parallel()
	of := func(verb, resource, namespace string, code int, query string) request {
		r := request{Verb: verb, RequestURI: "/" + resource + "?" + query}
		r.ObjectRef.Resource, r.ObjectRef.Subresource, _ = strings.Cut(resource, "/")
		r.ObjectRef.Namespace, r.ObjectRef.Name = namespace, "x"
		r.ResponseStatus.Code = code
		return r
	}
	const forScaler = "fieldManager=" + scalerManager
	status := of("patch", "verticalscalers/status", "ours", 200, forScaler)
	owned := map[string]bool{"ours/x": true}

	require.NoError(t, forbiddenWrites([]request{
		status,
		of("patch", "deployments", "ours", 200, forScaler),
		of("patch", "pods/resize", "ours", 200, forScaler),
		of("patch", "deployments", "theirs", 201, "fieldManager=upright-foo"),
		of("delete", "deployments", "ours", 200, ""),
		of("delete", "deployments", "theirs", 404, ""),
	}, owned))
	for what, forbidden := range map[string]request{
		"deleted a Deployment that it never owned":                          of("delete", "deployments", "theirs", 200, ""),
		"created a Deployment for a VerticalScaler":                         of("patch", "deployments", "ours", 201, forScaler),
		"wrote for a VerticalScaler in a namespace without VerticalScalers": of("patch", "pods/resize", "theirs", 200, forScaler),
		"wrote an unexpected resource for a VerticalScaler":                 of("patch", "replicasets", "ours", 200, forScaler),
	} {
		require.ErrorContains(t, forbiddenWrites([]request{status, forbidden}, owned), what)
	}
}
