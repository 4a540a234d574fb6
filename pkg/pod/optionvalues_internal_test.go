// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsNeitherTrueNorFalseIsNotTrue(t *testing.T) {
	for _, value := range []string{"", "yes", "True", " true"} {
		on, err := parseBool(value)
		require.ErrorContains(t, err, `it can be "true" or "false"`, value)
		require.False(t, on, value)
	}
}

func FuzzHooks(f *testing.F) {
	for _, value := range []string{"", "a", `["a", "b"]`, `[["a"], ["b"]]`, `{"cmd": ["a"]}`, `["a", `, "[1]", "[ -f x ] || exit 1", "{ a; }", "null"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		hooks, ok := parseHooks(value)
		if !ok {
			require.Nil(t, hooks)
			return
		}
		require.NotEmpty(t, hooks)
		isScript := slices.Equal(hooks[0], []string{"/bin/sh", "-ec", value})
		var array []any
		var object map[string]any
		isArray := json.Unmarshal([]byte(value), &array) == nil && array != nil
		isObject := json.Unmarshal([]byte(value), &object) == nil && object != nil
		require.Equal(t, isArray, !isScript, "JSON is no script")
		require.False(t, isObject)
		if isArray && !isScript {
			one, _ := json.Marshal(hooks[0])
			all, _ := json.Marshal(hooks)
			again, _ := json.Marshal(array)
			require.Contains(t, []string{string(one), string(all)}, string(again), "each word is kept")
		}
	})
}
