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
	"github.com/entrypointer/entrypointer/internal/secretfiles"
)

// successor returns a function that makes the secrets of a shipper, and at the next call
// those of its successor, each after an inspection by the supervisor.
func successor(t *testing.T, sources secretSources) func() *secrets {
	t.Helper()
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() *secrets {
		snapshot, err := ring.OpenSnapshot(fd)
		require.NoError(t, err)
		if len(sources.paths) > 0 {
			require.NoError(t, secretfiles.NewWitness(sources.paths, snapshot).Inspect())
		}
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
