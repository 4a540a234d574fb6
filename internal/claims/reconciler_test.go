// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAClaimIsMadeBoundFilledAndThenMounted(t *testing.T) {
	w := newWorld(t, class("shared", storagev1.VolumeBindingImmediate))
	w.write(ofClass("shared"), nil)
	require.NoError(t, w.reconcile())
	claim := w.onlyClaim()
	require.Regexp(t, `^entrypointer-[0-9a-f]{12}$`, claim.Name)
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, claim.Spec.AccessModes)
	require.Equal(t, "64Mi", claim.Spec.Resources.Requests.Storage().String())
	require.Empty(t, w.allJobs(), "there is nothing to fill yet")
	w.requireCondition(corev1.ConditionUnknown, Pending, `waits for provisioner.test to create its volume`)
	require.Empty(t, w.ready())

	w.bind(claim)
	require.NoError(t, w.reconcile())
	jobs := w.allJobs()
	require.Len(t, jobs, 1)
	require.Equal(t, claim.UID, jobs[0].OwnerReferences[0].UID)
	w.requireCondition(corev1.ConditionUnknown, Populating, `copies the supervisor into claim "`+claim.Name)
	require.Equal(t, jobCheckInterval, w.again)
	require.Empty(t, w.ready())

	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionTrue, "", "")
	require.Equal(t, claim.Name, w.ready())
	require.Equal(t, claim.Name, w.supervisorVolume().Status.ClaimName)
	require.Empty(t, w.allJobs(), "its pod would keep the claim")
}

func TestAJobFillsAClaimThatGetsItsVolumeForAPod(t *testing.T) {
	w := newWorld(t, class("node", storagev1.VolumeBindingWaitForFirstConsumer))
	w.write(ofClass("node"), nil)
	require.NoError(t, w.reconcile())
	require.Len(t, w.allJobs(), 1)
	w.requireCondition(corev1.ConditionUnknown, Pending, "gets its volume for the pod of Job")
	w.bind(w.onlyClaim())
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionUnknown, Populating, "")
	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	require.NotEmpty(t, w.ready())
}

func TestAnUpgradeReplacesTheClaimOnceTheNextOneHasBeenMounted(t *testing.T) {
	w := filledClaim(t, Spec{})
	before := w.ready()
	old := w.onlyClaim()

	w.filler.images = nextRelease
	require.Empty(t, w.ready(), "the next release's pods don't mount this one's program")
	require.NoError(t, w.reconcile())
	require.Len(t, w.allClaims(), 2)
	w.filler.images = thisRelease
	require.Equal(t, before, w.ready(), "replicas of this release answer meanwhile")
	w.filler.images = nextRelease
	for _, claim := range w.allClaims() {
		w.bind(&claim)
	}
	require.NoError(t, w.reconcile())
	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	require.NotEqual(t, before, w.ready())
	require.NotEmpty(t, w.ready())
	require.InDelta(t, defaultRetireAfter, w.again, float64(10*time.Second))
	require.Len(t, w.allClaims(), 2, "a pod may still wait for a node")

	w.ago(defaultRetireAfter)
	require.NoError(t, w.reconcile())
	require.NotEqual(t, old.Name, w.onlyClaim().Name)
	require.Len(t, w.supervisorVolume().Status.Claims, 1)
	require.Equal(t, w.onlyClaim().Name, w.ready())
}

// takeName has somebody else make a claim of the name that ours would have.
func (w *world) takeName() {
	w.t.Helper()
	name, err := thisRelease.claimName(Template{})
	require.NoError(w.t, err)
	_, err = w.kube.CoreV1().PersistentVolumeClaims("tenant").Create(w.t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// startDeleting deletes a claim that a pod keeps.
func (w *world) startDeleting(claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	claim = claim.DeepCopy()
	claim.DeletionTimestamp = new(metav1.Now())
	_, err := w.kube.CoreV1().PersistentVolumeClaims("tenant").Update(w.t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	w.sync()
}

// ago lets the claim have been mounted for as long already.
func (w *world) ago(d time.Duration) {
	w.t.Helper()
	v := w.supervisorVolume()
	for i := range v.Status.Claims {
		v.Status.Claims[i].Since = metav1.NewTime(v.Status.Claims[i].Since.Add(-d))
	}
	for i := range v.Status.Conditions {
		at := &v.Status.Conditions[i].LastTransitionTime.Inner
		*at = metav1.NewTime(at.Add(-d))
	}
	require.NoError(w.t, w.filler.writeStatus(w.t.Context(), v))
}

func TestADeletedClaimIsMountedNoMoreAndCreatedAgain(t *testing.T) {
	w := filledClaim(t, Spec{})
	claim := w.onlyClaim()
	claims := w.kube.CoreV1().PersistentVolumeClaims("tenant")

	w.startDeleting(claim)
	require.Empty(t, w.ready(), "while pods keep it")
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionUnknown, Pending, "is being deleted")

	require.NoError(t, claims.Delete(t.Context(), claim.Name, metav1.DeleteOptions{}))
	w.sync()
	require.Empty(t, w.ready())
	require.NoError(t, w.reconcile())
	w.bind(w.onlyClaim())
	require.Empty(t, w.ready(), "the new one is empty")
	require.NoError(t, w.reconcile())
	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	require.NotEmpty(t, w.ready())
}

func TestAJobOfAClaimThatWasReplacedDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.write(Spec{}, nil)
	require.NoError(t, w.reconcile())
	claim := w.onlyClaim()
	w.bind(claim)
	stale := thisRelease.wantedJob(claim)
	stale.OwnerReferences[0].UID = "of the claim before"
	_, err := w.kube.BatchV1().Jobs("tenant").Create(t.Context(), stale, metav1.CreateOptions{})
	require.NoError(t, err)
	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	require.Empty(t, w.ready())
	require.Empty(t, w.allJobs())
	require.NoError(t, w.reconcile())
	require.Equal(t, claim.UID, w.allJobs()[0].OwnerReferences[0].UID)
}

func TestAConditionSaysWhatToChange(t *testing.T) {
	for name, test := range map[string]struct {
		spec          Spec
		prepare       func(*world)
		status        corev1.ConditionStatus
		reason, hints string
	}{
		"a class that isn't there": {ofClass("none"), nil, corev1.ConditionFalse, StorageClassNotFound, `there is no storage class "none"; name another one`},
		"no class at all":          {Spec{}, nil, corev1.ConditionUnknown, Pending, "name a class in spec.volumeClaimTemplate.spec.storageClassName"},
		"a quota":                  {Spec{}, func(w *world) { w.refused = true }, corev1.ConditionFalse, ClaimRefused, "change spec.volumeClaimTemplate, or what forbids it"},
		"a foreign claim":          {Spec{}, (*world).takeName, corev1.ConditionFalse, NameTaken, "exists that doesn't belong to this SupervisorVolume; delete that claim"},
		"a foreign claim that goes": {Spec{}, func(w *world) {
			w.takeName()
			w.startDeleting(w.onlyClaim())
		}, corev1.ConditionUnknown, Pending, "is being deleted"},
		"a volume that is gone": {Spec{}, func(w *world) {
			require.NoError(t, w.reconcile())
			claim := w.onlyClaim()
			claim.Status.Phase = corev1.ClaimLost
			_, err := w.kube.CoreV1().PersistentVolumeClaims("tenant").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
			require.NoError(t, err)
		}, corev1.ConditionFalse, ClaimLost, "delete the claim, and entrypointer creates it again"},
		"a Job that may not be": {Spec{}, func(w *world) {
			require.NoError(t, w.reconcile())
			w.bind(w.onlyClaim())
			w.refused = true
		}, corev1.ConditionFalse, JobRefused, "creating the Job that fills claim"},
		"a foreign Job": {Spec{}, func(w *world) {
			require.NoError(t, w.reconcile())
			w.bind(w.onlyClaim())
			_, err := w.kube.BatchV1().Jobs("tenant").Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: w.onlyClaim().Name}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}, corev1.ConditionUnknown, Pending, "Delete any other Job: kubectl -n tenant delete job entrypointer-"},
		"a Job that fails": {Spec{}, func(w *world) {
			require.NoError(t, w.reconcile())
			w.bind(w.onlyClaim())
			require.NoError(t, w.reconcile())
			w.finish(batchv1.JobFailed, "Job has reached the specified backoff limit")
		}, corev1.ConditionFalse, JobFailed, "backoff limit; see: kubectl -n tenant describe job entrypointer-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(test.spec, nil)
			if test.prepare != nil {
				test.prepare(w)
			}
			require.NoError(t, w.reconcile())
			w.requireCondition(test.status, test.reason, test.hints)
			require.Equal(t, blockedCheckInterval, w.again, "it is looked at again")
			require.Empty(t, w.ready())
		})
	}
}

func TestABetterTemplateReplacesAClaimThatWasNeverFilled(t *testing.T) {
	w := newWorld(t)
	w.write(ofClass("none"), nil)
	require.NoError(t, w.reconcile())
	bad := w.onlyClaim().Name
	w.write(Spec{}, nil)
	require.NoError(t, w.reconcile())
	require.NotEqual(t, bad, w.onlyClaim().Name)
	w.requireCondition(corev1.ConditionUnknown, Pending, "")
}

func TestANamespaceWithoutASupervisorVolumeGetsOne(t *testing.T) {
	w := newWorld(t)
	var applied []byte
	w.dynamic.PrependReactor("patch", "supervisorvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		require.Equal(t, types.ApplyPatchType, patch.GetPatchType())
		applied = patch.GetPatch()
		return true, nil, nil
	})
	require.NoError(t, w.reconcile())
	require.JSONEq(t, `{"apiVersion":"entrypointer.dev/v1alpha1","kind":"SupervisorVolume","metadata":{"name":"entrypointer","namespace":"tenant",
		"labels":{"app.kubernetes.io/managed-by":"entrypointer","app.kubernetes.io/part-of":"entrypointer"}}}`, string(applied))
}

func TestANamespaceThatAsksNoMoreKeepsItsOwnSupervisorVolume(t *testing.T) {
	w := filledClaim(t, Spec{})
	w.namespace.Annotations[pod.DeliveryAnnotation] = string(pod.DeliveryInitContainer)
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionUnknown, NotAskedFor, "annotate it with entrypointer.dev/delivery: claim")
	require.Empty(t, w.supervisorVolume().Status.ClaimName)
	require.Len(t, w.allClaims(), 1, "a pod may still wait for a node")
	w.ago(defaultRetireAfter)
	require.NoError(t, w.reconcile())
	require.Empty(t, w.allClaims())
	require.NoError(t, w.reconcile())
	require.Empty(t, w.supervisorVolume().Status.Claims)
}

func TestANamespaceThatAsksNoMoreLosesOurSupervisorVolume(t *testing.T) {
	w := newWorld(t)
	w.write(Spec{}, ourLabels())
	require.NoError(t, w.reconcile())
	w.namespace.Annotations[pod.InjectAnnotation] = "false"
	require.NoError(t, w.reconcile())
	require.NotNil(t, w.supervisorVolume())
	w.ago(defaultRetireAfter)
	require.NoError(t, w.reconcile())
	require.Nil(t, w.supervisorVolume(), "its claims go with it")
}

func TestASupervisorVolumeSaysHowLongItsFormerClaimsStay(t *testing.T) {
	w := filledClaim(t, Spec{RetireAfter: &metav1.Duration{Duration: time.Hour}})
	claim := w.ready()
	w.filler.images = nextRelease
	require.NoError(t, w.reconcile())
	for _, claim := range w.allClaims() {
		w.bind(&claim)
	}
	require.NoError(t, w.reconcile())
	w.finish(batchv1.JobComplete, "")
	require.NoError(t, w.reconcile())
	require.InDelta(t, time.Hour, w.again, float64(10*time.Second))

	w.write(Spec{RetireAfter: &metav1.Duration{Duration: 2 * time.Hour}}, nil)
	require.NoError(t, w.reconcile())
	require.InDelta(t, 2*time.Hour, w.again, float64(10*time.Second), "another wait makes no other claim")
	w.ago(time.Hour)
	require.NoError(t, w.reconcile())
	require.Len(t, w.allClaims(), 2)
	w.ago(time.Hour)
	require.NoError(t, w.reconcile())
	require.NotEqual(t, claim, w.onlyClaim().Name)

	w.namespace.Annotations[pod.DeliveryAnnotation] = string(pod.DeliveryInitContainer)
	require.NoError(t, w.reconcile())
	require.InDelta(t, 2*time.Hour, w.again, float64(10*time.Second))
	w.ago(2 * time.Hour)
	require.NoError(t, w.reconcile())
	require.Empty(t, w.allClaims())
}

func TestTheClaimOfASupervisorVolumeThatGoesIsMountedNoMore(t *testing.T) {
	w := filledClaim(t, Spec{})
	require.NotEmpty(t, w.ready())
	v := w.supervisorVolume()
	v.DeletionTimestamp = new(metav1.Now())
	object, err := v.untyped()
	require.NoError(t, err)
	_, err = w.dynamic.Resource(Resource).Namespace("tenant").Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	w.sync()
	require.Empty(t, w.ready())
}

func TestASupervisorVolumeWithAChangedSpecIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.write(ofClass("none"), ourLabels())
	w.namespace.Annotations[pod.InjectAnnotation] = "false"
	for range 3 {
		require.NoError(t, w.reconcile())
		w.ago(defaultRetireAfter)
	}
	require.NotNil(t, w.supervisorVolume())
}

func TestTheOperatorsDeliveryCountsWhereANamespaceSaysNothing(t *testing.T) {
	w := filledClaim(t, Spec{})
	delete(w.namespace.Annotations, pod.DeliveryAnnotation)
	w.filler.config = operators{pod.DeliveryClaim}
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionTrue, "", "")
}

func TestWithoutConfigClaimsNothingIsDone(t *testing.T) {
	w := newWorld(t)
	w.installed = false
	w.kube.ClearActions()
	require.NoError(t, w.reconcile())
	require.Empty(t, w.ready())
	for _, action := range w.kube.Actions() {
		require.Equal(t, "list", action.GetVerb(), "the test's own")
	}
}

func TestANamespaceIsReconciledOnlyIfItOptedInOrHasASupervisorVolume(t *testing.T) {
	w := newWorld(t)
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}
	require.True(t, w.filler.concerns(w.namespace))
	require.False(t, w.filler.concerns(plain))
	w.write(Spec{}, nil)
	w.sync()
	// It opts out, and has claims to lose.
	require.True(t, w.filler.concerns(plain))
	w.installed = false
	require.False(t, w.filler.concerns(plain))
	require.True(t, w.filler.concerns(w.namespace), "a warning is written for a namespace that asks")
}
