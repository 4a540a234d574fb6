// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/version"
)

// fieldManager is the field manager of canaries.
const fieldManager = "entrypointer"

const (
	// canaryPoll is the time between two checks of a canary that runs.
	canaryPoll = time.Second
	// roundPatience limits the time of a round.
	roundPatience = 30 * time.Second
	// eventPause is the shortest time between two events of the same reason: client-go
	// drops events beyond a rate, possibly the last one (NewEventCorrelator in
	// https://github.com/kubernetes/client-go/blob/v0.36.3/tools/record/events_cache.go).
	eventPause = 5 * time.Minute
	// maxEvent bounds the message of an event, in bytes, with a margin.
	maxEvent = 1000
)

// key is the only key that is reconciled.
var key = types.NamespacedName{Name: "canaries"}

// canaries runs the canaries, in one replica at a time.
type canaries struct {
	reconciler.LeaderAwareFuncs

	auto    *Auto
	client  kubernetes.Interface
	own     string // namespace
	events  record.EventRecorder
	metrics *metrics
	later   func(time.Duration) // schedules a call of Reconcile
	now     func() time.Time

	// idle reports that there is no canary.
	idle   bool
	told   Verdict
	toldAt time.Time
}

// Reconcile implements controller.Reconciler.
func (c *canaries) Reconcile(ctx context.Context, name string) error {
	if !c.IsLeaderFor(key) {
		c.idle, c.told = false, Verdict{} // another replica continues
		return controller.NewSkipKey(name)
	}
	ctx, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	return errors.Join(c.recordVerdict(ctx), c.run(ctx))
}

// recordVerdict writes an event when the verdict has changed.
func (c *canaries) recordVerdict(ctx context.Context) error {
	verdict := c.auto.Verdict()
	if verdict == c.told || verdict.Reason == NodesUnknown {
		return nil
	}
	if verdict.Reason == NotConfigured {
		c.told = verdict
		return nil
	}
	if left := c.toldAt.Add(eventPause).Sub(c.now()); verdict.Reason == c.told.Reason && left > 0 {
		c.later(left)
		return nil
	}
	about, err := c.client.CoreV1().ConfigMaps(c.own).Get(ctx, config.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", config.Name, err)
	}
	kind := corev1.EventTypeWarning
	if verdict.ImageVolumes() || verdict.Reason == Unproven {
		kind = corev1.EventTypeNormal
	}
	c.events.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: about.Namespace, Name: about.Name, UID: about.UID,
	}, kind, string(verdict.Reason), cut(verdict.String(), maxEvent))
	c.told, c.toldAt = verdict, c.now()
	return nil
}

// run advances the open questions by one step.
func (c *canaries) run(ctx context.Context) error {
	var ready bool
	var asked map[string]*question
	var images Images
	unanswered := 0
	c.auto.read(func(e *evidence) {
		switch e.judge().Reason {
		case NotPermitted, NodesUnknown, APIServerTooOld:
			return
		case NotConfigured: // former canaries may exist
			ready = e.permitted
			return
		}
		ready, images = true, e.images
		asked, _ = e.questions()
		unanswered = len(open(asked, e.proofs))
	})
	if !ready || unanswered == 0 && c.idle {
		return nil
	}
	memory, err := c.client.CoreV1().ConfigMaps(c.own).Get(ctx, ProofsName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w; if it doesn't exist: %s", ProofsName, err, version.Applies(version.Own(), "auto"))
	}
	known := readProofs(memory.Data).until(c.now().Add(longestPause))
	r := &round{canaries: c, asked: asked, images: images, memory: memory, known: known, busy: map[string]bool{}}
	return r.run(ctx)
}

// A round is one check of all canaries.
type round struct {
	*canaries
	asked  map[string]*question
	images Images
	memory *corev1.ConfigMap // as it was read
	known  proofs

	busy   map[string]bool // questions whose canary runs
	free   []string        // unused names of canaries
	over   []*corev1.Pod   // finished canaries
	create []*corev1.Pod
}

func (r *round) run(ctx context.Context) error {
	if err := r.lookAtCanaries(ctx); err != nil {
		return err
	}
	r.chooseNext()
	// Proofs are stored first: whatever happens then, no canary runs twice for nothing,
	// and the pause before the next canary is kept.
	if err := r.remember(ctx); err != nil {
		return err
	}
	faults := make([]error, 0, len(r.over)+len(r.create))
	for _, p := range r.over {
		faults = append(faults, r.remove(ctx, p))
	}
	for _, p := range r.create {
		faults = append(faults, r.start(ctx, p))
	}
	r.idle = len(r.busy) == 0 && len(r.over) == 0
	r.scheduleNext()
	return errors.Join(faults...)
}

// lookAtCanaries takes the results of the canaries that are over.
func (r *round) lookAtCanaries(ctx context.Context) error {
	for _, name := range Canaries {
		p, err := r.client.CoreV1().Pods(r.own).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			r.free = append(r.free, name)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading canary %q: %w", name, err)
		}
		id := p.Annotations[questionAnnotation]
		known := r.known[id]
		if r.asked[id] == nil || known.Result == proven || known.Canaries == 0 || p.DeletionTimestamp != nil || r.busy[id] {
			r.over = append(r.over, p)
			continue
		}
		got, why := resultOf(p, r.now().Sub(known.At))
		if got == started {
			r.busy[id] = true
			continue
		}
		r.settle(ctx, id, got, fmt.Sprintf("on node %q%s", p.Spec.NodeName, behindColon(why)))
		r.over = append(r.over, p)
	}
	return nil
}

// settle notes a result.
func (r *round) settle(ctx context.Context, id string, got result, message string) {
	was := r.known[id]
	r.known[id] = proof{r.asked[id].system, r.images, got, r.now(), max(was.Canaries, 1), cut(message, maxMessage)}
	r.metrics.ended(ctx, got)
	logging.FromContext(ctx).Infow("A canary ended", zap.String("result", string(got)),
		zap.Stringer("system", r.asked[id].system), zap.String("message", message))
}

// chooseNext chooses canaries to start, for open questions that have a node, and whose
// pause is over. Each canary for a question tries another node.
func (r *round) chooseNext() {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: r.memory.Name, UID: r.memory.UID}
	for _, q := range open(r.asked, r.known) {
		p := r.known[q.id]
		if len(r.free) == 0 || r.busy[q.id] || len(q.ready) == 0 || r.now().Before(p.due()) {
			continue
		}
		r.create = append(r.create, canary(r.free[0], r.own, q.ready[p.Canaries%len(q.ready)], q, r.images, owner))
		r.free, r.busy[q.id] = r.free[1:], true
		// A failure stays until there is a better result.
		if p.Result == "" {
			p.Result = started
		}
		p.System, p.Images, p.At, p.Canaries = q.system, r.images, r.now(), p.Canaries+1
		r.known[q.id] = p
	}
}

// remember stores the changed proofs.
func (r *round) remember(ctx context.Context) error {
	asked := map[string]bool{}
	for id := range r.asked {
		asked[id] = true
	}
	data := r.known.data(asked)
	if maps.Equal(data, r.memory.Data) {
		return nil
	}
	changed := r.memory.DeepCopy()
	changed.Data = data
	now, err := r.client.CoreV1().ConfigMaps(r.own).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %q: %w", ProofsName, err)
	}
	r.memory = now
	return nil
}

// remove deletes a canary at once: its node may have no kubelet that could confirm the
// deletion.
func (r *round) remove(ctx context.Context, p *corev1.Pod) error {
	err := r.client.CoreV1().Pods(r.own).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting canary %q: %w", p.Name, err)
	}
	return nil
}

// start creates a canary. Server-side apply has the name in its URL, for RBAC. A refusal
// is an answer as well, for instance of an API server without image volumes.
func (r *round) start(ctx context.Context, p *corev1.Pod) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding canary %q: %w", p.Name, err)
	}
	_, err = r.client.CoreV1().Pods(r.own).Patch(ctx, p.Name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	if err == nil {
		r.metrics.started(ctx)
		logging.FromContext(ctx).Infow("Started a canary", zap.String("pod", p.Name), zap.String("node", p.Spec.NodeName))
		return nil
	}
	id := p.Annotations[questionAnnotation]
	delete(r.busy, id)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		r.settle(ctx, id, failed, fmt.Sprintf("creating it: %v", err))
		return r.remember(ctx)
	}
	return fmt.Errorf("creating canary %q: %w", p.Name, err)
}

// scheduleNext schedules the next round.
func (r *round) scheduleNext() {
	if len(r.busy) > 0 || len(r.over) > 0 {
		r.later(canaryPoll)
		return
	}
	var soonest time.Duration
	for _, q := range open(r.asked, r.known) {
		// Without a ready node, the next change of a node triggers a round.
		if left := r.known[q.id].due().Sub(r.now()); len(q.ready) > 0 && (soonest == 0 || left < soonest) {
			soonest = max(left, canaryPoll)
		}
	}
	if soonest > 0 {
		r.later(soonest)
	}
}
