// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"github.com/entrypointer/entrypointer/internal/supervisor/brake"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/gate"
	"github.com/entrypointer/entrypointer/internal/supervisor/helper"
	"github.com/entrypointer/entrypointer/internal/supervisor/hooks"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
	"github.com/entrypointer/entrypointer/internal/supervisor/sidecars"
	"github.com/entrypointer/entrypointer/internal/supervisor/startup"
	"github.com/entrypointer/entrypointer/internal/supervisor/turn"
)

// A supervision is one run of a command, with the features that its flags ask for.
type supervision struct {
	opts     *options
	life     *life.Life
	presence *presence.Presence
	pipes    *pipe.Pipes
	ending   *ending.Ending // of the command
	brake    *brake.Brake
	helper   *helper.Helper
	gate     *gate.Gate
	pause    *pause.Pause
	turn     *turn.Turn
	startup  *startup.Startup
	sidecars *sidecars.Sidecars
}

func newSupervision(opts *options) *supervision {
	l := life.New(opts.life())
	s := &supervision{opts: opts, life: l, ending: &ending.Ending{}}
	heartbeat, grace := opts.presence.Heartbeat, opts.ending.Grace
	s.presence = presence.New(l, &opts.presence)
	s.pipes = pipe.New(l, &opts.pipe, s.presence)
	s.brake = brake.New(l, &opts.brake, heartbeat, opts.gate.DependsOn, s.pipes, s.ending)
	s.helper = helper.New(l, &opts.helper, heartbeat, grace, s.brake, s.ending)
	s.gate = gate.New(l, &opts.gate, heartbeat, s.presence, s.pipes, s.helper)
	s.pause = pause.New(l, &opts.pause, opts.turn.Wait, s.helper)
	before := hooks.New(l, &opts.hooks, grace, s.helper)
	s.turn = turn.New(l, &opts.turn, &opts.env, before, s.pause, s.helper)
	s.startup = startup.New(l, &opts.startup, s.brake)
	s.sidecars = sidecars.New(l, &opts.sidecars, heartbeat, s.presence)
	return s
}
