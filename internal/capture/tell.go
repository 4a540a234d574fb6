// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// tell writes a line to the container's own stderr, which the cluster's log has. It
// reports false if a reader of that file is so slow that the supervisor would have to
// wait.
func (c *Capture) tell(line string) bool {
	to := c.pipes[ring.Stderr].original
	fds := []unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}} //nolint:gosec // descriptors are ints of C
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return false
	}
	_, _ = signals.Write(to, []byte("entrypointer: "+line+"\n")) // an error can't be reported anywhere
	return true
}

const (
	// The lines about lost bytes are at least betweenLosses apart, and at most maxLosses, so
	// that they don't fill the cluster's log.
	betweenLosses = time.Minute
	maxLosses     = 10
)

// losses are what was told of lost bytes.
type losses struct {
	told  int64     // how many lost bytes are known
	last  time.Time // of the last line
	lines int
}

// reportLoss tells that the ring begins to lose bytes, and what to do.
func (c *Capture) reportLoss(now time.Time) {
	var lost int64
	for _, s := range ring.Printed {
		lost += c.ring.Lost(s)
	}
	if lost == c.losses.told || c.losses.lines == maxLosses || now.Sub(c.losses.last) < betweenLosses {
		return
	}
	text := "sending logs: output is dropped, because the command prints more than the log service takes, and the memory for unsent output (" +
		strconv.FormatInt(c.ring.Capacity(ring.Stdout)>>10, 10) + "Ki) is full"
	if failure := c.failure(); failure != "" {
		text += ": " + failure
	}
	way := "to have the command wait instead, set annotation entrypointer.dev/logs-when-full: block"
	if c.brake.bound > 0 {
		way = "the command has waited for " + c.brake.bound.String() + "; to have it wait longer, set annotation entrypointer.dev/logs-when-full: block:DURATION"
	}
	if c.tell(text + "; " + way + ", or have more memory, by entrypointer.dev/logs-buffer") {
		c.losses = losses{told: lost, last: now, lines: c.losses.lines + 1}
	}
}

// pointToOutput tells, before anything else, how the output is read if the cluster's log
// doesn't have it.
func (c *Capture) pointToOutput() {
	if c.mode != modeStream || c.pointed || !printed(c.ring) {
		return
	}
	c.pointed = c.tell("the output is at the log service: " + c.readingCommand())
}

// readingCommand returns the command that prints the output of this container.
func (c *Capture) readingCommand() string {
	command := "kubectl entrypointer logs"
	if namespace, pod, err := podOf(c.option("logs-token")); err == nil {
		command += " -n " + namespace + " pod/" + pod
	} else {
		command += " pod/POD"
	}
	return command + " -c " + c.option("logs-container")
}

// option returns the value of a flag of the shipper.
func (c *Capture) option(name string) (value string) {
	for _, o := range c.options {
		if rest, is := strings.CutPrefix(o, "-"+name+"="); is {
			value = rest
		}
	}
	return value
}

// maxToken bounds what is read of a token, in bytes.
const maxToken = 16 << 10

// podOf returns the namespace and the name of the pod of a service account token.
func podOf(path string) (namespace, pod string, _ error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", "", err
	}
	defer unix.Close(fd)
	token, err := files.ReadAll(fd, maxToken)
	if err != nil {
		return "", "", err
	}
	_, rest, _ := strings.Cut(string(token), ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "", "", err
	}
	var claims struct {
		Kubernetes struct {
			Namespace string                `json:"namespace"`
			Pod       struct{ Name string } `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return "", "", err
	}
	namespace, pod = claims.Kubernetes.Namespace, claims.Kubernetes.Pod.Name
	if !isName(namespace) || !isName(pod) {
		return "", "", errors.New("the token names no pod")
	}
	return namespace, pod, nil
}

// isName reports whether an object of Kubernetes can have this name.
func isName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// lacksExplanation reports whether the termination message should have the end of the output,
// and hasn't.
func (c *Capture) lacksExplanation() bool {
	return c.message != "" && c.failed && printed(c.ring) && !c.ring.Explained()
}

// explainAbsence writes into the termination message of a container that fails why the
// message doesn't have the end of the output: output is never shown unmasked.
func (c *Capture) explainAbsence() {
	if !c.lacksExplanation() {
		return
	}
	why := c.failure()
	if why == "" {
		why = "there was no time for it"
	}
	report.LeaveTerminationMessage(c.message, []byte("entrypointer: the end of the output isn't shown, because it couldn't be masked: "+why+"\n"))
}
