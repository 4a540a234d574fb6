// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// readExplanation has the injector explain the decision on a new pod, for a user who may
// not read the operator's configuration: one more dry run.
func (q *inquiry) readExplanation(ctx context.Context, trial *corev1.Pod) error {
	if q.operators != nil || q.answer.Now == nil || len(q.answer.Now.Containers) == 0 {
		return nil
	}
	asking := trial.DeepCopy()
	delete(asking.Annotations, pod.ExplanationAnnotation)
	if asking.Annotations == nil {
		asking.Annotations = map[string]string{}
	}
	asking.Annotations[pod.ExplainAnnotation] = "true"
	explained, _, err := q.try(ctx, asking)
	if err != nil || explained == nil { // since the first dry run, something has changed
		return err
	}
	explanations, err := pod.ExplanationOf(explained)
	if err != nil {
		return err
	}
	for _, e := range explanations { // none, by a former release
		if at := slices.IndexFunc(q.answer.Now.Containers, func(c Container) bool { return c.Name == e.Container }); at >= 0 {
			q.answer.Now.Containers[at].explain(&e)
		}
	}
	return nil
}

// explainLikeNow explains the containers of a pod that doesn't differ from a new one, as the
// injector has explained those.
func (q *inquiry) explainLikeNow(d *Decision) {
	if q.operators != nil || q.answer.Now == nil || len(d.Differs) > 0 {
		return
	}
	for at := range d.Containers {
		c := &d.Containers[at]
		for _, now := range q.answer.Now.Containers {
			if now.Name == c.Name && now.Wrapped == c.Wrapped {
				c.Why, c.Options = now.Why, now.Options
			}
		}
	}
}
