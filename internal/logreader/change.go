// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/target"
)

// A Deletion is what was done with the logs of a pod.
type Deletion struct {
	Pod string
	// Message is the service's: how many streams were deleted.
	Message string
	Err     error
}

const (
	// deletePause is the pause before a deletion that wasn't finished is continued.
	deletePause = time.Second
	// maxDeleteTries bounds the requests for one pod: a pod with the most streams takes some
	// twenty of them.
	maxDeleteTries = 60
)

// Delete deletes the logs of a target: of its pods, one after another. A failure for one pod
// doesn't stop the others, and is one of the returned errors as well.
func (c *Client) Delete(ctx context.Context, t target.Target, container string, dryRun bool, each func(Deletion)) error {
	pods, err := c.podsOf(ctx, t)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return c.noLogsError(ctx, Options{Target: t, Container: container})
	}
	var failed []error
	deleted := 0
	for _, pod := range pods {
		message, err := c.deletePod(ctx, pod, container, dryRun)
		if container != "" && len(pods) > 1 && apierrors.IsNotFound(err) {
			continue // not each pod has this container
		}
		if err != nil {
			err = c.explainChange(err, fmt.Sprintf("deleting the logs of pod %q in namespace %q", pod, c.Namespace))
			failed = append(failed, err)
		} else {
			deleted++
		}
		each(Deletion{pod, message, err})
	}
	if deleted == 0 && len(failed) == 0 {
		return c.noLogsError(ctx, Options{Target: t, Container: container})
	}
	return errors.Join(failed...)
}

// podsOf returns the names of all pods of a target that have logs.
func (c *Client) podsOf(ctx context.Context, t target.Target) (names []string, err error) {
	if t.Name == target.Pod {
		return []string{t.Of}, nil
	}
	found, err := c.ListPods(ctx, PodsOptions{Target: t, Limit: maxPodsChanged})
	if err == nil && (found.Remaining > 0 || found.Incomplete) {
		err = fmt.Errorf("%s has more than %d pods with logs: delete those of single pods", t, maxPodsChanged)
	}
	for _, p := range found.Pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names, err
}

// maxPodsChanged bounds the pods of one command.
const maxPodsChanged = 2000

// deletePod deletes the logs of a pod.
func (c *Client) deletePod(ctx context.Context, pod, container string, dryRun bool) (message string, err error) {
	return untilDone(ctx, func() *rest.Request {
		request := c.deletion(pod, dryRun)
		if container != "" {
			request = request.Param("container", container)
		}
		return request
	})
}

// deletion returns the request to delete logs of a pod, or bytes of a stream.
func (c *Client) deletion(of string, dryRun bool) *rest.Request {
	request := c.change(http.MethodDelete, of)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request
}

// untilDone sends a deletion. What one request can't finish, others continue.
func untilDone(ctx context.Context, request func() *rest.Request) (message string, err error) {
	for try := 0; ; try++ {
		var status metav1.Status
		err = request().MaxRetries(0).Do(ctx).Into(&status)
		if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) || try == maxDeleteTries {
			return status.Message, err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		case <-time.After(deletePause):
		}
	}
}

func (c *Client) change(verb string, path ...string) *rest.Request {
	return c.REST.Verb(verb).AbsPath(append([]string{"/apis", endpoint.Group, endpoint.Version, "namespaces", c.Namespace, "logs"}, path...)...).
		SetHeader("Accept", "application/json")
}

// Hold keeps the logs of a target until they are released, beyond retention and quota, also
// those of pods that begin later.
func (c *Client) Hold(ctx context.Context, t target.Target) error {
	return c.hold(ctx, t, http.MethodPost, "holding")
}

// Release undoes Hold.
func (c *Client) Release(ctx context.Context, t target.Target) error {
	return c.hold(ctx, t, http.MethodDelete, "releasing")
}

func (c *Client) hold(ctx context.Context, t target.Target, verb, doing string) error {
	name := t.Of
	if t.LogLabel() != "" {
		name = "-"
	}
	request := c.change(verb, name, "hold")
	if t.LogLabel() != "" {
		request = request.Param("label", t.LogLabel()+"="+t.Of)
	}
	if err := request.Do(ctx).Error(); err != nil {
		return c.explainChange(err, fmt.Sprintf("%s the logs of %s in namespace %q", doing, t, c.Namespace))
	}
	return nil
}

// explainChange adds to an error of a change what to do about it.
func (c *Client) explainChange(err error, what string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w: you need the ClusterRole entrypointer-log-deletion, by a RoleBinding in the namespace", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
