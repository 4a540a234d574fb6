// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/secretfiles"
)

// files are the files whose content is masked.
type files struct {
	*secretfiles.Files
	// onFailure is called while nothing can be sent, because the unread content may be a
	// secret: a file can't be read, doesn't respond, such as on a volume whose server is
	// gone, or the files are too large to be masked.
	onFailure func(reason string)
}

func newFiles(paths []string, onFailure func(reason string)) *files {
	return &files{secretfiles.New(paths), onFailure}
}

// An inspection is what was found out about the files.
type inspection struct {
	stamp  string // see secretfiles.Files.Stamp
	count  int
	values []string // the contents, if the stamp has changed
	err    error    // why the files can't be masked
}

// waitUntilMaskable inspects the files until all of them respond and can be masked. It
// returns their values unless they still have the stamp of an earlier inspection.
func (f *files) waitUntilMaskable(before string) inspection {
	if len(f.Paths) == 0 {
		return inspection{}
	}
	for {
		l := f.inspect(before)
		if l.err == nil {
			return l
		}
		f.onFailure(l.err.Error())
		time.Sleep(secretfiles.SlowAfter)
	}
}

// inspect returns when all files have responded.
func (f *files) inspect(before string) (l inspection) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.stamp, l.count, l.err = f.Stamp(); l.err == nil && l.stamp != before {
			l.values, l.err = f.Values()
		}
	}()
	tick := time.NewTicker(secretfiles.SlowAfter)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return l
		case <-tick.C:
			if slow := f.Slow(); slow != "" {
				f.onFailure(slow)
			}
		}
	}
}
