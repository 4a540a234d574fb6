// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write *.txt instead of comparing with them")

func TestWhatOthersImportIsListed(t *testing.T) {
	for _, pkg := range Packages {
		now, err := Of("../../pkg/" + pkg)
		require.NoError(t, err)
		text := strings.Join(now, "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(pkg+".txt", []byte(text), 0o644))
		}
		listed, err := os.ReadFile(pkg + ".txt")
		require.NoError(t, err)
		require.Equal(t, string(listed), text, "what pkg/%s exports has changed: go test ./test/api -update writes it", pkg)
	}
}

// Before the first release, released has no file.
func TestWhatBreaksCallersOfTheLastReleaseIsInTheChangelog(t *testing.T) {
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	for _, pkg := range Packages {
		released, err := os.ReadFile(filepath.Join("released", pkg+".txt"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		now, err := Of("../../pkg/" + pkg)
		require.NoError(t, err)
		for _, line := range Gone(strings.Split(strings.TrimSpace(string(released)), "\n"), now) {
			require.True(t, IsAnnounced(string(changelog), pkg, NameOf(line)),
				"pkg/%s no longer has %q: write a line into the section Unreleased of CHANGELOG.md that begins with %q and has %q",
				pkg, line, "- pkg/"+pkg+":", "`"+NameOf(line)+"`")
		}
	}
}

func TestALineForEachDeclaration(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), []byte(`package a

import "io"

// A is documented.
const A, hidden = "a", 1

const (
	First Kind = iota
	Second
)

var Err, other = io.EOF, 2

type Kind int

type Both struct {
	// Name is documented.
	Name, Title string `+"`json:\"name\"`"+`
	io.Reader
	hidden      int
	Nested      struct{ A, b int }
}

type List[T any] struct{ Items []T }

type Does interface {
	Do(what string, times, more int) (done bool, err error)
	hide()
}

func Run(first, second string, f func(x int)) error { return nil }

func (b *Both) Run() { b.hidden = 1 }

func (l List[T]) Len() int { return 0 }

type secret struct{ Field int }

func (secret) Run() {}

func run() {}
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a_test.go"), []byte("package a\n\nfunc Helper() {}\n"), 0o600))
	all, err := Of(folder)
	require.NoError(t, err)
	require.Equal(t, []string{
		"const A = \"a\"",
		"const First Kind = iota",
		"const Second",
		"func (*Both) Run()",
		"func (List[T]) Len() int",
		"func Run(string, string, func(int)) error",
		"type Both struct",
		"type Both struct, Name string `json:\"name\"`",
		"type Both struct, Nested struct{ A int }",
		"type Both struct, Title string `json:\"name\"`",
		"type Both struct, io.Reader",
		"type Does interface { Do(string, int, int) (bool, error); unexported }",
		"type Kind int",
		"type List[T any] struct",
		"type List[T any] struct, Items []T",
		"var Err",
	}, all)
	_, err = Of(filepath.Join(folder, "none"))
	require.ErrorContains(t, err, "reading the package in")
}

func TestADeclarationThatIsGoneIsAnnouncedByItsName(t *testing.T) {
	before := []string{"const A = \"a\"", "func (*Both) Run()", "func Run(string) error", "type Both struct, Name string", "type List[T any] struct, Items []T"}
	require.Equal(t, before[1:3], Gone(before, []string{before[0], "func Run(int) error", before[3], before[4]}))
	var names []string
	for _, line := range before {
		names = append(names, NameOf(line))
	}
	require.Equal(t, []string{"A", "Both.Run", "Run", "Both.Name", "List.Items"}, names)

	const changelog = "# Changelog\n\n## Unreleased\n\n- pkg/pod: `Run` takes a number.\n- `Both.Run` is gone.\n\n## v0.1.0\n\n- pkg/pod: `A` is new.\n"
	require.True(t, IsAnnounced(changelog, "pod", "Run"))
	require.False(t, IsAnnounced(changelog, "lookup", "Run"))
	require.False(t, IsAnnounced(changelog, "pod", "Both.Run"), "of no package")
	require.False(t, IsAnnounced(changelog, "pod", "A"), "in an older release")
}
