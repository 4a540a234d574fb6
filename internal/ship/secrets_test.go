// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/mask"
)

// masked returns a text as the masker leaves it.
func masked(s *secrets, text string) string {
	stream := s.masker.Stream(mask.State{})
	passed := string(stream.Write([]byte(text)))
	return passed + string(stream.End())
}

// unheard ignores reports about slow files, which occur on a busy machine.
func unheard(string) {}

// ofFiles returns the secrets of files that respond.
func ofFiles(paths ...string) *secrets {
	return newSecrets(secretSources{paths: paths}, nil, nil, unheard)
}

// volume returns a directory in the layout of a Secret volume, and a function that
// changes it as the kubelet does.
func volume(t *testing.T) (directory string, change func(version string, files map[string]string)) {
	t.Helper()
	directory = t.TempDir()
	return directory, func(version string, files map[string]string) {
		require.NoError(t, os.Mkdir(filepath.Join(directory, version), 0o755))
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(directory, version, name), []byte(content), 0o600))
			_ = os.Symlink("..data/"+name, filepath.Join(directory, name))
		}
		require.NoError(t, os.Symlink(version, filepath.Join(directory, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(directory, "..tmp"), filepath.Join(directory, "..data")))
	}
}

func TestSecretsAreReadFromVariablesFilesAndDirectories(t *testing.T) {
	directory, change := volume(t)
	change("..1", map[string]string{"user": "somebody", "password": "open sesame"})
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("battery staple"), 0o600))
	s := newSecrets(secretSources{variables: []string{"TOKEN", "UNSET"}, paths: []string{directory, file, "/no/such/file"}},
		[]string{"TOKEN=correct horse", "PLAIN=nothing secret"}, nil, unheard)
	require.True(t, s.load())
	require.Equal(t, "******** *********** ************** ************* nothing secret", masked(s, "somebody open sesame battery staple correct horse nothing secret"))
	require.False(t, s.load(), "nothing is new")
}

func TestASecretThatChangesIsMaskedAsItWasAndAsItIs(t *testing.T) {
	directory, change := volume(t)
	change("..1", map[string]string{"password": "open sesame"})
	s := ofFiles(directory)
	require.True(t, s.load())
	s.inspectedAt = time.Time{}
	require.False(t, s.reload(), "the files haven't changed")
	s.inspectPause = time.Hour
	change("..2", map[string]string{"password": "open barley"})
	require.False(t, s.reload(), "the files are resting after a change")
	s.inspectedAt = time.Time{}
	require.True(t, s.reload())
	require.Equal(t, "*********** ***********", masked(s, "open sesame open barley"))
}

func TestOfAFileThatChangesAllTheTimeTheLastValuesAreKept(t *testing.T) {
	directory := t.TempDir()
	constant, changing := filepath.Join(directory, "constant"), filepath.Join(directory, "changing")
	require.NoError(t, os.WriteFile(constant, []byte("open sesame"), 0o600))
	s := ofFiles(directory)
	for i := range 12 {
		require.NoError(t, os.WriteFile(changing, []byte(strings.Repeat(fmt.Sprintf("%02d form ", i), 16<<10)), 0o600))
		s.inspectedAt = time.Time{}
		s.load()
		require.LessOrEqual(t, s.size, maxReplaced+256<<10, "including the current value")
	}
	require.Len(t, s.ordered, len(s.known))
	require.True(t, s.known["open sesame"], "the current value stays")
	require.True(t, s.known[strings.Repeat("10 form ", 16<<10)])
	require.False(t, s.known[strings.Repeat("00 form ", 16<<10)])
}

func TestASecretInASingleFileIsReadAgain(t *testing.T) {
	directory, change := volume(t)
	change("..1", map[string]string{"token": "the first token"})
	plain := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plain, "key"), []byte("the first key"), 0o600))
	s := ofFiles(filepath.Join(directory, "token"), plain)
	require.True(t, s.load())
	for _, step := range []func(){
		func() { change("..2", map[string]string{"token": "another token"}) },
		func() { require.NoError(t, os.WriteFile(filepath.Join(plain, "key"), []byte("another key"), 0o600)) },
	} {
		step()
		s.inspectedAt = time.Time{}
		require.True(t, s.reload())
	}
	require.Equal(t, "*************** ************* ************* ***********", masked(s, "the first token another token the first key another key"))
}

func TestSecretsInDirectoriesOfAVolumeAreRead(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(directory, "..1", "certs", "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "..1", "certs", "deep", "key"), []byte("open sesame"), 0o600))
	require.NoError(t, os.Symlink("..1", filepath.Join(directory, "..data")))
	require.NoError(t, os.Symlink("..data/certs", filepath.Join(directory, "certs")))
	require.NoError(t, os.Symlink(".", filepath.Join(directory, "itself"))) // for ever
	s := ofFiles(directory)
	require.True(t, s.load())
	require.Equal(t, "***********", masked(s, "open sesame"))
}

func TestDevicesAndPipesAreIgnoredAndBlockNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	s := ofFiles(pipe, "/dev/zero")
	require.True(t, s.load())
	require.Equal(t, "all of it", masked(s, "all of it"))
}

func TestAFileWhoseTimeIsSetBackIsReadAgain(t *testing.T) {
	file, then := filepath.Join(t.TempDir(), "token"), time.Unix(0, 0)
	s := ofFiles(file)
	for _, secret := range []string{"open sesame", "open barley"} {
		require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
		require.NoError(t, os.Chtimes(file, then, then))
		s.inspectPause = 0
		require.True(t, s.reload(), secret)
		time.Sleep(20 * time.Millisecond) // which is more than a tick of the kernel
	}
	require.Equal(t, "*********** ***********", masked(s, "open sesame open barley"))
}
