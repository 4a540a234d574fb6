// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

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
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]+)`")
	definedTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z]+)\(`)
)

func TestEveryTestThatTheSecurityPageNamesIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	defined := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range definedTest.FindAllSubmatch(source, -1) {
			defined[string(match[1])] = true
		}
		return err
	}))
	named := namedTest.FindAllSubmatch(page, -1)
	require.NotEmpty(t, named)
	for _, match := range named {
		require.True(t, defined[string(match[1])], "%s", match[1])
	}
}
