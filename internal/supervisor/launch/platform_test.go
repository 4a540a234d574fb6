// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
)

func TestRunnablePlatforms(t *testing.T) {
	for _, test := range []struct {
		goarch, machine string
		want            []string
	}{
		{"amd64", "x86_64", []string{"linux/amd64", "linux/386"}},
		{"arm64", "aarch64", []string{"linux/arm64", "linux/arm/v8", "linux/arm/v7", "linux/arm/v6", "linux/arm/v5"}},
		{"arm", "armv7l", []string{"linux/arm/v7", "linux/arm/v6", "linux/arm/v5"}},
		{"arm", "armv6l", []string{"linux/arm/v6", "linux/arm/v5"}},
		{"arm", "aarch64", []string{"linux/arm/v8", "linux/arm/v7", "linux/arm/v6", "linux/arm/v5"}},
		{"arm", "", []string{"linux/arm/v7"}},
	} {
		require.Equal(t, test.want, runnablePlatforms(test.goarch, test.machine), "%s on %s", test.goarch, test.machine)
	}
}

func TestNormalize(t *testing.T) {
	for name, want := range map[string]string{
		"linux/amd64":    "linux/amd64",
		"linux/amd64/v1": "linux/amd64",
		"linux/amd64/v3": "linux/amd64/v3",
		"linux/arm64/v8": "linux/arm64",
		"linux/arm64/v9": "linux/arm64/v9",
		"linux/arm":      "linux/arm/v7",
		"linux/arm/v6":   "linux/arm/v6",
	} {
		require.Equal(t, want, normalize(name))
	}
}

func TestChoosePlatformArgv(t *testing.T) {
	all := []platformArgv{{"linux/arm/v6", []string{"six"}}, {"linux/arm/v7", []string{"seven"}}, {"linux/amd64", nil}}

	got, err := choosePlatformArgv(all, []string{"linux/arm/v7", "linux/arm/v6"})
	require.NoError(t, err)
	require.Equal(t, []string{"seven"}, got, "the best, not the first")

	got, err = choosePlatformArgv(all, []string{"linux/arm/v6", "linux/arm/v5"})
	require.NoError(t, err)
	require.Equal(t, []string{"six"}, got)

	_, err = choosePlatformArgv(all, []string{"linux/s390x"})
	require.ErrorContains(t, err, `choosing the command for "linux/s390x": the image has one for linux/arm/v6, linux/arm/v7, linux/amd64 only`)
}

func TestEachPlatformHasTheWordsAfterIt(t *testing.T) {
	var p Platforms
	var flags cmdline.Flags
	p.Flags(&flags)
	command, _, err := cmdline.Parse([]string{"-platform=linux/amd64", "-arg=/tini", "-arg=--", "-arg=", "-platform", "linux/arm", "--", "x"}, flags)
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, command)
	require.Equal(t, []platformArgv{{"linux/amd64", []string{"/tini", "--", ""}}, {"linux/arm/v7", nil}}, p.all)
}
