// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// namespaces are those that must be complete before the cluster is ready.
var namespaces = map[string]bool{"kube-system": true, "tekton-pipelines": true, "knative-serving": true, "traefik": true, "local-path-storage": true}

type list struct {
	Items []struct {
		Metadata struct {
			Name, Namespace string
			Generation      int64
		}
		Spec struct {
			Replicas int64
		}
		Status struct {
			ObservedGeneration int64
			UpdatedReplicas    int64
			AvailableReplicas  int64
			ContainerStatuses  []struct {
				State struct {
					Waiting *struct{ Reason, Message string }
				}
			}
			Conditions []struct{ Type, Status, Message string }
		}
	}
}

// Ready tells what is missing until a TaskRun and a Knative Service can be
// created: deployments, or the answer of a webhook.
func Ready(ctx context.Context, l layout.Layout) error {
	missing, err := unavailable(ctx, l)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("not available: %s%s", strings.Join(missing, ", "), troubles(ctx, l))
	}
	probe, err := own.ReadFile("yaml/probe.yaml")
	if err != nil {
		return err
	}
	_, err = kubectl(ctx, l, string(probe), "create", "--dry-run=server", "--filename=-")
	return err
}

// unavailable names the deployments that are not available, or that should be
// there and aren't.
func unavailable(ctx context.Context, l layout.Layout) ([]string, error) {
	deployments, err := get(ctx, l, "deployments")
	if err != nil {
		return nil, err
	}
	absent := map[string]bool{}
	for namespace := range namespaces {
		absent[namespace] = true
	}
	var missing []string
	for _, d := range deployments.Items {
		delete(absent, d.Metadata.Namespace)
		current := d.Status.ObservedGeneration >= d.Metadata.Generation && d.Status.UpdatedReplicas >= d.Spec.Replicas
		if namespaces[d.Metadata.Namespace] && (!current || d.Status.AvailableReplicas < d.Spec.Replicas) {
			missing = append(missing, d.Metadata.Namespace+"/"+d.Metadata.Name)
		}
	}
	for namespace := range absent {
		missing = append(missing, "all of "+namespace)
	}
	return missing, nil
}

// troubles tells why pods don't start, where the cluster knows.
func troubles(ctx context.Context, l layout.Layout) string {
	pods, err := get(ctx, l, "pods")
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		if !namespaces[pod.Metadata.Namespace] {
			continue
		}
		for _, container := range pod.Status.ContainerStatuses {
			if w := container.State.Waiting; w != nil && w.Message != "" {
				fmt.Fprintf(&text, "\n    pod %s/%s: %s: %s", pod.Metadata.Namespace, pod.Metadata.Name, w.Reason, w.Message)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == "PodScheduled" && condition.Status != "True" {
				fmt.Fprintf(&text, "\n    pod %s/%s: %s", pod.Metadata.Namespace, pod.Metadata.Name, condition.Message)
			}
		}
	}
	return text.String()
}

func get(ctx context.Context, l layout.Layout, kind string) (list, error) {
	out, err := kubectl(ctx, l, "", "get", kind, "--all-namespaces", "--output=json")
	if err != nil {
		return list{}, err
	}
	var items list
	if err := json.Unmarshal(out, &items); err != nil {
		return list{}, fmt.Errorf("reading what kubectl says about %s: %w", kind, err)
	}
	return items, nil
}
