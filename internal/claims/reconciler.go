// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// jobCheckInterval is the time until the next check of a Job, blockedCheckInterval until
// the next check of a state that needs manual intervention.
const jobCheckInterval, blockedCheckInterval = 2 * time.Second, 30 * time.Second

var everything = labels.Everything()

// keyOf returns the key of a namespace for leader election.
func keyOf(namespace string) types.NamespacedName { return types.NamespacedName{Name: namespace} }

// A filler creates, fills and removes the claims of namespaces.
type filler struct {
	reconciler.LeaderAwareFuncs

	images     Images
	client     kubernetes.Interface
	volumes    dynamic.Interface
	config     interface{ Load() *config.Config }
	namespaces corelisters.NamespaceLister
	own        string // the injector's namespace
	seen       func() *seen
	absent     func() bool // a check has found that config/claims isn't installed
}

var _ controller.Reconciler = (*filler)(nil)

// concerns reports whether there may be something to do in a namespace: it opted in, or
// has a SupervisorVolume. Of many namespaces, most are neither. A change of a
// SupervisorVolume enqueues its namespace by itself, and so does the first list of them.
func (f *filler) concerns(ns *corev1.Namespace) bool {
	if config.OptsIn(ns, f.own) {
		return true
	}
	s := f.seen()
	if s == nil {
		return false
	}
	v, err := s.supervisorVolume(ns.Name)
	return err != nil || v != nil
}

// Reconcile implements controller.Reconciler. The key is a namespace.
func (f *filler) Reconcile(ctx context.Context, key string) error {
	if !f.IsLeaderFor(keyOf(key)) {
		return controller.NewSkipKey(key)
	}
	ns, err := f.namespaces.Get(key)
	if apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %q: %w", key, err)
	}
	asked := config.OptsIn(ns, f.own) && f.config.Load().DeliveryIn(ns) == pod.DeliveryClaim
	s := f.seen()
	if s == nil {
		if asked && f.absent() {
			logging.FromContext(ctx).Warnw("The delivery of a namespace is claim, but its pods get an init container, because config/claims isn't installed",
				zap.String("namespace", key))
		}
		return nil
	}
	v, err := s.supervisorVolume(key)
	switch {
	case err != nil:
		return fmt.Errorf("reading the SupervisorVolume of namespace %q: %w", key, err)
	case v == nil && asked:
		return f.createDefault(ctx, key)
	case v == nil || v.DeletionTimestamp != nil:
		return nil
	}
	return f.reconcile(ctx, s, v, asked)
}

// reconcile brings a namespace's claims to the wanted state, and writes the status.
func (f *filler) reconcile(ctx context.Context, s *seen, v *SupervisorVolume, asked bool) (err error) {
	before := v.forgetConditions()
	var again time.Duration
	if asked {
		again, err = f.follow(ctx, s, v)
	} else {
		again, err = f.leave(ctx, s, v, before)
	}
	if err != nil {
		return err
	}
	v.keepTimes(before)
	v.Status.ObservedGeneration = v.Generation
	if !equality.Semantic.DeepEqual(before, v.Status) {
		if err := f.writeStatus(ctx, v); err != nil {
			return err
		}
	}
	if again > 0 {
		return controller.NewRequeueAfter(again)
	}
	return nil
}

// follow brings a namespace's claims to the wanted state, and describes the result in the
// status. It returns the time until the next check, 0 for none.
func (f *filler) follow(ctx context.Context, s *seen, v *SupervisorVolume) (time.Duration, error) {
	name, err := f.images.claimName(v.Spec.VolumeClaimTemplate)
	if err != nil {
		return 0, err
	}
	claim, again, err := f.provide(ctx, v, name)
	if err != nil {
		return 0, err
	}
	if claim == nil {
		v.Status.ClaimName = ""
		wait, err := f.retireUnfilled(ctx, s, v, name)
		return earlier(again, wait), err
	}
	filled, again, err := f.fill(ctx, v, claim)
	if err != nil || !filled {
		v.Status.ClaimName = ""
		if err != nil {
			return 0, err
		}
		wait, err := f.retireUnfilled(ctx, s, v, name)
		return earlier(again, wait), err
	}
	now := metav1.Now()
	entry := v.Status.filled(name, claim.UID)
	if entry == nil {
		v.Status.Claims = append(v.Status.Claims, Filled{Name: name, UID: claim.UID, Since: now})
		entry = &v.Status.Claims[len(v.Status.Claims)-1]
	} else if v.Status.ClaimName != name {
		entry.Since = now // set again after a downgrade
	}
	v.Status.ClaimName = name
	return f.retire(ctx, s, v, name, v.Spec.retireAfter()-now.Sub(entry.Since.Time))
}

// leave removes the claims of a namespace that no longer asks for any, and the SupervisorVolume
// if the reconciler created it and no other client changed it. It waits first, because
// pods that mount a claim may wait for a node.
func (f *filler) leave(ctx context.Context, s *seen, v *SupervisorVolume, before Status) (time.Duration, error) {
	v.Status.ClaimName = ""
	v.manager().MarkUnknown(Bound, NotAskedFor, "the delivery of this namespace isn't claim; annotate it with entrypointer.dev/delivery: claim")
	v.keepTimes(before)
	wait := v.Spec.retireAfter() - time.Since(v.manager().GetCondition(Bound).LastTransitionTime.Inner.Time)
	// A SupervisorVolume with a changed spec belongs to the client that changed it.
	if wait <= 0 && v.Labels[managedByLabel] == manager && equality.Semantic.DeepEqual(v.Spec, Spec{}) {
		return 0, f.deleteDefault(ctx, v)
	}
	return f.retire(ctx, s, v, "", wait)
}

func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// retire deletes the claims of other versions and templates, unless it is too early.
// Kubernetes keeps each until the last scheduled pod that mounts it is gone.
func (f *filler) retire(ctx context.Context, s *seen, v *SupervisorVolume, wanted string, wait time.Duration) (time.Duration, error) {
	return f.retireWhere(ctx, s, v, func(name string, _ types.UID) time.Duration {
		if name == wanted {
			return keepClaim
		}
		return max(wait, 0)
	})
}

// retireUnfilled deletes claims that no pod has ever mounted, while the wanted claim
// isn't ready.
func (f *filler) retireUnfilled(ctx context.Context, s *seen, v *SupervisorVolume, wanted string) (time.Duration, error) {
	return f.retireWhere(ctx, s, v, func(name string, uid types.UID) time.Duration {
		if name == wanted || v.Status.filled(name, uid) != nil {
			return keepClaim
		}
		return 0
	})
}

// keepClaim is the result for a claim that stays.
const keepClaim = time.Duration(-1)

func (f *filler) retireWhere(ctx context.Context, s *seen, v *SupervisorVolume, when func(name string, uid types.UID) time.Duration) (again time.Duration, _ error) {
	all, err := s.claims.ByNamespace(v.Namespace).List(everything)
	if err != nil {
		return 0, fmt.Errorf("listing the claims of namespace %q: %w", v.Namespace, err)
	}
	there := map[types.UID]bool{}
	for _, object := range all {
		claim := accessor(object)
		if claim == nil || !metav1.IsControlledBy(claim, v) {
			continue
		}
		there[claim.GetUID()] = claim.GetDeletionTimestamp() == nil
		if claim.GetDeletionTimestamp() != nil {
			continue
		}
		switch wait := when(claim.GetName(), claim.GetUID()); {
		case wait == keepClaim:
		case wait > 0:
			again = earlier(again, wait)
		default:
			if err := f.deleteClaim(ctx, v, claim.GetName(), claim.GetUID()); err != nil {
				return 0, err
			}
			there[claim.GetUID()] = false
		}
	}
	var left []Filled
	for _, filled := range v.Status.Claims {
		// The cache may not have the claim yet that was just filled.
		if there[filled.UID] || filled.Name == v.Status.ClaimName {
			left = append(left, filled)
		}
	}
	v.Status.Claims = left
	return again, nil
}

// deleteClaim deletes a claim after its Job, whose pod would prevent the deletion.
func (f *filler) deleteClaim(ctx context.Context, v *SupervisorVolume, name string, uid types.UID) error {
	if err := f.deleteJob(ctx, v.Namespace, name); err != nil {
		return err
	}
	err := f.client.CoreV1().PersistentVolumeClaims(v.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting claim %q in namespace %q: %w", name, v.Namespace, err)
	}
	return nil
}

// createDefault creates the SupervisorVolume of a namespace that has none: its claims use the
// cluster's default storage class. Server-side apply has the name in its URL, so that
// RBAC confines even the creation.
func (f *filler) createDefault(ctx context.Context, namespace string) error {
	document, err := json.Marshal(map[string]any{
		"apiVersion": Resource.GroupVersion().String(), "kind": Kind,
		"metadata": map[string]any{"name": Name, "namespace": namespace, "labels": ourLabels()},
	})
	if err != nil {
		return fmt.Errorf("encoding a SupervisorVolume: %w", err)
	}
	_, err = f.volumes.Resource(Resource).Namespace(namespace).Patch(ctx, Name, types.ApplyPatchType, document, metav1.PatchOptions{FieldManager: manager})
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("making the SupervisorVolume of namespace %q: %w", namespace, err)
	}
	return nil
}

// deleteDefault deletes the SupervisorVolume of createDefault; its claims are deleted with it.
func (f *filler) deleteDefault(ctx context.Context, v *SupervisorVolume) error {
	err := f.volumes.Resource(Resource).Namespace(v.Namespace).Delete(ctx, v.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(v.UID)),
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the SupervisorVolume of namespace %q: %w", v.Namespace, err)
	}
	return nil
}

func (f *filler) writeStatus(ctx context.Context, v *SupervisorVolume) error {
	object, err := v.untyped()
	if err != nil {
		return fmt.Errorf("encoding the SupervisorVolume of namespace %q: %w", v.Namespace, err)
	}
	_, err = f.volumes.Resource(Resource).Namespace(v.Namespace).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of the SupervisorVolume of namespace %q: %w", v.Namespace, err)
	}
	return nil
}
