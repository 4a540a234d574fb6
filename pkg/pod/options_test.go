// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/markdown"
)

func annotated(p *corev1.Pod, pairs ...string) *corev1.Pod {
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Annotations[pairs[i]] = pairs[i+1]
	}
	return p
}

func TestTheModeIsThePodsUnlessTheContainerHasItsOwn(t *testing.T) {
	two := func() *corev1.Pod { return asking(running("a", "x"), running("b", "y")) }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		a, b []string
	}{
		"none":                       {two(), []string{"--", "x"}, []string{"--", "y"}},
		"the pod's":                  {annotated(two(), "entrypointer.dev/mode", "exec"), []string{"-mode=exec", "--", "x"}, []string{"-mode=exec", "--", "y"}},
		"one container's":            {annotated(two(), "mode.entrypointer.dev/b", "exec"), []string{"--", "x"}, []string{"-mode=exec", "--", "y"}},
		"a container's over a pod's": {annotated(two(), "entrypointer.dev/mode", "exec", "mode.entrypointer.dev/a", "supervise"), []string{"--", "x"}, []string{"-mode=exec", "--", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), test.pod)
			require.Equal(t, test.a, result.Pod.Spec.Containers[0].Args)
			require.Equal(t, test.b, result.Pod.Spec.Containers[1].Args)
			require.Empty(t, result.Warnings)

			again := inject(t, newInjector(nil), result.Pod)
			require.Equal(t, pod.AlreadyInjected, again.Outcome)
			require.Equal(t, result.Pod, again.Pod)
		})
	}
}

func TestFlagsFollowTheAnnotationsOnReinvocation(t *testing.T) {
	once := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	result := inject(t, newInjector(nil), annotated(once, "entrypointer.dev/mode", "exec"))
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, []string{"-mode=exec", "--", "x"}, result.Pod.Spec.Containers[0].Args)

	delete(result.Pod.Annotations, "entrypointer.dev/mode")
	require.Equal(t, []string{"--", "x"}, inject(t, newInjector(nil), result.Pod).Pod.Spec.Containers[0].Args, "nor does a forged flag stay")
}

func TestAModeThatDoesntExistIsRefused(t *testing.T) {
	for key, value := range map[string]string{"entrypointer.dev/mode": "", "mode.entrypointer.dev/a": "Exec"} {
		_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), key, value))
		requireRefused(t, err, pod.InvalidAnnotation, key, `it can be "supervise" or "exec"`)
	}
	_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), "mode.entrypointer.dev/b", "exec"))
	requireRefused(t, err, pod.InvalidAnnotation, `no container "b"`)
}

func TestOptionsBecomeFlags(t *testing.T) {
	for name, test := range map[string]struct {
		option, value string
		want          []string
	}{
		"names":                    {"unset-env", "A, B\nC", []string{"-unset-env=A", "-unset-env=B", "-unset-env=C"}},
		"files":                    {"env-file", "/a,/$b", []string{"-env-file=/a", "-env-file=/$$b"}},
		"variables":                {"env", "A=1\n\nB=$(A) 2\r\nC=\n", []string{"-env=A=1", "-env=B=$(A) 2", "-env=C="}},
		"a name to the letter":     {"env", "$(A)=$(A)", []string{"-env=$$(A)=$(A)"}},
		"a script":                 {"before-start", "[ \"$A\" ]\necho $(date) $$", []string{"-before-start=/bin/sh", "-before-start-arg=-ec", "-before-start-arg=[ \"$$A\" ]\necho $$(date) $$$$"}},
		"a command":                {"before-start", ` ["/a", "$b", ""]`, []string{"-before-start=/a", "-before-start-arg=$$b", "-before-start-arg="}},
		"commands":                 {"before-start", `[["/a"], ["/b", "c"]]`, []string{"-before-start=/a", "-before-start=/b", "-before-start-arg=c"}},
		"a bracket":                {"before-start", "[ -f x ] || exit 1", []string{"-before-start=/bin/sh", "-before-start-arg=-ec", "-before-start-arg=[ -f x ] || exit 1"}},
		"two brackets":             {"before-start", "[[ -f x ]]", []string{"-before-start=/bin/sh", "-before-start-arg=-ec", "-before-start-arg=[[ -f x ]]"}},
		"a brace":                  {"before-start", "{ a; }", []string{"-before-start=/bin/sh", "-before-start-arg=-ec", "-before-start-arg={ a; }"}},
		"a quoted program":         {"before-start", `{ "a" b; }`, []string{"-before-start=/bin/sh", "-before-start-arg=-ec", `-before-start-arg={ "a" b; }`}},
		"a word that is JSON":      {"before-start", "true", []string{"-before-start=/bin/sh", "-before-start-arg=-ec", "-before-start-arg=true"}},
		"a hook's limit":           {"before-start-timeout", "5s", []string{"-before-start-timeout=5s"}},
		"a limit":                  {"timeout", "1h30m", []string{"-timeout=1h30m"}},
		"a grace period":           {"grace-period", "1s", []string{"-grace-period=1s"}},
		"exit codes":               {"success-exit-codes", "3,10-12", []string{"-success-exit-codes=3,10-12"}},
		"a file":                   {"status-file", "/a", []string{"-status-file=/a"}},
		"a message":                {"termination-message", "true", []string{"-termination-message=/dev/termination-log"}},
		"no message":               {"termination-message", "false", nil},
		"a pause":                  {"pause", "before-start, after-failure", []string{"-pause=before-start,after-failure"}},
		"what is done without one": {"mode", "supervise", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(asking(running("a", "x")), "entrypointer.dev/"+test.option, test.value)
			result := inject(t, newInjector(nil), p)
			require.Equal(t, append(test.want, "--", "x"), result.Pod.Spec.Containers[0].Args)
			lonely := slices.Contains([]string{"grace-period", "before-start-timeout"}, test.option)
			require.Equal(t, lonely, len(result.Warnings) == 1, result.Warnings)
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

func TestAnInvalidValueRefusesThePodWithTheKeyAndTheValidValues(t *testing.T) {
	for _, test := range []struct{ option, value, right string }{
		{"hand-off", "yes", `"true" or "false"`},
		{"trace", "yes", `"true" or "false"`},
		{"unset-env", "", "names of variables"},
		{"unset-env", "A=1", "names of variables"},
		{"env-file", "secrets/env", "an absolute path"},
		{"env", "A", "lines of the form NAME=VALUE"},
		{"env", "=1", "lines of the form NAME=VALUE"},
		{"env", "A B=1", "lines of the form NAME=VALUE"},
		{"env", "", "lines of the form NAME=VALUE"},
		{"before-start", "", "a shell script, or as JSON"},
		{"before-start", `["/a"`, "a shell script, or as JSON"},
		{"before-start", `[["/a"], []]`, "a shell script, or as JSON"},
		{"before-start", `["a", `, "a shell script, or as JSON"},
		{"before-start", ` ["a", `, "a shell script, or as JSON"},
		{"before-start", `["a", 1]`, "a shell script, or as JSON"},
		{"before-start", `["a", null]`, "a shell script, or as JSON"},
		{"before-start", `["a", ["b"]]`, "a shell script, or as JSON"},
		{"before-start", `[["a"], "b"]`, "a shell script, or as JSON"},
		{"before-start", `[1]`, "a shell script, or as JSON"},
		{"before-start", `[]`, "a shell script, or as JSON"},
		{"before-start", `{}`, "a shell script, or as JSON"},
		{"before-start", `{"cmd": ["a"]}`, `a command, ["program", "argument"], or a list of commands, [["first"], ["second", "argument"]]`},
		{"before-start", "{\n  \"cmd\": [\"a\"]", "a shell script, or as JSON"},
		{"before-start", `[{"cmd": ["a"]}]`, "a shell script, or as JSON"},
		{"before-start", `[{cmd: a}]`, "a shell script, or as JSON"},
		{"before-start", `[[]]`, "a shell script, or as JSON"},
		{"before-start-timeout", "0s", "a duration above zero"},
		{"timeout", "5", "a duration above zero with a unit, such as 90s"},
		{"grace-period", "-1s", "a duration above zero"},
		{"success-exit-codes", "0", "exit codes from 1 to 255"},
		{"status-file", "status", "an absolute path"},
		{"termination-message", "", `"true" or "false"`},
		{"pause", "never", `"before-start", "after-failure", or both`},
		{"pause", "", `"before-start", "after-failure", or both`},
	} {
		key, p := "entrypointer.dev/"+test.option, asking(running("a", "x"))
		if test.option == "hand-off" {
			p = stepOf()
		}
		_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(p, key, test.value))
		requireRefused(t, err, pod.InvalidAnnotation, key, test.right)
	}
	_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), "entrypointer.dev/env", "A="+strings.Repeat("x", 128<<10)))
	requireRefused(t, err, pod.InvalidAnnotation, "entrypointer.dev/env", "less than 128 KiB")
}

func TestAContainersSettingTakesPrecedenceOverThePodTheNamespaceAndTheOperator(t *testing.T) {
	defaults := func(of, timeout string) pod.Defaults {
		return pod.Defaults{Source: of, Values: map[string]string{"timeout": timeout}}
	}
	injector, p := newInjector(nil), asking(running("a", "x"))
	check := func(want string) {
		t.Helper()
		require.Equal(t, []string{"-timeout=" + want, "--", "x"}, inject(t, injector, p).Pod.Spec.Containers[0].Args)
	}
	injector.Defaults = []pod.Defaults{{}, defaults("operator", "1s")}
	check("1s")
	injector.Defaults[0] = defaults(`of namespace "tenant"`, "2s")
	check("2s")
	annotated(p, "entrypointer.dev/timeout", "3s")
	check("3s")
	annotated(p, "timeout.entrypointer.dev/a", "4s")
	check("4s")
}

func TestANamespacesOptionsAreAmongItsAnnotations(t *testing.T) {
	got := pod.NamespaceDefaults("tenant", map[string]string{
		"entrypointer.dev/inject": "true", "entrypointer.dev/timeout": "x", "entrypointer.dev/other": "y", "timeout": "z",
	})
	require.Equal(t, pod.Defaults{Source: `of namespace "tenant"`, Values: map[string]string{"timeout": "x"}}, got)

	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{got}
	_, err := injector.Inject(t.Context(), "tenant", asking(running("a", "x")))
	requireRefused(t, err, pod.InvalidAnnotation, `annotation entrypointer.dev/timeout of namespace "tenant": "x" is wrong`)
}

func TestAReplacedSupervisorCanDoNothingAfterwards(t *testing.T) {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{{Values: map[string]string{"timeout": "1h", "env": "A=1", "pause": "before-start"}}}
	p := annotated(asking(running("a", "x")), "entrypointer.dev/mode", "exec")
	require.Equal(t, []string{"-mode=exec", "-env=A=1", "-pause=before-start", "--", "x"}, inject(t, injector, p).Pod.Spec.Containers[0].Args,
		"a default is for those whom it suits")

	injector.Defaults = append(injector.Defaults, pod.Defaults{Values: map[string]string{"mode": "exec"}})
	require.Equal(t, []string{"-env=A=1", "-timeout=1h", "-pause=before-start", "--", "x"}, inject(t, injector, asking(running("a", "x"))).Pod.Spec.Containers[0].Args,
		"a nearer default counts more than a default mode")
	p = annotated(asking(running("a", "x")), "entrypointer.dev/pause", "after-failure")
	require.Equal(t, []string{"-env=A=1", "-timeout=1h", "-pause=after-failure", "--", "x"}, inject(t, injector, p).Pod.Spec.Containers[0].Args,
		"the pod's word counts more than a default mode")
}

// Each option that needs a parent is set at each level together with mode: exec at each.
func TestTheMoreSpecificOfConflictingValuesWins(t *testing.T) {
	levels := []string{"container", "pod", "namespace", "operator"}
	set := func(injector *pod.Injector, p *corev1.Pod, level int, option, value string) {
		switch levels[level] {
		case "container":
			annotated(p, option+".entrypointer.dev/a", value)
		case "pod":
			annotated(p, "entrypointer.dev/"+option, value)
		default:
			injector.Defaults[level-2].Values[option] = value
		}
	}
	for option, value := range map[string]string{
		"timeout": "1h", "success-exit-codes": "3", "status-file": "/status", "termination-message": "true", "pause": "after-failure", "logs": "stream",
	} {
		for modeAt := range levels {
			for optionAt := range levels {
				injector := withLogs()
				injector.Defaults = []pod.Defaults{{Values: map[string]string{}}, {Values: map[string]string{}}}
				p := sending(running("a", "x"), running("b", "x"))
				set(injector, p, modeAt, "mode", "exec")
				set(injector, p, optionAt, option, value)
				about := fmt.Sprintf("mode of the %s, %s of the %s", levels[modeAt], option, levels[optionAt])
				result, err := injector.Inject(t.Context(), "tenant", p)
				if modeAt == optionAt && modeAt < 2 {
					requireRefused(t, err, pod.InvalidAnnotation, option, "it contradicts annotation ", "mode", "remove one of them")
					continue
				}
				require.NoError(t, err, about)
				flags := strings.Join(result.Pod.Spec.Containers[0].Args, " ")
				require.Equal(t, optionAt < modeAt, strings.Contains(flags, "-"+option+"="), about)
				require.Equal(t, optionAt >= modeAt, strings.Contains(flags, "-mode=exec"), about)
				other := strings.Join(result.Pod.Spec.Containers[1].Args, " ")
				if levels[modeAt] == "container" {
					require.Contains(t, other, "-"+option+"=", about)
					require.NotContains(t, other, "-mode", about)
				}
				if levels[optionAt] == "container" {
					require.Contains(t, other, "-mode=exec", about)
				}
				require.Empty(t, result.Warnings, about)
				require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome, about)
			}
		}
	}
}

func TestAModeThatIsOverriddenContradictsNothing(t *testing.T) {
	p := annotated(asking(running("a", "x")), "entrypointer.dev/mode", "exec", "entrypointer.dev/status-file", "/status", "timeout.entrypointer.dev/a", "1h")
	require.Equal(t, []string{"-timeout=1h", "-status-file=/status", "--", "x"}, inject(t, newInjector(nil), p).Pod.Spec.Containers[0].Args)
	p.Spec.Containers = append(p.Spec.Containers, running("b", "x"))
	_, err := newInjector(nil).Inject(t.Context(), "tenant", p)
	requireRefused(t, err, pod.InvalidAnnotation, "annotation entrypointer.dev/status-file: it contradicts annotation entrypointer.dev/mode: exec")
}

func TestAnOptionThatIsTurnedOffContradictsNothing(t *testing.T) {
	p := annotated(asking(running("a", "x")), "entrypointer.dev/mode", "exec", "entrypointer.dev/termination-message", "false")
	require.Equal(t, []string{"-mode=exec", "--", "x"}, inject(t, newInjector(nil), p).Pod.Spec.Containers[0].Args)
}

func TestARelativeTerminationPathIsTheRuntimes(t *testing.T) {
	p := annotated(asking(running("a", "x")), "entrypointer.dev/termination-message", "true")
	p.Spec.Containers[0].TerminationMessagePath = "log"
	require.Equal(t, []string{"-termination-message=/log", "--", "x"}, inject(t, newInjector(nil), p).Pod.Spec.Containers[0].Args)
}

func TestTheOperatorSaysWhichOptionsPodsMaySet(t *testing.T) {
	injector := newInjector(nil)
	injector.Policy.PodOptions = []string{"mode"}
	injector.Defaults = []pod.Defaults{{Values: map[string]string{"timeout": "1h"}}}
	p := annotated(asking(running("a", "x")), "entrypointer.dev/mode", "supervise")
	require.Equal(t, []string{"-timeout=1h", "--", "x"}, inject(t, injector, p).Pod.Spec.Containers[0].Args, "defaults are the operator's own")
	for _, key := range []string{"entrypointer.dev/before-start", "before-start.entrypointer.dev/a"} {
		_, err := injector.Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), key, "true"))
		requireRefused(t, err, pod.InvalidAnnotation, key, "the operator doesn't let pods set this option")
	}
}

func TestAStepsTerminationMessageIsTektons(t *testing.T) {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{{Values: map[string]string{"termination-message": "true"}}}
	result := inject(t, injector, stepOf())
	require.Empty(t, flagsOf(result))
	require.Empty(t, result.Warnings)
	result = inject(t, injector, annotated(stepOf(), "entrypointer.dev/termination-message", "true"))
	require.Empty(t, flagsOf(result))
	require.Len(t, result.Warnings, 1)
}

// TestTheReferenceOfOptionsHasEachOption makes docs/options.md.
func TestTheReferenceOfOptionsHasEachOption(t *testing.T) {
	const file = "../../docs/options.md"
	var table strings.Builder
	table.WriteString("| option | can be set for | value | default | effect | example |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, o := range pod.Options() {
		fmt.Fprintf(&table, "| [`%s`](#%s) | %s | %s | %s | %s | `%s` |\n", o.Name, o.Name, levels(o), o.Value, o.Default, strings.ReplaceAll(markdown.FirstSentence(o.About), "|", `\|`), exampleOf(o))
	}
	for _, o := range pod.Options() {
		fmt.Fprintf(&table, "\n### %s\n\n%s\n", o.Name, o.About)
	}
	if *update {
		require.NoError(t, markdown.ReplaceSection(file, "options", table.String()))
	}
	written, err := markdown.Section(file, "options")
	require.NoError(t, err)
	require.Equal(t, table.String(), written, "go test ./pkg/pod -run Reference -update writes it")
}

// levels says what an option is set for, and for whose pods.
func levels(o pod.Option) string {
	var all []string
	for _, level := range o.Levels() {
		all = append(all, string(level))
	}
	text := strings.Join(all, ", ")
	switch owners := o.Owners(); {
	case len(owners) == 1:
		return text + "; " + string(owners[0]) + " only"
	case !slices.Contains(owners, pod.Tekton):
		return text + "; not Tekton"
	default:
		return text
	}
}

// exampleOf is an annotation as YAML.
func exampleOf(o pod.Option) string {
	key, quote := "entrypointer.dev/"+o.Name, `"`
	if !slices.Contains(o.Levels(), pod.OnPod) {
		key = o.Name + ".entrypointer.dev/web"
	}
	if strings.Contains(o.Example, quote) {
		quote = "'"
	}
	return key + ": " + quote + o.Example + quote
}

func TestTheExampleOfEachOptionIsRight(t *testing.T) {
	for _, o := range pod.Options() {
		if slices.Contains([]string{"depends-on", "stop-when", "ready-when", "wait-for", "stdin", "shared-directory"}, o.Name) {
			p := annotated(asking(running("a", "x"), running("migrate", "x"), running("db", "x"), running("test", "x")), o.Name+".entrypointer.dev/a", o.Example, "ready-when.entrypointer.dev/db", "tcp://:1")
			p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			require.Equal(t, pod.Injected, inject(t, newInjector(nil), p).Outcome, "an example is right")
			continue
		}
		d := pod.Defaults{Values: map[string]string{o.Name: o.Example}}
		require.NoError(t, d.Check(), "an example is right")
	}
}

func TestAnAnnotationWithoutEffectIsWarnedOf(t *testing.T) {
	taskRun := func() *corev1.Pod {
		p := asking(running("step-a", "x"))
		p.Annotations = map[string]string{}
		p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
		return p
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		says string
	}{
		"a spelling mistake":              {annotated(asking(running("a", "x")), "entrypointer.dev/mod", "exec"), `entrypointer.dev/mod is unknown and has no effect; did you mean "entrypointer.dev/mode"?`},
		"an option that there isn't":      {annotated(asking(running("a", "x")), "colour.entrypointer.dev/a", "red"), "colour.entrypointer.dev/a is unknown"},
		"containers of a TaskRun":         {annotated(taskRun(), pod.ContainersAnnotation, "step-a"), "no effect on a pod of Tekton's"},
		"a step of another TaskRun":       {annotated(taskRun(), "timeout.entrypointer.dev/step-b", "1h"), `timeout.entrypointer.dev/step-b has no effect: the pod has no container "step-b"`},
		"opting out, which isn't allowed": {annotated(taskRun(), pod.InjectAnnotation, "false"), "the operator forbids opting out"},
	} {
		t.Run(name, func(t *testing.T) {
			injector := newInjector(nil)
			injector.Policy.ForbidOptOut = true
			result := inject(t, injector, test.pod)
			require.Equal(t, pod.Injected, result.Outcome)
			require.Len(t, result.Warnings, 1)
			require.Contains(t, result.Warnings[0].Message, test.says)
		})
	}
	require.Empty(t, inject(t, newInjector(nil), annotated(asking(running("a", "x")), "notentrypointer.dev/mode", "x")).Warnings)

	typo := annotated(asking(running("a", "x")), "entrypointer.dev/injekt", "true")
	delete(typo.Annotations, pod.InjectAnnotation)
	result := inject(t, newInjector(nil), typo)
	require.Equal(t, pod.NotOurs, result.Outcome)
	require.Equal(t, []pod.Warning{{Reason: pod.ReasonUnknownAnnotation, Message: `annotation entrypointer.dev/injekt is unknown and has no effect; did you mean "entrypointer.dev/inject"?`}}, result.Warnings)

	unasked := annotated(asking(running("a", "x")), "entrypointer.dev/mode", "exec")
	delete(unasked.Annotations, pod.InjectAnnotation)
	require.Equal(t, []pod.Warning{{Reason: pod.ReasonAnnotationHasNoEffect, Message: `annotation entrypointer.dev/mode has no effect on a pod that doesn't ask by entrypointer.dev/inject: "true"`}},
		inject(t, newInjector(nil), unasked).Warnings)
}

func TestAnAnnotationThatLacksARequiredOptionIsWarnedOf(t *testing.T) {
	const grace, hooks, codes = "entrypointer.dev/grace-period", "entrypointer.dev/before-start-timeout", "entrypointer.dev/success-exit-codes"
	for name, test := range map[string]struct {
		annotations []string
		warns       string // "" if it has an effect
	}{
		"a grace period alone":                      {[]string{grace, "5s"}, "annotation entrypointer.dev/grace-period has no effect: it is the time between the two signals of timeout"},
		"of one container":                          {[]string{"grace-period.entrypointer.dev/a", "5s", "timeout.entrypointer.dev/b", "1h"}, "annotation grace-period.entrypointer.dev/a has no effect"},
		"of one that is replaced":                   {[]string{"grace-period.entrypointer.dev/a", "5s", "entrypointer.dev/timeout", "1h", "mode.entrypointer.dev/a", "exec"}, "annotation grace-period.entrypointer.dev/a has no effect"},
		"a grace period and a timeout":              {[]string{grace, "5s", "entrypointer.dev/timeout", "1h"}, ""},
		"a grace period and a timeout of one":       {[]string{grace, "5s", "timeout.entrypointer.dev/b", "1h"}, ""},
		"a grace period and a hook":                 {[]string{grace, "5s", "entrypointer.dev/before-start", "x"}, ""},
		"a grace period and a hook of the replaced": {[]string{grace, "5s", "entrypointer.dev/before-start", "x", "entrypointer.dev/mode", "exec"}, ""},
		"a grace period and a helper":               {[]string{grace, "5s", "stop-when.entrypointer.dev/a", "b:exited"}, ""},
		"a limit of hooks alone":                    {[]string{hooks, "5s"}, "annotation entrypointer.dev/before-start-timeout has no effect: it limits commands of before-start"},
		"a limit of hooks and a hook":               {[]string{hooks, "5s", "entrypointer.dev/before-start", "x"}, ""},
		"the code of a timeout":                     {[]string{codes, "3,124", "entrypointer.dev/timeout", "1h"}, "annotation entrypointer.dev/success-exit-codes: 124 has no effect: a timeout fails the container with 124"},
		"the code of a command":                     {[]string{codes, "124"}, ""},
		"codes of which that is one":                {[]string{codes, "1-255", "entrypointer.dev/timeout", "1h"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(asking(running("a", "x"), running("b", "x")), test.annotations...)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)} // which needs no lookup
			result := inject(t, newInjector(nil), p)
			if test.warns == "" {
				require.Empty(t, result.Warnings)
				return
			}
			require.Len(t, result.Warnings, 1)
			require.Equal(t, pod.ReasonAnnotationHasNoEffect, result.Warnings[0].Reason)
			require.Contains(t, result.Warnings[0].Message, test.warns)
		})
	}
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{{Values: map[string]string{"grace-period": "5s"}}}
	require.Empty(t, inject(t, injector, asking(running("a", "x"))).Warnings, "a default is for pods that have a timeout")
}

func TestASpellingMistakeIsAnsweredByASuggestion(t *testing.T) {
	for key, meant := range map[string]string{
		"entrypointer.dev/tiemout":           "entrypointer.dev/timeout",
		"tiemout.entrypointer.dev/a":         "timeout.entrypointer.dev/a",
		"tiemout.entrypointer.dev/elsewhere": "timeout.entrypointer.dev/elsewhere",
		"entrypointer.dev/containres":        "entrypointer.dev/containers",
		"entrypointer.dev/depend-on":         "depends-on.entrypointer.dev/CONTAINER",
		"depend-on.entrypointer.dev/a":       "depends-on.entrypointer.dev/a",
		"inject.entrypointer.dev/a":          "entrypointer.dev/inject",
		"end-sidecar.entrypointer.dev/a":     "entrypointer.dev/end-sidecars",
		"entrypointer.dev/colour":            "",
	} {
		want := "annotation " + key + " is unknown and has no effect"
		if meant != "" {
			want += `; did you mean "` + meant + `"?`
		}
		warnings := inject(t, newInjector(nil), annotated(asking(running("a", "x")), key, "1h")).Warnings
		require.Equal(t, []pod.Warning{{Reason: pod.ReasonUnknownAnnotation, Message: want}}, warnings)
	}
	for key, value := range map[string]string{
		"mode": "exce", "logs": "steam", "termination-message": "True", "pause": "after-failures", "end-sidecars": "isto",
		"depends-on.entrypointer.dev/a": "b:complete", "containers": "mian",
	} {
		if !strings.Contains(key, "/") {
			key = "entrypointer.dev/" + key
		}
		meant := map[string]string{"exce": "exec", "steam": "stream", "True": "true", "after-failures": "after-failure", "isto": "istio", "b:complete": "completed", "mian": "main"}[value]
		_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x"), running("b", "x"), running("main", "x")), key, value))
		requireRefused(t, err, pod.InvalidAnnotation, key, `did you mean "`+meant+`"?`)
	}
}
