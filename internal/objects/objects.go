// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package objects reads, for the kubectl plugin, the objects of a namespace that have pods,
// with the rights of kubectl's user.
package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/target"
)

// MostPods bounds the pods of an object that are read.
const MostPods = 20

// A Client asks the API server about a namespace.
type Client struct {
	REST      rest.Interface
	Config    *rest.Config
	Namespace string
}

// A Workload is what is read of an object that has pods, whatever its kind.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector    *metav1.LabelSelector   `json:"selector"`
		Template    *corev1.PodTemplateSpec `json:"template"`
		JobTemplate *struct {
			Spec struct {
				Template *corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status struct {
		LatestCreatedRevisionName string `json:"latestCreatedRevisionName"`
	} `json:"status"`
}

// Template returns the template of the object's pods, nil if another object has it, or
// none.
func (w *Workload) Template() *corev1.PodTemplateSpec {
	if w.Spec.JobTemplate != nil {
		return w.Spec.JobTemplate.Spec.Template
	}
	return w.Spec.Template
}

// Get reads the object that a target names into a Workload, a Pod and the like. An error
// is what the API server says.
func (c *Client) Get(ctx context.Context, t target.Target, into any) error {
	return Read(c.REST.Get().AbsPath(t.Path, "namespaces", c.Namespace, t.Plural, t.Of).Do(ctx), into)
}

// List reads the first objects with these labels.
func (c *Client) List(ctx context.Context, path, plural, selector string, into any) error {
	return Read(c.REST.Get().AbsPath(path, "namespaces", c.Namespace, plural).
		Param("labelSelector", selector).Param("limit", strconv.Itoa(MostPods)).Do(ctx), into)
}

// Read reads the response to a request. An error is what the API server says, if it says
// something.
func Read(result rest.Result, into any) error {
	if err := result.Error(); err != nil {
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	return nil
}

// Pods returns pods of an object, the newest first, without those that are being deleted,
// and how many more there are.
func (c *Client) Pods(ctx context.Context, t target.Target, w *Workload) (_ []corev1.Pod, omitted int, _ error) {
	selector, err := selectorOf(t, w)
	if err != nil || selector == "" {
		return nil, 0, err
	}
	var list corev1.PodList
	if err := c.List(ctx, "/api/v1", "pods", selector, &list); err != nil {
		return nil, 0, err
	}
	if list.RemainingItemCount != nil {
		omitted = int(*list.RemainingItemCount)
	}
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return list.Items, omitted, nil
}

// selectorOf returns the labels of an object's pods, "" if it has none of its own.
func selectorOf(t target.Target, w *Workload) (string, error) {
	if t.Label != "" {
		return t.Label + "=" + t.Of, nil
	}
	if t.Object == "CronJob" || w.Spec.Selector == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of %s: %w", t, err)
	}
	return selector.String(), nil
}
