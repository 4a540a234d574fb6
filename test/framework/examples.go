// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Examples returns the names of the files in examples/.
func Examples() ([]string, error) {
	top, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(top, "examples", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the examples: %w", err)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	return names, nil
}

// Example returns the objects in one of the files in examples/, as they are: ko builds
// the images of its ko:// references, as "ko apply" does.
func Example(ctx context.Context, file string) ([]*unstructured.Unstructured, error) {
	top, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(top, "examples", file))
	if err != nil {
		return nil, fmt.Errorf("reading an example: %w", err)
	}
	objects, err := Decode(content)
	if err != nil {
		return nil, fmt.Errorf("decoding example %q: %w", file, err)
	}
	for _, object := range objects {
		if err := buildImages(ctx, object.Object); err != nil {
			return nil, fmt.Errorf("building the images of example %q: %w", file, err)
		}
	}
	return objects, nil
}

// KeepRunning has the pods of Knative Services stay when no request comes. The
// cluster's autoscaler removes pods after 6 s without requests.
func KeepRunning(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetAPIVersion() != "serving.knative.dev/v1" || object.GetKind() != "Service" {
			continue
		}
		err := unstructured.SetNestedField(object.Object, "1", "spec", "template", "metadata", "annotations", "autoscaling.knative.dev/min-scale")
		if err != nil {
			return fmt.Errorf("setting the minimum scale of Knative Service %q: %w", object.GetName(), err)
		}
	}
	return nil
}

// Decode returns the objects in a YAML file.
func Decode(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// buildImages replaces each value of a key "image" below node that is a ko:// reference.
func buildImages(ctx context.Context, node any) (err error) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			reference, _ := value.(string)
			if path, ok := strings.CutPrefix(reference, koScheme); ok && key == "image" {
				if node[key], err = built.image(ctx, path); err != nil {
					return err
				}
			} else if err := buildImages(ctx, value); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range node {
			if err := buildImages(ctx, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Create creates the objects in the namespace, in order.
func (c *Cluster) Create(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		if _, err := c.resource(namespace, object).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s %q in namespace %q: %w", object.GetKind(), object.GetName(), namespace, err)
		}
	}
	return nil
}

// Delete deletes the objects and what they brought about, and waits until they
// are gone. Their pods get no time to stop: the namespace is one of ours.
func (c *Cluster) Delete(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := c.Remove(ctx, namespace, object); err != nil {
			return err
		}
	}
	for _, object := range objects {
		what := fmt.Sprintf("%s %q in namespace %q to be gone", object.GetKind(), object.GetName(), namespace)
		err := Eventually(ctx, patience, what, func(ctx context.Context) error {
			_, err := c.resource(namespace, object).Get(ctx, object.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				err = errors.New("it is still there")
			}
			return errors.Join(err, c.killPods(ctx, namespace))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes an object, if it is there, and leaves its pods the time that they
// have. It is gone when they are.
func (c *Cluster) Remove(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	foreground := metav1.DeletePropagationForeground
	err := c.resource(namespace, object).Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %q in namespace %q: %w", object.GetKind(), object.GetName(), namespace, err)
	}
	return nil
}

// killPods gives the pods that are being deleted no more time.
func (c *Cluster) killPods(ctx context.Context, namespace string) error {
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var now int64
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			continue
		}
		err := c.Kube.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (c *Cluster) resource(namespace string, object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return c.Dynamic.Resource(kind).Namespace(namespace)
}

// Typed converts an object of an example to its Go type.
func Typed[T any](object *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("converting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return typed, nil
}
