package usage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// explain adds advice to the error of a request.
func (p *Prometheus) explain(err error) error {
	advise := func(explained Error, advice string) error {
		explained.Cause, explained.Advice = err, "Prometheus at "+p.address+" "+advice
		return &explained
	}
	var network net.Error // *url.Error implements it, so it covers all requests without a response.
	var response *promv1.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("read Prometheus at %s: %w", p.address, err)
	case errors.Is(err, errResponseTooLarge):
		return advise(Error{IsTooLarge: true, IsPermanent: true}, "returns too much usage for one minute, see how many pods the Deployment had")
	case errors.As(err, &network) && network.Timeout():
		return advise(Error{IsTooLarge: true}, "does not answer in time, check its load")
	case errors.As(err, &network):
		return advise(Error{}, "cannot be reached, check --prometheus-url and the network in between")
	case errors.As(err, &response) && response.Type == promv1.ErrBadData:
		return advise(Error{IsPermanent: true}, "refuses the query, see its limits (--query.max-samples) and its log")
	case errors.As(err, &response) && response.Type == promv1.ErrExec:
		return advise(Error{IsTooLarge: true, IsPermanent: true}, "refuses the query, see its limits (--query.max-samples) and its log")
	case errors.As(err, &response) && isServerError(response):
		return advise(Error{IsTooLarge: hasTimedOut(response)}, "is failing, see its log and its /-/ready page")
	case errors.As(err, &response) && isBusy(response):
		return advise(Error{}, "gets too many requests, check its limits and its load")
	case errors.As(err, &response) && response.Type == promv1.ErrClient:
		return advise(Error{IsPermanent: true},
			"rejects the request, check that --prometheus-url is its address and that the manager may read its API")
	default:
		return advise(Error{}, "returns an unexpected response, check that --prometheus-url is its address")
	}
}

func isServerError(response *promv1.Error) bool {
	return response.Type == promv1.ErrServer || response.Type == promv1.ErrTimeout || response.Type == promv1.ErrCanceled
}

// hasTimedOut reports whether the query took longer than Prometheus allows. The client returns the
// response with the status 503 as it is.
func hasTimedOut(response *promv1.Error) bool {
	return response.Type == promv1.ErrTimeout || strings.Contains(response.Detail, `"errorType":"timeout"`)
}

// isBusy reports whether a proxy limits the number of requests. The client has the status of a
// response in its message alone.
func isBusy(response *promv1.Error) bool {
	return response.Type == promv1.ErrClient &&
		(response.Msg == clientError(http.StatusTooManyRequests) || response.Msg == clientError(http.StatusRequestTimeout))
}

func clientError(status int) string { return fmt.Sprintf("client error: %d", status) }

// maxWarnings limits the number of different warnings that are logged.
const maxWarnings = 100

// warnings are those that were logged.
type warnings struct {
	mutex  sync.Mutex
	logged map[string]bool
}

// warn logs each warning of Prometheus once. With a warning, a result can be incomplete.
func (p *Prometheus) warn(ctx context.Context, all promv1.Warnings) {
	p.warnings.mutex.Lock()
	defer p.warnings.mutex.Unlock()
	for _, warning := range all {
		if p.warnings.logged[warning] || len(p.warnings.logged) >= maxWarnings {
			continue
		}
		if p.warnings.logged == nil {
			p.warnings.logged = map[string]bool{}
		}
		p.warnings.logged[warning] = true
		log.FromContext(ctx).Info("Prometheus returns a warning, so usage can be incomplete", "warning", warning)
	}
}
