// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyFailedHandshakesAreLeftToDebug(t *testing.T) {
	t.Parallel()
	var debug, failures []string
	errorLog := ErrorLog(
		func(message string, _ ...any) { debug = append(debug, message) },
		func(message string, _ ...any) { failures = append(failures, message) },
	)
	errorLog.Print("http: TLS handshake error from 10.0.0.1: EOF")
	errorLog.Print("http: Accept error: too many open files")
	require.Equal(t, []string{"http: TLS handshake error from 10.0.0.1: EOF"}, debug)
	require.Equal(t, []string{"http: Accept error: too many open files"}, failures)
}
