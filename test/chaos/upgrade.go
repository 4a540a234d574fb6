// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// buildOtherRelease builds a release whose supervisor spells a flag differently, and the
// manifest of this one, to which the upgrade comes back.
func buildOtherRelease(ctx context.Context, e *environment) (healer, error) {
	directory := filepath.Join(e.directory, "release")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	var err error
	if e.otherRelease, e.otherCopier, err = framework.NextRelease(ctx, directory); err != nil {
		return nil, err
	}
	own, err := framework.Run(ctx, "ko", "resolve", "-f", "config/webhook/500-injector.yaml")
	if err != nil {
		return nil, err
	}
	e.ownRelease = filepath.Join(directory, "own.yaml")
	return nil, os.WriteFile(e.ownRelease, own, 0o600)
}

// upgrade rolls the other release out. While a rollout lasts, both releases answer.
func upgrade(ctx context.Context, e *environment) (healer, error) {
	return func(ctx context.Context) error { return e.rollOut(ctx, e.ownRelease) }, e.rollOut(ctx, e.otherRelease)
}

func (e *environment) rollOut(ctx context.Context, file string) error {
	if _, err := framework.Run(ctx, "kubectl", "apply", "-f", file); err != nil {
		return err
	}
	return e.cluster.WaitForDeployment(ctx, framework.SystemNamespace, framework.Injector)
}

// requireOwnRelease is an error as long as a replica of the other release serves: replicas
// answer for as long as they end.
func requireOwnRelease(ctx context.Context, e *environment) error {
	pods, err := e.cluster.Kube.CoreV1().Pods(framework.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: framework.InjectorSelector})
	if err != nil {
		return fmt.Errorf("listing the injectors: %w", err)
	}
	for i := range pods.Items {
		if slices.Contains(pods.Items[i].Spec.Containers[0].Args, e.otherCopier) {
			return fmt.Errorf("pod %q is of the other release", pods.Items[i].Name)
		}
	}
	return nil
}
