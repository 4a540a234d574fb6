// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/version"
)

// whose names whose logs are asked for.
func (o Options) whose() string {
	if o.Selector != nil {
		return fmt.Sprintf("pods with the labels %q", o.Selector)
	}
	return o.Target.String()
}

// list returns the streams that are asked for, and whether there are more.
func (c *Client) list(ctx context.Context, o Options) (streams []Stream, more bool, err error) {
	switch t := o.Target; {
	case o.Selector != nil:
		return c.listSelected(ctx, o)
	case t.LogLabel() != "":
		return c.listBy(ctx, o, "label", t.LogLabel()+"="+t.Of)
	default:
		return c.listBy(ctx, o, "pod", t.Of)
	}
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

// ErrForbidden says that the user may not read logs.
var ErrForbidden = errors.New("forbidden")

// explain adds to an error of a listing what to do about it.
func (c *Client) explain(err error, o Options) error {
	return c.explainList(err, fmt.Sprintf("listing the logs of %s in namespace %q", o.whose(), c.Namespace), o.Selector == nil && o.Target.LogLabel() == "")
}

// explainList is explain for what was attempted, about one pod or all.
func (c *Client) explainList(err error, what string, onePod bool) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the cluster has no log service (no API %s/%s): the operator installs it with %s", what, endpoint.Group, endpoint.Version, version.Applies(version.Own(), "logs"))
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%s: %w: the log service doesn't respond; see kubectl get apiservice %s.%s", what, err, endpoint.Version, endpoint.Group)
	case apierrors.IsForbidden(err) && onePod:
		return fmt.Errorf("%s: %w: you need the right to get pods/log of this pod, such as by the ClusterRole view", what, ErrForbidden)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: you need the right to get pods/log of all pods of the namespace, such as by the ClusterRole view", what, ErrForbidden)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
