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

// maxLooked is how many objects are looked at to find those: a second's worth.
const maxLooked = 100_000

// idLength is that of an ID, in bytes.
const idLength = 32

// ErrNoPod says that no pod can have these names.
var ErrNoPod = errors.New("that is no name of a namespace and a pod")

// A Listed is a stream and where it comes from.
type Listed struct {
	ID string
	Source
}

// CheckNamespace returns ErrNoPod unless a namespace can have this name.
func CheckNamespace(namespace string) error {
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("namespace %.100q: %w: %s", namespace, ErrNoPod, strings.Join(wrong, "; "))
	}
	return nil
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
	if list, more, err = s.list(ctx, directory, nil); err != nil {
		return nil, false, fmt.Errorf("listing the streams of pod %q in namespace %q: %w", pod, namespace, err)
	}
	return list, more, nil
}

// ListLabel returns those of all pods that had a label.
func (s *Store) ListLabel(ctx context.Context, namespace, key, value string) (list []Listed, more bool, err error) {
	directory, err := labelDirectory(namespace, key, value)
	if err != nil {
		return nil, false, fmt.Errorf("listing streams: %w", err)
	}
	// What a stream was made with counts, and not what its pod says later.
	has := func(source Source) bool { return source.Labels[key] == value }
	if list, more, err = s.list(ctx, directory, has); err != nil {
		return nil, false, fmt.Errorf("listing the streams of label %s=%s in namespace %q: %w", key, value, namespace, err)
	}
	return list, more, nil
}

// list returns the streams whose IDs are in a directory, and which a condition
// holds for, if there is one.
func (s *Store) list(ctx context.Context, directory string, condition func(Source) bool) (list []Listed, more bool, err error) {
	if err := s.hold.take(4 * MaxListed * perListed * idLength); err != nil {
		return nil, false, err
	}
	made, more, err := s.lastMade(ctx, directory)
	if err != nil {
		return nil, false, err
	}
	for _, o := range made {
		source, err := s.Source(ctx, o.Name)
		if errors.Is(err, ErrNoStream) {
			continue // it has just been deleted
		}
		if err != nil {
			return nil, false, err
		}
		if err := s.hold.take(perListed * source.size()); err != nil {
			return nil, false, err
		}
		if condition == nil || condition(source) {
			list = append(list, Listed{ID: o.Name, Source: source})
		}
	}
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), strings.Compare(a.Container, b.Container),
			strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return list, more, nil
}

// size is what it takes as JSON, in bytes, keys included.
func (source Source) size() int64 {
	size := 128 + len(source.Namespace) + len(source.Pod) + len(source.PodUID) + len(source.Container) + len(source.Start) + len(source.Name)
	for key, value := range source.Labels {
		size += 8 + len(key) + len(value)
	}
	return int64(size)
}

// lastMade are the objects of a directory that were made last, so that a directory
// of any size takes no more memory, nor much time. Of one that has more than are
// looked at, they are the last of some.
func (s *Store) lastMade(ctx context.Context, directory string) (made []storage.Object, more bool, err error) {
	looked := 0
	err = s.bucket.Each(ctx, directory, func(o storage.Object) bool {
		looked++
		made = append(made, o)
		if len(made) == 2*MaxListed {
			made = newest(made)
		}
		return looked < maxLooked
	})
	if err != nil {
		return nil, false, err
	}
	return newest(made), looked > MaxListed, nil
}

// newest keeps as many as are listed.
func newest(objects []storage.Object) []storage.Object {
	slices.SortFunc(objects, func(a, b storage.Object) int {
		return cmp.Or(b.Written.Compare(a.Written), strings.Compare(a.Name, b.Name))
	})
	return objects[:min(len(objects), MaxListed)]
}
