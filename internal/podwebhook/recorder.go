// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// eventComponent is the source of the events.
	eventComponent = "entrypointer"
	// maxWaitingEvents bounds the events that wait to be written, of 2 KiB each, and
	// maxWaitingOfNamespace those of a namespace.
	maxWaitingEvents, maxWaitingOfNamespace = 1000, 100
	// A namespace gets eventBurst events at once, and then one in each eventPause. API servers
	// keep them for an hour.
	eventPause, eventBurst = time.Second, 100
	// eventWriters write at the same time, each of another namespace.
	eventWriters = 4
	// The writers together write so many events in a second.
	eventsPerSecond, eventsAtOnce = 50, 100
	// eventTimeout bounds a request. A request without a response is sent eventTries times,
	// eventRetryPause apart.
	eventTimeout, eventTries, eventRetryPause = 10 * time.Second, 3, 2 * time.Second
)

// A dropReason is why an event isn't written.
type dropReason string

const (
	dropQueueFull     dropReason = "QueueFull"
	dropNamespaceRate dropReason = "NamespaceRate"
	dropOwnerRate     dropReason = "OwnerRate"
	dropFailed        dropReason = "Failed"
)

// A recorder writes events. That of client-go has one queue, in which the events of a single
// tenant keep out those of the others, and a queue that waits while one event is retried.
type recorder struct {
	sink       record.EventSink
	correlator *record.EventCorrelator // counts repeated events, and bounds those of an owner
	waiting    *tenants.Queue[*corev1.Event]
	rates      *tenants.Rates // of namespaces
	metrics    *metrics
	logger     *zap.SugaredLogger
}

// startRecorder returns a recorder that writes with a client of its own, so that the
// reconcilers and the election of a leader don't wait for events.
func startRecorder(ctx context.Context, metrics *metrics) (*recorder, error) {
	config := rest.CopyConfig(injection.GetConfig(ctx))
	config.QPS, config.Burst, config.Timeout = eventsPerSecond, eventsAtOnce, eventTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	r := newRecorder(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, metrics, logging.FromContext(ctx))
	go r.run(context.WithoutCancel(ctx)) // draining replicas write events, too
	return r, nil
}

func newRecorder(sink record.EventSink, metrics *metrics, logger *zap.SugaredLogger) *recorder {
	return &recorder{
		sink: namedSink{sink}, correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}), metrics: metrics, logger: logger,
		waiting: tenants.NewQueue[*corev1.Event](maxWaitingEvents, maxWaitingOfNamespace),
		rates:   tenants.NewRates(eventPause, eventBurst),
	}
}

// Event implements eventRecorder.
func (r *recorder) Event(about runtime.Object, eventType, reason, message string) {
	reference := about.(*corev1.ObjectReference)
	now := metav1.Now()
	dropped, full := r.waiting.Add(reference.Namespace, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: reference.Namespace},
		InvolvedObject: *reference, Type: eventType, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: eventComponent}, ReportingController: eventComponent,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
	if full {
		r.drop(dropped, dropQueueFull)
	}
}

func (r *recorder) drop(event *corev1.Event, why dropReason) {
	r.metrics.eventDropped(why)
	r.logger.Debugw("Dropped an event", zap.String("why", string(why)), zap.String("namespace", event.Namespace), zap.String("object", event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name), zap.String("reason", event.Reason))
}

// run writes events until ctx is done.
func (r *recorder) run(ctx context.Context) { r.waiting.Do(ctx, eventWriters, r.write) }

// write writes an event, or changes the count of an equal one.
func (r *recorder) write(ctx context.Context, event *corev1.Event) {
	counted, err := r.correlator.EventCorrelate(event)
	switch {
	case err != nil:
		r.failed(event, err)
		return
	case counted.Skip:
		r.drop(event, dropOwnerRate)
		return
	case !r.rates.Accept(event.Namespace):
		r.drop(event, dropNamespaceRate)
		return
	}
	for try := 1; ; try++ {
		err := r.send(counted)
		var status *apierrors.StatusError
		switch {
		case err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return
		case errors.As(err, &status) || try == eventTries:
			r.failed(event, err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventRetryPause):
		}
	}
}

func (r *recorder) failed(event *corev1.Event, err error) {
	r.metrics.eventDropped(dropFailed)
	r.logger.Warnw("Failed to write an event", zap.String("namespace", event.Namespace), zap.Error(err))
}

func (r *recorder) send(counted *record.EventCorrelateResult) error {
	event := counted.Event
	if event.Count > 1 {
		written, err := r.sink.Patch(event, counted.Patch)
		if !apierrors.IsNotFound(err) {
			r.remember(written, err)
			return err
		}
		event.ResourceVersion = "" // it has expired
	}
	written, err := r.sink.Create(event)
	r.remember(written, err)
	return err
}

// remember has the next equal event change the count of this one.
func (r *recorder) remember(written *corev1.Event, err error) {
	if err == nil {
		r.correlator.UpdateState(written)
	}
}

// A namedSink derives the name of an event from its owner, its reason and its message, so
// that replicas of the injector with the same warning write one event.
type namedSink struct{ record.EventSink }

// Create implements record.EventSink.
func (s namedSink) Create(event *corev1.Event) (*corev1.Event, error) {
	named := event.DeepCopy()
	named.Name = eventName(event)
	created, err := s.EventSink.Create(named)
	if apierrors.IsAlreadyExists(err) {
		return named, nil
	}
	return created, err
}

func eventName(event *corev1.Event) string {
	about := event.InvolvedObject
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{about.APIVersion, about.Kind, about.Name, string(about.UID), event.Reason, event.Message}))
	return fmt.Sprintf("entrypointer.%x", sum[:16])
}
