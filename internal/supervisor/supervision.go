// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/handoff"
	"github.com/entrypointer/entrypointer/internal/supervisor/hooks"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
	"github.com/entrypointer/entrypointer/internal/supervisor/sidecars"
	"github.com/entrypointer/entrypointer/internal/supervisor/startorder"
	"github.com/entrypointer/entrypointer/internal/supervisor/startup"
	"github.com/entrypointer/entrypointer/internal/supervisor/stoporder"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
	"github.com/entrypointer/entrypointer/internal/supervisor/timeout"
)

// A supervision is one run of a command, with the features that its flags ask for.
type supervision struct {
	opts       *options
	life       *life.Life
	presence   *presence.Presence
	pipes      *pipe.Pipes
	ending     *ending.Ending // of the command
	stopOrder  *stoporder.Brake
	stopWhen   *stopwhen.Helper
	startOrder *startorder.Gate
	pause      *pause.Pause
	handoff    *handoff.Turn
	timeout    *timeout.Timeout
	startup    *startup.Startup
	sidecars   *sidecars.Sidecars
}

func newSupervision(opts *options) *supervision {
	l := life.New(opts.life())
	s := &supervision{opts: opts, life: l, ending: &ending.Ending{}}
	heartbeat, grace := opts.presence.Heartbeat, opts.ending.Grace
	s.presence = presence.New(l, &opts.presence)
	s.pipes = pipe.New(l, &opts.pipe, s.presence)
	s.stopOrder = stoporder.New(l, &opts.stopOrder, heartbeat, opts.startOrder.DependsOn, s.pipes, s.ending)
	s.stopWhen = stopwhen.New(l, &opts.stopWhen, heartbeat, grace, s.stopOrder, s.ending)
	s.startOrder = startorder.New(l, &opts.startOrder, heartbeat, s.presence, s.pipes, s.stopWhen)
	s.pause = pause.New(l, &opts.pause, opts.handoff.Wait, s.stopWhen)
	before := hooks.New(l, &opts.hooks, grace, s.stopWhen)
	s.handoff = handoff.New(l, &opts.handoff, &opts.env, before, s.pause, s.stopWhen)
	s.timeout = timeout.New(l, &opts.timeout, grace, s.stopOrder, s.ending)
	s.startup = startup.New(l, &opts.startup, s.stopOrder)
	s.sidecars = sidecars.New(l, &opts.sidecars, heartbeat, s.presence)
	return s
}
