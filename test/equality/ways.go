// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// Way is how an example runs in a namespace that opted in, beside the one that
// didn't: how the supervisor gets into its pods, and whether it sends logs.
type Way string

// The ways.
const (
	Copied  Way = "init container"
	Tee     Way = "init container, with logs"
	Mounted Way = "image volume"
)

// Ways are all that there are. The last needs a cluster that has image volumes.
var Ways = []Way{Copied, Tee, Mounted}

const (
	logsAnnotation = "entrypointer.dev/logs"
	teeFlag        = "-logs=tee"
)

// annotations are those of the namespace.
func (w Way) annotations() map[string]string {
	annotations := map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: w.delivery()}
	if w == Tee {
		annotations[logsAnnotation] = "tee"
	}
	return annotations
}

func (w Way) delivery() string {
	if w == Mounted {
		return framework.ImageVolume
	}
	return framework.InitContainer
}

// checkPod says what is missing in a TaskRun's pod, or too much.
func (w Way) checkPod(p *corev1.Pod) error {
	if err := framework.CheckStepsWrapped(p); err != nil {
		return err
	}
	if got := framework.Delivery(p); got != w.delivery() {
		return fmt.Errorf("pod %q has the supervisor by %q instead of %q", p.Name, got, w.delivery())
	}
	for _, c := range p.Spec.Containers {
		step := slices.Equal(c.Command, []string{pod.EntrypointPath})
		if sends := slices.Contains(c.Args, teeFlag); sends != (step && w == Tee) {
			return fmt.Errorf("container %q of pod %q, which runs by %s, has args %q", c.Name, p.Name, w, c.Args)
		}
	}
	return nil
}

// Which of the ways an example runs in.
const (
	all = "all"
	one = "one"
)

// A share is what of all is looked at: one of so many parts of the examples, in all
// of these ways, or each in one of them. Then there are as many times more shares as
// there are ways.
type share struct {
	parts, part int
	each        string // all or one
	ways        []Way
}

// of are the ways in which the example at an index runs, none if it isn't in the share.
func (s share) of(index int) []Way {
	switch {
	case index%s.parts != s.part%s.parts:
		return nil
	case s.each == all:
		return s.ways
	default:
		return s.ways[(index/s.parts+s.part/s.parts)%len(s.ways):][:1]
	}
}

// shares is how many there are.
func (s share) shares() int {
	if s.each == one {
		return len(s.ways) * s.parts
	}
	return s.parts
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
