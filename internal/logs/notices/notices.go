// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package notices writes Kubernetes Events about pods whose output is dropped or refused:
// their owners may look there before they miss the output.
package notices

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// The reasons of the Events.
const (
	ReasonRefused = "LogsRefused"
	ReasonDropped = "LogsDropped"
)

// component is the source of the Events.
const component = "entrypointer-logs"

const (
	// toldTTL is for how long a notice isn't repeated: API servers keep Events for an hour.
	toldTTL = time.Hour
	// maxTold bounds what is remembered, of some 200 bytes each.
	maxTold = 10_000
	// A namespace gets namespaceBurst Events at once, and then one in each namespacePause.
	namespacePause, namespaceBurst = time.Minute, 10
	// totalRate is the rate of all Events, in events per second, and totalBurst how many come
	// at once. What exceeds it waits.
	totalRate, totalBurst = 1, 100
	// maxWaiting bounds the notices that wait to be written.
	maxWaiting = 100
	// writers write at the same time, each in another namespace.
	writers = 4
	// writeTimeout bounds the writing of an Event.
	writeTimeout = 10 * time.Second
)

// Namespaces finds namespaces by name, such as an api.Authenticator.
type Namespaces interface {
	Namespace(ctx context.Context, name string) (api.Namespace, error)
}

// A Notifier is the api.Notices that writes Events.
type Notifier struct {
	events     corev1client.EventsGetter
	namespaces Namespaces
	logger     *slog.Logger
	waiting    *tenants.Queue[notice]
	rates      *tenants.Rates // of namespaces
	total      flowcontrol.RateLimiter

	mu   sync.Mutex
	told *cache.LRUExpireCache // by notice.key
}

var _ api.Notices = (*Notifier)(nil)

// New returns a Notifier. Its client needs permission to create Events.
func New(events corev1client.EventsGetter, namespaces Namespaces, logger *slog.Logger) *Notifier {
	return &Notifier{
		events: events, namespaces: namespaces, logger: logger,
		waiting: tenants.NewQueue[notice](maxWaiting, namespaceBurst),
		rates:   tenants.NewRates(namespacePause, namespaceBurst),
		total:   flowcontrol.NewTokenBucketRateLimiter(totalRate, totalBurst),
		told:    cache.NewLRUExpireCache(maxTold),
	}
}

// A notice becomes an Event.
type notice struct {
	pod                       api.Pod
	container, stream, reason string
	message                   string
}

// key identifies what is told once. The starts of a container don't count, so that a
// container that crashes all the time is told of once.
func (n notice) key() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", []string{n.pod.UID, n.container, n.stream, n.reason}))
}

// Refused implements api.Notices.
func (n *Notifier) Refused(pod api.Pod, container, stream, why string) {
	n.tell(notice{pod, container, stream, ReasonRefused, fmt.Sprintf("The log service refuses the output of %s, which is dropped: %s.", nameOf(container, stream), why)})
}

// Dropped implements api.Notices. If output was refused, that is the reason for dropping
// it.
func (n *Notifier) Dropped(pod api.Pod, container, stream string) {
	if n.wasTold(notice{pod: pod, container: container, stream: stream, reason: ReasonRefused}) {
		return
	}
	n.tell(notice{pod, container, stream, ReasonDropped, fmt.Sprintf(
		"Output of %s was dropped: the container printed more than could be sent, or the log service was down. kubectl entrypointer logs -n %s %s shows where.", nameOf(container, stream), pod.Namespace, pod.Name)})
}

// nameOf names a stream. The client has chosen the names, so only those that Kubernetes
// allows for containers are repeated.
func nameOf(container, stream string) string {
	if len(validation.IsDNS1123Label(stream)) > 0 {
		stream = "a stream"
	}
	if len(validation.IsDNS1123Label(container)) > 0 {
		return stream
	}
	return fmt.Sprintf("%s of container %q", stream, container)
}

func (n *Notifier) wasTold(what notice) bool {
	_, told := n.told.Get(what.key())
	return told
}

// tell has an Event written, unless it was written or its namespace has too many. It never
// waits.
func (n *Notifier) tell(what notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wasTold(what) || !n.rates.Accept(what.pod.Namespace) {
		return
	}
	n.told.Add(what.key(), nil, toldTTL)
	if dropped, full := n.waiting.Add(what.pod.Namespace, what); full {
		n.told.Remove(dropped.key()) // the next of its kind is told of
	}
}

// Run writes Events until ctx is done.
func (n *Notifier) Run(ctx context.Context) error {
	n.waiting.Do(ctx, writers, func(ctx context.Context, what notice) {
		if n.total.Wait(ctx) != nil {
			return // ctx is done
		}
		if err := n.write(ctx, what); err != nil && ctx.Err() == nil {
			n.told.Remove(what.key()) // the next refusal is told of
			n.logger.Error("An Event about a pod's logs can't be written", "namespace", what.pod.Namespace, "pod", what.pod.Name, "reason", what.reason, "error", err)
		}
	})
	return nil
}

// write writes an Event, unless the pod's namespace was deleted.
func (n *Notifier) write(ctx context.Context, what notice) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	namespace, err := n.namespaces.Namespace(ctx, what.pod.Namespace)
	if err != nil || namespace.UID != what.pod.NamespaceUID {
		return err
	}
	_, err = n.events.Events(what.pod.Namespace).Create(ctx, what.event(time.Now()), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // another replica was faster, or the pod is about to go
	}
	return err
}

// event returns the Event. Its name is the same at all replicas.
func (n notice) event(now time.Time) *corev1.Event {
	key, at := n.key(), metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("entrypointer.%x", key[:16]), Namespace: n.pod.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: n.pod.Namespace, Name: n.pod.Name, UID: types.UID(n.pod.UID)},
		Type:           corev1.EventTypeWarning, Reason: n.reason, Message: n.message,
		Source:         corev1.EventSource{Component: component},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}
