// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import "slices"

// domain is where our annotations live.
const domain = "entrypointer.dev"

// An Option is something that an annotation tells the entrypoint of a
// container: of one with OPTION.entrypointer.dev/CONTAINER, of all wrapped
// containers of a pod with entrypointer.dev/OPTION, and by default of those of a
// namespace with the same annotation on that. A container's name always fits
// there (as it does in container.apparmor.security.beta.kubernetes.io/CONTAINER).
type Option struct {
	Name string
	// Value says what values look like, and in what unit.
	Value string
	// Default is what happens without the annotation.
	Default string
	Example string
	// About is for docs/reference.md.
	About string

	// flags returns the entrypoint's flags for a value. An error says what a
	// value can be.
	flags func(value string, c target) ([]string, error)
	// applied makes flags of byDefault where nobody says anything.
	byDefault string
	// afterStart says whether a value asks for something that comes after the
	// command's start; nil is no value.
	afterStart func(value string) bool
	// beforeStart says that something happens before the command that may fail.
	beforeStart bool
	// perContainer says that each container has its own, or none: nothing that is
	// said of all of them has a meaning.
	perContainer bool
	// wholePod says that nothing can be said of one container only.
	wholePod bool
	// notOfTekton is why the annotation on Tekton's pods is refused, "" if it has no effect.
	notOfTekton string
	// only and except are owners; empty is none of them.
	only, except Owner
}

// A target is the container that an option is for.
type target struct {
	terminationPath string
	argv            []string        // the original one
	exec            bool            // the command will take the entrypoint's place
	downward        bool            // Tekton's downward API volume is mounted
	mayNotStart     bool            // something comes before the command that may fail
	logs            func() []string // makes the flags of a container that sends; nil if it can't
	sends           bool            // it can, and is asked to
	tools           bool            // it gets some
	waits           bool            // for other containers
}

// toolsOption is the name of the option by which tools are asked for.
const toolsOption = "tools"

func always(string) bool { return true }

// options are all there are, in the order in which their flags appear.
var options = []Option{
	{
		Name: "mode", Value: "`supervise` or `exec`", Default: "`supervise`", Example: "exec",
		About: "`exec` has the entrypoint replace itself with the command, for images that insist on being PID 1 (s6, systemd). In a Tekton step that is Tekton's entrypoint, which runs the step's own command below it.",
		flags: modeFlags,
	},
	{
		Name: "hand-off", Value: "`true` or `false`", Default: "`true`", Example: "false",
		About: "Whether the entrypoint waits for a Tekton step's turn, in place of Tekton's own waiting, which looks once a second. " +
			"Meanwhile Tekton's entrypoint is stopped (SIGSTOP), or not started yet if hooks, an `env-file` or a pause come before it, and with `mode: exec`. " +
			"Where Tekton copies credentials to a `HOME` that is a volume, its entrypoint is always started with the pod; then an `env-file` is read that early, too, and with `mode: exec` hooks run that early. " +
			"The entrypoint also tells the steps after it when Tekton's entrypoint dies without a word, as long as the container doesn't die with it. With `false`, hooks and time limits begin when the pod does; so they do where Tekton's flags aren't known.",
		flags: handOffFlags, byDefault: "true", only: Tekton,
	},
	{
		Name: dependsOnOption, Value: "`CONTAINER:CONDITION`, separated by commas or newlines; a `?` at the end if the pod need not have that container", Default: "none", Example: "migrate:completed, db:ready, cache:started?",
		About: "Which containers of the pod this one waits for, and until when: `started`, `ready`, `completed` or `exited`. [How](order.md). Only for a container by its name; not for Tekton's steps, which have an order of their own.",
		flags: dependsOnFlags, perContainer: true, except: Tekton, notOfTekton: "Tekton has an order of its own for the steps of a TaskRun, and its sidecars aren't wrapped; write the steps in their order",
	},
	{
		Name: dependsOnTimeoutOption, Value: "a duration", Default: "none", Example: "5m",
		About: "The longest time that a container waits for the containers of its `depends-on`, the URLs of its `wait-for`, and the other end of its pipe (`stdin`): then it fails with 124, without its command having been started.",
		flags: dependsOnTimeoutFlags, except: Tekton,
	},
	{
		Name: stopWhenOption, Value: "`CONTAINER:CONDITION`, separated by commas or newlines; a `?` at the end if the pod need not have that container", Default: "none", Example: "test:exited",
		About: "Which containers of the pod this one is there for: when all of them are `completed` or `exited`, or never can be any more, its command is stopped as by `timeout`, and it exits with 0. [How](order.md#helpers-that-end-with-the-work). Only for a container by its name, which isn't restarted after a success; not for Tekton's sidecars, which Tekton stops.",
		flags: stopWhenFlags, perContainer: true, except: Tekton, notOfTekton: "Tekton ends the steps of a TaskRun in their order, and its sidecars, which aren't wrapped, after the last step", afterStart: always,
	},
	{
		Name: readyWhenOption, Value: "JSON: a command (`[\"program\", \"argument\"]`), or `tcp://:PORT`, `http://:PORT/PATH`, `file:///PATH`", Default: "its `readinessProbe`", Example: `["pg_isready", "-h", "127.0.0.1"]`,
		About: "When this container is `ready` for those that depend on it: the entrypoint tries once a second until the command exits with 0, the port accepts, the server answers with a code from 200 to 399, or the file is there. Only for a container by its name.",
		flags: readyWhenFlags, perContainer: true, except: Tekton, afterStart: always,
	},
	{
		Name: waitForOption, Value: "`http://:PORT/PATH`, `tcp://:PORT`, `file:///PATH`, separated by commas or newlines", Default: "none", Example: "http://127.0.0.1:15021/healthz/ready",
		About: "What this container waits for that has no entrypoint, such as another webhook's proxy: each is tried once a second, until the server has answered with a code from 200 to 399, the port has accepted, or the file is there. `depends-on-timeout` holds for it, too. [How](order.md#wait-for-what-isnt-wrapped). Only for a container by its name; not for Tekton's steps.",
		flags: waitForFlags, perContainer: true, except: Tekton, notOfTekton: "Tekton starts a TaskRun's steps when all of its containers are ready",
	},
	{
		Name: endSidecarsOption, Value: "`istio`, `linkerd`, `vault`, `cloud-sql-proxy` and `http://:PORT/PATH`, separated by commas or newlines, or `none`", Default: "`none`", Example: "istio, http://:9091/quitquitquit",
		About: "Which containers without an entrypoint are asked to end, by a POST, when all others have ended for good: so that a Job completes beside a proxy. [How](order.md#end-sidecars). For a whole pod, whose containers aren't restarted after a success, or a namespace, where it has an effect on such pods only; not for Tekton's pods, whose sidecars Tekton ends.",
		flags: endSidecarsFlags, wholePod: true, except: Tekton, notOfTekton: "Tekton ends the sidecars of a TaskRun itself, after its last step",
	},
	{
		Name: stdinOption, Value: "the name of a container", Default: "none", Example: "migrate",
		About: "Which container of the pod prints what this one reads, as by `|` in a shell. [How](order.md#pipes). Only for a container by its name; not for Tekton's steps.",
		flags: stdinFlags, perContainer: true, except: Tekton, notOfTekton: "Tekton runs the steps of a TaskRun one after the other, and no pipe leads from one to the next; write to a file of a workspace", afterStart: always,
	},
	{
		Name: sharedDirectoryOption, Value: "names, separated by commas or newlines", Default: "none", Example: "sockets",
		About: "Directories that this container shares with the others of its pod that name them: `/entrypointer/shared/NAME`, empty when the pod starts, at most 1 GiB each, and all their users may write there. [What for](between-containers.md#a-shared-directory). Only for a container by its name.",
		flags: sharedDirectoryFlags, perContainer: true,
	},
	{
		Name: "unset-env", Value: "names of variables, separated by commas or newlines", Default: "none", Example: "HTTP_PROXY,HTTPS_PROXY",
		About: "Variables that the command shall not have.",
		flags: eachWord(unsetEnvFlag, variableName),
	},
	{
		Name: "env-file", Value: "absolute paths, separated by commas or newlines", Default: "none", Example: "/secrets/env",
		About: "Files in the container with one `NAME=VALUE` a line, to the letter; empty lines and those that begin with `#` are skipped. They are read when the command starts; a file that isn't there fails the container.",
		flags: eachWord(envFileFlag, absolutePath), beforeStart: true,
	},
	{
		Name: "env", Value: "`NAME=VALUE`, one a line", Default: "none", Example: "LANG=C.UTF-8",
		About: "Variables to set, after `unset-env` and `env-file`. `$(NAME)` stands for a variable of the container's `env`, not for another line.",
		flags: envFlags,
	},
	{
		Name: "before-start", Value: "a shell script, or JSON: a command (`[\"program\", \"argument\"]`) or a list of such", Default: "none", Example: `["/hooks/migrate", "--wait"]`,
		About: "What to run in the container before its command, with the same environment, user and output. A script is run by `/bin/sh -ec`. The first that fails, fails the container, with its exit code.",
		flags: hookFlags, beforeStart: true,
	},
	{
		Name: "before-start-timeout", Value: "a duration", Default: "`1m`", Example: "30s",
		About: "The longest time that each of them may take: then it gets SIGTERM, after the `grace-period` SIGKILL, and the container fails with 124.",
		flags: durationFlags(hookTimeoutFlag),
	},
	{
		Name: "timeout", Value: "a duration", Default: "none", Example: "1h30m",
		About: "The longest time that the command may run: then it gets SIGTERM, after the `grace-period` SIGKILL, and the container exits with 124, whatever the command made of it. " +
			"A container that is restarted after that, as a server's is, waits longer each time (the kubelet's back-off, up to five minutes), and a Knative Revision that is new fails. " +
			"A Tekton step's TaskRun says that the step timed out; with `onError: continue` the pod is refused.",
		flags: timeoutFlags, afterStart: always,
	},
	{
		Name: "grace-period", Value: "a duration", Default: "`30s`", Example: "10s",
		About: "The time between the two signals of a timeout, also after `stop-when`.",
		flags: durationFlags(gracePeriodFlag),
	},
	{
		Name: "success-exit-codes", Value: "codes from 1 to 255 and ranges of them, separated by commas", Default: "none", Example: "3,10-12",
		About: "Exit codes of the command that count as success: the container exits with 0. The status keeps the code. " +
			"In a Tekton step this is about Tekton's entrypoint, which has told the steps after it of the failure already: a pod that sets it for another step than the last is refused; `onError: continue` is for those.",
		flags: exitCodeFlags, afterStart: always,
	},
	{
		Name: "status-file", Value: "an absolute path", Default: "none", Example: "/status/main.json",
		About: "Where to keep the [status](#status), in a volume that the container's user may write to.",
		flags: pathFlags(statusFileFlag), afterStart: always,
	},
	{
		Name: "termination-message", Value: "`true` or `false`", Default: "`false`", Example: "true",
		About:  "Whether the status becomes the container's termination message, unless the command writes one itself. It takes the place of the end of the log that Knative shows of a container that failed. Never for Tekton's steps, whose results it would replace.",
		flags:  terminationMessageFlags,
		except: Tekton, afterStart: func(value string) bool { return value != "false" },
	},
	{
		Name: "pause", Value: "`before-start`, `after-failure`, or both with a comma", Default: "none", Example: "after-failure",
		About: "Where to stop until somebody goes on with `kubectl exec POD -c CONTAINER -- /entrypointer/bin/entrypoint continue`, or the pod is deleted.",
		flags: pauseFlags, beforeStart: true, afterStart: func(value string) bool { return slices.Contains(splitList(value), "after-failure") },
	},
	{
		Name: "logs", Value: "`off`, `stream` or `tee`", Default: "`off`", Example: "stream",
		About: "Where what the command prints goes: `stream` is to the [log service](logs.md), and not to the cluster's logs, `tee` is to both. Secrets that the pod's spec names are masked in what the log service gets. " +
			"A container with a terminal (`tty: true`) isn't sent, nor is any where no log service is installed: a warning says so, and the container runs as with `off`.",
		flags: logsFlags, afterStart: func(value string) bool { return value != "off" },
	},
	{
		Name: "mask-files", Value: "absolute paths, separated by commas or newlines", Default: "none", Example: "/workspace/token",
		About: "Files in the container, and directories of files, whose content is masked as well in what the [log service](logs.md) gets, beside the Secrets that the pod's spec names: such as a token that an earlier step has written. They may come later, and change: what is sent is masked by what is in them then, and by what was.",
		flags: maskFilesFlags,
	},
	{
		Name: toolsOption, Value: "names of tools, separated by commas or newlines, or `none`", Default: "`none`", Example: "ni, yq",
		About: "Programs that the operator offers ([how](tools.md)), to be found at `/entrypointer/tools/NAME`. " +
			"A pod that asks for one that isn't offered, or that its namespace can't have, is refused, with the names of those that are. Where its namespace or the operator asks, the pod runs without that one, and a warning says so.",
		flags: toolsFlags,
	},
	{
		Name: "tools-in-path", Value: "`true` or `false`", Default: "`false`", Example: "true",
		About: "Whether `/entrypointer/tools` is added to the end of the command's `PATH`, after `env`, as it is when the command starts: also to one that only the image sets. A container without tools keeps its `PATH`.",
		flags: toolsInPathFlags,
	},
}

// Options returns all options that there are.
func Options() []Option { return slices.Clone(options) }

// keys are the keys of the options, in their order: putting them together for
// each container would be a good part of the work on a pod.
var keys = func() (list []struct{ pod, container string }) {
	for _, o := range options {
		list = append(list, struct{ pod, container string }{o.key(), o.forContainer()})
	}
	return list
}()

func optionNamed(name string) (Option, bool) {
	at := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if at < 0 {
		return Option{}, false
	}
	return options[at], true
}

// key is the annotation of a pod or a namespace.
func (o Option) key() string { return domain + "/" + o.Name }

// forContainer begins the annotation of a pod for one of its containers.
func (o Option) forContainer() string { return containerKey(o.Name, "") }

// containerKey is the annotation of a pod by which an option is set for one container.
func containerKey(option, container string) string { return option + "." + domain + "/" + container }

// needsParent reports whether a value asks for something that only a parent of
// the command can do.
func (o Option) needsParent(value string) bool { return o.afterStart != nil && o.afterStart(value) }

// suits reports whether the option does something for the owner's pods.
func (o Option) suits(owner Owner) bool {
	return (o.only == "" || o.only == owner) && o.except != owner
}
