// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestEachLinkOfAPageLeadsSomewhere(t *testing.T) {
	files, err := Pages(top)
	require.NoError(t, err)
	decisions, err := filepath.Glob(top + "/docs/adr/*.md")
	require.NoError(t, err)
	for _, decision := range decisions {
		files = append(files, "docs/adr/"+filepath.Base(decision))
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(top, file))
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			path, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := filepath.Join(top, file)
			if path != "" {
				target = filepath.Join(filepath.Dir(target), filepath.FromSlash(path))
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", file, match[1])
			if anchor != "" {
				require.Contains(t, anchors(t, target), anchor, "%s links to %s", file, match[1])
			}
		}
	}
}

// anchors are those that GitHub makes of a page's headings.
func anchors(t *testing.T, file string) (all []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
		text := link.ReplaceAllString(match[1], "]")
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, text))
	}
	return all
}

func TestTheListOfPagesHasEachPage(t *testing.T) {
	list, err := os.ReadFile(top + "/docs/README.md")
	require.NoError(t, err)
	files, err := filepath.Glob(top + "/docs/*.md")
	require.NoError(t, err)
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" {
			require.Contains(t, string(list), "]("+name+")")
		}
	}
}
