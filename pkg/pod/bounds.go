// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// An API server asks webhooks before it validates: names, references and lists
// can be as long as a request, a few MiB. What is taken over from a pod, and what
// is said of it, is bounded here.
const (
	// maxObjectName is the longest name of an object (a DNS subdomain).
	maxObjectName = 253
	// maxAdded bounds, in bytes, what options and images make of one pod: more than
	// an API server stores of an object (1.5 MiB, etcd's --max-request-bytes).
	maxAdded = 3 << 20
	// maxQuoted is how many bytes are quoted of what a pod's author wrote.
	maxQuoted = 320
	// maxListed is how many names a text lists.
	maxListed = 16
	// maxOrdered is how many containers of a pod can have a place in its order.
	maxOrdered = 128
	// maxWarnings is how many warnings a pod gets.
	maxWarnings = 16
)

// queryFor is the question what an image runs. It fails with a *lookup.Error if
// no registry could answer it.
func queryFor(namespace string, pod *corev1.Pod, image string) (lookup.Query, error) {
	query := lookup.Query{Image: image, Namespace: namespace, ServiceAccount: pod.Spec.ServiceAccountName}
	if len(image) > lookup.MaxReferenceBytes {
		query.Image = shortened(image)
		return query, &lookup.Error{Query: query, Reason: lookup.InvalidReference, Err: fmt.Errorf("no reference has more than %d characters", lookup.MaxReferenceBytes)}
	}
	if len(query.ServiceAccount) > maxObjectName {
		query.ServiceAccount = shortened(query.ServiceAccount)
		return query, &lookup.Error{Query: query, Reason: lookup.CredentialsError, Err: errors.New("no service account has a name of that length")}
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

// refuse makes a refusal, with what it quotes cut to a sane length.
func refuse(outcome Outcome, format string, args ...any) *Refusal {
	return &Refusal{Outcome: outcome, Err: fmt.Errorf(format, shortenedAll(args)...)}
}

// warning makes a warning, likewise.
func warning(reason Reason, format string, args ...any) Warning {
	return Warning{Reason: reason, Message: fmt.Sprintf(format, shortenedAll(args)...)}
}

// bounded returns the first of many warnings.
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

func shortenedAll(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = shortened(text)
		}
	}
	return args
}

// shortened is a text of at most maxQuoted bytes, and how long it was.
func shortened(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + fmt.Sprintf("... (%d bytes)", len(text))
}

// listed joins names, the first maxListed of them.
func listed(names []string, separator string) string {
	var b strings.Builder
	for i, name := range names {
		if i == maxListed {
			fmt.Fprintf(&b, "%sand %d more", separator, len(names)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(shortened(name))
	}
	return b.String()
}
