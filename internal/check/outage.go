// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
)

// checkOutage says what becomes of TaskRuns in an outage, by what the injector has written for
// the policy of config/outage.
func checkOutage(ctx context.Context, q *inquiry) answer {
	err := q.get(ctx, outagePolicy, &metav1.PartialObjectMetadata{})
	switch {
	case apierrors.IsNotFound(err):
		return skipped("config/outage isn't installed")
	case err != nil:
		return hinderedAnswer(err, "what becomes of TaskRuns", "get mutatingadmissionpolicies")
	}
	var says metav1.PartialObjectMetadata
	if err := q.get(ctx, "/api/v1/namespaces/"+objects.InjectorNamespace, &says); err != nil {
		return hinderedAnswer(err, "whether TaskRuns run", "get namespaces")
	}
	if says.Annotations[config.OutageAnnotation] == "" {
		return passed("they wait, because the injector's configuration isn't one that the policy knows")
	}
	return passed("plain ones run, wrapped, and others wait")
}

// outagePolicy is the path of the policy.
const outagePolicy = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/taskruns.entrypointer.dev"
