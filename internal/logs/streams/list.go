// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// MaxListed is how many streams of a pod are listed: those that were made last.
const MaxListed = 1000

// ErrNoPod says that no pod can have these names.
var ErrNoPod = errors.New("that is no name of a namespace and a pod")

// A Listed is a stream and where it comes from.
type Listed struct {
	ID string
	Source
}

// CheckPod returns ErrNoPod unless a namespace and a pod can have these names.
func CheckPod(namespace, pod string) error {
	wrong := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(pod)...)
	if len(wrong) > 0 {
		return fmt.Errorf("namespace %.100q and pod %.100q: %w: %s", namespace, pod, ErrNoPod, strings.Join(wrong, "; "))
	}
	return nil
}

// podDirectory has an empty object for each stream of the pods of a name, which is
// its ID. Names become keys, so they have to be such as Kubernetes gives.
func podDirectory(namespace, pod string) (string, error) {
	if err := CheckPod(namespace, pod); err != nil {
		return "", err
	}
	return "pods/" + namespace + "/" + pod + "/", nil
}

// List returns the streams of all pods that had a name, in the order of their
// starts, containers and names, and whether there are more.
func (s *Store) List(ctx context.Context, namespace, pod string) (list []Listed, more bool, err error) {
	directory, err := podDirectory(namespace, pod)
	if err != nil {
		return nil, false, fmt.Errorf("listing streams: %w", err)
	}
	objects, err := s.bucket.List(ctx, directory)
	if err != nil {
		return nil, false, fmt.Errorf("listing the streams of pod %q in namespace %q: %w", pod, namespace, err)
	}
	if more = len(objects) > MaxListed; more {
		slices.SortStableFunc(objects, func(a, b storage.Object) int { return b.Written.Compare(a.Written) })
		objects = objects[:MaxListed]
	}
	for _, o := range objects {
		source, err := s.Source(ctx, o.Name)
		if errors.Is(err, ErrNoStream) {
			continue // it has just been deleted
		}
		if err != nil {
			return nil, false, fmt.Errorf("listing the streams of pod %q in namespace %q: %w", pod, namespace, err)
		}
		list = append(list, Listed{ID: o.Name, Source: source})
	}
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), strings.Compare(a.Container, b.Container),
			strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return list, more, nil
}
