// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/test/framework"
)

// removeInjectors scales the injectors to zero.
func removeInjectors(ctx context.Context, e *environment) (healer, error) {
	return e.cluster.RemoveInjector(ctx)
}

// installOutage installs config/outage, and takes the log service from the namespaces: the TaskRuns of
// a namespace with an option aren't plain, and wait instead of running.
func installOutage(ctx context.Context, e *environment) (healer, error) {
	heal := func(ctx context.Context) error {
		return errors.Join(framework.RemoveOutage(ctx), e.sendLogs(ctx, true))
	}
	if err := e.sendLogs(ctx, false); err != nil {
		return heal, err
	}
	return heal, e.cluster.InstallOutage(ctx, e.spaces[all], e.image)
}

// sendLogs says whether the output of the namespaces that opted in is sent to the log service.
func (e *environment) sendLogs(ctx context.Context, sent bool) error {
	value := "null"
	if sent {
		value = `"stream"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, logsAnnotation, value)
	for _, p := range []place{asking, all} {
		if _, err := e.cluster.Kube.CoreV1().Namespaces().Patch(ctx, e.spaces[p], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("changing the options of namespace %q: %w", e.spaces[p], err)
		}
	}
	e.unlogged = !sent
	return nil
}
