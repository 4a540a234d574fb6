// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
)

// check rejects combinations of flags that can't work together.
func (o *options) check() error {
	for _, check := range []func() error{
		o.handoff.Check, o.presence.Check, o.checkHold, o.assignFinalEnds,
		func() error { return o.sidecars.Check(&o.presence) }, o.checkHoldOfSidecars,
		o.checkStop, func() error { return o.pipe.Check(&o.presence) }, o.startup.Check, o.checkExec,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkHold rejects an order of containers for a step that is held.
func (o *options) checkHold() error {
	if o.handoff.Hold != 0 && o.inOrder() {
		return cmdline.Failure("-hold="+o.handoff.Hold.String(), "not together with -depends-on, -wait-for and -order-dir: only a Tekton step is held, and Tekton orders the steps")
	}
	return nil
}

func (o *options) checkHoldOfSidecars() error {
	if o.handoff.Hold != 0 && len(o.sidecars.Targets) > 0 {
		return cmdline.Failure("-hold="+o.handoff.Hold.String(), "not together with -end-sidecar: only a Tekton step is held, and Tekton stops its sidecars")
	}
	return nil
}

// assignFinalEnds gives each container that this one observes its final ends.
func (o *options) assignFinalEnds() error {
	return o.startOrder.AssignFinalEnds([][]order.Dependency{o.stopWhen.Ends, o.sidecars.When}, []*order.Partner{&o.pipe.From, &o.pipe.To})
}

// checkStop rejects flags of the stop that can't work together with others.
func (o *options) checkStop() error {
	switch {
	case !o.isStopped():
		return nil
	case o.mode == modeExec:
		return cmdline.Failure("-mode="+modeExec, "not together with -stop-...: no supervisor is left for that once the command has replaced it")
	case o.handoff.Hold != 0:
		return cmdline.Failure("-hold="+o.handoff.Hold.String(), "not together with -stop-...: only a Tekton step is held, and Tekton stops it")
	}
	return o.stopOrder.Check(o.presence.Dir == "" && len(o.stopWhen.Ends) == 0)
}

// checkExec rejects what would happen after the command's start in mode exec.
func (o *options) checkExec() error {
	if o.mode != modeExec {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"hold", o.handoff.Hold != 0},
		{"post-file", o.tekton.PostFile != ""},
		{"timeout", o.timeout.After != 0},
		{"success-exit-codes", o.successes != nil},
		{"status-file", o.report.File != ""},
		{"termination-message", o.report.TerminationMessage != ""},
		{"logs", capturesOutput()},
		{"ready-...", o.presence.Ready.Kinds() > 0},
		{"startup-...", o.startup.Kinds() > 0},
		{"end-sidecar", len(o.sidecars.Targets) > 0},
		{"stdin-from and -stdout-to", o.pipe.IsPiped()},
		{"order-heartbeat and -order-dir", o.presence.Heartbeat && o.presence.Dir != ""},
		{"pause=" + pause.AfterFailure, o.pause.Has(pause.AfterFailure)},
	} {
		if f.set {
			return cmdline.Failure("-mode="+modeExec, "not together with -"+f.name+": no supervisor is left for that once the command has replaced it")
		}
	}
	return nil
}
