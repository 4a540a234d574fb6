// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package handoff waits for the turn of a command, which files announce, and does what is due
// between the turn and the start.
package handoff

import (
	"strconv"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/hooks"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// A Turn is the turn of a command.
type Turn struct {
	Early   Early
	Aborted bool // start the command without hooks or pauses, and let it report why

	life   *life.Life
	opts   *Options
	env    *launch.Edits
	hooks  *hooks.Hooks
	pause  *pause.Pause
	helper *stopwhen.Helper
	waiter *await.Waiter

	original []string // the command's argv, if it has been given another one (redirect.go)
	misled   bool     // the command must have its own argv after all
}

// New returns the turn that the options ask for.
func New(l *life.Life, opts *Options, env *launch.Edits, h *hooks.Hooks, p *pause.Pause, work *stopwhen.Helper) *Turn {
	return &Turn{
		life: l, opts: opts, env: env, hooks: h, pause: p, helper: work,
	}
}

// Take waits for the command's turn and prepares its start, after the wait for
// other containers. env has all edits that don't depend on files. takeOver has signals
// forwarded to the command from then on. Take returns the command's argv and environment.
func (t *Turn) Take(argv, env []string, takeOver func()) (_, _ []string, err error) {
	shared := t.preparesInSharedVolume(env)
	late := len(t.env.Files) > 0 // earlier steps may write these files
	if late && shared {
		console.Say("reading variables from " + strconv.Quote(t.env.Files[0]) + " at the pod's start instead of the step's turn: " +
			t.opts.UnlessShared + " is in a volume, so the step must start early: set " + t.opts.UnlessShared + " to a directory of the image")
		late = false
		if env, err = t.env.Apply(launch.Environ()); err != nil {
			return nil, nil, err
		}
	}
	argv, err = t.wait(argv, env, shared, late)
	takeOver()
	if err != nil || t.Aborted || t.Early.Process != nil && t.Early.Ended {
		return argv, env, t.endEarly(err)
	}
	if late {
		if env, err = t.env.Apply(launch.Environ()); err != nil {
			return nil, nil, err
		}
	}
	return argv, env, t.endEarly(t.beforeStart(env))
}

// wait waits for the turn, and returns the command's argv.
func (t *Turn) wait(argv, env []string, shared, late bool) (_ []string, err error) {
	early := t.canStartEarly(shared, late)
	if early || !shared {
		argv = t.redirected(argv)
	}
	t.waiter = await.NewWaiter(t.opts.Wait, t.opts.Limit)
	defer t.waiter.Close()
	switch {
	case early:
		t.publishWaiting()
		err = t.startEarly(argv, env, shared)
	case !shared:
		err = t.awaitTurn()
	}
	if !t.misled || err != nil {
		return argv, err
	}
	if t.Early.Process != nil {
		err = t.dropEarly()
	}
	return t.original, err
}

// beforeStart runs the hooks and the pause between the turn and the start.
func (t *Turn) beforeStart(env []string) error {
	if err := t.hooks.Run(env); err != nil {
		return err
	}
	if sig := t.pause.At(pause.BeforeStart); sig != 0 {
		return outcome.StoppedBy(sig, "the pause before its start")
	}
	return nil
}

// endEarly ends the early command if err is not nil. It returns err.
func (t *Turn) endEarly(err error) error {
	if err == nil || t.Early.Process == nil {
		return err
	}
	_ = t.dropEarly()
	return err
}

// canStartEarly reports whether the command can be started before its turn. Hooks, a
// pause and late environment files must wait for the turn, and the command for them,
// unless the command must begin early (shared). A command on a terminal isn't started
// early, because only the command at its turn may have the foreground.
func (t *Turn) canStartEarly(shared, late bool) bool {
	between := t.hooks.Any() || late || t.pause.Has(pause.BeforeStart)
	return t.opts.Hold != 0 && len(t.opts.Wait.All) > 0 && (shared || !between) && !terminal.Foreground().IsOurs()
}

// preparesInSharedVolume reports whether the command, before its own wait, prepares a
// directory that other containers may see (-wait-unless-shared).
func (t *Turn) preparesInSharedVolume(env []string) bool {
	if t.opts.UnlessShared == "" {
		return false
	}
	dir, set := launch.Getenv(env, t.opts.UnlessShared)
	return set && proc.MayBeShared(dir)
}

// awaitTurn waits for the files that announce the command's turn.
func (t *Turn) awaitTurn() error {
	if len(t.opts.Wait.All) == 0 {
		return nil
	}
	t.publishWaiting()
	var turn await.State
	var end syscall.Signal
	err := t.life.Until(func() time.Duration {
		if end = t.helper.PendingEnd(); end != 0 { // only signals after takeOver count
			return life.Done
		}
		if turn = t.waiter.Look(); turn != await.Waiting {
			return life.Done
		}
		return t.waiter.Pause()
	})
	if err != nil {
		return err
	}
	if end != 0 {
		return outcome.StoppedBy(end, "the wait for "+t.opts.Wait.All[0].Path)
	}
	return t.concludeTurn(turn)
}

func (t *Turn) publishWaiting() {
	t.life.SetPhase(report.Waiting)
	for _, file := range t.opts.Wait.All {
		t.life.Event(output.EventWaiting, file.Path, 0)
	}
}

// concludeTurn records the result of the wait. If the files can't be examined, the
// command is started anyway: it examines them itself, and can report the error better.
// But with hooks, environment files or a pause, the command must not run without them,
// so concludeTurn returns an error.
func (t *Turn) concludeTurn(turn await.State) error {
	t.Aborted = turn == await.Aborted
	t.misled = t.passTurn(turn)
	t.life.Event(output.EventWaited, "", int(turn))
	if turn != await.Unknown {
		return nil
	}
	text := t.waiter.Err().Error() + ": mount its volume into this container, and let the container's user read it"
	if t.hooks.Any() || t.env.Files != nil || t.pause.Has(pause.BeforeStart) {
		return outcome.Own(text + "; the command was not started")
	}
	console.Say(text)
	t.Aborted = true
	return nil
}

// startEarly starts the command and stops it, unless its turn has already come. It
// returns at the command's turn, or when the command has ended.
func (t *Turn) startEarly(argv, env []string, shared bool) error {
	turn := t.waiter.Look()
	if turn == await.Waiting {
		t.life.CountKillsFromNow()
		p, err := t.life.Start(argv, env, t.life.Stdio(0), life.CommandAttr(terminal.Terminal{}))
		if err != nil {
			return err
		}
		t.Early = Early{Process: p, silent: t.opts.UnlessShared == "", began: time.Now(), cpuUsed: -1}
		err = t.life.Until(func() time.Duration {
			turn = t.waiter.Look()
			switch {
			case p.Ended:
				return life.Done
			case turn == await.Waiting:
				return min(t.waiter.Pause(), t.Early.advance(t.mayFindTurn, t.opts.Hold))
			case turn == await.Met && t.original != nil && t.Early.isGoingToSleep():
				// Once the command is stopped, nothing else would end the wait.
				if pause := t.Early.advance(t.mayFindTurn, t.opts.Hold); pause != life.Forever {
					return pause
				}
			}
			return life.Done
		})
		if err != nil {
			return err
		}
	}
	if err := t.concludeTurn(turn); err != nil {
		return err
	}
	if !shared && t.Early.restartIsFaster() && t.Early.isUndisturbed() {
		return t.dropEarly()
	}
	return nil
}

// mayFindTurn reports whether the early command would find at a poll that its turn has
// come.
func (t *Turn) mayFindTurn() bool {
	if t.original != nil {
		return false // its file isn't written before the end of the wait
	}
	turn, err := t.opts.Wait.Look()
	return turn != await.Waiting || err != nil
}

// ContinueEarly continues the early command, whether it is stopped or not. If a shell has
// moved the supervisor to the terminal's foreground meanwhile, the command gets that
// place.
func (t *Turn) ContinueEarly() {
	if t.life.Term.IsOurs() {
		t.life.Term.SetForeground(t.Early.PID)
	}
	_ = syscall.Kill(t.Early.PID, syscall.SIGCONT)
}

// dropEarly kills the early command and its process group.
func (t *Turn) dropEarly() error {
	p := t.Early.Process
	t.Early = Early{}
	if !p.Ended {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	return t.life.Until(func() time.Duration {
		if p.Ended {
			return life.Done
		}
		return life.Forever
	})
}
