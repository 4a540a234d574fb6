// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && slow

package e2e

import "testing"

func TestAnOutageOfAMinuteLosesNothingOfWhatEndsByItself(t *testing.T) { withoutLogService(t, 60) }
