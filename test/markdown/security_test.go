// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testName    = regexp.MustCompile("(?:Test|Fuzz)[A-Z][A-Za-z0-9]+")
	namedTest   = regexp.MustCompile("`(" + testName.String() + ")`")
	definedTest = regexp.MustCompile("(?m)^func (" + testName.String() + `)\(`)
)

func TestEveryTestThatTheSecurityPageNamesIsThere(t *testing.T) {
	requireDefined(t, "docs/security.md", namedTest)
}

func TestEveryTestThatRunsOnEachVersionOfKubernetesIsThere(t *testing.T) {
	requireDefined(t, "hack/e2e-core.sh", regexp.MustCompile("(?m)^ +("+testName.String()+")$"))
}

func TestEveryTestThatIsInAllPartsOrInNoneIsThere(t *testing.T) {
	requireDefined(t, "hack/e2e-part.sh", regexp.MustCompile("(?m)^ +("+testName.String()+")$"))
}

func TestEveryTestThatAnEmulatorLeavesOutIsThere(t *testing.T) {
	requireDefined(t, "hack/emulated.sh", regexp.MustCompile("(?m)^ +("+testName.String()+")(?:/.*)?$"))
}

// requireDefined requires that a file names tests, and only such as there are.
func requireDefined(t *testing.T, file string, names *regexp.Regexp) {
	t.Helper()
	text, err := os.ReadFile(top + "/" + file)
	require.NoError(t, err)
	defined := definedTests(t)
	named := names.FindAllSubmatch(text, -1)
	require.NotEmpty(t, named)
	for _, match := range named {
		require.True(t, defined[string(match[1])], "%s", match[1])
	}
}

// definedTests are the tests of the repository, by name.
func definedTests(t *testing.T) map[string]bool {
	t.Helper()
	defined := map[string]bool{}
	require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range definedTest.FindAllSubmatch(source, -1) {
			defined[string(match[1])] = true
		}
		return err
	}))
	return defined
}
