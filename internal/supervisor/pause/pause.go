// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package pause holds a container before its start, or after a failure, for somebody who
// looks into it.
package pause

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
)

// The places.
const (
	BeforeStart  = "before-start"
	AfterFailure = "after-failure"
)

// Options are the places of pauses.
type Options struct{ Places []string }

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("pause", "before-start|after-failure[,...]", `Pause at these places until "entrypoint continue".`, o.set)
}

func (o *Options) set(value string) string {
	o.Places = strings.Split(value, ",")
	for _, place := range o.Places {
		if place != BeforeStart && place != AfterFailure {
			return "unknown place: use " + BeforeStart + ", " + AfterFailure + " or both with a comma"
		}
	}
	return ""
}

// Has reports whether there is a pause at a place.
func (o *Options) Has(place string) bool { return slices.Contains(o.Places, place) }

// A Pause lasts until somebody continues the container.
type Pause struct {
	life   *life.Life
	opts   *Options
	wait   await.Files // whose abort ends it
	helper *stopwhen.Helper
}

// New returns the pauses that the options ask for.
func New(l *life.Life, opts *Options, wait await.Files, h *stopwhen.Helper) *Pause {
	return &Pause{life: l, opts: opts, wait: wait, helper: h}
}

// Has reports whether there is a pause at a place.
func (p *Pause) Has(place string) bool { return p.opts.Has(place) }

// At pauses if -pause names this place. The pause lasts until SIGCONT arrives,
// which "entrypoint continue" sends, or an ending signal, which At returns;
// otherwise it returns 0. A file of -wait-abort ends the pause as well; the command
// then handles that file.
func (p *Pause) At(place string) (end syscall.Signal) {
	if !p.opts.Has(place) {
		return 0
	}
	signals.TakePending(syscall.SIGCONT)
	p.life.Paused = place
	defer func() { p.life.Paused = "" }()
	p.life.SetPhase(report.Paused)
	p.life.Event(output.EventPaused, place, 0)
	console.Say("paused " + place + `: "` + os.Args[0] + ` continue" in this container resumes it`)
	err := p.life.Until(func() time.Duration {
		end = p.helper.PendingEnd()
		switch {
		case end != 0, signals.TakePending(syscall.SIGCONT), p.wait.Aborts():
			return life.Done
		case len(p.wait.Abort) > 0:
			return abortCheckInterval
		}
		return life.Forever
	})
	if err != nil {
		console.Say(err.Error())
	}
	p.life.Event(output.EventContinued, "", 0)
	return end
}

// abortCheckInterval is the time between two looks for a file that ends a pause.
const abortCheckInterval = 100 * time.Millisecond
