// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"knative.dev/pkg/apis"
)

// Whoever may create claims anywhere may label them as ours.
func TestForeignMetadataIsNotKept(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	heavy := metav1.ObjectMeta{
		Name: Name, Namespace: "tenant", UID: "volume", Generation: 1, ResourceVersion: "1",
		Labels:        maps.Clone(ourLabels()),
		Annotations:   map[string]string{"long": long},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:` + long + `":{}}`)}},
		Finalizers:    []string{"example.test/" + long},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: long, UID: "pod"},
			{APIVersion: long, Kind: Kind, Name: Name, UID: "volume", Controller: new(true)},
		},
	}
	heavy.Labels["long/"+long] = ""

	claim, err := slimClaim(&metav1.PartialObjectMetadata{ObjectMeta: heavy})
	require.NoError(t, err)
	v := &SupervisorVolume{ObjectMeta: heavy, Spec: ofClass("shared"), Status: Status{ClaimName: "entrypointer-1"}}
	object, err := v.untyped()
	require.NoError(t, err)
	volume, err := slimVolume(object)
	require.NoError(t, err)
	for _, slim := range []any{claim, volume} {
		text, err := json.Marshal(slim)
		require.NoError(t, err)
		require.Less(t, len(text), 1024)
	}

	require.True(t, metav1.IsControlledBy(claim.(metav1.Object), v))
	require.Equal(t, heavy.UID, claim.(metav1.Object).GetUID())
	read, err := fromUntyped(volume.(*unstructured.Unstructured))
	require.NoError(t, err)
	require.Equal(t, SupervisorVolume{ObjectMeta: metav1.ObjectMeta{
		Name: Name, Namespace: "tenant", UID: "volume", Generation: 1, ResourceVersion: "1", Labels: map[string]string{managedByLabel: manager},
	}, Spec: v.Spec, Status: v.Status}, *read)
	require.Len(t, object.GetAnnotations(), 1, "what others hold isn't changed")
}

// denials has another webhook refuse all that is created.
func (w *world) denials(denial func() error) {
	w.kube.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, denial() })
}

// denied is what an API server makes of a webhook's answer without a reason.
func denied(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: `admission webhook "policy.test" denied the request: ` + message,
	}}
}

func TestWhateverAnotherWebhookSaysAConditionTellsOfIt(t *testing.T) {
	for name, denial := range map[string]error{
		"no code, as Kyverno":  denied(http.StatusBadRequest, "no claims here"),
		"its own code":         denied(http.StatusTeapot, "no claims here"),
		"forbidden":            denied(http.StatusForbidden, "no claims here"),
		"more than fits":       denied(http.StatusForbidden, "no claims here"+strings.Repeat("!", 2<<20)),
		"more than may be":     apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "no claims here"+strings.Repeat("x", 1<<20), nil),
		"too large to be sent": apierrors.NewRequestEntityTooLargeError("no claims here"),
	} {
		for _, what := range []string{ClaimRefused, JobRefused} {
			t.Run(name+" "+what, func(t *testing.T) {
				w := newWorld(t)
				w.write(Spec{}, nil)
				if what == JobRefused {
					require.NoError(t, w.reconcile())
					w.bind(w.onlyClaim())
				}
				w.denials(func() error { return denial })
				require.NoError(t, w.reconcile())
				w.requireCondition(corev1.ConditionFalse, what, "no claims here")
				require.Less(t, len(w.supervisorVolume().Status.GetCondition(apis.ConditionReady).Message), 2048)
				require.Equal(t, blockedCheckInterval, w.again)
			})
		}
	}
}

func TestTransientErrorsAreRetried(t *testing.T) {
	for name, failure := range map[string]error{
		"the API server is busy":       apierrors.NewTooManyRequests("busy", 1),
		"a webhook that isn't there":   apierrors.NewInternalError(fmt.Errorf("failed calling webhook: connection refused")),
		"another client was first":     apierrors.NewConflict(schema.GroupResource{}, "it", context.Canceled),
		"a token that is just renewed": apierrors.NewUnauthorized("expired"),
		"the network":                  context.DeadlineExceeded,
	} {
		w := newWorld(t)
		w.write(Spec{}, nil)
		w.denials(func() error { return failure })
		require.ErrorIs(t, w.reconcile(), failure, name)
	}
}

func TestAMessageOfAJobIsToldInPart(t *testing.T) {
	w := newWorld(t)
	w.write(Spec{}, nil)
	require.NoError(t, w.reconcile())
	w.bind(w.onlyClaim())
	require.NoError(t, w.reconcile())
	w.finish(batchv1.JobFailed, strings.Repeat("!", 1<<20))
	require.NoError(t, w.reconcile())
	w.requireCondition(corev1.ConditionFalse, JobFailed, "delete the Job, and entrypointer tries again")
	require.Less(t, len(w.supervisorVolume().Status.GetCondition(apis.ConditionReady).Message), 2048)
}

// Somebody suspends it, for instance.
func TestAJobThatDoesNotEndIsLookedAtLessOften(t *testing.T) {
	w := newWorld(t)
	w.write(Spec{}, nil)
	require.NoError(t, w.reconcile())
	w.bind(w.onlyClaim())
	require.NoError(t, w.reconcile())
	require.Equal(t, jobCheckInterval, w.again)
	job := w.allJobs()[0]
	job.CreationTimestamp = metav1.NewTime(time.Now().Add(-2 * jobPatience))
	_, err := w.kube.BatchV1().Jobs("tenant").Update(t.Context(), &job, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, w.reconcile())
	require.Equal(t, blockedCheckInterval, w.again)
}

// Policy engines number their answers, say. Each status that is written brings the
// namespace back, so a new one each time would never end.
func TestAMessageThatIsAnotherEachTimeIsWrittenNowAndThen(t *testing.T) {
	w := newWorld(t)
	w.write(Spec{}, nil)
	asked, written := 0, 0
	w.denials(func() error {
		asked++
		return denied(http.StatusForbidden, fmt.Sprint("request ", asked))
	})
	w.dynamic.PrependReactor("update", "supervisorvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "status" {
			written++
		}
		return false, nil, nil
	})
	for range 10 {
		require.NoError(t, w.reconcile())
		require.Equal(t, blockedCheckInterval, w.again)
	}
	require.Equal(t, 1, written)
	message := func() string { return w.supervisorVolume().Status.GetCondition(apis.ConditionReady).Message }
	require.Contains(t, message(), "request 1;")

	w.ago(blockedCheckInterval)
	require.NoError(t, w.reconcile())
	require.Contains(t, message(), "request 11;")

	// Who has written something else is told at once.
	w.write(ofClass("another"), nil)
	require.NoError(t, w.reconcile())
	require.Contains(t, message(), "request 12;")
}
