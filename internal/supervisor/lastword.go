// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import "time"

// lastWordWithin limits the time in which the published end is repeated after an error.
const lastWordWithin = 5 * time.Second

// completeLastWord repeats the published end until other containers can read it. No
// later call would repeat it.
func (s *supervision) completeLastWord() {
	if s.incarnation == nil || s.incarnation.Err() == nil {
		return
	}
	deadline := time.Now().Add(lastWordWithin)
	_ = s.until(func() time.Duration {
		left := time.Until(deadline)
		if s.incarnation.Err() == nil || left <= 0 {
			return done
		}
		return left
	})
}
