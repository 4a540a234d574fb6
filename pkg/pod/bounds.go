// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// An API server calls webhooks before it validates: names, references and lists can be as
// long as a request, a few MiB. These constants bound the text that is copied from a pod;
// package text bounds what is quoted.
const (
	// maxObjectName is the longest name of an object (a DNS subdomain).
	maxObjectName = 253
	// maxAdded bounds, in bytes, the text that options and images add to one pod. The
	// bound is larger than any object that an API server stores (1.5 MiB, etcd's
	// --max-request-bytes).
	maxAdded = 3 << 20
	// maxWarnings is the number of warnings that a pod gets.
	maxWarnings = 16
)

// queryFor returns the query for the command line of an image. It fails with a
// *lookup.Error if no registry could answer the query.
func queryFor(namespace string, pod *corev1.Pod, image string) (lookup.Query, error) {
	query := lookup.Query{Image: image, Namespace: namespace, ServiceAccount: pod.Spec.ServiceAccountName}
	if len(image) > lookup.MaxReferenceBytes {
		query.Image = text.Shortened(image)
		return query, &lookup.Error{Query: query, Reason: lookup.InvalidReference, Err: fmt.Errorf("no reference has more than %d characters", lookup.MaxReferenceBytes)}
	}
	if len(query.ServiceAccount) > maxObjectName {
		query.ServiceAccount = text.Shortened(query.ServiceAccount)
		return query, &lookup.Error{Query: query, Reason: lookup.CredentialsError, Err: errors.New("the name of the service account is longer than Kubernetes allows")}
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		if len(query.PullSecrets) == lookup.MaxPullSecrets {
			break
		}
		if len(secret.Name) <= maxObjectName {
			query.PullSecrets = append(query.PullSecrets, secret.Name)
		}
	}
	return query, nil
}

// refuse returns a refusal in which quoted text is shortened.
func refuse(outcome Outcome, format string, args ...any) *Refusal {
	return &Refusal{Outcome: outcome, Err: text.Errorf(format, args...)}
}

// warning returns a warning in which quoted text is shortened.
func warning(reason Reason, format string, args ...any) Warning {
	return Warning{Reason: reason, Message: text.Sprintf(format, args...)}
}

// bounded returns the first maxWarnings warnings, and a warning with the number of those
// omitted.
func bounded(warnings []Warning) []Warning {
	more := len(warnings) - maxWarnings
	if more <= 0 {
		return warnings
	}
	omitted := warning(ReasonWarningsOmitted, "%d more warnings are omitted", more)
	if more == 1 {
		omitted = warning(ReasonWarningsOmitted, "1 more warning is omitted")
	}
	return append(warnings[:maxWarnings:maxWarnings], omitted)
}
