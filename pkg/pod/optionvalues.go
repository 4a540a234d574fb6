// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// Each function here makes flags of an annotation's value, or says what would
// be right. A value is to the letter, so its $ is doubled for the kubelet.

func modeFlags(value string, _ target) (flags []string, right string) {
	switch value {
	case "supervise":
		return nil, "" // what it does when it isn't told
	case modeExec:
		return []string{modeFlag + value}, ""
	default:
		return nil, `"supervise" or "exec"`
	}
}

func eachWord(flag string, check func(string) (right string)) func(string, target) ([]string, string) {
	return func(value string, _ target) (flags []string, right string) {
		list := splitList(value)
		if len(list) == 0 {
			return nil, check("")
		}
		for _, word := range list {
			if right := check(word); right != "" {
				return nil, right
			}
			flags = append(flags, flag+escape(word))
		}
		return flags, ""
	}
}

// splitList splits a list at commas and at white space.
func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

func variableName(name string) (right string) {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return "names of variables, separated by commas"
	}
	return ""
}

func absolutePath(path string) (right string) {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "\x00") {
		return "an absolute path"
	}
	return ""
}

// envFlags leaves $(NAME) in values to the kubelet. In names, as in those of a
// container's env, it is to the letter: it could stand for nothing.
func envFlags(value string, _ target) (flags []string, right string) {
	for line := range strings.SplitSeq(value, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, content, found := strings.Cut(line, "=")
		if !found || name == "" || strings.ContainsFunc(name, unicode.IsSpace) || strings.Contains(line, "\x00") {
			return nil, "lines of the form NAME=VALUE"
		}
		flags = append(flags, envFlag+escape(name)+"="+content)
	}
	if flags == nil {
		return nil, "lines of the form NAME=VALUE"
	}
	return flags, ""
}

const rightHook = `a shell script, or as JSON a command, ["program", "argument"], or a list of such`

func hookFlags(value string, _ target) (flags []string, right string) {
	hooks, ok := parseHooks(value)
	if !ok {
		return nil, rightHook
	}
	for _, argv := range hooks {
		if len(argv) == 0 || argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
			return nil, rightHook
		}
		flags = append(flags, hookFlag+escape(argv[0]))
		for _, arg := range argv[1:] {
			flags = append(flags, hookArgFlag+escape(arg))
		}
	}
	return flags, ""
}

// parseHooks returns the argv of each hook. A script may begin with a bracket,
// too: [ "$A" ].
func parseHooks(value string) (hooks [][]string, ok bool) {
	var one []string
	if json.Unmarshal([]byte(value), &one) == nil && one != nil {
		return [][]string{one}, true
	}
	if json.Unmarshal([]byte(value), &hooks) == nil && len(hooks) > 0 {
		return hooks, true
	}
	script := strings.TrimSpace(value)
	if script == "" || strings.HasPrefix(script, `["`) || strings.HasPrefix(script, "[[\"") {
		return nil, false
	}
	return [][]string{{"/bin/sh", "-ec", value}}, true
}

func durationFlags(flag string) func(string, target) ([]string, string) {
	return func(value string, _ target) (flags []string, right string) {
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return nil, "a duration above zero with a unit, such as 90s or 1h30m"
		}
		return []string{flag + value}, ""
	}
}

func exitCodeFlags(value string, _ target) (flags []string, right string) {
	if _, ok := exitcodes.Parse(value); !ok {
		return nil, exitcodes.Syntax
	}
	return []string{successExitCodesFlag + value}, ""
}

func pathFlags(flag string) func(string, target) ([]string, string) {
	return func(value string, _ target) (flags []string, right string) {
		return []string{flag + escape(value)}, absolutePath(value)
	}
}

func terminationMessageFlags(value string, c target) (flags []string, right string) {
	on, right := parseBool(value)
	if !on || right != "" {
		return nil, right
	}
	file := c.terminationPath
	if file == "" {
		file = corev1.TerminationMessagePathDefault
	}
	if !strings.HasPrefix(file, "/") {
		file = "/" + file // as container runtimes have it
	}
	return []string{terminationMessageFlag + escape(file)}, ""
}

func pauseFlags(value string, _ target) (flags []string, right string) {
	list := splitList(value)
	for _, place := range list {
		if place != "before-start" && place != "after-failure" {
			list = nil
		}
	}
	if len(list) == 0 {
		return nil, `"before-start", "after-failure", or both with a comma`
	}
	return []string{pauseFlag + strings.Join(list, ",")}, ""
}

func parseBool(value string) (on bool, right string) {
	if value != "true" && value != "false" {
		return false, `"true" or "false"`
	}
	return value == "true", ""
}
