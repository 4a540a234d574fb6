// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/kit"
)

// Way is how an example runs in a namespace that opted in, beside the one that didn't.
type Way string

// Ways.
const (
	Wrapped Way = "wrapped"
	Tee     Way = "wrapped with logs"
)

const (
	logsAnnotation = "entrypointer.dev/logs"
	teeFlag        = "-logs=tee"
)

// annotations are those of the namespace.
func (w Way) annotations() map[string]string {
	annotations := map[string]string{pod.InjectAnnotation: "true"}
	if w == Tee {
		annotations[logsAnnotation] = "tee"
	}
	return annotations
}

// right says what is missing in a TaskRun's pod, or too much.
func (w Way) right(p *corev1.Pod) error {
	if err := kit.StepsWrapped(p); err != nil {
		return err
	}
	for _, c := range p.Spec.Containers {
		step := slices.Equal(c.Command, []string{pod.EntrypointPath})
		if sends := slices.Contains(c.Args, teeFlag); sends != (step && w == Tee) {
			return fmt.Errorf("container %q of pod %q, which is %s, has args %q", c.Name, p.Name, w, c.Args)
		}
	}
	return nil
}

// Which of the ways an example runs in.
const (
	both = "both"
	one  = "one"
)

// A share is what of all is looked at: one of so many parts of the examples, in
// both ways, or half of them in one and half in the other. Then there are twice as
// many shares, for each part has two halves.
type share struct {
	parts, part int
	ways        string
}

// of are the ways in which the example at an index runs, none if it isn't in the share.
func (s share) of(index int) []Way {
	switch {
	case index%s.parts != s.part%s.parts:
		return nil
	case s.ways == both:
		return []Way{Wrapped, Tee}
	default:
		return []Way{Wrapped, Tee}[(index/s.parts+s.part/s.parts)%2:][:1]
	}
}

// shares is how many there are.
func shares(parts int, ways string) int {
	if ways == one {
		return 2 * parts
	}
	return parts
}

// shareOf is the one of so many shares that a commit chooses, by the end of its
// hash; without a commit it is the first.
func shareOf(commit string, shares int) int {
	number, err := strconv.ParseInt(commit[max(len(commit)-7, 0):], 16, 0)
	if err != nil {
		return 0
	}
	return int(number) % shares
}
