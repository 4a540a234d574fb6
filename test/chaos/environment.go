// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// environment is what all drills have in common.
type environment struct {
	options
	cluster   *framework.Cluster
	image     string
	spaces    [3]string // namespaces, by their place
	services  *services
	registry  *ownRegistry
	directory string
	plugin    framework.Plugin
	workers   int         // nodes on which pods run
	kills     []time.Time // of an injector while others run, by the drill
	unlogged  bool        // no output is sent to the log service
	// The manifests of this release's injector and of the other one, and its copier.
	ownRelease, otherRelease, otherCopier string
}

// logsAnnotation says what becomes of the output of a namespace.
const logsAnnotation = "entrypointer.dev/logs"

// annotations are those of the namespaces.
var annotations = [3]map[string]string{
	asking: {pod.InjectAnnotation: "true", logsAnnotation: "stream"},
	all:    {pod.InjectAnnotation: "all", logsAnnotation: "stream"},
	plain:  nil,
}

// prepare makes the namespaces and what else the drills need.
func prepare(ctx context.Context, cluster *framework.Cluster, o options) (e *environment, err error) {
	e = &environment{options: o, cluster: cluster, services: &services{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.tidy(context.WithoutCancel(ctx)))
		}
	}()
	if e.workers, err = workersOf(ctx, cluster); err != nil {
		return e, err
	}
	if e.image, err = framework.Image(ctx, "busybox:1.37"); err != nil {
		return e, err
	}
	if e.directory, err = os.MkdirTemp("", "chaos-"); err != nil {
		return e, err
	}
	if e.plugin, err = framework.BuildPlugin(ctx, e.directory); err != nil {
		return e, err
	}
	if e.registry, err = startRegistry(ctx, cluster); err != nil {
		return e, err
	}
	for p, prefix := range [3]string{asking: "chaos-", all: "chaos-all-", plain: "chaos-plain-"} {
		if e.spaces[p], err = cluster.NewNamespace(ctx, prefix, annotations[p]); err != nil {
			return e, err
		}
	}
	return e, e.services.create(ctx, cluster, e.spaces)
}

// workersOf counts the nodes on which any pod can run.
func workersOf(ctx context.Context, cluster *framework.Cluster) (count int, err error) {
	nodes, err := cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing the nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 {
			count++
		}
	}
	return count, nil
}

// tidy deletes what prepare has made.
func (e *environment) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, name := range e.spaces {
		if name == "" {
			continue
		}
		if err := e.cluster.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if e.registry != nil {
		errs = append(errs, e.registry.Close())
	}
	if e.directory != "" {
		errs = append(errs, os.RemoveAll(e.directory))
	}
	return errors.Join(errs...)
}
