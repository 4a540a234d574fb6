// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// mostNamed bounds the containers that an error names.
const mostNamed = 20

// checkContainer returns an error if the selected container is known neither to the log
// service nor to the API server, and others are.
func (c *Client) checkContainer(ctx context.Context, o Options) error {
	if o.Container == "" {
		return nil
	}
	streams, _, err := c.list(ctx, o)
	pods, errPods := c.pods(ctx, o)
	if err := errors.Join(err, errPods); err != nil {
		return err
	}
	var names []string
	isInit := func(init containerSpec) bool { return init.Name == o.Container }
	for _, p := range pods {
		if slices.ContainsFunc(p.Spec.InitContainers, isInit) {
			return nil
		}
		for _, spec := range p.Spec.Containers {
			names = append(names, spec.Name)
		}
	}
	for _, s := range streams {
		names = append(names, printable.Line(s.Container))
	}
	if len(names) == 0 || slices.Contains(names, o.Container) {
		return nil
	}
	return NoContainer(o.whose(), c.Namespace, o.Container, names)
}

// NoContainer returns the error about a container of an object that isn't among those that
// exist.
func NoContainer(whose, namespace, container string, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	// Who writes a Task knows its steps by names without step-.
	meant := cmp.Or(spelling.DidYouMean(container, names), spelling.DidYouMean("step-"+container, names))
	if len(names) > mostNamed {
		names = append(names[:mostNamed], "another one")
	}
	return fmt.Errorf("%s in namespace %q: there is no container %q: use %s%s", whose, namespace, container, spelling.Alternatives(names), meant)
}
