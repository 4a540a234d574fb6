// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
)

// The files by which Tekton orders steps
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/entrypoint.go).
const (
	tektonEntrypoint = "/tekton/bin/entrypoint"
	tektonDownward   = "/tekton/downward"
	tektonCancel     = tektonDownward + "/cancel"
	errorSuffix      = ".err"      // after the name of a post file
	tektonLooks      = time.Second // its cmd/entrypoint/waiter.go
)

// A step holds what Tekton's args determine about the order of steps.
type step struct {
	waitFiles   []string
	content     bool
	postFile    string
	breakpoint  bool
	credentials bool
	continues   bool   // onError: continue
	results     string // the file for its termination message
}

// The flags of Tekton's entrypoint
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/cmd/entrypoint/main.go).
var (
	tektonSwitches    = []string{"wait_file_content", "breakpoint_on_failure", "debug_before_step", "enable_spire", "compress_termination_message"}
	tektonCredentials = []string{"basic-git", "ssh-git", "basic-docker", "docker-config", "docker-cfg"}
	tektonValues      = []string{
		"entrypoint", "wait_file", "post_file", "termination_path", "results", "step_results", "when_expressions", "timeout", "stdout_path",
		"stderr_path", "on_error", "step_metadata_dir", "result_from",
	}
)

// parseStep parses a step's argv by the rules of package flag, which Tekton uses. The
// result is uncertain for unknown flags, for values that Tekton would refuse, and for
// paths that the kubelet would expand or that aren't absolute.
func parseStep(argv []string) (s step, certain bool) {
	if len(argv) == 0 || argv[0] != tektonEntrypoint {
		return step{}, false
	}
	args := argv[1:]
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-"), "=")
		if !strings.HasPrefix(args[0], "-") {
			return step{}, false
		}
		args = args[1:]
		switch {
		case slices.Contains(tektonSwitches, name):
			if !hasValue {
				value = "true"
			}
		case !slices.Contains(tektonValues, name) && !slices.Contains(tektonCredentials, name):
			return step{}, false
		case !hasValue && len(args) == 0:
			return step{}, false
		case !hasValue:
			value, args = args[0], args[1:]
		}
		if !s.applyFlag(name, value) {
			return step{}, false
		}
	}
	return s, true
}

// applyFlag takes from a flag the parts that concern the order.
func (s *step) applyFlag(name, value string) (certain bool) {
	s.credentials = s.credentials || slices.Contains(tektonCredentials, name)
	switch name {
	case "wait_file":
		s.waitFiles = nil
		if value != "" {
			s.waitFiles = strings.Split(value, ",")
		}
		return !slices.ContainsFunc(s.waitFiles, isUncertainPath)
	case "post_file":
		s.postFile = value
		return value == "" || !isUncertainPath(value)
	case "on_error":
		s.continues = value == "continue"
	case "termination_path":
		s.results = value
	case "wait_file_content":
		return parseSwitch(value, &s.content)
	case "breakpoint_on_failure":
		return parseSwitch(value, &s.breakpoint)
	case "timeout":
		_, err := time.ParseDuration(value)
		return err == nil
	}
	return !slices.Contains(tektonSwitches, name) || parseSwitch(value, new(bool))
}

func isUncertainPath(path string) bool {
	return !strings.HasPrefix(path, "/") || strings.Contains(path, "$")
}

func parseSwitch(value string, on *bool) bool {
	parsed, err := strconv.ParseBool(value)
	*on = parsed
	return err == nil
}

// unsuited returns why an option isn't for this step, which these containers follow, "" if
// it is.
func (s *step) unsuited(option string, after []corev1.Container) (why string) {
	switch {
	case option == timeoutOption && s.continues:
		return "the step has onError: continue, by which Tekton takes it for a failure that doesn't count, while a timeout fails the TaskRun; remove one of them"
	case option == exitCodesOption && slices.ContainsFunc(after, isStep):
		return "the steps after it fail when this one does, whatever its container's exit code is; " +
			"set onError: continue in the step, or name the last step (success-exit-codes." + annotation.Domain + "/NAME)"
	}
	return ""
}

// A Turn is what a step of a TaskRun waits for before it runs.
type Turn struct {
	// Step is the step's container.
	Step string
	// After is the container of the step before, which has to end. It is "" for the first step,
	// which waits for the start of the pod's containers.
	After string
}

// Turns returns the order of the steps of a TaskRun's pod, wrapped or not: that of its
// containers (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/entrypoint.go,
// orderContainers). It is nil for other pods.
func Turns(pod *corev1.Pod) (all []Turn) {
	if pod.Labels[tektonKind.Label] == "" {
		return nil
	}
	before := ""
	for _, c := range pod.Spec.Containers {
		if isStep(c) {
			all = append(all, Turn{c.Name, before})
			before = c.Name
		}
	}
	return all
}
