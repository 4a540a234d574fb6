// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package objects reads, for the kubectl plugin, the objects of a namespace that have pods,
// with the rights of kubectl's user.
package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/target"
)

// Objects are read in pages, and the pods of an object up to a bound.
const (
	page     = 500
	MostPods = 5000
	// maxPage bounds the response with a page, in bytes. Tenants can make objects of more than
	// a megabyte each.
	maxPage = 64 << 20
)

// InjectorNamespace is where the injector runs and has its configuration.
const InjectorNamespace = "entrypointer-system"

// A Client asks the API server about a namespace.
type Client struct {
	REST      rest.Interface
	Config    *rest.Config
	Namespace string
}

// burst bounds the requests per second. API servers have limits of their own.
const burst = 100

// NewClient returns a client of the cluster and the user of a configuration.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	// Errors are objects of the kind Status. Other responses are decoded by Read.
	types := runtime.NewScheme()
	metav1.AddToGroupVersion(types, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	config.QPS, config.Burst = burst, burst
	config.WarningHandler = rest.NoWarnings{} // commands print those that matter
	client, err := boundedHTTP(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client of the API server: %w", err)
	}
	asking, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of the API server: %w", err)
	}
	return &Client{REST: asking, Config: config, Namespace: namespace}, nil
}

// boundedHTTP returns a client that follows no redirects: the API server passes on those of
// pods and nodes that it asks, and the token of the user would go with them.
func boundedHTTP(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	bounded := *client // it may be http.DefaultClient
	bounded.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	next := bounded.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	bounded.Transport = errorBound{next}
	return &bounded, nil
}

// maxError bounds the body of a response with an error, in bytes, which client-go reads as
// a whole. It may come from a pod as well.
const maxError = 1 << 20

// An errorBound cuts the bodies of errors off.
type errorBound struct{ http.RoundTripper }

// RoundTrip sends a request.
func (b errorBound) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxError), response.Body}
	}
	return response, err
}

// A Workload is what is read of an object that has pods, whatever its kind.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector *metav1.LabelSelector   `json:"selector"`
		Template *corev1.PodTemplateSpec `json:"template"`
		// VolumeClaimTemplates are those of a StatefulSet.
		VolumeClaimTemplates []struct {
			metav1.ObjectMeta `json:"metadata"`
		} `json:"volumeClaimTemplates"`
		// Paused is that of a Deployment, and UpdateStrategy that of StatefulSets and DaemonSets.
		Paused         bool `json:"paused"`
		UpdateStrategy struct {
			Type string `json:"type"`
		} `json:"updateStrategy"`
		JobTemplate *struct {
			Spec struct {
				Template *corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status struct {
		LatestCreatedRevisionName string `json:"latestCreatedRevisionName"`
		// CompletionTime is that of Jobs and of runs of Tekton, and Phase that of Workflows.
		CompletionTime string `json:"completionTime"`
		Phase          string `json:"phase"`
		Conditions     []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
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

// Ended reports whether the object's status says that it has come to an end, so that no
// pods follow.
func (w *Workload) Ended() bool {
	if w.Status.CompletionTime != "" || slices.Contains([]string{"Succeeded", "Failed", "Error"}, w.Status.Phase) {
		return true
	}
	for _, c := range w.Status.Conditions {
		if c.Type == "Failed" && c.Status == "True" { // of Jobs
			return true
		}
	}
	return false
}

// Get reads the object that a target names into a Workload, a Pod and the like.
func (c *Client) Get(ctx context.Context, t target.Target, into any) error {
	if err := Read(c.REST.Get().AbsPath(t.Path, "namespaces", c.Namespace, t.Plural, t.Of).Do(ctx), into); err != nil {
		return fmt.Errorf("reading %s in namespace %q: %w", t, c.Namespace, err)
	}
	return nil
}

// WithLabels returns what makes requests for the objects with these labels.
func (c *Client) WithLabels(path, plural, selector string) func() *rest.Request {
	return func() *rest.Request {
		return c.REST.Get().AbsPath(path, "namespaces", c.Namespace, plural).Param("labelSelector", selector)
	}
}

// Each lists objects in pages, each by a request of its own, and calls a function for one
// object after another. After a page with which most objects have come, it reads no further,
// and reports whether there are more. If a page would have more than 64 MiB, or more than
// WithBounds says, pages are smaller from there on.
func Each[Object any](ctx context.Context, request func() *rest.Request, most int, one func(Object)) (more bool, _ error) {
	return each(ctx, request, most, boundsOf(ctx).Page, func(o Object) error {
		one(o)
		return nil
	})
}

// each is Each with a bound of pages in bytes, and a function whose error ends the list.
func each[Object any](ctx context.Context, request func() *rest.Request, most int, maxBytes int64, one func(Object) error) (more bool, _ error) {
	for after, listed, limit := "", 0, page; listed < most; {
		next := request().Param("limit", strconv.Itoa(limit))
		if after != "" {
			next = next.Param("continue", after)
		}
		var list struct {
			metav1.ListMeta `json:"metadata"`
			Items           []Object `json:"items"`
		}
		body, err := readUpTo(ctx, next, maxBytes)
		switch {
		case errors.Is(err, errTooLarge) && limit > 1:
			limit /= 2
			continue
		case errors.Is(err, errTooLarge):
			return false, fmt.Errorf("reading the response: an object has more than %d bytes", maxBytes)
		case err != nil:
			return false, err
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return false, fmt.Errorf("reading the response: %w", err)
		}
		for _, item := range list.Items {
			if err := one(item); err != nil {
				return false, err
			}
		}
		if listed, after = listed+len(list.Items), list.Continue; after == "" {
			return false, nil
		}
	}
	return true, nil
}

// errTooLarge is the error of a response of too many bytes.
var errTooLarge = errors.New("the response is too large")

// readUpTo returns the response to a request, of so many bytes at most. An error is what the
// API server says, if it says something.
func readUpTo(ctx context.Context, r *rest.Request, most int64) ([]byte, error) {
	stream, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	body, err := io.ReadAll(io.LimitReader(stream, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response: %w", err)
	case int64(len(body)) > most:
		return nil, errTooLarge
	}
	return body, nil
}

// MetadataOnly is the media type of lists with the metadata of objects alone.
const MetadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// Names returns the names of the objects of a kind: one page of them at most.
func (c *Client) Names(ctx context.Context, kind target.Kind) (names []string, _ error) {
	var list metav1.PartialObjectMetadataList
	request := c.REST.Get().AbsPath(kind.Path, "namespaces", c.Namespace, kind.Plural).SetHeader("Accept", MetadataOnly).Param("limit", strconv.Itoa(page))
	if err := Read(request.Do(ctx), &list); err != nil {
		return nil, fmt.Errorf("listing %s in namespace %q: %w", kind.Plural, c.Namespace, err)
	}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
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

// Pods returns the pods of an object, the newest first, without those that are being
// deleted. More than MostPods, or more bytes than WithBounds says, are an error. A CronJob has no
// pods itself.
func (c *Client) Pods(ctx context.Context, t target.Target, w *Workload) (pods []corev1.Pod, _ error) {
	selector, err := SelectorOf(t, w)
	if err != nil || selector == "" {
		return nil, err
	}
	bounds, taken := boundsOf(ctx), int64(0)
	_, err = each(ctx, c.WithLabels("/api/v1", "pods", selector), MostPods+1, bounds.Page, func(p corev1.Pod) error {
		if taken += int64(p.Size()); bounds.Pods > 0 && taken > bounds.Pods {
			return fmt.Errorf("they have more than %d MiB together, which is more than is read for a page: use kubectl entrypointer", bounds.Pods>>20)
		}
		pods = append(pods, p)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(pods) > MostPods:
		return nil, fmt.Errorf("there are more than %d", MostPods)
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !t.Controls(p.OwnerReferences) })
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return pods, nil
}

// SelectorOf returns the labels of an object's pods, "" if it has none of its own.
func SelectorOf(t target.Target, w *Workload) (string, error) {
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
