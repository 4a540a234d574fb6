// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package secretfiles

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/ring"
)

func FuzzFormerSecrets(f *testing.F) {
	f.Add([]byte("\x03abc\x01d"), "open sesame", "open barley")
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), "", "x")
	f.Add([]byte("\x80"), "a", "")
	f.Fuzz(func(t *testing.T, data []byte, first, second string) {
		size := 0
		for _, value := range DecodeSnapshot(data) {
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
		require.Equal(t, values, DecodeSnapshot(EncodeSnapshot(values)))
	})
}

func TestTheOldestSecretsAreLeftOutOfAFullSnapshot(t *testing.T) {
	values := []string{strings.Repeat("a", 10), strings.Repeat("b", ring.MaxSnapshot-20), "the last one"}
	data := EncodeSnapshot(values)
	require.LessOrEqual(t, len(data), ring.MaxSnapshot)
	require.Equal(t, values[1:], DecodeSnapshot(data))
	require.Equal(t, []string{"the last one"}, DecodeSnapshot(EncodeSnapshot([]string{"a", strings.Repeat("b", ring.MaxSnapshot), "the last one"})))
}
