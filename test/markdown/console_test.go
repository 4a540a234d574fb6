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

const top = "../.."

// written is a page with this content, in which ~~~ stands for a fence.
func written(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(content, "~~~", "```")), 0o600))
	return file
}

func TestABlockHasCommandsAndWhatTheyPrint(t *testing.T) {
	blocks, err := Blocks(written(t, `# Page

<!-- run first:
POD=one
-->
~~~console
$ first
a
$ second |
    third
$ fourth <<'END'
$ no prompt
END
b

c
~~~

<!-- not run: it takes an hour -->
<!-- begin made -->

~~~console
$ last
~~~

~~~yaml
$ nothing: here
~~~
`))
	require.NoError(t, err)
	require.Equal(t, []Block{
		{Line: 6, First: "POD=one", Commands: []Command{
			{Line: 7, Text: "first", Shown: "a\n"},
			{Line: 9, Text: "second |\n    third"},
			{Line: 11, Text: "fourth <<'END'\n$ no prompt\nEND", Shown: "b\n\nc\n"},
		}},
		{Line: 22, NotRun: "it takes an hour", Commands: []Command{{Line: 23, Text: "last"}}},
	}, blocks)
}

func TestABlockThatNobodyCouldRunIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ content, says string }{
		"no reason":                  {"<!-- not run: -->\n~~~console\n$ a\n~~~\n", "line 2: a comment \"<!-- not run:\" without a reason"},
		"no block":                   {"<!-- not run: why -->\ntext\n", "which isn't there"},
		"no block before the end":    {"<!-- not run: why -->\n", "which isn't there"},
		"no command":                 {"~~~console\n~~~\n", "without a command"},
		"in the item of a list":      {"1. first:\n\n   ~~~console\n   $ a\n   ~~~\n", "begin it in the first column"},
		"output without its command": {"~~~console\na\n~~~\n", "output before the first command"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Blocks(written(t, test.content))
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestATestFindsTheBlocksThatItRuns(t *testing.T) {
	page := written(t, "<!-- not run: TestOne runs it -->\n~~~console\n$ one\n~~~\n\n~~~console\n$ two\n~~~\n\n<!-- not run: it needs a cloud -->\n~~~console\n$ three\n~~~\n")
	blocks, err := BlocksFor(page, "TestOne")
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	require.Equal(t, "one", blocks[0].Commands[0].Text)
	require.Empty(t, blocks[0].NotRun)
	_, err = BlocksFor(page, "TestTwo")
	require.ErrorContains(t, err, "looking for the commands that TestTwo runs")
}

// The pages' blocks that no test runs, so that another one is a decision.
var notRun = map[string]int{
	"CONTRIBUTING.md":                    1,
	"DEVELOPMENT.md":                     1,
	"README.md":                          1,
	"docs/claims.md":                     1,
	"docs/cli.md":                        2,
	"docs/exporting-logs.md":             2,
	"docs/installing.md":                 3,
	"docs/logs.md":                       6,
	"docs/network-policy.md":             2,
	"docs/operating-logs.md":             1,
	"docs/operations.md":                 1,
	"docs/page.md":                       3,
	"docs/supervisor.md":                 1,
	"docs/tasks/find-last-nights-log.md": 1,
	"docs/upgrading.md":                  1,
}

func TestEachBlockOfThePagesIsRunOrSaysWhyNot(t *testing.T) {
	files, err := Pages(top)
	require.NoError(t, err)
	require.Contains(t, files, "docs/quickstart.md")
	tests := definedTests(t)
	left := map[string]int{}
	for _, file := range files {
		blocks, err := Blocks(filepath.Join(top, file))
		require.NoError(t, err)
		for _, block := range blocks {
			if block.NotRun == "" {
				continue
			}
			left[file]++
			for _, match := range testName.FindAllString(block.NotRun, -1) {
				require.True(t, tests[match], "%s:%d: the block isn't run because of %s, which isn't there", file, block.Line, match)
			}
		}
	}
	require.Equal(t, notRun, left)
}
