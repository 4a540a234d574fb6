// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParseStrings compares the parser to package encoding/json.
func FuzzParseStrings(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[ ]`, `["a"]`, ` [ "a" , "b" ] `, `["\"\\\/\b\f\n\r\t"]`, `["\u0041\u00e9\u20ac"]`, `["\ud83d\ude00"]`, `["\ud83d"]`,
		`["\ude00x"]`, `["\ud83d\ud83d\ude00"]`, `["\ud83dA"]`, `["<>&\u003c"]`, `["", ""]`, `["é€😀"]`, `["\u007f"]`, `["\u0000"]`,
		``, `[`, `["`, `["a`, `["a"`, `["a",`, `["a",]`, `[,]`, `["a" "b"]`, `["a"]x`, `[1]`, `[null]`, `["\x"]`, `["\u00g0"]`, `["\u00"]`, `["\`,
		"[\"\n\"]", "[\"\x00\"]", "\xa0[]", `{"a":"b"}`, `null`, `"a"`, `["\u+123"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // encoding/json repairs it, we leave it alone
		}
		got, err := parseStrings(s)
		var want []*string
		if json.Unmarshal([]byte(s), &want) != nil || want == nil {
			require.Error(t, err, "%q", s)
			return
		}
		list := []string{}
		for _, p := range want {
			if p == nil { // null, which is no string
				require.Error(t, err)
				return
			}
			list = append(list, *p)
		}
		require.NoError(t, err, "%q", s)
		require.Equal(t, list, got)
	})
}
