// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// An optionContext is the container that an option is for.
type optionContext struct {
	flag            string // the supervisor's flag with the name of the option, up to its value
	terminationPath string
	step            *step           // of a TaskRun; nil for another container, and if its argv is unclear
	exec            bool            // the command will replace the supervisor
	downward        bool            // Tekton's downward API volume is mounted
	start           []string        // the flags by which the steps of a TaskRun know of their starts
	mayNotStart     bool            // an action that may fail comes before the command
	logs            func() []string // makes the flags of a container that sends its output; nil if the output can't be sent
	sends           bool            // the output can be sent, and the option logs asks for it
	fallsBack       bool            // the end of the output becomes the termination message of a failed container
	isServer        bool            // the container is restarted whenever it has ended
	isSet           func(option string) bool
	trace           func() []string // makes the flags of a container whose command gets a trace; nil without a pod
	tools           bool            // the container gets tools
	waits           bool            // for other containers
}
