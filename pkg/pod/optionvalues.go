// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/exitcodes"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Each function here turns an annotation's value into flags. An error describes the valid
// values. A value is literal, so its $ is doubled for the kubelet.

// modeExec is the value of the option mode by which the command replaces the supervisor.
const modeExec = "exec"

func modeFlags(value string, c optionContext) ([]string, error) {
	switch value {
	case "supervise":
		return nil, nil // the supervisor's default
	case modeExec:
		return []string{c.flag + value}, nil
	default:
		return nil, oneOf(value, "supervise", modeExec)
	}
}

// oneOf returns the error for a value that is none of these words.
func oneOf(value string, words ...string) error {
	last := len(words) - 1
	list := `"` + strings.Join(words[:last], `", "`) + `" or "` + words[last] + `"`
	return text.CanBe(list + spelling.DidYouMean(value, words))
}

func eachWord(check func(string) error) func(string, optionContext) ([]string, error) {
	return func(value string, c optionContext) (flags []string, _ error) {
		list := text.SplitList(value)
		if len(list) == 0 {
			return nil, check("")
		}
		for _, word := range list {
			if err := check(word); err != nil {
				return nil, err
			}
			flags = append(flags, c.flag+text.Escape(word))
		}
		return flags, nil
	}
}

func variableName(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return text.CanBe("names of variables, separated by commas")
	}
	return nil
}

func absolutePath(path string) error {
	if !text.IsAbsolutePath(path) {
		return text.CanBe("an absolute path")
	}
	return nil
}

// envFlags leaves $(NAME) in values to the kubelet. In names, $(NAME) is literal, as in
// the names of a container's env.
func envFlags(value string, c optionContext) (flags []string, _ error) {
	lines := text.CanBe("lines of the form NAME=VALUE")
	for line := range strings.SplitSeq(value, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, content, found := strings.Cut(line, "=")
		if !found || name == "" || strings.ContainsFunc(name, unicode.IsSpace) || strings.Contains(line, "\x00") {
			return nil, lines
		}
		flags = append(flags, c.flag+text.Escape(name)+"="+content)
	}
	if flags == nil {
		return nil, lines
	}
	return flags, nil
}

func hookFlags(value string, c optionContext) (flags []string, _ error) {
	hook := text.CanBe(`a shell script, or as JSON a command, ["program", "argument"], or a list of commands, [["first"], ["second", "argument"]]`)
	hooks, ok := parseHooks(value)
	if !ok {
		return nil, hook
	}
	for _, argv := range hooks {
		if argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
			return nil, hook
		}
		flags = append(flags, c.flag+text.Escape(argv[0]))
		for _, arg := range argv[1:] {
			flags = append(flags, hookArgFlag+text.Escape(arg))
		}
	}
	return flags, nil
}

// parseHooks returns the argv of each hook. A value that is a JSON array or object, or
// begins like JSON, is no script: a mistake in it is refused here, and isn't left to the
// shell. Scripts can begin with a bracket or a brace, too: [ -f "$A" ], { a; }.
func parseHooks(value string) (hooks [][]string, ok bool) {
	script := strings.TrimSpace(value)
	var list []any
	switch {
	case json.Unmarshal([]byte(script), &list) == nil && list != nil:
		return argvsOf(list)
	case script == "", beginsJSON.MatchString(script), strings.HasPrefix(script, "{") && json.Valid([]byte(script)):
		return nil, false
	}
	return [][]string{{"/bin/sh", "-ec", value}}, true
}

// beginsJSON matches the beginnings of JSON with which no shell script begins.
var beginsJSON = regexp.MustCompile(`^(\{"|\["|\[\{|\[\["|\{\s*"[^"]*"\s*:)`)

// argvsOf converts a command, or a list of commands.
func argvsOf(list []any) (argvs [][]string, ok bool) {
	if argv, isOne := argvOf(list); isOne {
		return [][]string{argv}, true
	}
	for _, element := range list {
		words, _ := element.([]any)
		argv, ok := argvOf(words)
		if !ok {
			return nil, false
		}
		argvs = append(argvs, argv)
	}
	return argvs, len(argvs) > 0
}

func argvOf(list []any) (argv []string, ok bool) {
	for _, element := range list {
		word, isString := element.(string)
		if !isString {
			return nil, false
		}
		argv = append(argv, word)
	}
	return argv, len(argv) > 0
}

func durationFlags(value string, c optionContext) ([]string, error) {
	if d, err := time.ParseDuration(value); err != nil || d <= 0 {
		return nil, text.CanBe("a duration above zero with a unit, such as 90s or 1h30m")
	}
	return []string{c.flag + value}, nil
}

// related returns no flags: those of options that relate containers to each other are made
// from all of them ([between.Plan]).
func related(option string) func(string, optionContext) ([]string, error) {
	check := between.Check(option)
	return func(value string, _ optionContext) ([]string, error) { return nil, check(value) }
}

// dependsOnTimeoutFlags returns flags for containers that wait.
func dependsOnTimeoutFlags(value string, c optionContext) ([]string, error) {
	flags, err := durationFlags(value, c)
	if !c.waits {
		flags = nil
	}
	return flags, err
}

func timeoutFlags(value string, c optionContext) ([]string, error) {
	flags, err := durationFlags(value, c)
	if c.step != nil && strings.HasPrefix(c.step.results, "/") {
		flags = append(flags, timeoutResultFlag+text.Escape(c.step.results))
	}
	return flags, err
}

func exitCodeFlags(value string, c optionContext) ([]string, error) {
	if _, ok := exitcodes.Parse(value); !ok {
		return nil, text.CanBe(exitcodes.Syntax)
	}
	return []string{c.flag + value}, nil
}

func pathFlags(value string, c optionContext) ([]string, error) {
	return []string{c.flag + text.Escape(value)}, absolutePath(value)
}

func terminationMessageFlags(value string, c optionContext) ([]string, error) {
	on, err := parseBool(value)
	if err != nil || !on {
		return nil, err
	}
	return []string{c.flag + text.Escape(terminationFile(c))}, nil
}

// terminationFile returns the path of a container's termination message.
func terminationFile(c optionContext) string {
	file := c.terminationPath
	if file == "" {
		file = corev1.TerminationMessagePathDefault
	}
	if !strings.HasPrefix(file, "/") {
		file = "/" + file // the working directory of container runtimes
	}
	return file
}

func pauseFlags(value string, c optionContext) ([]string, error) {
	list, places := text.SplitList(value), []string{"before-start", "after-failure"}
	syntax := `"before-start", "after-failure", or both with a comma`
	for _, place := range list {
		if !slices.Contains(places, place) {
			return nil, text.CanBe(syntax + spelling.DidYouMean(place, places))
		}
	}
	if len(list) == 0 {
		return nil, text.CanBe(syntax)
	}
	return []string{c.flag + strings.Join(list, ",")}, nil
}

func traceFlags(value string, c optionContext) ([]string, error) {
	on, err := parseBool(value)
	if err != nil || !on || c.trace == nil {
		return nil, err
	}
	return c.trace(), nil
}

func parseBool(value string) (on bool, _ error) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, oneOf(value, "true", "false")
	}
}
