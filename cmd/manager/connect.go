package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

const (
	// connectTimeout limits the time in which the API server must respond at the start.
	connectTimeout = 30 * time.Second
	// connectInterval is the time between two attempts.
	connectInterval = 2 * time.Second
	// responseTimeout limits the time until the response of one attempt.
	responseTimeout = 10 * time.Second
)

// connect waits until the API server responds, and returns a mapper that knows the kinds that it
// serves. A short failure, as during the restart of an API server, does not end the process.
func connect(ctx context.Context, kubeConfig *rest.Config, timeout time.Duration) (meta.RESTMapper, error) {
	// The manager's own requests have no timeout.
	withTimeout := rest.CopyConfig(kubeConfig)
	withTimeout.Timeout = responseTimeout
	httpClient, err := rest.HTTPClientFor(withTimeout)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(withTimeout, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(withTimeout, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	var last error // Why the last attempt failed.
	err = wait.PollUntilContextTimeout(ctx, connectInterval, timeout, true, func(ctx context.Context) (bool, error) {
		err := check(ctx, api, mapper)
		if err == nil || ctx.Err() == nil || last == nil {
			last = err // The end of the timeout explains nothing.
		}
		if last == nil || !isTransient(last) {
			return true, last
		}
		ctrl.Log.Info("The API server does not respond as expected; trying again", "cause", withHost(kubeConfig, last).Error())
		return false, nil
	})
	if last != nil {
		return nil, last
	}
	return mapper, err
}

// check returns an error if the API server does not respond, or does not serve a kind.
func check(ctx context.Context, api discovery.ServerVersionInterfaceWithContext, mapper meta.RESTMapper) error {
	if _, err := api.ServerVersionWithContext(ctx); err != nil {
		return fmt.Errorf("get the API server's version: %w", err)
	}
	return checkKinds(mapper)
}

// checkKinds returns an error that lists the kinds that the API server does not serve.
func checkKinds(mapper meta.RESTMapper) error {
	var missing []string
	for _, kind := range []schema.GroupVersionKind{
		examplev1alpha1.GroupVersion.WithKind("Busybox"),
		examplev1alpha1.GroupVersion.WithKind("Foo"),
		cachev1alpha1.GroupVersion.WithKind("Memcached"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler"),
		autoscalingv1beta1.GroupVersion.WithKind("SizeTable"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScalerCheckpoint"),
	} {
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			missing = append(missing, kind.GroupKind().String())
		} else if err != nil {
			return fmt.Errorf("look up the kinds that the API server serves: %w", err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("the API server does not serve %s: install the CRDs (kubectl apply -k deploy/crds)",
		strings.Join(missing, ", "))
}

// isTransient reports whether an error can go away without a change of the configuration.
func isTransient(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := status.ErrStatus.Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	_, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, hasNoResponse := errors.AsType[*url.Error](err)
	return hasNoResponse && !isUntrusted
}

// withHost adds the API server's address to an error that means that it is unreachable.
func withHost(kubeConfig *rest.Config, err error) error {
	unreachable, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case unreachable.Timeout():
		return fmt.Errorf("cannot reach the API server at %s: no response (%w)", kubeConfig.Host, unreachable.Err)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w", kubeConfig.Host, unreachable.Err)
	}
}
