// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADirectoryIsTheContainersOwnIfNothingIsMountedAroundIt(t *testing.T) {
	const mounts = `1 0 0:1 / / rw - overlay overlay rw
2 1 0:2 / /proc rw - proc proc rw
3 1 8:1 /volumes/home /tekton/home rw - ext4 /dev/vda rw
4 1 8:1 /volumes/ssh /home/user/.ssh rw - ext4 /dev/vda rw
5 1 8:1 /volumes/odd /odd\040name rw - ext4 /dev/vda rw
`
	for dir, shared := range map[string]bool{
		"/":                false,
		"/root":            false,
		"/home/user":       true,
		"/home/users":      false,
		"/home":            true,
		"/tekton/home":     true,
		"/tekton/home/a":   true,
		"/tekton/homework": false,
		"/odd name":        true,
	} {
		require.Equal(t, shared, mountedAround(mounts, dir), dir)
	}
	require.True(t, mountedAround("what?\n", "/root"), "what can't be understood may be anything")
	require.True(t, MayBeShared("relative"))
}

func TestEscapesOfMountinfoAreOctal(t *testing.T) {
	for escaped, name := range map[string]string{
		``:             "",
		`/plain`:       "/plain",
		`/a\040b\011c`: "/a b\tc",
		`/line\012end`: "/line\nend",
		`/\134040`:     `/\040`, // a backslash, and then 040
		`/\043`:        "/#",
		`/end\04`:      `/end\04`,
		`/\x40\`:       `/\x40\`,
		`/\777`:        `/\777`, // no byte
	} {
		require.Equal(t, name, unescape(escaped), escaped)
	}
}
