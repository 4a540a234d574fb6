// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

func FuzzFormerSecrets(f *testing.F) {
	f.Add([]byte("\x03abc\x01d"), "open sesame", "open barley")
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), "", "x")
	f.Add([]byte("\x80"), "a", "")
	f.Fuzz(func(t *testing.T, data []byte, first, second string) {
		size := 0
		for _, value := range decodeSnapshot(data) {
			require.NotEmpty(t, value)
			size += len(value)
		}
		require.LessOrEqual(t, size, len(data))
		var values []string
		for _, value := range []string{first, second} {
			if value != "" {
				values = append(values, value)
			}
		}
		require.Equal(t, values, decodeSnapshot(encodeSnapshot(values)))
	})
}

func TestTheOldestSecretsAreLeftOutOfAFullSnapshot(t *testing.T) {
	values := []string{strings.Repeat("a", 10), strings.Repeat("b", ring.MaxSnapshot-20), "the last one"}
	data := encodeSnapshot(values)
	require.LessOrEqual(t, len(data), ring.MaxSnapshot)
	require.Equal(t, values[1:], decodeSnapshot(data))
	require.Equal(t, []string{"the last one"}, decodeSnapshot(encodeSnapshot([]string{"a", strings.Repeat("b", ring.MaxSnapshot), "the last one"})))
}

// successor returns a function that makes the secrets of a shipper, and at the next call
// those of its successor.
func successor(t *testing.T, sources secretSources) func() *secrets {
	t.Helper()
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() *secrets {
		snapshot, err := ring.OpenSnapshot(fd)
		require.NoError(t, err)
		s := newSecrets(sources, []string{"TOKEN=correct horse"}, snapshot, unheard)
		require.True(t, s.load())
		return s
	}
}

func TestValuesThatAFormerShipperHasReadAreMasked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	next := successor(t, secretSources{paths: []string{file}})
	for _, value := range []string{"open sesame", "open barley", "open rye"} {
		require.NoError(t, os.WriteFile(file, []byte(value), 0o600))
		next()
	}
	require.NoError(t, os.Remove(file))
	require.Equal(t, "*********** *********** ********", masked(next(), "open sesame open barley open rye"))
}

func TestASnapshotIsBoundedAsTheKnownSecretsAre(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	next := successor(t, secretSources{paths: []string{file}})
	var forms []string
	for i := range 5 {
		forms = append(forms, strings.Repeat(string(rune('a'+i)), maxReplaced/3))
		require.NoError(t, os.WriteFile(file, []byte(forms[i]), 0o600))
		next()
	}
	s := next()
	require.Equal(t, forms[2:], s.ordered)
	require.Equal(t, 3*(maxReplaced/3), s.size)
}

func TestASnapshotHasNoVariables(t *testing.T) {
	s := successor(t, secretSources{variables: []string{"TOKEN"}})()
	require.Equal(t, "*************", masked(s, "correct horse"))
	require.Nil(t, s.snapshot.Load(), "the next shipper has them as well")
}
