// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// An Option is an instruction for the supervisor of a container.
// OPTION.entrypointer.dev/CONTAINER sets it for one container, entrypointer.dev/OPTION
// for all wrapped containers of a pod, and the same annotation of a namespace for its
// pods by default. A step of a TaskRun goes by its own name as well. A key always has room for a container's name (as in
// container.apparmor.security.beta.kubernetes.io/CONTAINER).
type Option struct {
	Name string
	// Value describes the values, with their unit.
	Value string
	// Default describes the effect of an absent annotation.
	Default string
	Example string
	// About is the text for docs/options.md. Its first sentence describes the option's
	// effect.
	About string

	// flags returns the supervisor's flags for a value, of which the first kind has the
	// option's name (optionContext.flag). An error describes valid values.
	flags func(value string, c optionContext) ([]string, error)
	// byDefault is the value that applies without any setting.
	byDefault string
	// afterStart reports whether a value has an effect after the command's start; nil
	// stands for no value.
	afterStart func(value string) bool
	// beforeStart marks an option that does something before the command, which may fail.
	beforeStart bool
	// perContainer marks an option that can only be set for single containers.
	perContainer bool
	// wholePod marks an option that can only be set for whole pods.
	wholePod bool
	// ofSteps marks an option that only steps of TaskRuns can have.
	ofSteps bool
}

func always(string) bool { return true }

// options are all options, in the order of their flags.
var options = []Option{
	{
		Name: "mode", Value: "`supervise` or `exec`", Default: "`supervise`", Example: "exec",
		About: "`exec` makes the supervisor replace itself with the command, for images that must be PID 1 (s6, systemd). In a Tekton step, this command is Tekton's entrypoint, which runs the step's own command as its child.",
		flags: modeFlags,
	},
	{
		Name: "hand-off", Value: "`true` or `false`", Default: "`true`", Example: "false",
		About: "Whether the supervisor waits until a Tekton step may start, in place of Tekton's entrypoint, which polls once a second. " +
			"The first step starts once the supervisors of all steps have started, without Tekton's controller, if all containers of the pod are steps. " +
			"During the wait, Tekton's entrypoint is stopped (SIGSTOP). It isn't started yet if hooks, an `env-file` or a pause come before it, or with `mode: exec`. " +
			"Where Tekton copies credentials to a `HOME` that is a volume, Tekton's entrypoint always starts with the pod; an `env-file` is then read at that time, too, and with `mode: exec` the hooks run at that time. " +
			"If Tekton's entrypoint is killed and the container survives, the supervisor reports the failure to the steps that follow. With `false`, and where the supervisor doesn't know Tekton's flags, hooks and time limits begin when the pod starts.",
		flags: handOffFlags, byDefault: "true", ofSteps: true,
	},
	{
		Name: between.DependsOn, Value: "`CONTAINER:CONDITION`, separated by commas or newlines; a `?` at the end makes a container optional", Default: "none", Example: "migrate:completed, db:ready, cache:started?",
		About: "The containers of the pod that this container waits for, each with a condition: " + conditions.All.Markdown() + ". [How](order.md). Set the option for a single container. Tekton's steps can't have this option: Tekton runs them in their own order.",
		flags: related(between.DependsOn), perContainer: true,
	},
	{
		Name: dependsOnTimeoutOption, Value: "a duration", Default: "none", Example: "5m",
		About: "The longest time that a container waits for the containers of its `depends-on`, the URLs of its `wait-for`, and the other end of its pipe (`stdin`). When the time is over, the container fails with 124, and its command is never started.",
		flags: dependsOnTimeoutFlags,
	},
	{
		Name: between.StopWhen, Value: "`CONTAINER:CONDITION`, separated by commas or newlines; a `?` at the end makes a container optional", Default: "none", Example: "test:exited",
		About: "The containers of the pod that this container helps. When all of them are " + conditions.Ends.Markdown() + ", or can never be any more, the command is stopped as by `timeout`, and the container exits with 0. [How](order.md#helpers-that-end-with-the-work). Set the option for a single container that isn't restarted after a success. Tekton's pods can't have this option: Tekton stops their sidecars.",
		flags: related(between.StopWhen), perContainer: true, afterStart: always,
	},
	{
		Name: between.ReadyWhen, Value: "JSON: a command (`[\"program\", \"argument\"]`), or `tcp://:PORT`, `http://:PORT/PATH`, `file:///PATH`", Default: "its `readinessProbe`", Example: `["pg_isready", "-h", "127.0.0.1"]`,
		About: "When this container is `ready` for the containers that depend on it: the supervisor tries once a second until the command exits with 0, the port accepts a connection, the server answers with a status code from 200 to 399, or the file exists that the present run of the command has created, changed or renamed. Set the option for a single container.",
		flags: related(between.ReadyWhen), perContainer: true, afterStart: always,
	},
	{
		Name: between.WaitFor, Value: "`http://:PORT/PATH`, `tcp://:PORT`, `file:///PATH`, separated by commas or newlines", Default: "none", Example: "http://127.0.0.1:15021/healthz/ready",
		About: "URLs of containers without a supervisor that this container waits for, such as another webhook's proxy. Each URL is tried once a second, until the server has answered with a status code from 200 to 399, the port has accepted a connection, or the file exists. `depends-on-timeout` limits this wait, too. [How](order-reference.md#wait-for-what-isnt-wrapped). Set the option for a single container. Tekton's steps can't have this option.",
		flags: related(between.WaitFor), perContainer: true,
	},
	{
		Name: between.EndSidecars, Value: "`istio`, `linkerd`, `vault`, `cloud-sql-proxy` and `http://:PORT/PATH`, separated by commas or newlines, or `none`", Default: "`none`", Example: "istio, http://:9091/quitquitquit",
		About: "The containers without a supervisor that are asked to end, by a POST, when all other containers have ended for good, so that a Job with a proxy completes. [How](order.md#end-sidecars). Set the option for a whole pod whose containers aren't restarted after a success, or for a namespace, where it affects only such pods. Tekton's pods can't have this option: Tekton ends their sidecars.",
		flags: related(between.EndSidecars), wholePod: true,
	},
	{
		Name: between.Stdin, Value: "the name of a container", Default: "none", Example: "migrate",
		About: "The container of the pod whose standard output is this container's standard input, as with `|` in a shell. [How](order.md#pipes). Set the option for a single container. Tekton's steps can't have this option.",
		flags: related(between.Stdin), perContainer: true, afterStart: always,
	},
	{
		Name: between.SharedDirectory, Value: "names, separated by commas or newlines", Default: "none", Example: "sockets",
		About: "Directories that this container shares with all containers of the pod that name the same directory: `/entrypointer/shared/NAME`. A directory is empty when the pod starts, holds at most 1 GiB, and is writable for every user. [What for](between-containers.md#a-shared-directory). Set the option for a single container.",
		flags: related(between.SharedDirectory), perContainer: true,
	},
	{
		Name: "unset-env", Value: "names of variables, separated by commas or newlines", Default: "none", Example: "HTTP_PROXY,HTTPS_PROXY",
		About: "Variables to remove from the command's environment.",
		flags: eachWord(variableName),
	},
	{
		Name: "env-file", Value: "absolute paths, separated by commas or newlines", Default: "none", Example: "/secrets/env",
		About: "Files in the container with one `NAME=VALUE` a line. Values are taken literally; empty lines and lines that begin with `#` are skipped. The supervisor reads the files when the command starts; if a file is missing, the container fails.",
		flags: eachWord(absolutePath), beforeStart: true,
	},
	{
		Name: "env", Value: "`NAME=VALUE`, one a line", Default: "none", Example: "LANG=C.UTF-8",
		About: "Variables to set, after `unset-env` and `env-file`. `$(NAME)` refers to a variable of the container's `env`; it can't refer to another line.",
		flags: envFlags,
	},
	{
		Name: traceOption, Value: "`true` or `false`", Default: "`false`", Example: "true",
		About: "Whether the command and its hooks get `TRACEPARENT`, and `TRACESTATE` if there is one, by which a program that traces continues a [trace](tasks/continue-a-trace-in-a-build.md): " +
			"Tekton's own, or one that begins with the PipelineRun, the TaskRun, the Job, the Workflow or the pod. Each run of a container is a span. " +
			"They are set after `unset-env`, `env-file` and `env`. A `TRACEPARENT` that the container, its image or `env` sets stays, and the container has no span then; those of `env-file` are replaced.",
		flags: traceFlags,
	},
	{
		Name: "before-start", Value: "a shell script, or JSON: a command (`[\"program\", \"argument\"]`) or a list of commands", Default: "none", Example: `["/hooks/migrate", "--wait"]`,
		About: "Hooks: commands to run in the container before its own command, with the same environment, user and output. `/bin/sh -ec` runs a script; a value that begins like JSON, with `[\"` or `{\"`, is no script. The first hook that fails makes the container fail with the hook's exit code.",
		flags: hookFlags, beforeStart: true,
	},
	{
		Name: "before-start-timeout", Value: "a duration", Default: "`1m`", Example: "30s",
		About: "The longest time that each hook of `before-start` may take. When the time is over, the hook gets SIGTERM, after the `grace-period` SIGKILL, and the container fails with 124.",
		flags: durationFlags,
	},
	{
		Name: "timeout", Value: "a duration", Default: "none", Example: "1h30m",
		About: "The longest time that the command may run. When the time is over, the command gets SIGTERM, after the `grace-period` SIGKILL, and the container exits with 124, whatever the command's own exit code is. " +
			"A command that is being stopped already gets no second stop signal, and a [stop signal that is held back](order-reference.md#how-containers-stop) takes the place of SIGTERM. " +
			"If Kubernetes restarts the container, as in a Deployment, it waits longer each time (the kubelet's back-off, up to five minutes). A new Knative Revision fails. " +
			"The TaskRun of a Tekton step reports that the step timed out. A step can't have both `timeout` and `onError: continue`: the pod is refused.",
		flags: timeoutFlags, afterStart: always,
	},
	{
		Name: "grace-period", Value: "a duration", Default: "`30s`", Example: "10s",
		About: "The time between SIGTERM and SIGKILL after a timeout, and between the stop signal and SIGKILL after `stop-when`.",
		flags: durationFlags,
	},
	{
		Name: "success-exit-codes", Value: "codes from 1 to 255 and ranges of them, separated by commas", Default: "none", Example: "3,10-12",
		About: "Exit codes of the command that count as success: the container exits with 0. The status keeps the command's code. " +
			"In a Tekton step the command is Tekton's entrypoint, which has already reported the failure to the steps that follow. So only the last step can have this option, and a pod that sets it for an earlier step is refused: use `onError: continue` there.",
		flags: exitCodeFlags, afterStart: always,
	},
	{
		Name: "status-file", Value: "an absolute path", Default: "none", Example: "/status/main.json",
		About: "The file to keep the [status](reference.md#status) in, on a volume that the container's user may write to.",
		flags: pathFlags, afterStart: always,
	},
	{
		Name: "termination-message", Value: "`true` or `false`", Default: "`false`", Example: "true",
		About:      "Whether the status becomes the container's termination message. A message that the command writes itself takes precedence. For a container that failed, Knative then shows the status instead of the end of its log. The option has no effect on Tekton's steps, because the status would replace their results.",
		flags:      terminationMessageFlags,
		afterStart: func(value string) bool { return value != "false" },
	},
	{
		Name: "pause", Value: "`before-start`, `after-failure`, or both with a comma", Default: "none", Example: "after-failure",
		About: "Where to stop until somebody runs `kubectl exec POD -c CONTAINER -- /entrypointer/bin/entrypoint continue` or deletes the pod.",
		flags: pauseFlags, beforeStart: true, afterStart: func(value string) bool { return slices.Contains(text.SplitList(value), "after-failure") },
	},
	{
		Name: "logs", Value: "`off`, `stream` or `tee`", Default: "`off`", Example: "stream",
		About: "Where the command's output goes: `stream` sends it to the [log service](logs.md) instead of the cluster's logs, `tee` sends it to both. In the log service's copy, [secrets](logs.md#what-is-masked) that the pod's spec names are masked. " +
			"The output of a container with a terminal (`tty: true`) isn't sent, and no output is sent where no log service is installed: admission warns, and the container runs as with `off`.",
		flags: logsFlags, afterStart: func(value string) bool { return value != "off" },
	},
	{
		Name: logsWhenFullOption, Value: "`drop`, `block` or `block:DURATION`", Default: "`block` with `logs: stream`, `drop` with `logs: tee`", Example: "block:30s",
		About: "What happens when the memory for unsent output is full: with `drop`, the oldest output is dropped, and with `block`, the command waits, as for any slow reader of its output. " +
			"The command waits for no longer than this duration without an acknowledgement of the [log service](logs.md); then output is dropped until the service takes output again. So a service that is down stops a command once. " +
			"Without a duration, it is `75s` for a container whose `restartPolicy` is Never or OnFailure, such as a Tekton step, so that an outage of a minute loses nothing, and `2s` for any other, whose requests mustn't hang on the log service.",
		flags: logsWhenFullFlags,
	},
	{
		Name: logsFlushOption, Value: "a duration", Default: "`75s` with `logs: stream`, `10s` for servers and with `logs: tee`", Example: "2m",
		About: "How long the end of a container waits for the [log service](logs.md), if the service doesn't have all output yet. Containers and steps that wait for this one start meanwhile. " +
			"If the container is stopped, it waits for at most 10 seconds, and if the stop signal arrives during the wait, until two seconds before the end of the grace period. A container that has printed nothing waits for a second. " +
			"A server is a container whose `restartPolicy` is neither Never nor OnFailure: it isn't started again before this wait is over.",
		flags: logsFlushFlags,
	},
	{
		Name: "logs-buffer", Value: "a quantity from `256Ki` to `64Mi`", Default: "`1Mi`", Example: "4Mi",
		About: "The size of the memory for output that the [log service](logs.md) doesn't have yet, for each of stdout and stderr. It counts against the container's memory limit as far as it is in use.",
		flags: logsBufferFlags,
	},
	{
		Name: "mask-files", Value: "absolute paths, separated by commas or newlines", Default: "none", Example: "/workspace/token",
		About: "Files in the container, and directories of files, whose content is masked in the output that the [log service](logs.md) gets, in addition to the Secrets that the pod's spec names. An example is a token that an earlier step has written. The files may appear later and change: output is masked by their content at the time of sending, and by all earlier content.",
		flags: maskFilesFlags,
	},
	{
		Name: toolsOption, Value: "names of tools, separated by commas or newlines, or `none`", Default: "`none`", Example: "ni, yq",
		About: "Programs that the operator offers ([how](tools.md)). The container finds them at `/entrypointer/tools/NAME`. " +
			"A pod whose own annotation names a tool that isn't offered, or not allowed in its namespace, is refused, with the names of the tools that are offered. If the namespace or the operator names such a tool, the pod runs without it, and admission warns.",
		flags: toolsFlags,
	},
	{
		Name: "tools-in-path", Value: "`true` or `false`", Default: "`false`", Example: "true",
		About: "Whether `/entrypointer/tools` is appended to the command's `PATH`. The supervisor does so when the command starts, after `env`, also if only the image sets `PATH`. A container without tools keeps its `PATH`.",
		flags: toolsInPathFlags,
	},
}

// Options returns all options.
func Options() []Option { return slices.Clone(options) }

// A Level is the scope for which an annotation sets an option.
type Level string

// The levels. The value of the most specific one counts.
const (
	OnContainer Level = "container" // OPTION.entrypointer.dev/CONTAINER, on a pod
	OnPod       Level = "pod"       // entrypointer.dev/OPTION
	OnNamespace Level = "namespace" // the same, on a namespace
)

// Levels returns where the option can be set.
func (o Option) Levels() []Level {
	switch {
	case o.perContainer:
		return []Level{OnContainer}
	case o.wholePod:
		return []Level{OnPod, OnNamespace}
	default:
		return []Level{OnContainer, OnPod, OnNamespace}
	}
}

// Owners returns the owners of the pods in which the option has an effect.
func (o Option) Owners() (owners []Owner) {
	for _, kind := range append(Kinds(), asking) {
		if kind.takes(&o) {
			owners = append(owners, kind.Owner)
		}
	}
	return owners
}

// optionNamed returns the option of a name, nil if there is none.
func optionNamed(name string) *Option {
	for at := range options {
		if options[at].Name == name {
			return &options[at]
		}
	}
	return nil
}

// key returns the annotation for a pod or a namespace.
func (o Option) key() string { return annotation.Domain + "/" + o.Name }

// forContainer returns the beginning of the annotation for one container.
func (o Option) forContainer() string { return annotation.For(o.Name, "") }

// flagsFor returns the supervisor's flags for a value.
func (o Option) flagsFor(value string, c optionContext) ([]string, error) {
	c.flag = "-" + o.Name + "="
	return o.flags(value, c)
}

// needsParent reports whether a value requires that the supervisor stays the command's
// parent.
func (o Option) needsParent(value string) bool { return o.afterStart != nil && o.afterStart(value) }

// takes reports whether an option has an effect on these pods.
func (k *Kind) takes(o *Option) bool {
	_, unsuited := k.Unsuited[o.Name]
	return !unsuited && (k.Steps || !o.ofSteps)
}
