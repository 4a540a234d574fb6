// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
				headings, err := Headings(target)
				require.NoError(t, err)
				require.Contains(t, headings, anchor, "%s links to %s", file, match[1])
			}
		}
	}
}

func TestTheAnchorOfAHeadingIsThatOfGitHub(t *testing.T) {
	headings, err := Headings(written(t, "# The page\n## What `_x` says, and [what](other.md) it can't\n~~~console\n# no heading\n~~~\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"": "The page", "the-page": "The page", "what-_x-says-and-what-it-cant": "What `_x` says, and what it can't"}, headings)
	_, err = Headings(written(t, "text\n"))
	require.ErrorContains(t, err, "no heading")
}

func TestTheListOfPagesHasEachPage(t *testing.T) {
	list, err := os.ReadFile(top + "/docs/README.md")
	require.NoError(t, err)
	files, err := Pages(top)
	require.NoError(t, err)
	for _, file := range files {
		if name, inDocs := strings.CutPrefix(file, "docs/"); inDocs && name != "README.md" {
			require.Contains(t, string(list), "]("+name+")")
		}
	}
}
