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
		for _, value := range decodeFormer(data) {
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
		require.Equal(t, values, decodeFormer(encodeFormer(values)))
	})
}

func TestOfMoreThanASnapshotHoldsTheFirstAreLeftOut(t *testing.T) {
	values := []string{strings.Repeat("a", 10), strings.Repeat("b", ring.MaxSnapshot-20), "the last one"}
	data := encodeFormer(values)
	require.LessOrEqual(t, len(data), ring.MaxSnapshot)
	require.Equal(t, values[1:], decodeFormer(data))
	require.Equal(t, []string{"the last one"}, decodeFormer(encodeFormer([]string{"a", strings.Repeat("b", ring.MaxSnapshot), "the last one"})))
}

// successor returns what makes a shipper's secrets, and then its successor's.
func successor(t *testing.T, sources secretSources) func() *secrets {
	t.Helper()
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() *secrets {
		snapshot, err := ring.OpenSnapshot(fd)
		require.NoError(t, err)
		s := newSecrets(sources, []string{"TOKEN=correct horse"}, snapshot, unheard)
		require.True(t, s.read())
		return s
	}
}

func TestAFileIsMaskedAsItWasWhenAShipperBeforeSawIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	next := successor(t, secretSources{paths: []string{file}})
	for _, value := range []string{"open sesame", "open barley", "open rye"} {
		require.NoError(t, os.WriteFile(file, []byte(value), 0o600))
		next()
	}
	require.NoError(t, os.Remove(file))
	require.Equal(t, "*********** *********** ********", masked(next(), "open sesame open barley open rye"))
}

func TestWhatIsLeftIsNoMoreThanIsKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	next := successor(t, secretSources{paths: []string{file}})
	var forms []string
	for i := range 5 {
		forms = append(forms, strings.Repeat(string(rune('a'+i)), maxKnown/3))
		require.NoError(t, os.WriteFile(file, []byte(forms[i]), 0o600))
		next()
	}
	s := next()
	require.Equal(t, forms[2:], s.order)
	require.Equal(t, 3*(maxKnown/3), s.size)
}

func TestVariablesAloneAreLeftToNobody(t *testing.T) {
	s := successor(t, secretSources{variables: []string{"TOKEN"}})()
	require.Equal(t, "*************", masked(s, "correct horse"))
	require.Nil(t, s.former.Load(), "the next shipper has them as well")
}
