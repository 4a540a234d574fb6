// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/markdown"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// TestThePageHasEachKeyOfTheConfigMap makes docs/configuration.md of the comments in
// the ConfigMap that ships, and of the types that the parser knows.
func TestThePageHasEachKeyOfTheConfigMap(t *testing.T) {
	file, err := os.ReadFile("../../config/webhook/300-config-entrypointer.yaml")
	require.NoError(t, err)
	var shipped corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(file, &shipped))
	documented := documentedKeys(t, shipped.Data[configmap.ExampleKey])
	require.Len(t, documented, len(keys))

	var text strings.Builder
	text.WriteString("| key | type | default | effect | unreadable at start |\n| --- | --- | --- | --- | --- |\n")
	for _, d := range documented {
		unreadable := "the default"
		if keys[d.name].restrict != nil {
			unreadable = "the strictest value"
		}
		fmt.Fprintf(&text, "| [`%s`](#%s) | %s | %s | %s | %s |\n", d.name, d.name, keys[d.name].kind, d.value, markdown.FirstSentence(asMarkdown(d.comment)), unreadable)
	}
	for _, d := range documented {
		fmt.Fprintf(&text, "\n### %s\n\n%s", d.name, asMarkdown(d.comment))
	}

	const target = "../../docs/configuration.md"
	if *update {
		require.NoError(t, markdown.ReplaceSection(target, "keys", text.String()))
	}
	written, err := markdown.Section(target, "keys")
	require.NoError(t, err)
	require.Equal(t, text.String(), written, "go test ./internal/config -run Page -update writes it")
}

// A documentedKey is a key as the ConfigMap shows it.
type documentedKey struct {
	name, value string
	comment     []string // its lines, without "#"
}

// documentedKeys returns the keys of the example, in its order.
func documentedKeys(t *testing.T, example string) (documented []documentedKey) {
	t.Helper()
	var comment []string
	for line := range strings.Lines(example) {
		line = strings.TrimRight(line, "\n")
		if said, ok := strings.CutPrefix(line, "#"); ok {
			comment = append(comment, strings.TrimPrefix(said, " "))
			continue
		}
		if name, value, ok := strings.Cut(line, ": "); ok {
			require.Contains(t, keys, name)
			require.NotEmpty(t, comment, "a comment on key %q", name)
			documented = append(documented, documentedKey{name, asDefault(value), comment})
		}
		comment = nil
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(keys)), names(documented))
	return documented
}

func names(documented []documentedKey) (all []string) {
	for _, d := range documented {
		all = append(all, d.name)
	}
	return all
}

func asDefault(value string) string {
	if value = strings.Trim(value, `"`); value == "" {
		return "empty"
	}
	return "`" + value + "`"
}

// The lines of a comment.
const (
	prose      = iota
	listBegins // two blanks, a word, and two more
	listGoesOn
	example
)

var listEntry = regexp.MustCompile(`^(\S+)  +(\S.*)$`)

// kindOf says what a line is that follows one of another kind. An entry of a list, and
// an example, begin with two blanks.
func kindOf(line string, last int) int {
	content, indented := strings.CutPrefix(line, "  ")
	switch {
	case !indented:
		return prose
	case listEntry.MatchString(content):
		return listBegins
	case (last == listBegins || last == listGoesOn) && strings.HasPrefix(content, "  "):
		return listGoesOn
	default:
		return example
	}
}

var (
	otherPage = regexp.MustCompile(`docs/([a-z-]+\.md)`)
	forProse  = strings.NewReplacer("*", `\*`)
)

// asMarkdown makes paragraphs, lists and examples of a comment.
func asMarkdown(comment []string) string {
	var text strings.Builder
	last := prose
	for i, line := range comment {
		kind := kindOf(line, last)
		between := "\n\n"
		switch {
		case i == 0:
			between = ""
		case kind == listGoesOn, kind == prose && last == prose:
			between = " "
		case kind == listBegins && last != prose, kind == example && last == example:
			between = "\n"
		}
		if last == example && kind != example {
			between = "\n```\n\n"
		}
		if kind == example && last != example {
			between += "```yaml\n"
		}
		text.WriteString(between + content(line, kind))
		last = kind
	}
	if last == example {
		text.WriteString("\n```")
	}
	return text.String() + "\n"
}

func content(line string, kind int) string {
	switch kind {
	case example:
		return strings.TrimPrefix(line, "  ")
	case listBegins:
		entry := listEntry.FindStringSubmatch(strings.TrimPrefix(line, "  "))
		return "- `" + entry[1] + "`: " + content(entry[2], prose)
	default:
		return otherPage.ReplaceAllString(forProse.Replace(strings.TrimSpace(line)), "[docs/$1]($1)")
	}
}
