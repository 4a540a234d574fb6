// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import "time"

// Percentile of sorted times: the one that so many percent are below.
func Percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
