// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// MostSelected bounds the pods whose logs are read by labels that the log service doesn't
// keep: each takes a request of its own.
const MostSelected = 50

// errManySelected says that a selector is of more pods.
var errManySelected = errors.New("too many pods")

// listSelected returns the streams of the pods of a selector, and whether there are more.
func (c *Client) listSelected(ctx context.Context, o Options) (streams []Stream, more bool, err error) {
	if key, value := loglabels.Required(o.Selector); key != "" {
		streams, more, err = c.listBy(ctx, o, "label", key+"="+value)
		return slices.DeleteFunc(streams, func(s Stream) bool { return !o.Selector.Matches(labels.Set(s.Labels)) }), more, err
	}
	pods, err := c.selected(ctx, o)
	if err != nil {
		return nil, false, err
	}
	for _, p := range pods {
		ofPod, moreOfPod, err := c.listBy(ctx, o, "pod", p.Metadata.Name)
		if err != nil {
			return nil, false, err
		}
		streams, more = append(streams, ofPod...), more || moreOfPod
	}
	return streams, more, nil
}

// selected returns the pods of a selector that exist.
func (c *Client) selected(ctx context.Context, o Options) ([]podObject, error) {
	pods, err := c.existing(ctx, o)
	what := fmt.Sprintf("listing the %s in namespace %q", o.whose(), c.Namespace)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%s: forbidden: you need the right to list pods, such as by the ClusterRole view", what)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case len(pods) > MostSelected:
		return nil, fmt.Errorf("%s: %w: there are more than %d: use a selector of fewer pods, or the name of one", what, errManySelected, MostSelected)
	}
	return pods, nil
}
