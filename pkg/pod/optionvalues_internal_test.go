// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsNeitherTrueNorFalseIsNotTrue(t *testing.T) {
	for _, value := range []string{"", "yes", "True", " true"} {
		on, err := parseBool(value)
		require.EqualError(t, err, `it can be "true" or "false"`, value)
		require.False(t, on, value)
	}
}
