// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheTableSaysWhatEachKindAdds(t *testing.T) {
	second := func(times ...float64) (all []time.Duration) {
		for _, s := range times {
			all = append(all, time.Duration(s*float64(time.Second)))
		}
		return all
	}
	table := render([]*kind{
		{name: "unwrapped", starts: second(1, 2, 3)},
		{name: "copied", starts: second(2, 3, 4)},
		{name: "mounted", starts: second(1.1, 2, 2.9)},
	}, copies{size: 2e6, times: second(0.004, 0.003, 0.02)})
	require.Contains(t, table, `| unwrapped | 2.00 s |  |
| copied | 3.00 s | 1.00 s ± 0.00 |
| mounted | 2.00 s | 0.00 s ± 0.25 |
| the copier alone, copying 2.0 MB | | 4.0 ms |

3 pods of each kind`)
}
