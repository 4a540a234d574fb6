// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
)

// notConfigured is the reason of a verdict that nobody has asked for
// (internal/autodelivery).
const notConfigured = "NotConfigured"

// checkAuto asks the replicas for their verdict on image volumes.
func checkAuto(ctx context.Context, q *inquiry) (a answer) {
	replicas, err := q.injectorMetrics(ctx)
	if err != nil {
		a.findings = append(a.findings, hindered(err, "what auto delivers", rightToScrape+objects.InjectorNamespace))
	} else if len(replicas) == 0 {
		return noReplica()
	}
	for _, m := range replicas {
		for _, verdict := range a.gauge(m, "entrypointer_delivery_image_volumes") {
			switch reason := verdict.labels["reason"]; {
			case reason == notConfigured:
				a.skipped, a.note = true, "neither the operator nor a namespace asks for delivery auto"
			case verdict.value == 1:
				a.note = "pods get image volumes"
			default:
				a.add(Warning, "pods get the init container, says pod "+m.pod+": "+reason,
					objects.Command("kubectl -n "+objects.InjectorNamespace+" logs %s | grep 'delivery auto'", m.pod))
			}
		}
	}
	return a
}

// A supervisorVolume is what is read of an object of this kind.
type supervisorVolume struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Conditions []condition
	}
}

// A condition is one of an object's status.
type condition struct{ Type, Status, Reason, Message string }

// checkClaims looks at the claims of all namespaces.
func checkClaims(ctx context.Context, q *inquiry) (a answer) {
	ready := 0
	err := list(ctx, q, "/apis/entrypointer.dev/v1alpha1/supervisorvolumes", "", "application/json", func(v supervisorVolume) {
		for _, c := range v.Status.Conditions {
			switch {
			case c.Type != "Ready" || c.Reason == "NotAskedFor":
			case c.Status == "True":
				ready++
			default:
				a.add(Warning, fmt.Sprintf("pods of namespace %s get the init container: %s: %s", v.Namespace, c.Reason, c.Message),
					objects.Command("kubectl -n %s describe supervisorvolumes", v.Namespace))
			}
		}
	})
	switch {
	case apierrors.IsNotFound(err):
		return skipped("config/claims isn't installed")
	case err != nil:
		return hinderedAnswer(err, "the state of the claims", "list supervisorvolumes -A")
	}
	if ready+len(a.findings) == 0 {
		return skipped("no namespace has a claim")
	}
	a.note = fmt.Sprintf("%d", ready)
	return a
}
