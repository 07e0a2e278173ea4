package controllers

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/histories"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

const (
	// backfillStep is the time between two samples of the past.
	backfillStep = time.Minute
	// backfillTimeout bounds the reading of one Deployment's past.
	backfillTimeout = 5 * time.Minute
	// backfillers is how many Deployments' past is read at a time. Each query is a heavy one.
	backfillers = 2
)

// Backfiller adds to what is known for a new scaler the usage of the days before it was
// created, so that its first recommendation need not wait for as long.
type Backfiller struct {
	*advisor
	past    usage.Historian // nil where nothing is known of the past.
	history time.Duration
	wake    func(context.Context, *autoscalingv1beta1.VerticalScaler) error
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newBackfiller(collector *UsageCollector, past usage.Historian, history time.Duration) *Backfiller {
	return &Backfiller{
		advisor: collector.advisor, past: past, history: history, wake: collector.wakeOne,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, time.Minute)),
	}
}

// NeedLeaderElection says that only the leader learns.
func (*Backfiller) NeedLeaderElection() bool { return true }

// request asks for a scaler's past, unless it is known.
func (b *Backfiller) request(scaler client.ObjectKey, record *histories.Record) {
	if b.past != nil && !record.Backfilled() {
		b.queue.Add(scaler)
	}
}

// Start reads the past that is asked for until the context ends.
func (b *Backfiller) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("backfill"))
	context.AfterFunc(ctx, b.queue.ShutDown)
	var workers sync.WaitGroup
	for range backfillers {
		workers.Go(func() { b.work(ctx) })
	}
	workers.Wait()
	return nil
}

func (b *Backfiller) work(ctx context.Context) {
	for {
		key, isShutDown := b.queue.Get()
		if isShutDown {
			return
		}
		if err := b.backfill(ctx, key); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reading the past of a Deployment failed; it is tried again", "VerticalScaler", key)
			b.queue.AddRateLimited(key)
		} else {
			b.queue.Forget(key)
		}
		b.queue.Done(key)
	}
}

// backfill adds the past of a scaler's target to its record.
func (b *Backfiller) backfill(ctx context.Context, key types.NamespacedName) error {
	scaler := &autoscalingv1beta1.VerticalScaler{}
	if err := b.cache.Get(ctx, key, scaler); err != nil {
		return client.IgnoreNotFound(err)
	}
	record := b.record(scaler)
	if record.Backfilled() || scaler.Spec.Suspend {
		return nil
	}
	now := record.FirstSample()
	if now.IsZero() {
		now = time.Now()
	}
	// What the present has is not counted again.
	span := usage.Range{From: now.Add(-b.history), To: now.Add(-backfillStep), Step: backfillStep}
	past, samples, err := b.read(ctx, scaler, record.HalfLife(), span)
	if err != nil {
		return err
	}
	record.Backfill(past)
	log.FromContext(ctx).Info("Read the past of a Deployment",
		"VerticalScaler", key, "Deployment", scaler.Spec.DeploymentName, "samples", samples)
	return b.wake(ctx, scaler)
}

// read returns the histories of the containers of a scaler's target in a time of the past, and
// how many samples went into them.
func (b *Backfiller) read(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, halfLife time.Duration, span usage.Range,
) (past map[string]*recommender.History, samples int, err error) {
	ctx, cancel := context.WithTimeout(ctx, backfillTimeout)
	defer cancel()
	past = map[string]*recommender.History{}
	deployment := scaler.Spec.DeploymentName
	for sample, err := range b.past.History(ctx, scaler.Namespace, podNames(deployment), span) {
		if err != nil {
			return nil, 0, fmt.Errorf("read the past usage of Deployment %s: %w", deployment, err)
		}
		if !sample.Usable() {
			continue
		}
		history := past[sample.Container]
		if history == nil {
			history = recommender.New(halfLife)
			past[sample.Container] = history
		}
		if history.AddCPU(sample.Time, sample.CPU) == nil && history.AddMemory(sample.Time, sample.Memory) == nil {
			samples++
		}
	}
	return past, samples, nil
}

// podNames returns a regular expression for the names of a Deployment's pods, which pods of
// others do not have: <deployment>-<template's hash>-<5 characters>, both in the alphabet of
// k8s.io/apimachinery/pkg/util/rand. Of a name that is longer than 63 characters Kubernetes
// cuts off what goes before the last 5.
func podNames(deployment string) string {
	const (
		alphabet     = "[bcdfghjklmnpqrstvwxz2456789]"
		maxGenerated = 63 - 5
		maxHash      = 10
	)
	room := maxGenerated - len(deployment) - len("-") // For the hash and a dash.
	switch {
	case room > maxHash:
		return regexp.QuoteMeta(deployment) + "-" + alphabet + "{1,10}-" + alphabet + "{5}"
	case room >= 0:
		whole, cut := fmt.Sprintf("%s{0,%d}-", alphabet, max(room-1, 0)), fmt.Sprintf("%s{%d}", alphabet, room)
		return regexp.QuoteMeta(deployment) + "-(" + whole + "|" + cut + ")" + alphabet + "{5}"
	default:
		return regexp.QuoteMeta(deployment[:maxGenerated]) + alphabet + "{5}"
	}
}
