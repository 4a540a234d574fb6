// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"strings"
	"syscall"

	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// FinalEnds are the ends of a container after which the kubelet doesn't restart it. A
// supervisor can't know them, because restartPolicy and restartPolicyRules decide: a flag
// has them from admission. The zero value is unknown: no end is known to be final.
type FinalEnds struct{ Codes exitcodes.Set }

// ParseFinalEnds parses CODES:DIR. DIR is the order directory of the container.
func ParseFinalEnds(value string) (dir string, f FinalEnds, ok bool) {
	codes, dir, _ := strings.Cut(value, ":")
	f.Codes, ok = exitcodes.ParseAll(codes)
	return dir, f, ok && IsDirectory(dir)
}

// killedCode is the exit code of a container whose supervisor was killed.
const killedCode = 128 + int(syscall.SIGKILL)

// exitCode is the exit code of a container that has ended. A supervisor that is killed
// while it still works after its command's end doesn't exit as the command did.
func (s observation) exitCode() int {
	if s.state.phase == Ended || s.state.phase == Finishing && s.liveness != dead {
		return s.state.exitCode
	}
	return killedCode
}

// include reports whether the container isn't restarted after the end that was observed.
func (f FinalEnds) include(s observation) bool { return f.Codes.Contains(s.exitCode()) }

// Known reports whether any end is known to be final.
func (f FinalEnds) Known() bool { return f.Codes != nil }
