// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
)

// keepLooking looks at the load until ctx is done. API servers may be gone meanwhile.
func (l *load) keepLooking(ctx context.Context) {
	for wait(ctx, lookEvery) == nil {
		_ = l.look(ctx)
	}
}

// look updates the attempts by what is in the cluster.
func (l *load) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var errs []error
	for p := range l.spaces {
		errs = append(errs, l.lookIn(ctx, place(p)), l.services.look(ctx, l.cluster, l.spaces[p], place(p)))
	}
	return errors.Join(errs...)
}

func (l *load) lookIn(ctx context.Context, at place) error {
	ns, mine := l.spaces[at], metav1.ListOptions{LabelSelector: nameLabel}
	pods, err := l.cluster.Kube.CoreV1().Pods(ns).List(ctx, mine)
	if err != nil {
		return fmt.Errorf("listing the pods of the load: %w", err)
	}
	runs, err := l.cluster.Tekton.TektonV1().TaskRuns(ns).List(ctx, mine)
	if err != nil {
		return fmt.Errorf("listing the TaskRuns of the load: %w", err)
	}
	byName := map[string]*corev1.Pod{}
	for i := range pods.Items {
		byName[pods.Items[i].Labels[nameLabel]] = &pods.Items[i]
	}
	failed := map[string]string{}
	for _, run := range runs.Items {
		if condition := run.Status.GetCondition(apis.ConditionSucceeded); condition.IsFalse() {
			failed[run.Name] = condition.Reason + ": " + condition.Message
		}
	}
	var errs []error
	for _, name := range l.note(at, byName, failed) {
		errs = append(errs, l.cluster.Kube.AppsV1().Deployments(ns).Delete(ctx, name, metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}

// note updates the attempts in a namespace by its pods, and by why TaskRuns failed. It
// returns the Deployments that have just become done.
func (l *load) note(at place, pods map[string]*corev1.Pod, failed map[string]string) (finished []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if a.place != at || a.kind.isAnswered() {
			continue
		}
		if p, exists := pods[a.name]; exists {
			a.see(p)
		} else if a.pod != "" {
			a.gone = true
		}
		if a.kind == aTaskRun && failed[a.name] != "" {
			a.failure = failed[a.name]
		}
		if a.kind == aDeployment && a.done && !a.removed {
			a.removed = true
			finished = append(finished, a.name)
		}
	}
	return finished
}
