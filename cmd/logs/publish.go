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
	"github.com/entrypointer/entrypointer/internal/version"
)

const (
	// publishInterval is the pause between two writes of an object, and so the longest time
	// until a change by others is undone.
	publishInterval = time.Minute
	// publishTimeout bounds one write.
	publishTimeout = 10 * time.Second
)

// publish writes an object at intervals until ctx is done. While the API server is down,
// writing fails, but the log service goes on serving.
func publish(ctx context.Context, logger *slog.Logger, failure string, write func(context.Context) error) error {
	tick := time.NewTicker(publishInterval)
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

// publishEndpoint applies the ConfigMap of the endpoint, with the cluster IP of the
// Service. If the IP address can't be found, it applies the rest.
func publishEndpoint(ctx context.Context, maps corev1client.ConfigMapInterface, services corev1client.ServiceInterface, e endpoint.Endpoint) error {
	limited, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	service, err := services.Get(limited, serviceName, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("looking for the IP address of Service %q: %w; pods whose DNS doesn't resolve the name of the service can't send logs", serviceName, err)
	} else if ip := service.Spec.ClusterIP; ip != corev1.ClusterIPNone {
		e.IP = ip
	}
	return errors.Join(err, applyEndpoint(ctx, maps, e))
}

// serviceName is the name of the log service's Service.
const serviceName = "logs"

// applyEndpoint applies the ConfigMap of an endpoint. Server-side apply changes nothing
// if the ConfigMap is as it should be. Its URL has the name, so RBAC can restrict even
// its creation to this name.
func applyEndpoint(ctx context.Context, maps corev1client.ConfigMapInterface, e endpoint.Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
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

// apiServices are the APIServices, by which the API server finds the servers that it
// proxies to.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiServiceName is the name of the log service's APIService.
const apiServiceName = endpoint.Version + "." + endpoint.Group

// publishCA writes the CA of the log service into its APIService.
func publishCA(ctx context.Context, services dynamic.ResourceInterface, ca []byte) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": ca}})
	if err != nil {
		return fmt.Errorf("encoding a CA: %w", err)
	}
	if _, err := services.Patch(ctx, apiServiceName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "entrypointer"}); err != nil {
		return fmt.Errorf("setting the CA of APIService %q: %w; without it, kubectl entrypointer logs reads nothing: %s", apiServiceName, err, version.Applies(version.Own(), "logs"))
	}
	return nil
}
