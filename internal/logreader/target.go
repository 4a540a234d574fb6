// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
)

// query returns the parameter to list the streams of a target.
func query(t target.Target) (key, value string) {
	if t.Label == "" {
		return "pod", t.Of
	}
	return "label", t.Label + "=" + t.Of
}

// targetState reports whether more is to be expected of a target.
func (c *Client) targetState(ctx context.Context, t target.Target) (containerState, error) {
	if !t.Ends {
		return stateRuns, nil
	}
	answer, err := c.REST.Get().AbsPath(t.Path, "namespaces", c.Namespace, t.Plural, t.Of).SetHeader("Accept", "application/json").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return stateEnded, nil
	case apierrors.IsForbidden(err):
		return stateUnknown, nil
	case err != nil:
		return stateUnknown, fmt.Errorf("asking whether %s has ended: %w", t, err)
	}
	var object objects.Workload
	if err := json.Unmarshal(answer, &object); err != nil {
		return stateUnknown, fmt.Errorf("asking whether %s has ended: reading the response: %w", t, err)
	}
	if object.Ended() {
		return stateEnded, nil
	}
	return stateRuns, nil
}

// explain adds to an error of a listing what to do about it.
func (c *Client) explain(err error, t target.Target) error {
	what := fmt.Sprintf("listing the logs of %s in namespace %q", t, c.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the cluster has no log service (no API %s/%s): the operator installs it with ko apply -f config/logs", what, endpoint.Group, endpoint.Version)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%s: %w: the log service doesn't respond; see kubectl get apiservice %s.%s", what, err, endpoint.Version, endpoint.Group)
	case apierrors.IsForbidden(err) && t.Label == "":
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of this pod, such as by the ClusterRole view", what)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of all pods of the namespace, such as by the ClusterRole view", what)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
