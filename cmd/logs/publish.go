// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const (
	// repairedAfter is how long an object is wrong if somebody changes it.
	repairedAfter = time.Minute
	// publishLimit is what the API server may take for it.
	publishLimit = 10 * time.Second
)

// publish leaves something where others look for it, until ctx is done. That fails
// while the API server is away, which is no reason to stop serving.
func publish(ctx context.Context, logger *slog.Logger, failure string, write func(context.Context) error) error {
	tick := time.NewTicker(repairedAfter)
	defer tick.Stop()
	for {
		if err := write(ctx); err != nil && ctx.Err() == nil {
			logger.Error(failure, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// writeWithIP is write, with the IP address that the Service has now. Without one, the
// rest is written all the same.
func writeWithIP(ctx context.Context, maps corev1client.ConfigMapInterface, services corev1client.ServiceInterface, e endpoint.Endpoint) error {
	limited, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	service, err := services.Get(limited, serviceName, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("looking for the IP address of Service %q: %w; pods whose DNS doesn't know the service's name can't send", serviceName, err)
	} else if ip := service.Spec.ClusterIP; ip != corev1.ClusterIPNone {
		e.IP = ip
	}
	return errors.Join(err, write(ctx, maps, e))
}

// serviceName is that of the Service before the log service.
const serviceName = "logs"

// write applies the ConfigMap, which changes nothing if it is as it should be, and
// has its name in the URL, so that RBAC can confine even what is created.
func write(ctx context.Context, maps corev1client.ConfigMapInterface, e endpoint.Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	configMap, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": endpoint.ConfigMap, "labels": map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
		"data":     e.Data(),
	})
	if err != nil {
		return fmt.Errorf("encoding ConfigMap %q: %w", endpoint.ConfigMap, err)
	}
	_, err = maps.Patch(ctx, endpoint.ConfigMap, types.ApplyPatchType, configMap, metav1.PatchOptions{FieldManager: "entrypointer", Force: new(true)})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("applying ConfigMap %q: %w", endpoint.ConfigMap, err)
	}
	return nil
}

// apiServices are what the API server knows those by to whom it passes requests on.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiService is the log service's.
const apiService = endpoint.Version + "." + endpoint.Group

// trust tells the API server the CA of the log service.
func trust(ctx context.Context, services dynamic.ResourceInterface, ca []byte) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": ca}})
	if err != nil {
		return fmt.Errorf("encoding a CA: %w", err)
	}
	if _, err := services.Patch(ctx, apiService, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "entrypointer"}); err != nil {
		return fmt.Errorf("setting the CA of APIService %q: %w; without it, kubectl entrypointer logs reads nothing: ko apply -f config/logs", apiService, err)
	}
	return nil
}
