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
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// MaxListed bounds the streams in a list: the ones that were created last.
const MaxListed = 1000

// maxListedObjects bounds the objects that are inspected for a list, which takes about a
// second.
const maxListedObjects = 100_000

// idLength is the length of an ID.
const idLength = 32

// ErrNoPod says that a name is invalid for a namespace or a pod.
var ErrNoPod = errors.New("invalid name")

// A Listed is a stream in a list.
type Listed struct {
	ID      string
	Created time.Time
	Source
}

// CheckNamespace returns ErrNoPod unless the name is valid for a namespace.
func CheckNamespace(namespace string) error {
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("namespace %.100q: %w: %s", namespace, ErrNoPod, strings.Join(wrong, "; "))
	}
	return nil
}

// CheckPod returns ErrNoPod unless the names are valid for a namespace and a pod.
func CheckPod(namespace, pod string) error {
	wrong := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(pod)...)
	if len(wrong) > 0 {
		return fmt.Errorf("namespace %.100q and pod %.100q: %w: %s", namespace, pod, ErrNoPod, strings.Join(wrong, "; "))
	}
	return nil
}

// podDirectory returns the directory of the index for pods with a name. It has an empty
// object for each stream, whose name is the ID. Since the names become keys, they have to
// be valid for Kubernetes.
func podDirectory(namespace, pod string) (string, error) {
	if err := CheckPod(namespace, pod); err != nil {
		return "", err
	}
	return "pods/" + namespace + "/" + pod + "/", nil
}

// List returns the streams of all pods that had a name, sorted by start, container and
// name, and whether there are more.
func (s *Store) List(ctx context.Context, namespace, pod string) (list []Listed, more bool, err error) {
	directory, err := podDirectory(namespace, pod)
	if err != nil {
		return nil, false, fmt.Errorf("listing streams: %w", err)
	}
	if list, more, err = s.list(ctx, directory, nil); err != nil {
		return nil, false, fmt.Errorf("listing the streams of pod %q in namespace %q: %w", pod, namespace, err)
	}
	return list, more, nil
}

// ListLabel is List for all pods that had a label.
func (s *Store) ListLabel(ctx context.Context, namespace, key, value string) (list []Listed, more bool, err error) {
	directory, err := labelDirectory(namespace, key, value)
	if err != nil {
		return nil, false, fmt.Errorf("listing streams: %w", err)
	}
	// The index may have labels of later requests. Those of the first are stored.
	has := func(source Source) bool { return source.Labels[key] == value }
	if list, more, err = s.list(ctx, directory, has); err != nil {
		return nil, false, fmt.Errorf("listing the streams of label %s=%s in namespace %q: %w", key, value, namespace, err)
	}
	return list, more, nil
}

// list returns the streams with IDs in a directory, filtered by a condition if that isn't
// nil.
func (s *Store) list(ctx context.Context, directory string, condition func(Source) bool) (list []Listed, more bool, err error) {
	if err := s.hold.take(4 * MaxListed * perSourceByte * idLength); err != nil {
		return nil, false, err
	}
	made, more, err := s.newestObjects(ctx, directory)
	if err != nil {
		return nil, false, err
	}
	for _, o := range made {
		source, err := s.Source(ctx, o.Name)
		if errors.Is(err, ErrNoStream) {
			continue // the stream was just deleted
		}
		if err != nil {
			return nil, false, err
		}
		if err := s.hold.take(perSourceByte * source.size()); err != nil {
			return nil, false, err
		}
		if condition == nil || condition(source) {
			list = append(list, Listed{ID: o.Name, Created: o.Written, Source: source})
		}
	}
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), strings.Compare(a.Container, b.Container),
			strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return list, more, nil
}

// size returns the length as JSON, in bytes, including keys.
func (source Source) size() int64 {
	size := 128 + len(source.Namespace) + len(source.Pod) + len(source.PodUID) + len(source.Container) + len(source.Start) + len(source.Name) + len(source.NamespaceUID)
	for key, value := range source.Labels {
		size += 8 + len(key) + len(value)
	}
	return int64(size)
}

// newestObjects returns the objects of a directory that were created last. Its memory and
// time are bounded for a directory of any size: beyond maxListedObjects, it returns the
// newest of some objects.
func (s *Store) newestObjects(ctx context.Context, directory string) (made []storage.Object, more bool, err error) {
	looked := 0
	err = s.bucket.Each(ctx, directory, func(o storage.Object) bool {
		looked++
		made = append(made, o)
		if len(made) == 2*MaxListed {
			made = keepNewest(made)
		}
		return looked < maxListedObjects
	})
	if err != nil {
		return nil, false, err
	}
	return keepNewest(made), looked > MaxListed, nil
}

// keepNewest returns the newest MaxListed objects.
func keepNewest(objects []storage.Object) []storage.Object {
	slices.SortFunc(objects, func(a, b storage.Object) int {
		return cmp.Or(b.Written.Compare(a.Written), strings.Compare(a.Name, b.Name))
	})
	return objects[:min(len(objects), MaxListed)]
}
