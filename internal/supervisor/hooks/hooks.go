// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package hooks runs programs before the command.
package hooks

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// Options are the programs.
type Options struct {
	Argvs   [][]string
	Timeout time.Duration // of each
}

// Defaults are the default values.
func Defaults() Options { return Options{Timeout: time.Minute} }

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("before-start", "PROGRAM [-before-start-arg=WORD ...]", `Run this program before the command, with the command's environment and
output. May be repeated. If a program fails, don't start the command, and
exit with the program's exit code.`, o.add)
	f.Add("before-start-arg", "WORD", `An argument for the preceding -before-start.`, o.addArg)
	f.Add("before-start-timeout", "DURATION", `The longest time for each -before-start, 1m by default.`, cmdline.Duration(&o.Timeout))
}

func (o *Options) add(program string) string {
	o.Argvs = append(o.Argvs, []string{program})
	return ""
}

func (o *Options) addArg(word string) string {
	if len(o.Argvs) == 0 {
		return "no -before-start precedes it: put one before it"
	}
	last := &o.Argvs[len(o.Argvs)-1]
	*last = append(*last, word)
	return ""
}

// Hooks run before the command.
type Hooks struct {
	life   *life.Life
	opts   *Options
	grace  time.Duration // between the stop signal and SIGKILL
	helper *stopwhen.Helper
}

// New returns the hooks that the options ask for.
func New(l *life.Life, opts *Options, grace time.Duration, h *stopwhen.Helper) *Hooks {
	return &Hooks{life: l, opts: opts, grace: grace, helper: h}
}

// Any reports whether there are hooks.
func (h *Hooks) Any() bool { return h.opts.Argvs != nil }

// Run runs the before-start hooks one after the other. Each has the command's
// environment, stdout and stderr, and an empty stdin.
//
// Signals that arrive meanwhile are kept for the command. An ending signal is forwarded
// to the running hook as well, and the command isn't started.
func (h *Hooks) Run(env []string) error {
	if len(h.opts.Argvs) == 0 {
		return nil
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return outcome.Own("running before-start hooks: opening /dev/null: " + err.Error())
	}
	defer unix.Close(null)
	for i, argv := range h.opts.Argvs {
		h.life.SetPhase(report.BeforeStart)
		if err := h.run(argv, env, null); err != nil {
			return outcome.New(err.Code, outcome.HookFailure, "before-start hook "+strconv.Itoa(i+1)+": "+err.Text)
		}
		if sig := h.helper.PendingEnd(); sig != 0 {
			return outcome.StoppedBy(sig, "before-start hook "+strconv.Itoa(i+1))
		}
	}
	return nil
}

func (h *Hooks) run(argv, env []string, null int) *outcome.Failure {
	hook, err := h.life.Start(argv, env, h.life.Stdio(uintptr(null)), life.CommandAttr(terminal.Terminal{}))
	if err != nil {
		return outcome.As(err)
	}
	h.life.Event(output.EventHookStarted, argv[0], hook.PID)
	end, limit := ending.Ending{Process: hook}, ending.NewLimit(h.opts.Timeout)
	err = h.life.Until(func() time.Duration {
		if sig := h.helper.PendingEnd(); sig != 0 && end.Signal == 0 {
			if h.helper.FoundUnneeded() {
				end.Decide(ending.Unneeded, h.grace) // nobody else sends SIGKILL
			}
			end.Stop(sig)
		}
		reached, pause := limit.Reached()
		if reached && end.Decide(ending.TooSlow, h.grace) {
			end.Stop(syscall.SIGTERM)
		}
		if pause = min(pause, end.Kill()); !end.Over() {
			return pause
		}
		return life.Done
	})
	if hook.Ended {
		h.life.Event(output.EventHookEnded, "", int(hook.Status))
	}
	name := strconv.Quote(argv[0])
	switch {
	case err != nil:
		return outcome.As(err)
	case end.Verdict == ending.TooSlow:
		return outcome.New(outcome.CodeTimeout, outcome.HookFailure, "running "+name+": not done after "+h.opts.Timeout.String()+
			": make it faster, or raise before-start-timeout")
	case outcome.ExitCode(hook.Status) != 0:
		return outcome.New(outcome.ExitCode(hook.Status), outcome.HookFailure, "running "+name+": it "+outcome.Describe(hook.Status)+": the command was not started")
	}
	return nil
}
