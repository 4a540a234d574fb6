// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What an earlier release or an earlier run of the injector has left in a pod.

// recognise determines what earlier calls have left of these containers of a pod.
func recognise(pod *corev1.Pod, containers []container) {
	former := formerStatusOf(pod)
	for at := range containers {
		c := &containers[at]
		c.words, c.isWrapped = wrappedWords(c.Container)
		c.wasUnwrapped = former.lists(c.Name)
	}
}

// wrappedWords returns the words of a container that is wrapped, and whether it is. The
// structure of the container decides, because the structure determines what will run, and
// because a tenant could forge an annotation. Of the flags, only those for words of the
// original argv stay: the other flags may be another release's, and are set anew. A
// structure that no release of ours writes counts as the author's command.
func wrappedWords(c *corev1.Container) (words, bool) {
	if !slices.Equal(c.Command, []string{EntrypointPath}) {
		return words{}, false
	}
	return formerWords(c)
}

// formerWords returns the words in the arguments of a supervisor, and whether an earlier call
// has left such arguments, whatever the command is now.
func formerWords(c *corev1.Container) (words, bool) {
	if !isPrepared(c) {
		return words{}, false
	}
	var former words
	var mark string
	for at, arg := range c.Args {
		switch {
		case arg == "--":
			former.argv = c.Args[at+1:]
			former.image, former.inherited = readMark(mark, len(former.argv))
			return former, true
		case strings.HasPrefix(arg, platformFlag), strings.HasPrefix(arg, argFlag):
			former.flags = append(former.flags, arg)
		case strings.HasPrefix(arg, imageWordsFlag):
			mark = arg[len(imageWordsFlag):]
		case !ourFlag.MatchString(arg):
			return words{}, false
		}
	}
	return words{}, false
}

// readMark reads which image how many of the words are of. A mark that makes no sense is
// somebody's invention, and counts as none.
func readMark(mark string, words int) (image string, inherited int) {
	count, image, _ := strings.Cut(mark, ":")
	if n, err := strconv.Atoi(count); err == nil && n >= 0 && n <= words {
		return image, n
	}
	return "", 0
}

// isPrepared reports whether an earlier call has mounted the supervisor in a container.
func isPrepared(c *corev1.Container) bool { return slices.ContainsFunc(c.VolumeMounts, isMount) }

// unwrappedWords returns the words of a container that isn't wrapped, and whether they are
// known without its image. A webhook that API servers call again may have put back, or
// removed, the command of a container that was wrapped: then the words are among the arguments
// of the supervisor. If it has set another command, or other args behind the supervisor,
// nobody knows the other half of the original argv any more.
func unwrappedWords(c *corev1.Container) (_ words, known bool, err error) {
	former, was := formerWords(c)
	switch {
	case was && len(c.Command) == 0:
		return former, true, nil
	case was && len(former.flags) == 0 && startsWith(former.argv, c.Command):
		return words{argv: former.argv}, true, nil
	case was:
		return words{}, false, refuse(NoCommand, "wrapping container %q: another webhook has set the command %q in the place of the supervisor, and the args are the supervisor's; have that webhook set args: as well, or only what is missing",
			c.Name, c.Command)
	case isPrepared(c) && slices.Equal(c.Command, []string{EntrypointPath}) && !slices.Contains(c.Args, "--"):
		return words{}, false, refuse(NoCommand, "wrapping container %q: another webhook has set the args %q in the place of the supervisor's; have that webhook set command: as well, or only what is missing",
			c.Name, c.Args)
	default:
		return words{argv: ownArgv(c)}, len(c.Command) > 0, nil
	}
}

// ownArgv returns the argv that a container sets by itself, nil if only its image determines
// what it runs. The kubelet treats an empty list like an unset one.
func ownArgv(c *corev1.Container) []string {
	if len(c.Command) == 0 {
		return nil
	}
	return slices.Concat(c.Command, c.Args)
}

func startsWith(argv, command []string) bool {
	return len(argv) >= len(command) && slices.Equal(argv[:len(command)], command)
}

// hasOurPodUID reports whether an earlier call has given a container the variable, by the flags
// that it has left: the author may have set the same variable.
func (c *container) hasOurPodUID() bool {
	flags := c.Args[:max(0, slices.Index(c.Args, "--"))]
	return isPrepared(c.Container) && slices.Contains(flags, traceOfPod)
}

// ourFlag matches a flag as all releases write it, in one word with its value, so that
// the first "--" ends the flags.
var ourFlag = regexp.MustCompile(`^-[a-z][a-z0-9-]*=`)

// IsWrapped reports whether a container runs under the supervisor: its structure decides,
// because that determines what runs.
func IsWrapped(c corev1.Container) bool {
	_, wrapped := wrappedWords(&c)
	return wrapped
}

// Flags returns the flags of a wrapped container's supervisor, nil without one.
func Flags(c corev1.Container) []string {
	if !IsWrapped(c) {
		return nil
	}
	return c.Args[:slices.Index(c.Args, "--")]
}

// orderInStatus precedes the order in the status annotation, and versionInStatus the
// version at its end.
const (
	orderInStatus   = "; order: "
	versionInStatus = "; version: "
)

// WithoutVersion returns the value of a status annotation without the version of the
// injector, which says nothing about the pod.
func WithoutVersion(status string) string {
	if at := strings.LastIndex(status, versionInStatus); at >= 0 {
		return status[:at]
	}
	return status
}

// A formerStatus is the status of a pod from an earlier call. It could be forged, so it
// decides nothing.
type formerStatus struct {
	waived    bool     // all containers run unwrapped
	unwrapped []string // the containers that do
}

func formerStatusOf(pod *corev1.Pod) formerStatus {
	status := WithoutVersion(pod.Annotations[StatusAnnotation])
	if !strings.HasPrefix(status, string(PartlyInjected)) {
		return formerStatus{waived: status == string(LookupWaived)}
	}
	decided, _, _ := strings.Cut(status, orderInStatus)
	_, names, _ := strings.Cut(decided, ": ")
	return formerStatus{unwrapped: strings.Split(names, ",")}
}

// lists reports whether the status lists a container as unwrapped.
func (s formerStatus) lists(container string) bool {
	return s.waived || slices.Contains(s.unwrapped, container)
}
