// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"sync"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/logging"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// elsewhere is what has changed if our init containers haven't.
const elsewhere = "another part of the pod"

// secondLooks logs why API servers ask twice about pods, as far as the pods show it: once
// for each field of our init containers to which others have added, and once for pods that
// were changed elsewhere. So the number of lines is bounded, whatever tenants invent. The
// zero value is ready for use.
type secondLooks struct{ logged sync.Map }

func (s *secondLooks) log(ctx context.Context, before *corev1.Pod, result pod.Result) {
	if result.Delivery == "" || !isSecondLook(before, result) {
		return
	}
	changed := result.Additions
	if len(changed) == 0 {
		changed = []string{elsewhere}
	}
	for _, what := range changed {
		if _, again := s.logged.LoadOrStore(what, true); !again {
			logging.FromContext(ctx).Infow("Asked twice about a pod", zap.String("pod", nameOf(before)), zap.String("changed", what))
		}
	}
}
