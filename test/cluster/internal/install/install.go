// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package install installs cluster DNS, Tekton, Knative, an ingress and a provisioner of
// volumes in a cluster, and knows when they are ready.
package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/command"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

const (
	applyLimit = 2 * time.Minute
	readyLimit = 5 * time.Minute
	interval   = time.Second // kubectl takes a tenth of one
)

// Install applies everything, unless the cluster has it, and waits until
// TaskRuns and Knative Services can be created. The releases are paths of
// YAML files.
func Install(ctx context.Context, l layout.Layout, releases ...string) error {
	crds, rest, err := manifests(l, releases)
	if err != nil {
		return err
	}
	if err := applyOnce(ctx, l, crds, rest); err != nil {
		return err
	}
	if err := provideVolumes(ctx, l); err != nil {
		return err
	}
	if Ready(ctx, l) == nil {
		return nil
	}
	return progress.Step("waiting for DNS, Tekton, Knative, the ingress and the provisioner", func() error {
		return progress.Wait(ctx, readyLimit, interval, func(ctx context.Context) error { return Ready(ctx, l) })
	})
}

// applyOnce remembers in a file what it applied.
func applyOnce(ctx context.Context, l layout.Layout, crds, rest []object) error {
	first, err := render(crds)
	if err != nil {
		return err
	}
	second, err := render(rest)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(first + second))
	hash := hex.EncodeToString(sum[:])
	if was, err := os.ReadFile(l.Installed()); err == nil && string(was) == hash {
		return nil
	}
	err = progress.Step("installing DNS, Tekton, Knative, the ingress and the provisioner", func() error {
		if err := apply(ctx, l, first); err != nil {
			return err
		}
		if _, err := kubectl(ctx, l, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
			return err
		}
		return apply(ctx, l, second)
	})
	if err != nil {
		return err
	}
	return os.WriteFile(l.Installed(), []byte(hash), 0o644)
}

// apply tries again: a webhook of an installation before may not be up yet.
func apply(ctx context.Context, l layout.Layout, yaml string) error {
	return progress.Wait(ctx, applyLimit, interval, func(ctx context.Context) error {
		_, err := kubectl(ctx, l, yaml, "apply", "--server-side", "--force-conflicts", "--filename=-")
		return err
	})
}

// kubectl runs kubectl as the administrator, and returns what it prints.
func kubectl(ctx context.Context, l layout.Layout, stdin string, args ...string) ([]byte, error) {
	return command.Run(ctx, l, command.Kubectl(stdin, args...))
}
