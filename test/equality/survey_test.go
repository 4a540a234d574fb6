// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package equality

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/entrypointer/entrypointer/test/framework"
)

// kinds are those of the images that examples may use; Docker Hub has them, or
// what stands in for it. Tekton itself brings another.
var kinds = []string{"alpine", "bash", "busybox", "debian", "node", "nop", "perl", "python", "ubuntu"}

// survey finds out what the cluster has.
func survey(ctx context.Context) (here ClusterCapabilities, err error) {
	if here.Images, err = images(ctx); err != nil {
		return ClusterCapabilities{}, err
	}
	nodes, err := cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return ClusterCapabilities{}, fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes.Items {
		here.Nodes = append(here.Nodes, node.Labels)
	}
	resources, err := restmapper.GetAPIGroupResources(cluster.Kube.Discovery())
	if err != nil {
		return ClusterCapabilities{}, fmt.Errorf("discovering the kinds of objects: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	here.Scope = func(kind schema.GroupVersionKind) (namespaced, served bool) {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return err == nil && mapping.Scope.Name() == "namespace", err == nil
	}
	return here, nil
}

func images(ctx context.Context) (map[string]string, error) {
	references := map[string]string{}
	for _, kind := range kinds {
		if kind == "nop" {
			continue
		}
		reference, err := framework.Image(ctx, kind)
		if err != nil {
			return nil, err
		}
		if os.Getenv("E2E_IMAGE_REGISTRY") != "" {
			if err := exists(ctx, reference); err != nil {
				return nil, err
			}
		}
		references[kind] = reference
	}
	var err error
	references["nop"], err = nop(ctx)
	return references, err
}

func exists(ctx context.Context, reference string) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("looking for image %q: %w", reference, err)
	}
	if _, err := remote.Head(ref, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("looking for image %q: %w; \"make up\" makes it", reference, err)
	}
	return nil
}

// nop is the image that Tekton replaces sidecars with, and that one of the
// examples runs: its controller knows it.
func nop(ctx context.Context) (string, error) {
	controller, err := cluster.Kube.AppsV1().Deployments("tekton-pipelines").Get(ctx, "tekton-pipelines-controller", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("looking for Tekton's nop image: %w", err)
	}
	for _, container := range controller.Spec.Template.Spec.Containers {
		for i, arg := range container.Args {
			if arg == "-nop-image" && i+1 < len(container.Args) {
				return container.Args[i+1], nil
			}
		}
	}
	return "", errors.New("looking for Tekton's nop image: its controller has no argument -nop-image")
}
