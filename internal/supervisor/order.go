// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// An orderState is this container's part in the order of the pod: the state that it
// publishes to containers that depend on it, and the probes of its command. The zero
// value publishes nothing.
type orderState struct {
	incarnation       *order.Incarnation // nil if no container depends on this one
	prober            *order.Prober      // non-nil from the command's start until it is ready
	startupProber     *order.Prober      // non-nil from the command's start until the startupProbe has succeeded or failed
	publishComplained bool               // the error was printed that the state can't be published
	lastWordRepeated  bool               // the published end was repeated, or needed no repetition
	unreadyComplained bool               // the reason was printed for which the command isn't ready
	unready           string             // the published reason for which the command isn't ready
	unreadySince      time.Time          // when it was published
	polled            poller             // servers without a supervisor, while they are probed or asked to end
	awaited           time.Duration      // how long awaitConditions has waited
}

// A poller appends the descriptors that can wake it.
type poller interface {
	Poll(fds []unix.PollFd) []unix.PollFd
}

// announce publishes that this incarnation has begun.
func (s *supervision) announce() {
	if s.opts.orderDir == "" {
		return
	}
	s.incarnation = order.NewIncarnation(s.opts.orderDir, s.opts.heartbeat, signals.Write)
	s.publishPhase(order.Preparing, 0)
}

// failBeforeStart prints an error of an incarnation that can't have a command. It also
// publishes the incarnation's end: containers that depend on this one would otherwise
// wait for it to begin.
func failBeforeStart(opts *options, err error) (code int) {
	s := &supervision{opts: opts}
	s.announce()
	s.exitCode = outcome.As(err).Code
	s.publishPhase(order.Ended, s.exitCode)
	printFailure(err)
	s.endSidecars()
	s.completeLastWord()
	return s.exitCode
}

// publishPhase publishes how far this container has come.
func (s *supervision) publishPhase(phase order.Phase, exitCode int) {
	if s.incarnation != nil {
		s.incarnation.Publish(phase, exitCode)
		s.complainIfUnpublished()
	}
}

// complainIfUnpublished prints once that the state can't be published. The command runs
// on: containers that depend on this one wait until a later write succeeds.
func (s *supervision) complainIfUnpublished() {
	if err := s.incarnation.Err(); err != nil && !s.publishComplained {
		s.publishComplained = true
		console.Say("publishing this container's state in " + strconv.Quote(s.opts.orderDir) + ": " + err.Error() +
			": containers that depend on it wait until this succeeds: let the container's user write there, and free space on the volume")
	}
}

// startProbing starts the readiness probe of the command.
func (s *supervision) startProbing(env []string) {
	if s.incarnation != nil && s.opts.ready.Kinds() > 0 {
		s.prober = order.NewProber(&s.opts.ready, s.probeRunner(env))
	}
}

func (s *supervision) stopProbing() {
	if s.prober != nil {
		s.prober.Close()
		s.prober = nil
		s.withdrawUnready()
	}
}

// serveDependents does what is due for the containers that depend on this one, and
// returns the time until the next call.
func (s *supervision) serveDependents() time.Duration {
	if s.incarnation == nil {
		return forever
	}
	s.publishStopping()
	pause := forever
	if s.prober != nil {
		ready, next := s.prober.Act()
		if ready {
			s.stopProbing()
			s.publishPhase(order.Ready, 0)
		} else {
			pause = min(pause, max(time.Until(next), 0))
			s.complainIfUnready()
		}
	}
	if next, will := s.incarnation.Act(); will {
		pause = min(pause, max(time.Until(next), 0))
	}
	s.complainIfUnpublished()
	return pause
}

// reasonInterval is the shortest time between two reasons that this container publishes.
const reasonInterval = 5 * time.Second

// publishUnready publishes why the command isn't ready, when that has changed.
func (s *supervision) publishUnready(err error) {
	if err == nil || err.Error() == s.unready || time.Since(s.unreadySince) < reasonInterval {
		return
	}
	s.unready, s.unreadySince = err.Error(), time.Now()
	s.incarnation.PublishReason("its check " + s.opts.ready.String() + " fails: " + s.unready)
}

// withdrawUnready withdraws the reason for which the command isn't ready. A later end
// has another one.
func (s *supervision) withdrawUnready() {
	if s.unready != "" {
		s.unready = ""
		s.incarnation.WithdrawReason()
	}
}

// complainIfUnready prints once why the readiness probe fails. No other log would have
// the reason: dependents see only that this container isn't ready.
func (s *supervision) complainIfUnready() {
	lasting, err := s.prober.Failure()
	s.publishUnready(err)
	if err == nil || s.unreadyComplained || lasting < reminderTimes[0] {
		return
	}
	s.unreadyComplained = true
	console.Say("not ready after " + reminderTimes[0].String() + ", and other containers wait for it: the last attempt of ready-when, or else of the readinessProbe: " + err.Error() +
		": correct the probe, or find out why the command doesn't become ready")
}

// probeRunner returns a Runner for a probe's commands. They have the command's
// environment; their stdin, stdout and stderr are /dev/null. The loop reaps them like
// all children.
func (s *supervision) probeRunner(env []string) order.Runner {
	return func(argv []string) (func() (bool, error), func(), error) {
		null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, nil, err
		}
		defer unix.Close(null)
		fd := uintptr(null)
		p, err := s.start(argv, env, []uintptr{fd, fd, fd}, childAttr(terminal.Terminal{}))
		if err != nil {
			return nil, nil, err
		}
		ended := func() (over bool, failure error) {
			if !p.ended {
				return false, nil
			}
			s.forget(p)
			if outcome.ExitCode(p.status) != 0 {
				failure = errors.New("it " + outcome.Describe(p.status))
			}
			return true, failure
		}
		kill := func() {
			if !p.ended {
				_ = syscall.Kill(-p.pid, syscall.SIGKILL)
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			s.forget(p)
		}
		return ended, kill, nil
	}
}

// bequeathLock prepares the exec of the command: it publishes that the command has
// started, and leaves the command the lock by which other containers see that it lives.
func (s *supervision) bequeathLock() {
	if s.incarnation == nil || s.incarnation.Phase() == order.Started {
		return
	}
	s.publishPhase(order.Started, 0)
	if err := s.incarnation.BequeathLock(); err != nil {
		console.Say("leaving the command the lock that tells other containers that it lives: " + err.Error() + ": raise the limit of open files")
	}
}

// lastLook is the time for a wait after hooks if the wait before has taken all of its
// time: as long as a probe of a target may take.
const lastLook = time.Second

// awaitConditions waits for the containers that this one depends on, and for targets
// that run without a supervisor. All calls share one time limit.
func (s *supervision) awaitConditions() error {
	if !s.opts.waits() {
		return nil
	}
	conditions := s.newConditions()
	defer s.closeConditions(conditions)
	conditions.AddPipeEnds(s.pipeEnds())
	limit := s.opts.dependsOnTimeout
	if limit > 0 && s.awaited > 0 {
		limit = max(limit-s.awaited, lastLook)
	}
	waiter := await.NewWaiter(conditions, limit)
	defer waiter.Close()
	var state await.State
	var end syscall.Signal
	for _, d := range s.opts.dependsOn {
		s.event(EventDependsOn, d.String(), 0)
	}
	log := waitLog{began: time.Now()}
	err := s.until(func() time.Duration {
		if end = s.pendingEnd(); end != 0 {
			return done
		}
		pause := conditions.try()
		state = waiter.Look()
		s.reportUnmet(conditions.unmet(), &log)
		if state != await.Waiting {
			return done
		}
		return min(pause, waiter.Pause())
	})
	s.waiting = waitStatus{}
	s.awaited += time.Since(log.began)
	switch {
	case err != nil:
		return err
	case end != 0:
		return outcome.StoppedBy(end, "the wait for "+describeUnmet(conditions.unmet()))
	}
	s.event(EventWaited, "", int(state))
	switch state {
	case await.Failed:
		return s.dependencyFailed(conditions.unmet())
	case await.TimedOut:
		return outcome.New(outcome.CodeTimeout, outcome.Timeout, "waiting for " + describeUnmet(conditions.unmet()) + ": not met after " + s.opts.dependsOnTimeout.String() +
			": the command was not started: check them, or raise depends-on-timeout")
	}
	return nil
}

// reportUnmet publishes and prints what this container waits for.
func (s *supervision) reportUnmet(unmet []order.Unmet, log *waitLog) {
	if len(unmet) == 0 {
		return
	}
	if describeUnmet(unmet) != describeUnmet(s.waiting.unmet) {
		s.waiting = waitStatus{log.began, unmet}
		s.setPhase(phaseWaiting)
	}
	for _, line := range log.dueLines(time.Since(log.began), unmet) {
		console.Say(line)
	}
}

// dependencyFailed is the failure of a command that isn't started because a dependency
// has failed for good. It tells the containers that depend on this one which container
// that was.
func (s *supervision) dependencyFailed(unmet []order.Unmet) error {
	failed := onlyFailed(unmet)
	if s.incarnation != nil {
		s.incarnation.PublishReason(failed[0].Culprit())
	}
	return outcome.New(outcome.CodeDependency, outcome.DependencyFailure, "waiting for " + describeUnmet(failed) +
		", which is not restarted: the command was not started: see the log of container " + strconv.Quote(failed[0].Name()))
}

// onlyFailed returns the dependencies that can't be met any more.
func onlyFailed(unmet []order.Unmet) (failed []order.Unmet) {
	for _, u := range unmet {
		if u.Failed {
			failed = append(failed, u)
		}
	}
	return failed
}
